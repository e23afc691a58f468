"""Find the places that a text names, mask them, and say which country a name or a location belongs to."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from judges import gazetteer
from judges.countries import continent_of, country_at, country_code, country_name, neighbours
from judges.gazetteer import Entry

__all__ = [
    "Place",
    "breadth_of",
    "continent_of",
    "country_at",
    "country_code",
    "country_name",
    "find_places",
    "mask_places",
    "neighbours",
]

BREADTHS = ("world", "hemisphere", "continent", "countries", "country", "region", "city")
"""What part of the world a statement can support, from the widest to the narrowest."""


@dataclass(frozen=True)
class Place:
    """A place that a text names.

    Args:
        text: the words of the text.
        span: first character and the one after the last.
        kind: "hemisphere", "continent", "region", "country" or "city". A demonym is of the kind of its place.
        countries: ISO alpha-2 codes of the countries that it is or lies in; those of a region or a continent are its
            members. Empty for hemispheres and oceans.

    Example:
        >>> Place("Oslo", (0, 4), "city", ("NO",)).countries
        ('NO',)
    """

    text: str
    span: tuple[int, int]
    kind: str
    countries: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    """A name in a text, with all that it can stand for."""

    first: int  # of the words
    end: int
    entries: tuple[Entry, ...]


@lru_cache(1 << 14)
def find_places(text: str) -> tuple[Place, ...]:
    """Find names of countries, cities, regions, continents and hemispheres, and demonyms, in the order of the text.

    The longest name wins. Names that are common words count only where the text says that a place is meant: by capital
    letters (Turkey), by a preposition before or the country after (in Nice; Nice, France). A name of several places
    is the one whose country the text names, else the largest. A language (signs in Portuguese) is no place.

    Args:
        text: any text.

    Returns:
        The places; they do not overlap.

    Example:
        >>> [(place.text, place.kind, place.countries) for place in find_places("Brazilian plates, as in São Paulo")]
        [('Brazilian', 'country', ('BR',)), ('São Paulo', 'city', ('BR',))]
        >>> find_places("A nice polish on the china")
        ()
    """
    words = list(gazetteer.WORD.finditer(text))
    folded = [gazetteer.fold(word.group()) for word in words]
    found = list(_names(text, words, folded))
    # A state's name is surer than that of a city, which others have too.
    likeliest = [one.entries[0] for one in found if len(one.entries) == 1 or one.entries[0].kind == "region"]
    sure = {entry.countries for entry in likeliest if len(entry.countries) == 1}
    places = []
    for one in found:
        after = _country_after(text, words, folded, one.end)
        fitting = [entry for codes in ({after}, sure) for entry in one.entries if entry.countries in codes]
        entry = (fitting or one.entries)[0]
        start, end = words[one.first].start(), words[one.end - 1].end()
        end += entry.needs == "upper" and "." in text[start:end] and text[end : end + 1] == "."  # of U.S.
        places.append(Place(text[start:end], (start, end), entry.kind or "", entry.countries))
    return tuple(places)


_WITHIN = frozenset(" ,;()-–'’\"&/")  # what stands between words of one sentence
_GAP = frozenset(" \u00a0\n-‐‑–'’.")


def _names(text: str, words: Sequence[re.Match[str]], folded: Sequence[str]) -> Iterable[_Found]:
    """The names in a text, the longest at each word."""
    table, longest = gazetteer.table()
    gaps = [text[word.end() : after.start()] for word, after in itertools.pairwise(words)]
    first = 0
    while first < len(words):
        for count in range(min(longest.get(folded[first], 0), len(words) - first), 0, -1):
            end = first + count
            entries = table.get(tuple(folded[first:end]))
            if not entries or not all(len(gap) <= 2 and _GAP.issuperset(gap) for gap in gaps[first : end - 1]):
                continue
            if entries[0].kind is None:
                first = end - 1
                break
            start, stop = words[first].start(), words[end - 1].end()
            if _within_katakana(text, start, stop) or _SPOKEN.match(text, stop) or text.endswith(_LANGUAGE, 0, start):
                continue
            if _GOES_ON.match(text, stop):
                continue
            kept = tuple(entry for entry in entries if _meant(entry, text, words, folded, first, end))
            if kept:
                yield _Found(first, end, kept)
                first = end - 1
                break
        first += 1


_SPOKEN = re.compile("語|语|文字|어(?![가-힣])|어로|문자")  # a language or its letters, where words are not spaced
_LANGUAGE = ("ภาษา", "อักษร", "ភាសា", "អក្សរ", "ພາສາ")  # and where it comes before
# Vowels and marks that no word begins with, where words are not spaced: the Thai for lava begins like Laos
_GOES_ON = re.compile("[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b6-\u17d3]")
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc]+")


def _within_katakana(text: str, start: int, end: int) -> bool:
    """Whether a short name is only a part of a longer word: Thailand of a tyre, Mali of a marina."""
    if end - start > 2 or not _KATAKANA.fullmatch(text, start, end):
        return False
    return any(_KATAKANA.match(text, beside, beside + 1) for beside in (start - 1, end) if 0 <= beside < len(text))


_IN = re.compile(r"\s*[,(]\s*|\s+in\s+")


@lru_cache(None)
def _words(name: str) -> frozenset[str]:
    """Words beside a name that say what it means."""
    return frozenset(gazetteer.lexicon()["beside"][name])


def _meant(
    entry: Entry, text: str, words: Sequence[re.Match[str]], folded: Sequence[str], first: int, end: int
) -> bool:
    """Whether the text at these words means the place and not the word."""
    shown = [word.group() for word in words[first:end]]
    before = folded[first - 1] if first else ""
    if entry.needs in ("upper", "code"):
        after_name = first > 0 and _gap_is(text, words, first, ", ") and words[first - 1].group()[0].isupper()
        return all(map(str.isupper, shown)) and (entry.needs == "upper" or after_name)
    if entry.demonym and shown[0][0].islower() and text[: words[first].start()].endswith("-"):
        return False  # sud-américain, afro-brasileiro
    if entry.needs == "lower":
        return shown[0][0].islower() and not _language(text, words, folded, first)
    if entry.needs and any(capital and word[0].islower() for capital, word in zip(entry.capitals, shown, strict=True)):
        return False
    if entry.needs == "context":
        return before in _words("before") or entry.countries == _country_after(text, words, folded, end)
    if entry.needs == "inside":
        inside = first > 0 and _WITHIN.issuperset(text[words[first - 1].end() : words[first].start()])
        return inside or entry.countries == _country_after(text, words, folded, end)
    if entry.demonym and end - first == 1:
        return not _language(text, words, folded, first)
    return folded[first] not in _words("names") or end - first > 1 or not _person(text, words, folded, first)


def _gap_is(text: str, words: Sequence[re.Match[str]], index: int, gap: str) -> bool:
    """Whether exactly this stands between a word and the one before it."""
    return 0 < index < len(words) and text[words[index - 1].end() : words[index].start()] == gap


def _person(text: str, words: Sequence[re.Match[str]], folded: Sequence[str], at: int) -> bool:
    """Whether a name of one word is part of a person's name (Michael Jordan), or of a person who acts (Jordan said)."""
    before, after = (folded[at - 1] if at else ""), (folded[at + 1] if at + 1 < len(words) else "")
    if _gap_is(text, words, at, " ") and words[at - 1].group()[0].isupper():
        return before not in _words("before") | _words("sides") and (before,) not in gazetteer.table()[0]
    if not _gap_is(text, words, at + 1, " ") or before in _words("before"):
        return False
    surname = (
        words[at + 1].group()[0].isupper() and after not in _words("land") and (after,) not in gazetteer.table()[0]
    )
    return after in _words("person") or surname


def _language(text: str, words: Sequence[re.Match[str]], folded: Sequence[str], at: int) -> bool:
    """Whether a demonym names a language: "Spanish text", "written in Thai"."""
    before, after = (folded[at - 1] if at else ""), (folded[at + 1] if at + 1 < len(words) else "")
    if (_gap_is(text, words, at + 1, " ") or _gap_is(text, words, at + 1, "-")) and after in _words("language_after"):
        return True
    if before in _words("language_before"):
        return not _gap_is(text, words, at + 1, " ") or after in _words("language_ends")
    return False


def _country_after(text: str, words: Sequence[re.Match[str]], folded: Sequence[str], end: int) -> tuple[str, ...]:
    """The country that a comma, a bracket or "in" sets behind a name: (US,) for Paris, Texas."""
    if not 0 < end < len(words) or not _IN.fullmatch(text, words[end - 1].end(), words[end].start()):
        return ()
    table, longest = gazetteer.table()
    for count in range(min(longest.get(folded[end], 0), len(words) - end), 0, -1):
        for entry in table.get(tuple(folded[end : end + count]), ()):
            if entry.kind in ("country", "region"):
                return entry.countries
    return ()


def mask_places(text: str, mask: str = "somewhere") -> str:
    """Put a word in the place of every place and demonym, so that the evidence is left.

    Args:
        text: any text.
        mask: what stands for a place.

    Example:
        >>> mask_places("Red soil as in Uganda, and a Japanese-style roof")
        'Red soil as in somewhere, and a somewhere-style roof'
    """
    parts, last = [], 0
    for place in find_places(text):
        parts += [text[last : place.span[0]], mask]
        last = place.span[1]
    return "".join([*parts, text[last:]])


_WIDTH = {"hemisphere": 1, "continent": 2, "country": 4, "region": 5, "city": 6}


def breadth_of(places: Iterable[Place]) -> str | None:
    """Return what part of the world places name together: the narrowest of them, or "countries" where they disagree.

    A region of several countries counts as "countries". Continents that have no country in common are "hemisphere".

    Args:
        places: as `find_places` returns them.

    Returns:
        One of `BREADTHS`, or None without places.

    Example:
        >>> [breadth_of(find_places(text)) for text in ("Oslo, Norway", "Austria or Norway", "Scandinavia", "Asia", "")]
        ['city', 'countries', 'countries', 'continent', None]
    """
    places = [place for place in places if place.countries or place.kind == "hemisphere"]
    if not places:
        return None
    members = [set(place.countries) for place in places if place.countries]
    if members and not set.intersection(*members):
        wide = all(place.kind in ("continent", "hemisphere") for place in places)
        return "hemisphere" if wide else "countries"
    return BREADTHS[max(3 if _several(place) else _WIDTH[place.kind] for place in places)]


def _several(place: Place) -> bool:
    """Whether a place is a region of several countries."""
    return place.kind == "region" and len(place.countries) > 1
