"""Stand-ins for what needs a model: support from a table, contrast from a table, a judge that dies."""

from __future__ import annotations

import torch

from judges.faults import Fault
from judges.scorers import PairScores


class TableScorer:
    """Support of one text by another from a table; the same text supports itself; texts in `failing` have no score."""

    def __init__(self, table=None, failing=()):
        self.table = {frozenset(pair): value for pair, value in (table or {}).items()}
        self.failing = failing
        self.calls = []

    def support(self, one, other):
        return 1.0 if one == other else self.table.get(frozenset((one, other)), 0.0)

    def score(self, statements, contexts):
        self.calls.append(len(statements))
        value, match, reason = [], [], []
        for statement, context in zip(statements, contexts, strict=True):
            supports = [self.support(statement, point) for point in context]
            failed = statement in self.failing
            value.append(float("nan") if failed else max(supports))
            match.append(None if failed else supports.index(max(supports)))
            reason.append("timeout" if failed else None)
        number = len(statements)
        return PairScores(
            torch.tensor(value, dtype=torch.float64), torch.ones(number).double(), tuple(match), tuple(reason)
        )


class WordScorer(TableScorer):
    """Support is the share of the words that two texts have in common."""

    def support(self, one, other):
        mine, theirs = ({word.strip(".,:") for word in text.lower().split()} for text in (one, other))
        return len(mine & theirs) / max(1, len(mine | theirs))


class TableContrast:
    """A contrast whose answers are given."""

    def __init__(self, generic=None, misattribution=0.0, stereotype=None):
        self.table = generic or {}
        self.pinned = misattribution
        self.typical = stereotype
        self.asked = []

    def generic(self, points, reference_text, country):
        self.asked.append((tuple(points), reference_text, country))
        return [self.table.get(point, 0.0) for point in points]

    def misattribution(self, chain, reference_text, country):
        return Fault(self.pinned)

    def stereotype(self, chain, country):
        return Fault(self.typical)


class Dying:
    """A judge that fails from its n-th call on."""

    def __init__(self, judge, at=2, error=None):
        self.judge = judge
        self.at = at
        self.error = error or ConnectionError("the judge is gone")
        self.calls = 0

    def score(self, candidates, references):
        self.calls += 1
        if self.calls >= self.at:
            raise self.error
        return self.judge.score(candidates, references)
