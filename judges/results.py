"""What a judge says of a batch of chains: numbers per chain, and for each point what supports it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

__all__ = ["ChainScores", "PointScore"]

# What became of an item. Fixed texts, so that they can be counted.
SCORED = "scored"
EMPTY_CANDIDATE = "empty candidate"
REFUSED = "refused"
EMPTY_REFERENCE = "empty reference"
FAILED = "failed"


@dataclass(frozen=True)
class PointScore:
    """One point of a chain, and how far the chain on the other side supports it.

    Attributes:
        text: its words.
        span: first character of its chain's text and the one after the last.
        value: support in [0, 1], higher = better supported; NaN where it has none: `restated`, or failed with `reason`.
        match: index of the best supporting point: of the union of the references' points for a point of a candidate, of
            the candidate's points for a point of a reference. None where there is none or the scorer cannot say.
        match_text: the words of that point.
        restated: whether the point only repeats what was said and is left out of the mean.
        categories: kinds of evidence, as in `judges.chains.Point`.
        reliability: how far the value can be trusted, in [0, 1]; NaN where nothing was read.
        reason: why it has no value; None where it has one, or is restated.
        clauses: key clauses and their support, where the judge takes points apart; NaN where a clause failed.

    Example:
        >>> PointScore("Red soil.", (0, 9), 0.9, match=2, match_text="Reddish earth.").value
        0.9
    """

    text: str
    span: tuple[int, int]
    value: float
    match: int | None = None
    match_text: str | None = None
    restated: bool = False
    categories: tuple[str, ...] = ()
    reliability: float = math.nan
    reason: str | None = None
    clauses: tuple[tuple[str, float], ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Everything as JSON knows it; None for NaN.

        Example:
            >>> PointScore("Red soil.", (0, 9), math.nan, restated=True).to_record()["value"] is None
            True
        """
        return {
            "text": self.text,
            "span": list(self.span),
            "value": _known(self.value),
            "match": self.match,
            "match_text": self.match_text,
            "restated": self.restated,
            "categories": list(self.categories),
            "reliability": _known(self.reliability),
            "reason": self.reason,
            **({"clauses": [[text, _known(value)] for text, value in self.clauses]} if self.clauses else {}),
        }


@dataclass(frozen=True, eq=False)
class ChainScores:
    """Scores of B candidate chains against their references.

    Attributes:
        precision: (B,) float64 in [0, 1], higher = more of the candidate is in its references; NaN = not scored.
        recall: (B,) float64 in [0, 1], higher = more of the best reference is in the candidate; NaN = not scored.
        f1: (B,) float64 in [0, 1], 2PR/(P + R), 0 where both are 0; NaN where one of them is.
        candidate_points: for each candidate its points, all of them and in their order.
        reference_points: for each candidate and each of its references the points of that reference.
        union: for each candidate the distinct points of its references, which the matches of `candidate_points` index.
        reliability: (B,) mean reliability of what was read; 1 where nothing had to be (an empty candidate), else NaN.
        failures: how many pairs have no value, by reason, and how many references were empty.
        status: for each candidate "scored", "empty candidate", "refused" (both count 0), "empty reference" or "failed"
            (both NaN).
        approximate: whether the numbers rest on similarity rather than on a judgement.
        match_by_embedding: whether a sentence encoder chose matches that the scorer could not say.

    Example:
        >>> import torch
        >>> one, point = torch.ones(1).double(), PointScore("Red soil.", (0, 9), 1.0, 0, "Reddish earth.")
        >>> scores = ChainScores(one, one, one, ((point,),), (((point,),),), (("Reddish earth.",),), one)
        >>> scores.to_records()[0]["f1"]
        1.0
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor
    candidate_points: tuple[tuple[PointScore, ...], ...]
    reference_points: tuple[tuple[tuple[PointScore, ...], ...], ...]
    union: tuple[tuple[str, ...], ...]
    reliability: Tensor
    failures: dict[str, int] = field(default_factory=dict)
    status: tuple[str, ...] = ()
    approximate: bool = False
    match_by_embedding: bool = False

    def __len__(self) -> int:
        return len(self.candidate_points)

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary for each candidate, as JSON knows it: its numbers (None for NaN), status and points."""
        numbers = {name: getattr(self, name).tolist() for name in ("precision", "recall", "f1", "reliability")}
        return [
            {
                **{name: _known(values[item]) for name, values in numbers.items()},
                "status": self.status[item] if self.status else SCORED,
                "points": [point.to_record() for point in self.candidate_points[item]],
                "references": [[point.to_record() for point in reference] for reference in self.reference_points[item]],
            }
            for item in range(len(self))
        ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
