"""What every scorer takes and gives: how far a chain of points supports each statement."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from judges.embeddings import Encoder
from judges.memo import Memo, digest

__all__ = [
    "EMPTY_CONTEXT",
    "EMPTY_STATEMENT",
    "LOW_MASS",
    "OUT_OF_MEMORY",
    "TOO_LONG",
    "Outcome",
    "PairScores",
    "Scorer",
    "fill_matches",
    "score_distinct",
]

# Why a pair has no value. Fixed texts, so that failures can be counted by reason.
EMPTY_CONTEXT = "empty context"
EMPTY_STATEMENT = "empty statement"
LOW_MASS = "label mass below min_mass"
TOO_LONG = "prompt too long"
OUT_OF_MEMORY = "out of memory"

Pair = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class PairScores:
    """How far each statement is supported by its context, S pairs.

    Attributes:
        value: (S,) float64 in [0, 1], higher = better supported; NaN where the pair could not be scored.
        reliability: (S,) float64 in [0, 1], how far the value can be trusted (for a causal model the probability that
            its next token is a label at all); NaN where nothing was read.
        match: index of the context point that supports the statement best; None where the scorer cannot say.
        reason: why the pair has no value; None where it has one.
        match_by_embedding: whether `fill_matches` chose the matches, not the scorer.

    Raises:
        ValueError: if the fields differ in length, or a value without a reason is NaN or outside [0, 1].

    Example:
        >>> import torch
        >>> from judges.scorers import PairScores
        >>> value, reliability = torch.tensor([0.5, float("nan")]).double(), torch.tensor([1.0, 0.1]).double()
        >>> scores = PairScores(value, reliability, (2, None), (None, "label mass below min_mass"))
        >>> len(scores), scores.match_by_embedding
        (2, False)
    """

    value: Tensor
    reliability: Tensor
    match: tuple[int | None, ...]
    reason: tuple[str | None, ...]
    match_by_embedding: bool = False

    def __post_init__(self) -> None:
        number = len(self.match)
        shapes = tuple(self.value.shape), tuple(self.reliability.shape), (len(self.reason),)
        if set(shapes) != {(number,)}:
            raise ValueError(
                f"Expected `value`, `reliability` and `reason` of length {number}, that of `match`, but got "
                f"{shapes[0]}, {shapes[1]} and {shapes[2]}."
            )
        failed = torch.tensor([reason is not None for reason in self.reason], dtype=torch.bool)
        wrong = torch.where(failed, ~self.value.isnan(), ~((self.value >= 0) & (self.value <= 1)))
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise ValueError(
                "Expected `value` within [0, 1], or NaN with a reason, but got "
                f"{self.value[row].item()} with reason {self.reason[row]!r} at row {row}."
            )

    def __len__(self) -> int:
        return len(self.match)


@runtime_checkable
class Scorer(Protocol):
    """Anything with this ``score`` can be the heart of a judge.

    Example:
        >>> import torch
        >>> from judges.scorers import PairScores, Scorer
        >>> class Echo:
        ...     def score(self, statements, contexts):
        ...         hit = [statement in context for statement, context in zip(statements, contexts)]
        ...         value = torch.tensor(hit, dtype=torch.float64)
        ...         return PairScores(value, torch.ones_like(value), (None,) * len(hit), (None,) * len(hit))
        >>> isinstance(Echo(), Scorer)
        True
    """

    def score(self, statements: list[str], contexts: list[tuple[str, ...]]) -> PairScores:
        """Score statement i against context i.

        Args:
            statements: S points of a chain.
            contexts: S chains, each the tuple of its points.

        Returns:
            S pairs, in the order given.

        Raises:
            TypeError: if a statement is not a string or a context not a tuple of strings.
            ValueError: if the two lists differ in length.
        """
        ...


class Outcome(NamedTuple):
    """One row of `PairScores`.

    Example:
        >>> from judges.scorers.contract import EMPTY_CONTEXT, Outcome
        >>> Outcome.failed(EMPTY_CONTEXT).reason
        'empty context'
    """

    value: float
    reliability: float
    match: int | None
    reason: str | None

    @classmethod
    def failed(cls, reason: str, reliability: float = math.nan) -> Outcome:
        """A pair without a value."""
        return cls(math.nan, reliability, None, reason)


def score_distinct(
    statements: list[str],
    contexts: list[tuple[str, ...]],
    memo: Memo[Outcome],
    compute: Callable[[list[Pair]], Sequence[Outcome]],
) -> PairScores:
    """Check a call, hand each distinct pair that is neither empty nor known to ``compute``, and put all in order.

    Args:
        statements: S strings.
        contexts: S tuples of strings.
        memo: outcomes of earlier calls; what was read from the model is added, failures such as running out of memory
            are not.
        compute: pairs -> their outcomes.

    Returns:
        S pairs; equal pairs have bit-equal rows.

    Raises:
        TypeError: if a statement is not a string or a context not a tuple of strings.
        ValueError: if the two lists differ in length.

    Example:
        >>> from judges.memo import Memo
        >>> from judges.scorers.contract import Outcome, score_distinct
        >>> calls = []
        >>> def compute(pairs):
        ...     calls.extend(pairs)
        ...     return [Outcome(1.0, 1.0, 0, None) for _ in pairs]
        >>> score_distinct(["a", "a", ""], [("b",), ("b",), ("b",)], Memo(10), compute).reason
        (None, None, 'empty statement')
        >>> calls
        [('a', ('b',))]
    """
    _check(statements, contexts)
    keys = [digest((statement, *context)) for statement, context in zip(statements, contexts, strict=True)]
    outcomes: dict[bytes, Outcome] = {}
    open_pairs: dict[bytes, Pair] = {}
    for key, statement, context in zip(keys, statements, contexts, strict=True):
        if key in outcomes or key in open_pairs:
            continue
        known = memo.get(key)
        if known is not None:
            outcomes[key] = known
        elif not statement.strip():
            outcomes[key] = Outcome.failed(EMPTY_STATEMENT)
        elif not any(point.strip() for point in context):
            outcomes[key] = Outcome.failed(EMPTY_CONTEXT)
        else:
            open_pairs[key] = (statement, context)
    if open_pairs:
        for key, outcome in zip(open_pairs, compute(list(open_pairs.values())), strict=True):
            outcomes[key] = outcome
            if not math.isnan(outcome.reliability):
                memo[key] = outcome
    rows = [outcomes[key] for key in keys]
    return PairScores(
        value=torch.tensor([row.value for row in rows], dtype=torch.float64),
        reliability=torch.tensor([row.reliability for row in rows], dtype=torch.float64),
        match=tuple(row.match for row in rows),
        reason=tuple(row.reason for row in rows),
    )


def fill_matches(
    scores: PairScores, statements: list[str], contexts: list[tuple[str, ...]], encoder: Encoder
) -> PairScores:
    """Give each scored pair whose scorer could not say a match: the context point most similar to the statement.

    Place names are masked first, as in `EmbeddingScorer`: two points that name one country are not alike by that.

    Args:
        scores: of these statements and contexts.
        statements: S strings.
        contexts: S tuples of strings.
        encoder: the sentence encoder.

    Returns:
        The scores with ``match`` filled and ``match_by_embedding`` set; unchanged if there was nothing to fill. Pairs
        that failed keep None.

    Raises:
        TypeError: if a statement is not a string or a context not a tuple of strings.
        ValueError: if the lengths differ.

    Example:
        >>> import torch
        >>> from judges.embeddings import Encoder
        >>> from judges.scorers import PairScores, fill_matches
        >>> scores = PairScores(torch.ones(1).double(), torch.ones(1).double(), (None,), (None,))
        >>> filled = fill_matches(scores, ["red soil"], [("wooden poles", "reddish earth")], Encoder())
        >>> filled.match, filled.match_by_embedding
        ((1,), True)
    """
    from judges.places import mask_places

    _check(statements, contexts)
    if len(scores) != len(statements):
        raise ValueError(f"Expected `scores` of {len(statements)} pairs, but got {len(scores)}.")
    rows = [
        row
        for row, (match, reason) in enumerate(zip(scores.match, scores.reason, strict=True))
        if match is None and reason is None
    ]
    if not rows:
        return scores
    texts = {text for row in rows for text in (statements[row], *contexts[row]) if text.strip()}
    masked = {text: mask_places(text) for text in sorted(texts)}
    vectors = dict(zip(masked, encoder.encode(list(masked.values())), strict=True))
    matches = list(scores.match)
    for row in rows:
        filled = [index for index, point in enumerate(contexts[row]) if point.strip()]
        if filled:
            points = torch.stack([vectors[contexts[row][index]] for index in filled])  # (points, dimensions)
            matches[row] = filled[int((points @ vectors[statements[row]]).argmax())]
    return replace(scores, match=tuple(matches), match_by_embedding=True)


def _check(statements: list[str], contexts: list[tuple[str, ...]]) -> None:
    for name, given in (("statements", statements), ("contexts", contexts)):
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"Expected `{name}` to be a list, but got {type(given).__name__}.")
    if len(statements) != len(contexts):
        raise ValueError(
            f"Expected one context for each of the {len(statements)} statements, but got {len(contexts)} contexts."
        )
    for row, (statement, context) in enumerate(zip(statements, contexts, strict=True)):
        if not isinstance(statement, str):
            raise TypeError(f"Expected `statements` to hold strings, but got {type(statement).__name__} at row {row}.")
        if not isinstance(context, tuple) or not all(isinstance(point, str) for point in context):
            raise TypeError(
                f"Expected `contexts` to hold tuples of strings, one per point, but got {context!r} at row {row}."
            )
