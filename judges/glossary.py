"""What the words of a description mean, in 22 languages: a glossary of what street-level photos show.

``data/glossary/<language>.tsv`` lists for each concept (``veg.palm``) the words by which that language names it; a word
that ends in ``*`` is a stem. ``concepts.tsv`` says in English what each concept is. Concepts that only some languages
list are called ``own.<what it is in English>``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Word", "gloss", "language", "says_another", "understand", "wider"]

# The vowel signs and accents of many scripts are no letters to `re`.
_MARKS = (
    r"\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0980-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece\u102b-\u103e"
    r"\u17b4-\u17d3\u200c\u200d"
)
_TOKEN = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}])*")
_UNSPACED = re.compile(r"[\u2e80-\u2fff\u3005-\u3007\u3040-\u9fff\uf900-\ufaff]+")  # Chinese and Japanese
_SIDES = "左右"
_KANA = re.compile(r"[\u3040-\u30ff]")
_SMALL = re.compile(r"[\u0000-\u007f\u3040-\u309f]*")  # letters that alone say nothing: a, の
_ENDING = 6  # letters that may follow a stem
_STEM = 4  # letters of the shortest
_LONGEST = 40  # of a compound
_COMPOUNDING = ("de", "fi", "hu", "nl", "sv")  # languages that write a noun and what it is of as one word
_ASPECTS = ("colour.", "lang.", "material.", "num.", "shape.", "side.", "size.")  # a thing has one of them, or few
_STOP, _ANOTHER = "stop", "another"
_NUMBERS = "num.eight"  # the row of those from eight on; they are rarely said in two ways, so each word is its own
_CONNECTING = frozenset({_STOP, _ANOTHER})
_REMEMBERED = 1 << 14


class Word(NamedTuple):
    """A word, or a few that are one term, of a text.

    Args:
        text: casefolded; that of the whole for a part of a term.
        concepts: what it can stand for; none where the glossary lacks it.

    Example:
        >>> from judges.glossary import Word
        >>> Word("timber", frozenset({"material.wood"})).text
        'timber'
    """

    text: str
    concepts: frozenset[str]


class _Glossary:
    """The words of one language."""

    def __init__(self, code: str) -> None:
        self.terms: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)  # by first word, whole
        self.stems: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)  # or its stem
        self.unspaced: dict[str, set[str]] = defaultdict(set)
        table = (files("judges") / "data" / "glossary" / f"{code}.tsv").read_text(encoding="utf-8")
        for line in table.splitlines():
            row, listed = line.split("\t")
            for term in listed.split(", "):
                concept = f"num.{term.rstrip('*')}" if row == _NUMBERS else row
                if _UNSPACED.match(term):
                    self.unspaced[term].add(concept)
                    continue
                first, *rest = re.findall(r"[^\W_]+\*?", term)
                table_of = self.stems if first.endswith("*") else self.terms
                table_of[first.rstrip("*")].append((tuple(rest), concept))
        self.compounds = code in _COMPOUNDING
        self.longest = max(map(len, self.unspaced), default=0)

    def knows(self, word: str) -> bool:
        return any(not rest for _, rest, _ in self._starting(word))

    def words(self, text: str) -> Iterator[Word]:
        """The words of a text, the longest terms first; a term of several is also what its parts are."""
        if self.unspaced:
            for run in _UNSPACED.findall(text):
                yield from self._unspaced_words(run)
            text = _UNSPACED.sub(" ", text)
        tokens = _TOKEN.findall(text)
        at = 0
        while at < len(tokens):
            found = [
                ((len(rest), len(head)), concept)
                for head, rest, concept in self._starting(tokens[at])
                if all(map(_matches, rest, tokens[at + 1 :])) and len(rest) < len(tokens) - at
            ]
            best = max((size for size, _ in found), default=(0, 0))
            concepts = {concept for size, concept in found if size == best}
            end = at + 1 + best[0]
            parts: list[set[str]] = []
            if end > at + 1 and concepts - _CONNECTING:
                parts = [self._single(token) for token in tokens[at:end]]
            elif not concepts and self.compounds and len(tokens[at]) <= _LONGEST:
                parts = self._parts(tokens[at])
            term = " ".join(tokens[at:end])
            for part in parts:  # colours, sides and the like are words of their own
                values = frozenset(concept for concept in part - concepts if concept.startswith(_ASPECTS))
                if values:
                    yield Word(term, values)
                concepts |= part - values
            if concepts or not any(parts):
                yield Word(term, frozenset(concepts))
            at = end

    def _parts(self, token: str) -> list[set[str]]:
        """What the two parts of a compound are, or the first one: Holzbalkone, Schieferverkleidung."""
        cuts = range(len(token) - _STEM, _STEM - 1, -1)
        both = [(self._single(token[:cut], ending=1), self._single(token[cut:])) for cut in cuts]  # a linking letter
        known = sorted((one for one in both if one[0]), key=lambda one: not one[1])  # both first
        return list(known[0]) if known else []

    def _single(self, token: str, ending: int = _ENDING) -> set[str]:
        alone = [(len(head), concept) for head, rest, concept in self._starting(token, ending) if not rest]
        longest = max((size for size, _ in alone), default=0)
        return {concept for size, concept in alone if size == longest} - _CONNECTING

    def _starting(self, token: str, ending: int = _ENDING) -> Iterator[tuple[str, tuple[str, ...], str]]:
        for rest, concept in self.terms.get(token, ()):
            yield token, rest, concept
        for end in range(len(token), max(1, len(token) - ending - 1), -1):
            for rest, concept in self.stems.get(token[:end], ()):
                yield token[:end], rest, concept

    def _unspaced_words(self, run: str) -> Iterator[Word]:
        at = 0
        while at < len(run):
            ends = range(min(len(run), at + self.longest), at, -1)
            end = next((end for end in ends if run[at:end] in self.unspaced), at + 1)
            yield Word(run[at:end], frozenset(self.unspaced.get(run[at:end], ())))
            if end > at + 1:  # of its parts only the sides: 靠右行驶 is traffic and right, but 火车 is no fire
                sides = (Word(part, frozenset(self.unspaced.get(part, ()))) for part in run[at:end] if part in _SIDES)
                yield from sides
            at = end


def _matches(term: str, token: str) -> bool:
    if term.endswith("*"):
        return token.startswith(term[:-1]) and len(token) - len(term) < _ENDING
    return token == term


@lru_cache(1)
def _codes() -> tuple[str, ...]:
    folder = files("judges") / "data" / "glossary"
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"[a-z]{2}\.tsv", entry.name))
    return tuple(name[:2] for name in names)


@lru_cache(None)
def _glossary(code: str) -> _Glossary:
    return _Glossary(code)


@lru_cache(_REMEMBERED)
def _spoken(token: str) -> tuple[str, ...]:
    """The languages that know a word."""
    return tuple(code for code in _codes() if _glossary(code).knows(token))


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()  # this takes some letters apart
    return unicodedata.normalize("NFKC", folded).replace("\u0307", "")  # the dot of a capital İ


def language(texts: Iterable[str]) -> str | None:
    """The language of the glossary that knows most words of some texts.

    Args:
        texts: all of one language, such as the points of a chain.

    Returns:
        ISO 639-1 code; None where no language knows a word.

    Example:
        >>> from judges.glossary import language
        >>> language(["Rote Erde.", "Masten aus Holz."]), language(["屋根は黒い"]), language(["..."])
        ('de', 'ja', None)
    """
    text = _normal(" ".join(texts))
    unspaced = "".join(_UNSPACED.findall(text))
    if len(unspaced) * 2 > len("".join(_TOKEN.findall(text))):
        return "ja" if len(_KANA.findall(text)) * 8 > len(unspaced) else "zh"  # a Chinese text may quote some
    known = Counter(code for token in _TOKEN.findall(text) for code in _spoken(token))
    return max(sorted(known), key=lambda code: (known[code], code == "en"), default=None)


@lru_cache(_REMEMBERED)
def understand(text: str, code: str | None) -> tuple[Word, ...]:
    """The words of a text that say something of a scene, with the concepts that they can stand for.

    Args:
        text: a statement, place names masked or not.
        code: its language, as `language` gives it; None: no word is understood.

    Returns:
        Its words in their order, without those that only connect (articles, "there is", "in the photo") and without
        short ones that the glossary lacks.

    Example:
        >>> from judges.glossary import understand
        >>> understand("The poles are made of timber", "en")[1]
        Word(text='timber', concepts=frozenset({'material.wood'}))
    """
    text = _normal(text)
    found = _glossary(code).words(text) if code else (Word(token, frozenset()) for token in _TOKEN.findall(text))
    said = (word for word in found if not word.concepts or word.concepts - _CONNECTING)
    told = (Word(word.text, word.concepts - _CONNECTING) for word in said)
    return tuple(word for word in told if word.concepts or len(word.text) > 2 or not _SMALL.fullmatch(word.text))


def says_another(text: str, code: str | None) -> bool:
    """Whether a text says that it is about a further thing: "the next pole", "is yellow too".

    Args:
        text: a statement.
        code: its language, as `language` gives it; None: it does not.

    Example:
        >>> from judges.glossary import says_another
        >>> says_another("The next pole is of wood.", "en"), says_another("Der Mast ist hölzern.", "de")
        (True, False)
    """
    return code is not None and any(_ANOTHER in word.concepts for word in _glossary(code).words(_normal(text)))


@lru_cache(1)
def _concepts() -> dict[str, list[str]]:
    """Of each concept what it is in English, its meaning at length, and what is near to it."""
    table = (files("judges") / "data" / "glossary" / "concepts.tsv").read_text(encoding="utf-8")
    return {line.split("\t")[0]: line.split("\t")[1:] for line in table.splitlines()}


@lru_cache(1 << 12)
def wider(concept: str) -> frozenset[str]:
    """The concepts by which one could speak of another less exactly.

    Args:
        concept: its id.

    Example:
        >>> from judges.glossary import wider
        >>> sorted(wider("veg.oak")), wider("own.something")
        (['veg.deciduous', 'veg.tree'], frozenset())
    """
    known = _concepts().get(concept)
    return frozenset(known[2].split(", ")) - {""} if known else frozenset()


def gloss(words: Sequence[Word]) -> str:
    """Words in English, as far as the glossary has them: an English encoder can tell something of any language then.

    Args:
        words: as `understand` gives them.

    Returns:
        The first concept of each word in English, other words as they are; no grammar.

    Example:
        >>> from judges.glossary import gloss, understand
        >>> gloss(understand("Die Masten sind hölzern.", "de")), gloss(understand("timber poles", "en"))
        ('utility pole wood', 'wood utility pole')
    """
    known, said = _concepts(), []
    for word in words:
        first = min(word.concepts, key=lambda concept: (concept.startswith("own."), concept), default=None)
        english = word.text if first is None else first.split(".")[1].replace("_", " ")
        said.append(known[first][0] if first in known else english)
    return " ".join(said)
