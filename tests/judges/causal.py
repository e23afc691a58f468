"""Scorers of tiny causal models, and what they are held against."""

import inspect

import torch

from judges.rubrics import SHARED_EVIDENCE
from judges.scorers import CausalLMScorer
from judges.scorers.prompts import Prompter
from tests.judges.models import POINTS, tiny_chat_model

# How the rests of prompts are run, by family; the last one as where attention takes no mask of its own.
LAYOUTS = {
    "qwen3": "packed",
    "llama": "packed",
    "gemma": "equal",
    "instruct": "packed",
    "plain": "packed",
    "sliding": "equal",
    "hybrid": None,
    "llama, padded": "padded",
}
FAMILIES = [name for name in LAYOUTS if name != "llama, padded"]
# Two chains of different length, each asked of eight statements of different length, and one asked of one.
STATEMENTS = [*POINTS, *POINTS, "Rivers."]
CONTEXTS = [POINTS[:5]] * 8 + [POINTS[3:]] * 8 + [("Bridges over a river.",)]
CLOSE = 1e-4  # of 1: 1e-2 of 100


def scorer_of(name, **options):
    return CausalLMScorer(tiny_chat_model(name), min_mass=0.0, **options)


def per_pair(model, tokenizer, statements, contexts):
    """Values (S,) and masses (S,) from one forward pass per pair, nothing shared, nothing padded."""
    prompter = Prompter(tokenizer, SHARED_EVIDENCE)
    values, masses = [], []
    for ids in prompter.encode(list(zip(statements, contexts, strict=True))):
        with torch.no_grad():
            chances = model(input_ids=torch.tensor([ids])).logits[0, -1].float().softmax(-1).double()
        levels = chances[prompter.label_ids]
        masses.append(levels.sum())
        values.append((levels * torch.arange(10)).sum() / levels.sum() / 9)
    return torch.stack(values), torch.stack(masses)


def watched(model, monkeypatch):
    """The keyword arguments of every call of the model."""
    calls, forward = [], model.forward

    def watch(**inputs):
        cache = inputs.get("cache")
        held = cache.layers[0].keys.shape[0] * cache.get_seq_length() if cache is not None else 0
        calls.append({"rows": len(inputs["input_ids"]), "new": inputs["input_ids"].numel(), "held": held, **inputs})
        return forward(**inputs)

    watch.__signature__ = inspect.signature(forward)
    monkeypatch.setattr(model, "forward", watch)
    return calls
