"""The arithmetic of the reward: terms that take numbers and return numbers."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from typing import Any

from judges.chains import Point, ReasoningChain
from judges.contradiction import in_english
from judges.evidence import content_words, evidence
from judges.results import PointScore
from judges.sentences import NO_EVIDENCE, mentions, sentences

__all__ = [
    "COUNTRY_SHARE",
    "WEIGHTS",
    "Grouped",
    "check_limit",
    "check_quantum",
    "check_share",
    "combine",
    "fault_weights",
    "grouped_precision",
    "quantise",
    "statements",
    "within_limits",
]

WEIGHTS: Mapping[str, float] = {"conclusion_first": 0.3, "false_tool": 0.5, "misattribution": 0.3, "injection": 1.0}
"""The faults that cost something, and the share of the reward that each takes at its largest."""

COUNTRY_SHARE = 0.3
"""Share of the reward that a wrong country costs."""


@dataclass(frozen=True)
class Grouped:
    """Precision with the points grouped by what they match.

    Attributes:
        precision: in [0, 1], higher = better; NaN where every point failed; 0 without points.
        groups: how many points of the references were matched.
        unmatched: how many points match none well enough, with those beyond the limits.
        restated: how many only repeat.
        failed: how many could not be scored, and count nowhere.

    Example:
        >>> grouped_precision([], [], min_value=0.25).precision
        0.0
    """

    precision: float
    groups: int
    unmatched: int
    restated: int
    failed: int


def grouped_precision(
    points: Sequence[PointScore], generic: Sequence[float], min_value: float, beyond: int = 0
) -> Grouped:
    r"""Precision that neither repeating nor splitting a point can raise.

    With :math:`v_i = \text{support}_i (1 - \text{generic}_i)`, and a group the points whose best match is the same
    point of the references,

    .. math::
        P_r = \frac{\sum_{\text{groups}} \max_{i \in \text{group}} v_i}
                   {\#\text{groups} + \#\text{unmatched} + \#\text{restated}}

    A point is unmatched when :math:`v_i <` ``min_value`` or it has no match. Unmatched and restated points belong to no
    group; a point whose pair failed (NaN) is left out of both sums.

    Args:
        points: of one candidate, as a judge returns them.
        generic: for each how far it could stand in the chain of any other location, in [0, 1].
        min_value: the value below which a point is unmatched.
        beyond: points that were not judged, because they are beyond a limit; they count as unmatched.

    Returns:
        The precision and the counts.

    Raises:
        ValueError: if ``points`` and ``generic`` differ in length.

    Example:
        >>> two = [PointScore("a", (0, 1), 0.8, match=0), PointScore("b", (2, 3), 0.6, match=0)]
        >>> grouped_precision(two, [0.0, 0.0], min_value=0.25)
        Grouped(precision=0.8, groups=1, unmatched=0, restated=0, failed=0)
        >>> grouped_precision(two, [0.0, 0.0], min_value=0.25, beyond=1).precision
        0.4
    """
    if len(points) != len(generic):
        raise ValueError(f"Expected one `generic` for each of the {len(points)} points, but got {len(generic)}.")
    best: dict[int, float] = {}
    unmatched, restated, failed = beyond, 0, 0
    for point, common in zip(points, generic, strict=True):
        value = point.value * (1 - common)
        if point.restated:
            restated += 1
        elif math.isnan(value):
            failed += 1
        elif point.match is None or value < min_value:
            unmatched += 1
        else:
            best[point.match] = max(value, best.get(point.match, 0.0))
    count = len(best) + unmatched + restated
    precision = math.fsum(best.values()) / count if count else math.nan if failed else 0.0
    return Grouped(precision, len(best), unmatched, restated, failed)


def combine(
    precision: float,
    recall: float,
    faults: Mapping[str, float | None],
    weights: Mapping[str, float],
    country_correct: bool | None,
) -> float:
    r"""Put the terms of the reward together.

    .. math::
        F_1(P_r, R) \; \prod_k (1 - w_k f_k) \; (1 - c + c \cdot \text{country correct}), \qquad c = 0.3

    Args:
        precision: the grouped precision :math:`P_r`.
        recall: of the references.
        faults: by name, in [0, 1]; None where unknown, which costs nothing. Names without a weight cost nothing.
        weights: by name, in [0, 1].
        country_correct: None where the true country is unknown: the factor is 1.

    Returns:
        In [0, 1], higher = better.

    Example:
        >>> combine(1.0, 1.0, {"false_tool": 1.0}, WEIGHTS, country_correct=False)
        0.35
    """
    total = precision + recall
    reward = 2 * precision * recall / total if total else 0.0
    for name, weight in weights.items():
        reward *= 1 - weight * (faults.get(name) or 0.0)
    return reward if country_correct is None else reward * (1 - COUNTRY_SHARE + COUNTRY_SHARE * country_correct)


def fault_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """The default weights with some replaced.

    Args:
        weights: by name, in [0, 1]; the others keep their default.

    Raises:
        TypeError: if they are no mapping, or a weight no number.
        ValueError: if a name is unknown or a weight outside [0, 1].

    Example:
        >>> fault_weights({"false_tool": 1.0})["false_tool"]
        1.0
    """
    if not (weights is None or isinstance(weights, Mapping)):
        raise TypeError(f"Expected `weights` to be a mapping of faults to numbers, but got {weights!r:.60}.")
    given = dict(weights or {})
    unknown = sorted(set(given) - set(WEIGHTS), key=str)
    if unknown:
        raise ValueError(f"Expected `weights` of {', '.join(WEIGHTS)}, but got {', '.join(map(str, unknown))}.")
    for name, weight in given.items():
        check_share(f"weights[{name!r}]", weight)
    return {**WEIGHTS, **given}


def check_share(name: str, value: Any) -> None:
    """Refuse what is no number within [0, 1].

    Example:
        >>> check_share("min_value", 1.5)
        Traceback (most recent call last):
        ValueError: Expected `min_value` within [0, 1], but got 1.5.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"Expected `{name}` to be a number within [0, 1], but got {value!r:.60}.")
    if not 0 <= float(value) <= 1:
        raise ValueError(f"Expected `{name}` within [0, 1], but got {value}.")


def check_limit(name: str, value: Any) -> None:
    """Refuse what is no whole number of at least 1.

    Example:
        >>> check_limit("max_points", 2.5)
        Traceback (most recent call last):
        TypeError: Expected `max_points` to be a whole number of at least 1, but got 2.5.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"Expected `{name}` to be a whole number of at least 1, but got {value!r:.60}.")
    if value < 1:
        raise ValueError(f"Expected `{name}` of at least 1, but got {value}.")


def check_quantum(value: Any) -> None:
    """Refuse a step that does not lead from 0 to 1 in a whole number of steps.

    Example:
        >>> check_quantum(0.6)
        Traceback (most recent call last):
        ValueError: Expected `quantum` within (0, 1] and 1 a multiple of it, such as 0.01 or 0.25, but got 0.6.
    """
    check_share("quantum", value)
    steps = 1 / value if value else math.inf
    if not (math.isfinite(steps) and abs(steps - round(steps)) <= 1e-9 * steps):
        raise ValueError(
            f"Expected `quantum` within (0, 1] and 1 a multiple of it, such as 0.01 or 0.25, but got {value}."
        )


def quantise(reward: float, quantum: float) -> float:
    """The multiple of a quantum that is nearest, as the float of its decimal digits.

    Args:
        reward: the number.
        quantum: the step, of which 1 is a multiple.

    Example:
        >>> quantise(0.5749, 0.01), quantise(0.3, 0.25)
        (0.57, 0.25)
    """
    steps = round(1 / quantum)
    return float((Decimal(reward) * steps).to_integral_value(ROUND_HALF_EVEN) / steps)


# A word, or one character of a script without spaces; long runs count as several, so that they cannot hide length.
_TOKEN = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w{1,16}|[^\w\s]"
)


_JOINT = re.compile(r"(?<=;)\s+|(?<=,)\s+(?=and\s)", re.IGNORECASE)


def statements(chain: ReasoningChain) -> ReasoningChain:
    """The chain with its points cut into statements: what is said in one point or in several counts the same.

    A point is cut at the ends of its sentences, at semicolons and at ", and", where what stands on either side names
    evidence of its own (three words or more, some of a category); the rest stays with what is before it. Without this,
    to merge what matches nothing into one point would make less of it.

    Args:
        chain: any chain.

    Returns:
        The chain, unchanged where no point says several things.

    Example:
        >>> chain = ReasoningChain.of(["Red soil on the road. Wooden poles with two wires; typical of Kenya.", "Tea"])
        >>> [point.text for point in statements(chain).points]
        ['Red soil on the road.', 'Wooden poles with two wires; typical of Kenya.', 'Tea']
    """
    points: list[Point] = []
    for point in chain.points:
        parts = _parts(point.text)
        if len(parts) == 1 or point.restated:
            points.append(point)
            continue
        for start, end in parts:
            span = point.span
            if span[1] - span[0] == len(point.text):  # else there is markdown between: all of it
                span = (point.span[0] + start, point.span[0] + end)
            points += [replace(one, span=span) for one in ReasoningChain.of([point.text[start:end]]).points]
    return chain if len(points) == len(chain.points) else replace(chain, points=tuple(points))


def _parts(text: str) -> list[tuple[int, int]]:
    """Where the statements of a point begin and end."""
    cuts = sorted({start for start, _ in sentences(text)} | {cut.end() for cut in _JOINT.finditer(text)})[1:]
    starts = [0]
    for cut, following in pairwise([*cuts, len(text)]):
        if _says_something(text[starts[-1] : cut]) and _says_something(text[cut:following]):
            starts.append(cut)
    return [(start, start + len(text[start:end].rstrip())) for start, end in pairwise([*starts, len(text)])]


def _says_something(text: str) -> bool:
    # the words of the categories are known in some languages only
    named = not in_english(text) or any(name not in NO_EVIDENCE for name, _, _ in mentions(text))
    return named and len(content_words(evidence(text))) >= 3


def within_limits(chain: ReasoningChain, max_points: int, max_point_tokens: int) -> tuple[ReasoningChain, int]:
    """The part of a chain that is judged, and for how many unmatched points the rest counts.

    Of each point the first ``max_point_tokens`` words are judged (a sign or a character of a script without spaces is
    one too). Every ``max_point_tokens`` words that follow, and every point after the first ``max_points``, count as a
    point without a match. So what is beyond a limit cannot raise a reward, and does lower the precision.

    Args:
        chain: any chain.
        max_points: at least 1.
        max_point_tokens: at least 1.

    Returns:
        The chain, unchanged where it is within the limits, and the number of unmatched points.

    Example:
        >>> chain = ReasoningChain.of(["Red soil and tea", "Poles", "Palms"])
        >>> kept, beyond = within_limits(chain, max_points=2, max_point_tokens=3)
        >>> [point.text for point in kept.points], beyond
        (['Red soil and', 'Poles'], 2)
    """
    beyond, kept = 0, []
    for index, point in enumerate(chain.points):
        tokens = [token.end() for token in _TOKEN.finditer(point.text)]
        pieces = max(1, math.ceil(len(tokens) / max_point_tokens))
        head = [point]
        if pieces > 1:
            head = _head(point, point.text[: tokens[max_point_tokens - 1]])
        if index >= max_points:
            head = []
        kept += head
        beyond += pieces - len(head)
    return (chain, 0) if not beyond else (replace(chain, points=tuple(kept)), beyond)


def _head(point: Point, text: str) -> list[Point]:
    """The point that the first words of a point make; none if they say nothing."""
    made = ReasoningChain.of([text]).points
    return [replace(one, span=point.span, restated=point.restated or one.restated) for one in made[:1]]
