"""What a detector of faults returns, and the statements that it looks at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from judges import gazetteer
from judges.chains import Point
from judges.faults import scope_words
from judges.places import Place
from judges.sentences import sentences, trim

__all__ = ["Fault", "is_demonym", "statements", "supported"]


@dataclass(frozen=True)
class Fault:
    """How far a chain has a property, and where.

    Attributes:
        value: in [0, 1]; None where it could not be told.
        spans: first character of the chain's text and the one after the last of each part that shows it.

    Raises:
        ValueError: if the value is outside [0, 1].

    Example:
        >>> from judges.faults import Fault
        >>> Fault(0.5, ((0, 4),)).value
        0.5
    """

    value: float | None
    spans: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"Expected `value` within [0, 1] or None, but got {self.value}.")


def statements(text: str) -> Iterable[tuple[int, int]]:
    r"""The sentences of every line: first character and the one after the last.

    Args:
        text: any text, `<think>` and headings included.

    Example:
        >>> from judges.faults.fault import statements
        >>> list(statements("Red soil. Tea.\nUganda"))
        [(0, 9), (10, 14), (15, 21)]
    """
    start = 0
    for line in text.splitlines(keepends=True):
        begin, end = trim(text, start, start + len(line))
        if begin < end:
            yield from sentences(text, begin, end)
        start += len(line)


def is_demonym(place: Place) -> bool:
    """Whether a place is named by the word for its people and things.

    Args:
        place: as `find_places` returns it.

    Example:
        >>> from judges.faults.fault import is_demonym
        >>> from judges.places import find_places
        >>> [is_demonym(place) for place in find_places("Kenyan plates, Kenya")]
        [True, False]
    """
    return any(entry.demonym for entry in gazetteer.table()[0].get(gazetteer.key_of(place.text), ()))


_CONTRASTED = re.compile("|".join(scope_words.CONTRASTED), re.IGNORECASE)


def supported(point: Point) -> tuple[Place, ...]:
    """The places that a point speaks for, without those that it names as a contrast or rules out.

    Args:
        point: of a chain.

    Example:
        >>> from judges.chains import ReasoningChain
        >>> from judges.faults.fault import supported
        >>> point = ReasoningChain.of(["Red soil as in Kenya, unlike Egypt"]).points[0]
        >>> [place.text for place in supported(point)]
        ['Kenya']
    """
    return tuple(place for place in point.places if not _CONTRASTED.search(point.text, 0, place.span[0]))
