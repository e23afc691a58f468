"""Scorers for the tests of the judges: support from the words themselves, so that every number can be worked out."""

import math

import torch

from judges.scorers import PairScores


def shared_words(statement, point):
    """Words in common by words in all, the same both ways."""
    mine, theirs = set(statement.casefold().split()), set(point.casefold().split())
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def support(statement, context):
    """Best share of common words; NaN for a statement that says "fail"."""
    if "fail" in statement:
        return math.nan
    return max(shared_words(statement, point) for point in context)


class WordScorer:
    """Counts its calls, and the pairs of each."""

    def __init__(self, matches=True):
        self.matches = matches
        self.calls = []

    def score(self, statements, contexts):
        self.calls.append(list(zip(statements, contexts, strict=True)))
        values = [support(statement, context) for statement, context in self.calls[-1]]
        matches = tuple(
            None if math.isnan(value) or not self.matches
            else max(range(len(context)), key=lambda at: shared_words(statement, context[at]))
            for value, (statement, context) in zip(values, self.calls[-1], strict=True)
        )  # fmt: skip
        reasons = tuple("said so" if math.isnan(value) else None for value in values)
        reliability = torch.tensor([0.25 if reason else 1.0 for reason in reasons], dtype=torch.float64)
        return PairScores(torch.tensor(values, dtype=torch.float64), reliability, matches, reasons)
