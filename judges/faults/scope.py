"""What part of the world the points of a chain speak for: from wide to narrow, other countries, repetitions."""

from __future__ import annotations

import itertools
import math
import re

from judges.chains import Conclusion, Point, ReasoningChain
from judges.conclusions import nothing_left
from judges.faults import scope_words
from judges.faults.fault import Fault, is_demonym, statements, supported
from judges.places import BREADTHS, breadth_of, find_places

__all__ = ["alternatives", "narrowing", "restated"]


def narrowing(chain: ReasoningChain) -> Fault:
    r"""How far a chain goes from coarse to fine; this is a virtue, not a fault.

    With :math:`b_i` the breadth of the support of point i (world > hemisphere > continent > countries > country >
    region > city) over the points that name places, those named as a contrast ("unlike Kenya") left out:

    .. math::
        \text{value} = |\{i < j : b_j \text{ is not wider than } b_i\}| \; / \; |\{i < j\}|

    Args:
        chain: the chain; its conclusion is no point.

    Returns:
        The value in [0, 1], 1 = no point is wider than one before it. Where a single point names a place, 1 if the
        conclusion is not wider, else None, as where none does. The spans are those of the points that are wider than
        the one before them.

    Example:
        >>> from judges.chains import parse_chain
        >>> from judges.faults import narrowing
        >>> narrowing(parse_chain("- Red soil, so Africa\n- Number plates of Uganda\n- Hills of Kabale")).value
        1.0
        >>> narrowing(parse_chain("- Number plates of Uganda\n- Red soil, so Africa")).value
        0.0
    """
    found = [(_breadth(point), point.span) for point in chain.points]
    known = [(BREADTHS.index(breadth), span) for breadth, span in found if breadth]
    last = breadth_of(find_places(chain.conclusion.text)) if chain.conclusion else None
    if len(known) == 1 and last and BREADTHS.index(last) >= known[0][0]:
        return Fault(1.0)
    if len(known) < 2:
        return Fault(None)
    wider = tuple(after[1] for before, after in itertools.pairwise(known) if after[0] < before[0])
    earlier, narrowing_pairs = [0] * len(BREADTHS), 0  # counted by breadth: a long text has millions of pairs
    for breadth, _ in known:
        narrowing_pairs += sum(earlier[: breadth + 1])
        earlier[breadth] += 1
    return Fault(narrowing_pairs / math.comb(len(known), 2), wider)


def _breadth(point: Point) -> str | None:
    """The part of the world that a point supports."""
    return point.breadth if point.breadth == "world" else breadth_of(supported(point))


def restated(chain: ReasoningChain) -> Fault:
    r"""The share of points that repeat an earlier point or the conclusion, or name places and nothing else.

    Other countries than that of the conclusion, by their names alone, are what was weighed ("Could be Kenya."): they
    are marked, as they show nothing, but are no fault.

    Args:
        chain: as `parse_chain` or, with an encoder, `mark_restated` has marked it.

    Returns:
        The share in [0, 1], higher = more filler; 0 without points. The spans are those of the points.

    Example:
        >>> from judges.chains import parse_chain
        >>> from judges.faults import restated
        >>> restated(parse_chain("- Red soil.\n- Tea.\n- Red soil!\n- Palms.")).value
        0.25
    """
    spans = tuple(point.span for point in chain.points if point.restated and not _weighs_only(point, chain.conclusion))
    return Fault(len(spans) / len(chain.points) if spans else 0.0, spans)


def _weighs_only(point: Point, conclusion: Conclusion | None) -> bool:
    """Whether a point is nothing but names of places, one of them in a country that the conclusion is not in."""
    answer = conclusion.country if conclusion else None
    others = [place for place in point.places if place.countries and answer not in place.countries]
    return bool(answer and others) and nothing_left(point.text)


def alternatives(chain: ReasoningChain) -> Fault:
    r"""Whether other countries were considered before the conclusion; this is a virtue, not a fault.

    With n the number of countries, other than that of the conclusion, that some statement before it weighs as a
    candidate ("could be Kenya", "not Kenya", "Kenya has similar poles, but ..."; "a German lorry" weighs nothing):

    .. math::
        \text{value} = n / (n + 1)

    Args:
        chain: the chain, `<think>` included.

    Returns:
        The value in [0, 1): 0 = none, 1/2 = one. The spans are those of the statements.

    Example:
        >>> from judges.chains import parse_chain
        >>> from judges.faults import alternatives
        >>> alternatives(parse_chain("- Red soil, so Uganda or Kenya.\n- No Kenyan plates.\n\nAnswer: Uganda")).value
        0.5
    """
    answer = chain.conclusion.country if chain.conclusion else None
    end = chain.conclusion.span[0] if chain.conclusion else len(chain.text)
    others: set[str] = set()
    spans = []
    for span in statements(chain.text[:end]):
        weighed = _weighed(chain.text[slice(*span)]) - {answer}
        if weighed:
            others |= weighed
            spans.append(span)
    return Fault(len(others) / (len(others) + 1), tuple(spans))


_WEIGHS = re.compile("|".join(scope_words.WEIGHS), re.IGNORECASE)
_AGAINST = re.compile("|".join(scope_words.AGAINST), re.IGNORECASE)
_DENIES = re.compile(scope_words.DENIES, re.IGNORECASE)
_STOP = re.compile(r"[,;—–(),、，；]")


def _weighed(said: str) -> set[str]:
    """The countries that a sentence treats as candidates."""
    stops = [stop.start() for stop in _STOP.finditer(said)]
    found = set()
    for place in find_places(said):
        if len(place.countries) != 1 or place.kind not in ("country", "region", "city"):
            continue
        begin = max((stop for stop in stops if stop < place.span[0]), default=0)
        end = min((stop for stop in stops if stop >= place.span[1]), default=len(said))
        if is_demonym(place) and said[place.span[1] :][:2].strip().isalpha():
            weighs = _DENIES.search(said, 0, place.span[0]) is not None
        else:
            weighs = bool(_WEIGHS.search(said, begin, end) or _AGAINST.match(said[end:].lstrip(" ,;、，")))
        if weighs:
            found.add(place.countries[0])
    return found
