"""Support by sentence similarity: offline and fast, but similarity is not entailment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from judges.contradiction import contradiction
from judges.embeddings import DEFAULT_ENCODER, Encoder
from judges.glossary import gloss, language, understand
from judges.memo import Memo
from judges.scorers.contract import Outcome, Pair, PairScores, score_distinct

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["EmbeddingScorer"]

_REMEMBERED = 100_000  # pairs


class EmbeddingScorer:
    r"""Approximate support: the ramped cosine between a statement and the most similar point of its context.

    With :math:`c_j` the cosine between the statement and context point j, place names masked in both, and
    :math:`g_j = 0` where the two contradict each other (`contradiction`: side, colour, number, material, negation),
    else 1:

    .. math::
        \text{value} = \max_j \; g_j \cdot \mathrm{clip}\Big(\frac{c_j - \text{lower}}{\text{upper} - \text{lower}},
        0, 1\Big)

    With ``lower == upper`` it is a step: 1 where :math:`c_j \ge` lower. The match is the point with the largest value,
    among equals the one with the larger cosine.

    This is similarity, not entailment: two points about the same thing score high whatever they say of it, beyond the
    contradictions the guard knows, which reads English and glosses only. Good for tests, smoke runs and the reward's
    cheap terms; a causal or cross-encoder judge is for training.

    Args:
        model: as in `Encoder`, or an `Encoder`, which then is shared with its memory.
        lower: cosine at and below which the value is 0.
        upper: cosine at and above which it is 1.
        device: as in `Encoder`.
        gloss: whether a text in another language than English is compared by its `judges.glossary.gloss`, its words one
            by one in English: an English encoder takes any two texts of a language for similar and knows no
            translation. None: with the default encoder.

    Raises:
        ValueError: unless -1 <= lower <= upper <= 1, or ``device`` is given with a live model or an `Encoder`.
        TypeError: if ``model`` is of another type, or when a scorer with a live model is pickled.

    Example:
        >>> from judges.scorers import EmbeddingScorer
        >>> scorer = EmbeddingScorer()
        >>> chain = ("Cars drive on the left.", "The soil is deep red.")
        >>> scores = scorer.score(["red soil", "Traffic drives on the right side of the road."], [chain, chain])
        >>> scores.match[0], bool(scores.value[0] > 0.5), scores.value[1].item()
        (1, True, 0.0)
        >>> scorer.score(["Der Boden ist rot."], [("Le sol est rouge.", "Les poteaux sont en bois.")]).value
        tensor([1.], dtype=torch.float64)

    References:
        The ramp over sentence cosines follows the key-point judge of GeoRC (arXiv 2601.21278); masking and guard are
        this library's.
    """

    def __init__(
        self,
        model: str | Path | SentenceTransformer | Encoder = DEFAULT_ENCODER,
        lower: float = 0.55,
        upper: float = 0.75,
        *,
        device: str | torch.device | None = None,
        gloss: bool | None = None,
    ) -> None:
        if not -1 <= lower <= upper <= 1:
            raise ValueError(f"Expected -1 <= `lower` <= `upper` <= 1, but got lower={lower}, upper={upper}.")
        if isinstance(model, Encoder) and device is not None:
            raise ValueError("Expected no `device` with an Encoder: it has one.")
        self.encoder = model if isinstance(model, Encoder) else Encoder(model, device)
        self.lower = lower
        self.upper = upper
        self.gloss = self.encoder.model == DEFAULT_ENCODER if gloss is None else gloss
        self._memo: Memo[Outcome] = Memo(_REMEMBERED)

    def score(self, statements: list[str], contexts: list[tuple[str, ...]]) -> PairScores:
        """Score statement i against context i; reliability is 1. See the class, and `Scorer` for the arguments."""
        return score_distinct(statements, contexts, self._memo, self._compute)

    def _compute(self, pairs: list[Pair]) -> list[Outcome]:
        from judges.places import mask_places

        texts = sorted({text for statement, context in pairs for text in (statement, *context) if text.strip()})
        masked = [mask_places(text) for text in texts]
        if self.gloss:
            masked = [_in_english(text) for text in masked]
        row_of = {text: row for row, text in enumerate(texts)}
        vectors = self.encoder.encode(masked).double()
        filled = {context: [i for i, point in enumerate(context) if point.strip()] for _, context in pairs}
        rows = {context: torch.tensor([row_of[context[i]] for i in places]) for context, places in filled.items()}
        outcomes = []
        for statement, context in pairs:
            said = row_of[statement]
            cosine = vectors[rows[context]] @ vectors[said]  # (points,)
            value = self._ramp(cosine)
            for i in value.nonzero()[:, 0].tolist():  # the guard is dearer than the cosine
                if contradiction(masked[said], masked[int(rows[context][i])]) is not None:
                    value[i] = 0
            best = int(torch.where(value == value.max(), cosine, -2.0).argmax())
            outcomes.append(Outcome(float(value[best]), 1.0, filled[context][best], None))
        return outcomes

    def _ramp(self, cosine: torch.Tensor) -> torch.Tensor:
        if self.lower == self.upper:
            return (cosine >= self.lower).to(cosine.dtype)
        return ((cosine - self.lower) / (self.upper - self.lower)).clamp(0, 1)

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.encoder, "lower": self.lower, "upper": self.upper, "gloss": self.gloss}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _in_english(text: str) -> str:
    """A text of another language word by word, as far as the glossary has them."""
    spoken = language([text])
    return text if spoken in (None, "en") else gloss(understand(text, spoken)) or text
