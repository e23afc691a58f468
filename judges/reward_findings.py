"""What a judge and the detectors find in completions, from which their rewards follow."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from judges import faults
from judges.chains import ReasoningChain, parse_chain
from judges.embeddings import Encoder
from judges.faults import Contrast, Fault
from judges.results import ChainScores, PointScore
from judges.reward_parts import combine, grouped_precision, quantise, statements, within_limits
from judges.reward_rows import Row
from judges.scorers.embedding import EmbeddingScorer

__all__ = ["PARTS", "Finder", "Finding", "Judge", "Result"]

FAULTS = (
    *("conclusion_first", "false_tool", "misattribution", "injection"),  # these cost something
    *("stereotype", "narrowing", "alternatives"),  # these are reported only
)
PARTS = (
    *("precision", "grouped_precision", "recall", "f1", "country_correct", "generic", "restated"),
    *FAULTS,
    *("points", "beyond_limits"),
)
"""What is logged of each completion: numbers, or None where unknown."""


class Judge(Protocol):
    """Anything with this ``score`` can be the heart of a reward.

    Example:
        >>> from judges.one_to_all import OneToAllJudge
        >>> callable(OneToAllJudge.score)
        True
    """

    def score(self, candidates: Any, references: Any) -> ChainScores:
        """Score B chains, each against a list of chains."""
        ...


@dataclass(frozen=True)
class Result:
    """The reward of one completion, and all that it came from.

    Attributes:
        reward: in [0, 1], higher = better; None where it could not be judged.
        reason: why it could not.
        parts: by name, as in `PARTS`.
        record: its points, the spans of its faults and its conclusion, as JSON knows them.

    Example:
        >>> Result(None, "timeout").parts["f1"] is None
        True
    """

    reward: float | None
    reason: str | None = None
    parts: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(PARTS))
    record: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Everything as one text: the tables of trainers hold no nested values."""
        return json.dumps({"reward": self.reward, "reason": self.reason, "parts": self.parts, **self.record})


@dataclass(frozen=True)
class Finding:
    """What was found in one completion.

    Attributes:
        chain: the completion, parsed.
        beyond: for how many unmatched points counts what is beyond the limits.
        precision: of the judge; NaN = not scored.
        recall: of the judge; NaN = not scored.
        f1: of the judge; NaN = not scored.
        points: what was judged.
        generic: for each of the points how far it could stand anywhere.
        faults: by name.

    Example:
        >>> point = PointScore("Red soil.", (0, 9), 0.8, match=0)
        >>> finding = Finding(ReasoningChain.of(["Red soil."]), 0, 0.8, 0.8, 0.8, (point,), (0.0,), {})
        >>> finding.result(None, weights={}, min_value=0.25, quantum=0.01).reward
        0.8
    """

    chain: ReasoningChain
    beyond: int
    precision: float
    recall: float
    f1: float
    points: tuple[PointScore, ...]
    generic: tuple[float, ...]
    faults: Mapping[str, Fault]

    def result(self, country: str | None, *, weights: Mapping[str, float], min_value: float, quantum: float) -> Result:
        """The reward by the formula of `judges.reward.ChainReward`.

        Args:
            country: ISO alpha-2 code of the true country; None where unknown.
            weights: of the faults.
            min_value: below which a point is unmatched.
            quantum: step of the reward.
        """
        grouped = grouped_precision(self.points, self.generic, min_value, self.beyond)
        values = {name: fault.value for name, fault in self.faults.items()}
        said = self.chain.conclusion.country if self.chain.conclusion else None
        correct = None if country is None else said == country
        scored = [not (point.restated or math.isnan(point.value)) for point in self.points]
        parts = {
            "precision": self.precision,
            "grouped_precision": grouped.precision,
            "recall": self.recall,
            "f1": self.f1,
            "country_correct": None if correct is None else float(correct),
            "generic": mean(list(itertools.compress(self.generic, scored))),
            "restated": grouped.restated / len(self.points) if self.points else None,
            **{name: values.get(name) for name in FAULTS},
            "points": float(len(self.chain.points)),
            "beyond_limits": float(self.beyond),
        }
        known = {name: None if value is None or math.isnan(value) else value for name, value in parts.items()}
        # Where every point repeats, the judge has no precision; but nothing failed, and the grouped one is 0.
        if math.isnan(self.recall) or (math.isnan(self.precision) and grouped.failed):
            reasons = {point.reason for point in self.points if point.reason is not None}
            return Result(None, ", ".join(sorted(reasons)) or "no precision or recall", known, self._record())
        whole = combine(grouped.precision, self.recall, values, weights, correct)
        return Result(quantise(whole, quantum), None, known, self._record())

    def _record(self) -> dict[str, Any]:
        both = zip(self.points, self.generic, strict=True)
        return {
            "points": [{**point.to_record(), "generic": generic} for point, generic in both],
            "spans": {name: [list(span) for span in fault.spans] for name, fault in self.faults.items() if fault.spans},
            "conclusion": self.chain.conclusion.text if self.chain.conclusion else None,
        }


class Finder:
    r"""Asks the judge and the detectors.

    Args:
        judge: scores all chains of a call at once.
        contrast: None: generic is by the axioms alone, and misattribution and stereotype are not looked for.
        max_points: as in `within_limits`.
        max_point_tokens: as in `within_limits`.

    Example:
        >>> from judges.one_to_all import OneToAllJudge
        >>> finder = Finder(OneToAllJudge(EmbeddingScorer()), None, max_points=24, max_point_tokens=128)
        >>> (finding,) = finder.find([Row("- Red soil.\n\nUganda", "", (("text", "- Red soil."),), "UG")])
        >>> finding.f1, finding.generic, finding.chain.conclusion.country
        (1.0, (0.0,), 'UG')
    """

    def __init__(self, judge: Judge, contrast: Contrast | None, max_points: int, max_point_tokens: int) -> None:
        self.judge = judge
        self.contrast = contrast
        self.max_points = max_points
        self.max_point_tokens = max_point_tokens
        encoder = getattr(judge, "encoder", None)  # one model for both where the judge has one
        self.axioms = EmbeddingScorer(encoder) if isinstance(encoder, Encoder) else EmbeddingScorer()

    def find(self, rows: Sequence[Row]) -> list[Finding]:
        """Look at completions, with one call of the judge.

        Args:
            rows: completions, best all different.

        Raises:
            ValueError: if the judge does not return a chain for each; and whatever it raises itself.
        """
        whole = [parse_chain(row.text, row.prompt) for row in rows]
        limited = [within_limits(statements(chain), self.max_points, self.max_point_tokens) for chain in whole]
        kept = [chain for chain, _ in limited]
        scores = self.judge.score(kept, [row.chains() for row in rows])
        if len(scores.candidate_points) != len(rows):
            raise ValueError(f"Expected {len(rows)} chains from the judge, but got {len(scores.candidate_points)}.")
        generic = self._generic(rows, scores.candidate_points)
        return [
            Finding(
                chain=whole[index],
                beyond=limited[index][1],
                precision=float(scores.precision[index]),
                recall=float(scores.recall[index]),
                f1=float(scores.f1[index]),
                points=scores.candidate_points[index],
                generic=generic[index],
                faults=self._faults(row, whole[index], kept[index]),
            )
            for index, row in enumerate(rows)
        ]

    def _generic(self, rows: Sequence[Row], points: Sequence[Sequence[PointScore]]) -> list[tuple[float, ...]]:
        """How far each point could stand anywhere; one question for all completions of a reference."""
        texts: dict[tuple[str, str | None], dict[str, float]] = {}
        for row, mine in zip(rows, points, strict=True):
            scored = (point.text for point in mine if not (point.restated or math.isnan(point.value)))
            texts.setdefault((row.reference_text, row.country), {}).update(dict.fromkeys(scored, 0.0))
        for (reference, country), found in texts.items():
            if found and self.contrast is not None:
                found.update(zip(found, self.contrast.generic(list(found), reference, country), strict=True))
            elif found:
                found.update(zip(found, faults.axiomatic(list(found), self.axioms), strict=True))
        return [
            tuple(texts[row.reference_text, row.country].get(point.text, 0.0) for point in mine)
            for row, mine in zip(rows, points, strict=True)
        ]

    def _faults(self, row: Row, whole: ReasoningChain, kept: ReasoningChain) -> dict[str, Fault]:
        """What is wrong with all that is said, and with the points that are judged."""
        found = {
            "conclusion_first": faults.conclusion_first(whole),
            "false_tool": faults.false_tool(whole),
            "injection": faults.injection(whole),
            "narrowing": faults.narrowing(kept),
            "alternatives": faults.alternatives(whole),
        }
        if self.contrast is not None:
            found["misattribution"] = self.contrast.misattribution(kept, row.reference_text, row.country)
            found["stereotype"] = self.contrast.stereotype(kept, row.country)
        return found


def mean(values: Sequence[float]) -> float | None:
    """Mean of the values that are known; None without any.

    Example:
        >>> mean([1.0, math.nan]), mean([])
        (1.0, None)
    """
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None
