"""Whether a point says an earlier one again in other words, by the words that the two share and lack."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

from judges.contradiction import contradiction
from judges.evidence import evidence, specifics, without_quotes
from judges.glossary import Word, gloss, says_another, understand, wider
from judges.places import find_places, mask_places

__all__ = ["FEATURES", "SURE", "Said", "adds_no_word", "compared", "contrasts", "rarities", "restates"]

FEATURES = (
    *("shared", "missing", "cosine", "cosine of the glosses", "quoted", "contradicted", "letters"),
    *("whereabouts", "words", "another", "names"),
)
SURE = 0.5
"""What `restates` must reach for a point to count as restated: on chains of writers that the model has not seen the
precision is .91 there."""

_UNKNOWN, _RAREST = 4.5, 6.0  # rarity of a word that the glossary lacks, and of a concept that no statement had
_CHARACTER = 1.5  # and of a single Chinese character, which can be a part of many words
_STEM = 4  # letters that two unknown words must share from the start
_MASK = " "
_TOKEN = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff]|[^\W_\u2e80-\u9fff\uf900-\ufaff]+")  # or one Chinese letter
_WHEREABOUTS = ("place.", "dir.")


@dataclass(frozen=True)
class Said:
    """What a point says, as far as it is told from its words.

    Args:
        text: the point.
        words: those that say something, places left out.
        places: the names in it of places within a country, casefolded.
        specifics: what it quotes, its numbers and codes.
        pieces: how often it has which three or four letters in a row.
        another: whether it says that it is about a further thing.

    Example:
        >>> from judges.restatement import Said
        >>> said = Said.of("Timber poles as in Nairobi.", "en")
        >>> said.gloss, sorted(said.places)
        ('wood utility pole', ['nairobi'])
    """

    text: str
    words: tuple[Word, ...]
    places: frozenset[str]
    specifics: frozenset[str]
    pieces: Counter[str]
    another: bool

    @classmethod
    def of(cls, text: str, language: str | None) -> Said:
        """Read a point.

        Args:
            text: the point.
            language: of the glossary; None: its words are compared as they are.

        Example:
            >>> from judges.restatement import Said
            >>> [word.text for word in Said.of("The poles are made of timber.", "en").words]
            ['poles', 'timber']
        """
        return _read(text, language)

    @cached_property
    def evidence(self) -> str:
        """The point without its places and what is said of them."""
        return evidence(self.text)

    @cached_property
    def plain(self) -> str:
        """Its letters and digits, places and quotes too."""
        return _plain(self.text)

    @cached_property
    def latin(self) -> bool:
        """Whether most of its letters are Latin; to an encoder of English all texts in others are alike."""
        letters = [letter for letter in self.text if letter.isalpha()]
        return 2 * sum(letter < "\u0370" or "\u1e00" <= letter < "\u1f00" for letter in letters) >= len(letters)

    @cached_property
    def length(self) -> float:
        """Of its pieces as a vector."""
        return math.sqrt(sum(n * n for n in self.pieces.values()))

    @cached_property
    def concepts(self) -> frozenset[str]:
        """What its words can stand for."""
        return frozenset().union(*(word.concepts for word in self.words))

    @cached_property
    def wider(self) -> frozenset[str]:
        """By what else one could speak of it, less exactly."""
        return frozenset().union(*map(wider, self.concepts))

    @cached_property
    def starts(self) -> dict[str, list[Word]]:
        """Its words by their first letters."""
        found: dict[str, list[Word]] = {}
        for word in self.words:
            found.setdefault(word.text[:_STEM], []).append(word)
        return found

    @cached_property
    def gloss(self) -> str:
        """Its words in English."""
        return gloss(self.words)


@lru_cache(1 << 13)
def _read(text: str, language: str | None) -> Said:
    masked = mask_places(without_quotes(text), _MASK)
    joined = _plain(masked)
    pieces = Counter(joined[i : i + n] for n in (3, 4) for i in range(len(joined) - n + 1))
    named = (place for place in find_places(text) if place.kind not in ("country", "continent"))
    places = frozenset(text[slice(*place.span)].casefold() for place in named)
    spoken = (word for word in understand(without_quotes(text), language) if _is(word, "lang."))  # masked as places are
    words = {word.concepts or word.text: word for word in (*understand(masked, language), *spoken)}  # said twice: once
    another = says_another(without_quotes(text), language)
    return Said(text, tuple(words.values()), places, specifics(text), pieces, another)


def _plain(text: str) -> str:
    return f" {' '.join(''.join(c if c.isalnum() else ' ' for c in text.casefold()).split())} "


def compared(later: Said, earlier: Said, cosine: float, of_glosses: float) -> tuple[float, ...]:
    """What tells whether a point restates an earlier one; `FEATURES` names the numbers.

    Args:
        later: the point that may say it again.
        earlier: the point before it.
        cosine: of the two texts, places masked.
        of_glosses: of their glosses.

    Returns:
        log(1 + the rarity in sum) of the words of the later point that the earlier one has too, or has more exactly,
        and of those that it lacks (words that the glossary lacks left out); the two cosines, that of the glosses twice
        where the letters are not Latin; how many quotes, numbers
        and codes the later one adds, at most two; whether the two contradict each other; the cosine of their pieces;
        how many of the words that lack say where something is; how many words the later point has; whether it says that
        it is about a further thing; how many quotes, numbers and codes are in both, at most three.

    Example:
        >>> from judges.restatement import FEATURES, Said, compared
        >>> poles, timber = (Said.of(text, "en") for text in ("Wooden poles with two arms", "The poles are of timber"))
        >>> compared(timber, poles, 0.6, 0.8)[FEATURES.index("missing")]
        0.0
    """
    shared, lacks = _words_shared(later, earlier)
    if not (later.latin and earlier.latin) and later.gloss and earlier.gloss:
        cosine = of_glosses
    return (
        math.log1p(shared),
        math.log1p(sum(_rarity(word) for word in lacks if word.concepts)),
        cosine,
        of_glosses,
        min(len(later.specifics - earlier.specifics), 2),
        contradiction(later.evidence, earlier.evidence) is not None,
        _cosine(later, earlier),
        sum(_is(word, _WHEREABOUTS) for word in lacks),
        len(later.words),
        later.another,
        min(_names_shared(later, earlier), 3),
    )


def _words_shared(later: Said, earlier: Said) -> tuple[float, list[Word]]:
    """How rare the words are that both have, and those that only the later point has."""
    shared = [_shared(word, earlier) for word in later.words]
    return sum(shared), [word for word, there in zip(later.words, shared, strict=True) if not there]


def _names_shared(later: Said, earlier: Said) -> int:
    """How many quotes, numbers and codes are in both, also where only one of them quotes."""
    names = set(map(_plain, later.specifics | earlier.specifics))
    return sum(name in later.plain and name in earlier.plain for name in names)


def adds_no_word(later: Said, earlier: Said) -> bool:
    """Whether an earlier point has every word of a later one that the glossary knows.

    Args:
        later: the point.
        earlier: that it is held against.

    Example:
        >>> from judges.restatement import Said, adds_no_word
        >>> snow, trees = (Said.of(text, "zh") for text in ("山上有雪", "山上有树"))
        >>> adds_no_word(snow, snow), adds_no_word(trees, snow)
        (True, False)
    """
    return not any(word.concepts for word in _words_shared(later, earlier)[1])


def contrasts(later: Said, earlier: Said) -> bool:
    """Whether a point is the like of an earlier one and no more: one word is another, or it says "another".

    Args:
        later: the point.
        earlier: that it is held against.

    Example:
        >>> from judges.restatement import Said, contrasts
        >>> thai, lao, script = (Said.of(text, "en") for text in ("A sign in Thai", "A sign in Lao", "Lao on a sign"))
        >>> contrasts(lao, thai), contrasts(script, thai)
        (True, False)
    """
    return _swaps(later, earlier) or (later.another and adds_no_word(later, earlier))


def _swaps(later: Said, earlier: Said) -> bool:
    """Whether one word stands where an earlier point has another, and all else is the same."""
    mine, theirs = ([*_TOKEN.findall(said.text.casefold())] for said in (later, earlier))
    start = _common(mine, theirs)
    end = min(_common(mine[::-1], theirs[::-1]), len(mine) - start, len(theirs) - start)
    new, old = mine[start : len(mine) - end], theirs[start : len(theirs) - end]
    if not new or not old or max(len(new), len(old)) > max(1, start + end) or max(map(_letters, (new, old))) > 1:
        return False
    said = " ".join(word.text for word in later.words)
    return any(word in said for word in new) and not _alike("".join(new), "".join(old))


def restates(later: Said, earlier: Said, cosine: float, of_glosses: float) -> float:
    r"""How likely a point says an earlier one again and nothing else.

    0 where the two share no word, and where one `contrasts` with the other; else, with x the numbers of `compared`:

    .. math::
        p = \frac{1}{1 + e^{-(w \cdot x + b)}}

    w and b are fitted to pairs of points and to chains written for it, with the cosines of all-MiniLM-L6-v2; ``python
    -m benchmarks.restatements`` shows how well it tells those of one writer after learning from the others.

    Args:
        later: the point that may say it again.
        earlier: the point before it.
        cosine: of the two texts, places masked.
        of_glosses: of their glosses.

    Returns:
        A probability; from `SURE` on the point counts as restated.

    Example:
        >>> from judges.restatement import Said, restates
        >>> said = [Said.of(text, "en") for text in ("Wooden poles", "Poles of timber", "Poles, two dogs")]
        >>> poles, timber, dogs = said
        >>> restates(timber, poles, 0.6, 0.8) > 0.5, restates(dogs, poles, 0.3, 0.3) > 0.5
        (True, False)
    """
    x = compared(later, earlier, cosine, of_glosses)
    if not x[0] or contrasts(later, earlier):
        return 0.0
    model = _model()
    return 1 / (1 + math.exp(-(sum(w * value for w, value in zip(model["weights"], x, strict=True)) + model["bias"])))


def _is(word: Word, kind: str | tuple[str, ...]) -> bool:
    """Whether a word can stand for a concept of a kind."""
    return any(concept.startswith(kind) for concept in word.concepts)


def _shared(word: Word, earlier: Said) -> float:
    """How much of a word a point has: how rare is what it says too, or else says more exactly, or a word like it."""
    both = word.concepts & earlier.concepts or word.concepts & earlier.wider
    if both:
        return min(max(map(_rare, both)), _CHARACTER if _character(word) else math.inf)
    alike = any(_same(word, other) for other in earlier.starts.get(word.text[:_STEM], ()))
    return _rarity(word) if alike else 0.0


def _same(one: Word, other: Word) -> bool:
    """Whether two words that start alike differ in their endings only; what both mean tells, where that is known."""
    if one.concepts and other.concepts:
        return False
    return _alike(one.text, other.text)


def _alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return short == long or _common(short, long) >= max(_STEM, 0.6 * len(short))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many letters, or words, of two are the same from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _letters(words: list[str]) -> float:
    """How many words these are; in Chinese and Japanese five letters count as one."""
    return sum(0.2 if len(word) == 1 and word >= "\u2e80" else 1 for word in words)


def _rare(concept: str) -> float:
    return float(_model()["rarity"].get(concept, _RAREST))


def _rarity(word: Word) -> float:
    if _character(word):
        return _CHARACTER
    return min(map(_rare, word.concepts), default=_UNKNOWN)


def _character(word: Word) -> bool:
    return len(word.text) == 1 and word.text >= "\u2e80"


def _cosine(a: Said, b: Said) -> float:
    lengths = a.length * b.length
    common = a.pieces.keys() & b.pieces.keys()
    return sum(a.pieces[piece] * b.pieces[piece] for piece in common) / lengths if lengths else 0.0


def rarities(statements: Sequence[Sequence[Word]]) -> dict[str, float]:
    """How rare each concept is: log of the share of statements that have it, negated.

    Args:
        statements: the words of each.

    Example:
        >>> from judges.glossary import understand
        >>> from judges.restatement import rarities
        >>> rarities([understand("red soil", "en"), understand("red roofs", "en")])["colour.red"]
        0.0
    """
    having = Counter(concept for words in statements for concept in {c for word in words for c in word.concepts})
    return {concept: math.log((1 + len(statements)) / (1 + count)) for concept, count in sorted(having.items())}


@lru_cache(1)
def _model() -> dict[str, Any]:
    return dict(json.loads((files("judges") / "data" / "restatements.json").read_text(encoding="utf-8")))
