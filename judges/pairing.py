"""The arithmetic that the judges share: which pairs are scored, and what they sum up to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from judges.chains import Point, ReasoningChain
from judges.results import (
    EMPTY_CANDIDATE,
    EMPTY_REFERENCE,
    FAILED,
    REFUSED,
    SCORED,
    ChainScores,
    PointScore,
)
from judges.scorers.contract import PairScores, Scorer, fill_matches

if TYPE_CHECKING:
    from judges.embeddings import Encoder

NO_CLAUSES = "no key clauses"


@dataclass(frozen=True)
class Side:
    """A chain as a judge reads it.

    Args:
        chain: restatements marked.
        clauses: what is scored of each point: its whole text, or key clauses. Empty for restated points; empty for
            another one means that it could not be taken apart, and fails.

    Example:
        >>> chain = ReasoningChain.of(["Red soil.", "red soil", "Tea fields."])
        >>> Side.whole(chain).clauses
        (('Red soil.',), (), ('Tea fields.',))
    """

    chain: ReasoningChain
    clauses: tuple[tuple[str, ...], ...]

    @classmethod
    def whole(cls, chain: ReasoningChain) -> Side:
        """Every point is one clause."""
        return cls(chain, tuple(() if point.restated else (point.text,) for point in chain.points))

    @property
    def said(self) -> list[tuple[Point, tuple[str, ...]]]:
        """Points that are not restated, and their clauses; a refusal says nothing."""
        if self.chain.refused:
            return []
        both = zip(self.chain.points, self.clauses, strict=True)
        return [(point, clauses) for point, clauses in both if not point.restated]


@dataclass(frozen=True)
class Context:
    """What statements are held against: the distinct clauses of some points.

    Args:
        clauses: of all points; where a point has none, its text.
        owners: for each clause the index of its point.
        points: texts that these indices stand for.

    Example:
        >>> side = Side(ReasoningChain.of(["Red soil and tea."]), (("red soil", "tea"),))
        >>> Context.union([side, side])
        Context(clauses=('red soil', 'tea'), owners=(0, 0), points=('Red soil and tea.',))
    """

    clauses: tuple[str, ...]
    owners: tuple[int, ...]
    points: tuple[str, ...]

    @classmethod
    def union(cls, sides: Iterable[Side]) -> Context:
        """The distinct points of several chains, without those that are restated."""
        points: dict[str, int] = {}
        owners: dict[str, int] = {}
        for side in sides:
            for point, clauses in side.said:
                index = points.setdefault(point.text, len(points))
                for clause in clauses or (point.text,):
                    owners.setdefault(clause, index)
        return cls(tuple(owners), tuple(owners.values()), tuple(points))

    @classmethod
    def chain(cls, side: Side) -> Context:
        """The points of one chain, counted with those that are restated."""
        context = cls.union([side])
        first: dict[str, int] = {}
        for index, point in enumerate(side.chain.points):
            if not point.restated:
                first.setdefault(point.text, index)
        owners = tuple(first[context.points[owner]] for owner in context.owners)
        return cls(context.clauses, owners, tuple(point.text for point in side.chain.points))


def compare(
    scorer: Scorer,
    candidates: Sequence[Side],
    references: Sequence[Sequence[Side]],
    *,
    max_failed: float,
    approximate: bool,
    encoder: Encoder | None,
) -> ChainScores:
    """Score B candidates against their references with one call of the scorer.

    Args:
        scorer: takes every distinct pair of the batch once.
        candidates: B chains.
        references: for each the chains that it is held against.
        max_failed: share of failed pairs above which a direction is NaN.
        approximate: what the scores say of themselves.
        encoder: fills matches that the scorer cannot say.

    Example:
        >>> from judges.scorers import EmbeddingScorer
        >>> side = Side.whole(ReasoningChain.of(["Red soil."]))
        >>> options = dict(max_failed=0.25, approximate=True, encoder=None)
        >>> compare(EmbeddingScorer(), [side], [[side]], **options).f1.item()
        1.0
    """
    unions = [Context.union(sides) for sides in references]
    chains = [Context.chain(side) for side in candidates]
    pairs: dict[tuple[str, tuple[str, ...]], int] = {}
    for side, union, chain, others in zip(candidates, unions, chains, references, strict=True):
        if union.clauses and chain.clauses:
            for one, context in [(side, union), *((other, chain) for other in others)]:
                for _, clauses in one.said:
                    for clause in clauses:
                        pairs.setdefault((clause, context.clauses), len(pairs))
    read = _Read(_score(scorer, list(pairs), encoder), pairs)

    failures: Counter[str] = Counter()
    precision, recall, reliability, status = [], [], [], []
    candidate_points, reference_points = [], []
    for side, union, chain, others in zip(candidates, unions, chains, references, strict=True):
        # What needs no scorer: without a reference nothing can be said, and nothing said is worth nothing.
        known = (math.nan, EMPTY_REFERENCE) if not union.clauses else None if chain.clauses else (0.0, None)
        mine = read.side(side, union, known)
        theirs = [read.side(other, chain, known) for other in others]
        candidate_points.append(mine.points)
        reference_points.append(tuple(other.points for other in theirs))
        empty = sum(not other.said for other in others) or not others
        failures[EMPTY_REFERENCE] += int(empty)
        if not union.clauses:
            state, both, trust = EMPTY_REFERENCE, (math.nan, math.nan), math.nan
        elif not chain.clauses:
            state, both, trust = REFUSED if side.chain.refused else EMPTY_CANDIDATE, (0.0, 0.0), 1.0
        else:
            best = [mean for mean in (other.mean(max_failed) for other in theirs) if not math.isnan(mean)]
            both = mine.mean(max_failed), max(best, default=math.nan)
            state = FAILED if math.isnan(sum(both)) else SCORED
            directions = [mine, *theirs]
            trust = _mean([one for direction in directions for one in direction.reliabilities])
            failures.update(reason for direction in directions for reason in direction.reasons)
        status.append(state)
        precision.append(both[0])
        recall.append(both[1])
        reliability.append(trust)
    return ChainScores(
        precision=torch.tensor(precision, dtype=torch.float64),
        recall=torch.tensor(recall, dtype=torch.float64),
        f1=torch.tensor([f1(*both) for both in zip(precision, recall, strict=True)], dtype=torch.float64),
        candidate_points=tuple(candidate_points),
        reference_points=tuple(reference_points),
        union=tuple(union.points for union in unions),
        reliability=torch.tensor(reliability, dtype=torch.float64),
        failures={reason: count for reason, count in sorted(failures.items()) if count},
        status=tuple(status),
        approximate=approximate,
        match_by_embedding=read.scores.match_by_embedding,
    )


def f1(precision: float, recall: float) -> float:
    """The harmonic mean 2PR/(P + R); 0 where both are 0.

    Example:
        >>> f1(0.5, 1.0), f1(0.0, 0.0)
        (0.6666666666666666, 0.0)
    """
    total = precision + recall
    return 2 * precision * recall / total if total != 0 else 0.0


def _score(scorer: Scorer, pairs: list[tuple[str, tuple[str, ...]]], encoder: Encoder | None) -> PairScores:
    statements, contexts = [statement for statement, _ in pairs], [context for _, context in pairs]
    if not pairs:
        return PairScores(torch.zeros(0).double(), torch.zeros(0).double(), (), ())
    scores = scorer.score(statements, contexts)
    if len(scores) != len(pairs):
        raise ValueError(f"Expected {len(pairs)} pairs from {type(scorer).__name__}.score, but got {len(scores)}.")
    return scores if encoder is None else fill_matches(scores, statements, contexts, encoder)


@dataclass(frozen=True)
class _Direction:
    """The points of one side, and every pair that was scored for them: (value, weight, reliability, reason)."""

    points: tuple[PointScore, ...]
    pairs: tuple[tuple[float, float, float, str | None], ...]

    @property
    def reliabilities(self) -> list[float]:
        return [reliability for _, _, reliability, _ in self.pairs]

    @property
    def reasons(self) -> list[str]:
        return [reason for _, _, _, reason in self.pairs if reason is not None]

    def mean(self, max_failed: float) -> float:
        """Weighted mean of the values; NaN without any, or where too many failed."""
        if not self.pairs or len(self.reasons) > max_failed * len(self.pairs):
            return math.nan
        known = [(value, weight) for value, weight, _, reason in self.pairs if reason is None]
        total = math.fsum(weight for _, weight in known)
        return min(1.0, math.fsum(value * weight for value, weight in known) / total) if known else math.nan


class _Read:
    """Looks up what the scorer said."""

    def __init__(self, scores: PairScores, rows: dict[tuple[str, tuple[str, ...]], int]) -> None:
        self.scores = scores
        self.rows = rows
        self.values, self.reliabilities = scores.value.tolist(), scores.reliability.tolist()

    def side(self, side: Side, context: Context, known: tuple[float, str | None] | None) -> _Direction:
        """Points of a side against a context; `known`: value and reason of all of them, where nothing is asked."""
        if known is None and side.chain.refused:
            known = math.nan, REFUSED
        points, pairs = [], []
        for point, clauses in zip(side.chain.points, side.clauses, strict=True):
            if point.restated:
                points.append(_unscored(point, restated=True))
            elif known is not None:
                points.append(_unscored(point, *known))
            else:
                score, mine = self.point(point, clauses, context)
                points.append(score)
                pairs += mine
        return _Direction(tuple(points), tuple(pairs))

    def point(
        self, point: Point, clauses: tuple[str, ...], context: Context
    ) -> tuple[PointScore, list[tuple[float, float, float, str | None]]]:
        if not clauses:
            return _unscored(point, math.nan, NO_CLAUSES), [(math.nan, 1.0, math.nan, NO_CLAUSES)]
        rows = [self.rows[clause, context.clauses] for clause in clauses]
        values = [self.values[row] for row in rows]
        reliabilities = [self.reliabilities[row] for row in rows]
        reasons = [self.scores.reason[row] for row in rows]
        weight = 1 / len(rows)
        known = [place for place, reason in enumerate(reasons) if reason is None]
        match = None
        if known:
            best = self.scores.match[rows[max(known, key=values.__getitem__)]]
            match = None if best is None else context.owners[best]
        score = PointScore(
            text=point.text,
            span=point.span,
            value=_mean(values),
            match=match,
            match_text=None if match is None else context.points[match],
            categories=point.categories,
            reliability=_mean(reliabilities),
            reason=None if known else next(reason for reason in reasons if reason is not None),
            clauses=() if clauses == (point.text,) else tuple(zip(clauses, values, strict=True)),
        )
        both = zip(values, reliabilities, reasons, strict=True)
        return score, [(value, weight, reliability, reason) for value, reliability, reason in both]


def _unscored(
    point: Point, value: float = math.nan, reason: str | None = None, *, restated: bool = False
) -> PointScore:
    return PointScore(point.text, point.span, value, restated=restated, categories=point.categories, reason=reason)


def _mean(values: Sequence[float]) -> float:
    """Mean of the values that are known."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
