"""The reward in a real GRPO run: a tiny model, overfitted first so that what it writes can be parsed."""

import copy
import json
import math

import pytest
import torch

from judges.one_to_all import OneToAllJudge
from judges.reward import ChainReward
from tests.judges.stand_ins import Dying, TableContrast, WordScorer

pytest.importorskip("trl")

COMPLETIONS = (
    "- Deep red soil\n- Tall palms line the road\n\nConclusion: Uganda",
    "- Deep red soil\n\nConclusion: Kenya",
    "- Blue sky\n\nConclusion: Uganda",
)
QUESTION = "Where is this?"
ROWS = 8


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        special_tokens=["<pad>", "<eos>", "<user>", "<assistant>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        vocab_size=400,
        show_progress=False,
    )
    backend.train_from_iterator([*COMPLETIONS, QUESTION] * 20, trainer)
    template = (
        "{% for m in messages %}{{ '<' + m.role + '>' + m.content + ('<eos>' if m.role == 'assistant' else '') }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", chat_template=template, padding_side="left"
    )


@pytest.fixture(scope="module")
def overfitted(tokenizer):
    """Writes one of the completions, in either format."""
    from transformers import LlamaConfig, LlamaForCausalLM

    asked = [QUESTION, f"<user>{QUESTION}<assistant>"]
    texts = [f"{prompt}{completion}<eos>" for prompt in asked for completion in COMPLETIONS]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size, **special))
        batch = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
        targets = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        for _ in range(80):
            loss = model(**{name: batch[name] for name in ("input_ids", "attention_mask")}, labels=targets).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert loss.item() < 0.3
    return model.eval()


def dataset(conversational):
    """Every row has a reference of its own, so that no completion is known from an earlier step."""
    from datasets import Dataset

    prompt = [{"role": "user", "content": QUESTION}] if conversational else QUESTION
    clues = ["Deep red soil", "Palms line the road"]
    return Dataset.from_dict(
        {
            "prompt": [prompt] * ROWS,
            "reference": [{"points": [*clues, f"Sign number {row}"], "conclusion": "Uganda"} for row in range(ROWS)],
            "country": ["Uganda"] * ROWS,
        }
    )


def trainer(model, tokenizer, reward, folder, conversational=False):
    from trl import GRPOConfig, GRPOTrainer

    options = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        num_generations=8,
        max_completion_length=40,
        max_steps=3,
        learning_rate=1e-3,
        scale_rewards="batch",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        seed=0,
    )
    return GRPOTrainer(
        model=copy.deepcopy(model).train(),
        reward_funcs=reward,
        args=options,
        train_dataset=dataset(conversational),
        processing_class=tokenizer,
    )


def make(judge=None, **options):
    return ChainReward(judge or OneToAllJudge(WordScorer()), contrast=TableContrast(), **options)


@pytest.mark.parametrize("conversational", [False, True], ids=["plain", "conversational"])
def test_a_run_learns_from_the_reward(overfitted, tokenizer, tmp_path, conversational):
    run = trainer(overfitted, tokenizer, make(), tmp_path, conversational)
    run.train()
    steps = [entry for entry in run.state.log_history if "reward" in entry]
    assert len(steps) == 3
    for step in steps:
        assert step["reward_std"] > 0
        assert step["rewards/chain_reward/mean"] == pytest.approx(step["reward"])
        assert step["chain_reward/failed"] == 0
        for part in ("precision", "grouped_precision", "recall", "country_correct", "false_tool", "points"):
            assert step[f"chain_reward/{part}"] >= 0
    records = [json.loads(record) for record in run._logs["extra"]["chain_reward"]]
    assert len(records) >= 8
    assert {len(record["points"]) for record in records} <= {0, 1, 2, 3}
    assert max(record["reward"] for record in records) > 0.3  # what was learnt by heart can be parsed
    before = dict(overfitted.named_parameters())
    moved = [not torch.equal(weight, before[name]) for name, weight in run.model.named_parameters()]
    assert all(math.isfinite(step["loss"]) for step in steps)
    assert any(moved)


def test_plain_and_conversational_earn_the_same():
    columns = {"reference": ["- Deep red soil\n- Palms line the road"] * 3, "country": ["Uganda"] * 3}
    plain = make()(prompts=[QUESTION] * 3, completions=list(COMPLETIONS), **columns)
    messages = [[{"role": "assistant", "content": completion}] for completion in COMPLETIONS]
    asked = [[{"role": "user", "content": QUESTION}]] * 3
    assert make()(prompts=asked, completions=messages, **columns) == plain
    assert len(set(plain)) == 3


def test_a_judge_that_dies_ends_the_run_with_a_clear_error(overfitted, tokenizer, tmp_path):
    judge = Dying(OneToAllJudge(WordScorer()), at=2)
    run = trainer(overfitted, tokenizer, make(judge, max_failed_calls=2), tmp_path)
    with pytest.raises(RuntimeError, match=r"none in 2 calls in a row; .* ConnectionError: the judge is gone"):
        run.train()
    first, second = [entry for entry in run.state.log_history if "chain_reward/failed" in entry]
    assert first["chain_reward/failed"] == 0
    assert second["chain_reward/failed"] == 8  # all of step 2
    assert second["reward"] is None or math.isnan(second["reward"])
    assert second["loss"] == 0  # nobody was punished
    assert run.state.global_step == 2
