"""Support as the answer distribution of a chat model, read off in one forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from judges.isolation import isolated, refuse_live_pickle
from judges.loading import import_extra, local_device, refuse_placing
from judges.memo import Memo
from judges.rubrics import SHARED_EVIDENCE, Rubric
from judges.scorers.contract import LOW_MASS, OUT_OF_MEMORY, TOO_LONG, Outcome, Pair, PairScores, score_distinct
from judges.scorers.prompts import Prompter
from judges.scorers.readout import PrefixReader

__all__ = ["CausalLMScorer"]

_REMEMBERED = 100_000  # pairs


class CausalLMScorer:
    r"""Asks a chat model for a level and reads the whole answer distribution instead of generating.

    The prompt is the rubric, the context chain and, last, the statement. With :math:`p_\ell` the probability that the
    next token is label :math:`\ell` of 0..9 (A..J where digits are not single tokens) and :math:`m = \sum_\ell p_\ell`:

    .. math::
        \text{value} = \frac{1}{9 m} \sum_\ell \ell \, p_\ell \quad \text{(read="expectation")}, \qquad
        \text{value} = \tfrac19 \arg\max_\ell p_\ell \quad \text{(read="argmax")}

    The reliability is :math:`m`; below ``min_mass`` the model was not answering the question and the value is NaN. An
    expectation rarely reaches 0 or 1: use "argmax" to compare with published integer scores, "expectation" for rewards.

    Everything before the statement is run once for all pairs that share it, and the rubric once for the scorer's life
    (`PrefixReader`). In float32 the result equals one forward per pair to 1e-2 of 100; in bfloat16 it depends on how
    pairs are batched, by up to 2 of 100: equal pairs of one process are equal all the same, by a memo.

    Points cannot steer the prompt: control tokens, role markers and the rubric's delimiters in them are broken up.

    Args:
        model: name or folder of a chat model, or a live ``(model, tokenizer)``. Without a chat template the prompt is
            plain text. A live model is used as it stands; when its weights are changed in place, what was remembered is
            dropped.
        read: "expectation" or "argmax".
        max_batch_tokens: bound on the tokens of one batch, those of the expanded cache included, and so on memory; for
            a moment the shared prefixes are held beside it. Longer prompts have no value ("prompt too long").
        min_mass: label mass below which a pair has no value.
        device: None for this rank's GPU, else the CPU; a live model stays where it is.
        dtype: None for float32 on the CPU and the checkpoint's own on a GPU.
        rubric: the question.

    Raises:
        ValueError: on an option outside its range, ``device`` or ``dtype`` with a live model, or, on first use, a
            tokenizer without single-token labels.
        TypeError: if ``model`` is of another type, or when a scorer with a live model is pickled.
        ImportError: on first use without transformers, naming the extra.

    Example:
        >>> import string
        >>> import torch
        >>> from tokenizers import Tokenizer, models
        >>> from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
        >>> from judges.scorers import CausalLMScorer
        >>> letters = Tokenizer(models.BPE({letter: i for i, letter in enumerate(string.printable)}, []))
        >>> size = dict(hidden_size=16, intermediate_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=8)
        >>> config = Qwen3Config(vocab_size=100, num_hidden_layers=1, **size)  # random weights stand in for a model
        >>> live = Qwen3ForCausalLM(config), PreTrainedTokenizerFast(tokenizer_object=letters)
        >>> scorer = CausalLMScorer(live, min_mass=0.0)
        >>> scores = scorer.score(["red soil", ""], [("The soil is red.", "Wooden poles."), ("red",)])
        >>> bool(0 <= scores.value[0] <= 1), scores.reason
        (True, (None, 'empty statement'))

    References:
        GeoRC (arXiv 2601.21278), Algorithm 1 generates an integer per pair; reading its distribution is this library's.
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        read: Literal["expectation", "argmax"] = "expectation",
        *,
        max_batch_tokens: int = 16_384,
        min_mass: float = 0.5,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        rubric: Rubric = SHARED_EVIDENCE,
    ) -> None:
        self._live = not isinstance(model, (str, Path))
        if self._live and not (isinstance(model, tuple) and len(model) == 2 and isinstance(model[0], torch.nn.Module)):
            raise TypeError(
                f"Expected `model` to be a name, a folder or a pair (model, tokenizer), but got {type(model).__name__}."
            )
        refuse_placing(self._live, device=device, dtype=dtype)
        if read not in ("expectation", "argmax"):
            raise ValueError(f"Expected `read` to be 'expectation' or 'argmax', but got {read!r}.")
        if max_batch_tokens < 1:
            raise ValueError(f"Expected `max_batch_tokens` of at least 1, but got {max_batch_tokens}.")
        if not 0 <= min_mass <= 1:
            raise ValueError(f"Expected `min_mass` within [0, 1], but got {min_mass}.")
        if not isinstance(rubric, Rubric):
            raise TypeError(f"Expected `rubric` to be a Rubric, but got {type(rubric).__name__}.")
        self.model = model
        self.read = read
        self.max_batch_tokens = max_batch_tokens
        self.min_mass = min_mass
        self.device = device
        self.dtype = dtype
        self.rubric = rubric
        self._memo: Memo[Outcome] = Memo(_REMEMBERED)
        self._loaded: tuple[Prompter, PrefixReader] | None = None
        self._version = 0

    def score(self, statements: list[str], contexts: list[tuple[str, ...]]) -> PairScores:
        """Score statement i against context i; ``match`` is None. See the class, and `Scorer` for the arguments."""
        if self._live and self._loaded is not None and self._weights() != self._version:
            self._loaded = None
            self._memo.clear()
        return score_distinct(statements, contexts, self._memo, self._compute)

    def _compute(self, pairs: list[Pair]) -> list[Outcome]:
        prompter, reader = self._load()
        with isolated(reader.model.device, reader.model):
            prompts = prompter.encode(pairs)
            limit = min(self.max_batch_tokens, _longest(reader.model))
            short = [row for row, prompt in enumerate(prompts) if len(prompt) <= limit]
            read = reader.read([prompts[row] for row in short], [pairs[row][1] for row in short])
        outcomes = [Outcome.failed(TOO_LONG)] * len(pairs)
        for row, probabilities in zip(short, read, strict=True):
            outcomes[row] = self._outcome(probabilities)
        return outcomes

    def _outcome(self, probabilities: torch.Tensor | None) -> Outcome:
        if probabilities is None:
            return Outcome.failed(OUT_OF_MEMORY)
        mass = min(1.0, float(probabilities.sum()))
        if not mass > 0 or mass < self.min_mass:
            return Outcome.failed(LOW_MASS, reliability=mass)
        top = len(probabilities) - 1
        if self.read == "argmax":
            value = int(probabilities.argmax()) / top
        else:
            value = (
                float(probabilities @ torch.arange(top + 1.0, dtype=torch.float64)) / float(probabilities.sum()) / top
            )
        return Outcome(min(1.0, value), mass, None, None)

    def _load(self) -> tuple[Prompter, PrefixReader]:
        if self._loaded is None:
            if isinstance(self.model, tuple):
                model, tokenizer = self.model
                self._version = self._weights()
            else:
                model, tokenizer = self._from_pretrained(self.model)
            prompter = Prompter(tokenizer, self.rubric)
            reader = PrefixReader(model, prompter.start, prompter.label_ids, self.max_batch_tokens)
            self._loaded = prompter, reader
        return self._loaded

    def _from_pretrained(self, name: str | Path) -> tuple[Any, Any]:
        library = import_extra("transformers")
        device = local_device(self.device)
        with isolated(device):
            tokenizer = library.AutoTokenizer.from_pretrained(name)
            model = library.AutoModelForCausalLM.from_pretrained(name)
            dtype = self.dtype or (torch.float32 if device.type == "cpu" else None)
            return model.to(device=device, dtype=dtype).eval(), tokenizer

    def _weights(self) -> int:
        """Changes whenever a weight of the live model is written to."""
        return sum(parameter._version for parameter in self.model[0].parameters())  # type: ignore[index,union-attr]

    def __getstate__(self) -> dict[str, Any]:
        refuse_live_pickle(self, self._live)
        names = ("model", "read", "max_batch_tokens", "min_mass", "device", "dtype", "rubric")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _longest(model: Any) -> int:
    """Tokens that the model has positions for."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or 2**31
