"""Whether two points say opposite things of the same thing, by word lists: what sentence similarity cannot see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from judges.opposites import (
    ABSENT_WORDS,
    ATTRIBUTES,
    CLAUSE_WORDS,
    COPULA_WORDS,
    FOREIGN_WORDS,
    GENERIC_WORDS,
    NEGATION_IDIOMS,
    NEGATORS,
    POSITION_WORDS,
    PREDICATE_WORDS,
    SIDE_IDIOMS,
    SIDE_TOPICS,
    SIDES,
    STOP_WORDS,
    SYNONYMS,
    VERBS,
)

__all__ = ["contradiction", "in_english"]

_TOKEN = re.compile(r"[^\W\d_]+|\d+|[,.;:!?()/]")
_SHARED_WORDS = frozenset(
    {"no", "a", "as", "do", "on", "in", "an", "so", "her"}
)  # English words of other languages too
_ENGLISH_WORDS = STOP_WORDS - _SHARED_WORDS
_BREAKS = frozenset(",.;:!?()/")
_JOINTS = frozenset({"and", "or", "on", ",", "/"})  # "black on yellow" has both
_SAME_TOPIC = 0.6  # share of common words from which two sides are said of the same thing
_SAME_CLAUSE = 0.75  # and from which a denied clause denies the other


@dataclass(frozen=True)
class _Mention:
    """A value said of a thing: ("colour", [{"white"}, {"red"}], "plate", {"front"})."""

    aspect: str
    values: tuple[frozenset[str], ...]
    head: str
    modifiers: frozenset[str]
    denied: bool

    def same_thing(self, other: _Mention) -> bool:
        """Same aspect and head, and no modifiers that tell the two apart (front plates, rear plates)."""
        mine, theirs = self.modifiers, other.modifiers
        return (self.aspect, self.head) == (other.aspect, other.head) and (
            not mine or not theirs or not mine.isdisjoint(theirs)
        )

    def agrees(self, other: _Mention) -> bool:
        """Every value of the shorter list can pass for one of the other, and both say it or both deny it."""
        few, many = sorted((self.values, other.values), key=len)
        alike = all(any(value & another for another in many) for value in few)
        return alike == (self.denied == other.denied)


@dataclass(frozen=True)
class _Side:
    side: str
    topic: str | None
    words: frozenset[str]
    denied: bool

    def same_thing(self, other: _Side) -> bool:
        """Same topic, or without one clauses of mostly the same words."""
        if self.topic and other.topic:
            return self.topic == other.topic
        return _overlap(self.words, other.words) >= _SAME_TOPIC

    def agrees(self, other: _Side) -> bool:
        """The same side, said or denied by both, or one side said and the other denied."""
        return (self.side == other.side) == (self.denied == other.denied)


Claim = TypeVar("Claim", _Mention, _Side)
Found = TypeVar("Found", _Mention, _Side, frozenset[str])


@dataclass(frozen=True)
class _Parsed:
    mentions: tuple[_Mention, ...]
    sides: tuple[_Side, ...]
    things: tuple[frozenset[str], ...]  # noun phrases that are there
    absent: tuple[frozenset[str], ...]  # noun phrases that are said not to be there
    said: tuple[frozenset[str], ...]  # words of the clauses without a denial
    denied: tuple[frozenset[str], ...]  # and with one


def contradiction(a: str, b: str) -> str | None:
    """The aspect in which two short texts say opposite things of the same thing, or None.

    A value (colour, number, material) belongs to the noun it stands before ("wooden poles") or is said of ("the poles
    are made of wood"). Two values contradict only if the nouns are the same, no modifier tells them apart (front and
    rear plates), and each text has nothing of that noun that agrees with the other. Sides contradict within one topic
    (traffic, steering wheel, sun) or between clauses of mostly the same words; a denial ("no bollards", "bollards are
    not visible") contradicts a noun phrase that contains all its words, or a clause of mostly the same words.

    Args:
        a: a point, place names masked.
        b: another.

    Returns:
        "side", "colour", "number", "material" or "negation"; None where nothing is known to contradict. English only:
        other languages are never contradicted.

    Example:
        >>> from judges.contradiction import contradiction
        >>> contradiction("Cars drive on the left.", "Traffic keeps to the right.")
        'side'
        >>> contradiction("red roofs", "white plates beside a red soil") is None
        True
    """
    first, second = _parse(a), _parse(b)
    sides = _opposed(first.sides, second.sides)
    if sides:
        return "side" if sides[0].side != sides[1].side else "negation"
    values = _opposed(first.mentions, second.mentions)
    if values:
        return "negation" if values[0].denied != values[1].denied else values[0].aspect
    return "negation" if _denies(first, second) or _denies(second, first) else None


def in_english(text: str) -> bool:
    """Whether a text is in English, as far as its small words and its letters tell.

    Example:
        >>> in_english("Red soil and poles."), in_english("Rote Erde und Masten."), in_english("屋根は黒い")
        (True, False, False)
    """
    foreign = _foreign(_TOKEN.findall(text.lower()))
    return foreign < 0 or (foreign == 0 and text.isascii())


def _foreign(tokens: list[str]) -> int:
    """How many more small words of other languages there are than English ones."""
    return sum(word in FOREIGN_WORDS for word in tokens) - sum(word in _ENGLISH_WORDS for word in tokens)


def _opposed(mine: Sequence[Claim], theirs: Sequence[Claim]) -> tuple[Claim, Claim] | None:
    """Two claims about one thing of which neither agrees with anything that the other text says of it."""
    for one in mine:
        rivals = [other for other in theirs if one.same_thing(other)]
        if any(one.agrees(rival) for rival in rivals):
            continue
        for rival in rivals:
            if not any(rival.agrees(claim) for claim in mine if claim.same_thing(rival)):
                return one, rival
    return None


def _denies(a: _Parsed, b: _Parsed) -> bool:
    # Where both deny something of the kind, they agree: "no centre line", "without a line in the middle".
    missing = [phrase for phrase in a.absent if not any(phrase <= other or other <= phrase for other in b.absent)]
    return any(phrase <= thing for phrase in missing for thing in b.things) or any(
        len(clause) > 1 and _overlap(clause, other) >= _SAME_CLAUSE for clause in a.denied for other in b.said
    )


def _denial(words: list[str]) -> bool:
    return any(word in NEGATORS and not NEGATION_IDIOMS & set(words[at + 1 : at + 2]) for at, word in enumerate(words))


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / max(1, len(a | b))


@lru_cache(maxsize=20_000)
def _parse(text: str) -> _Parsed:
    text = re.sub(r"n['’]t\b", " not", text.lower())
    text = re.sub(r"\bnot (?:one|a single)\b(?! but)", "no", text)
    tokens = _TOKEN.findall(re.sub(r"\b(rather than|instead of)\b", " without ", text))
    if _foreign(tokens) > 0:
        return _Parsed((), (), (), (), (), ())
    words = [_stem(word) for word in tokens]
    absent_at: set[int] = set()
    absent = [phrase for at in range(len(words)) for phrase in _absent(words, at, absent_at)]
    things: list[frozenset[str]] = []
    said: list[frozenset[str]] = []
    denied: list[frozenset[str]] = []
    sides: list[_Side] = []
    start = 0
    for end in range(len(words) + 1):
        if end < len(words) and words[end] not in _BREAKS and words[end] not in CLAUSE_WORDS:
            continue
        clause = words[start:end]
        content = frozenset(word for word in clause if word not in STOP_WORDS)
        (denied if _denial(clause) else said).append(content)
        sides += _sides(clause)
        start = end + 1
    at = 0
    while at < len(words):
        run = _run(words, at)
        if run and not absent_at & set(range(at, at + len(run))):
            things.append(frozenset(run))
        at += len(run) + 1
    return _Parsed(_once(_mentions(words)), _once(sides), _once(things), _once(absent), _once(said), _once(denied))


def _once(said: Sequence[Found]) -> tuple[Found, ...]:
    """What is said, without what a long text says again: two texts are compared one with each."""
    return tuple(dict.fromkeys(said))


def _stem(word: str) -> str:
    """Singular, and one name for each thing."""
    if word not in STOP_WORDS and word not in VERBS and len(word) > 3:
        if word.endswith("ies"):
            word = word[:-3] + "y"
        elif re.search(r"(ss|x|ch|sh|us)es$", word):
            word = word[:-2]
        elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
            word = word[:-1]
    return SYNONYMS.get(word, word)


def _run(words: list[str], at: int) -> list[str]:
    """The content words from a position on, up to the first that ends a noun phrase."""
    end = at
    while end < len(words) and not (words[end] in STOP_WORDS or words[end] in VERBS or words[end] in _BREAKS):
        end += 1
    return words[at:end]


def _run_before(words: list[str], at: int) -> list[str]:
    """The content words that end where a predicate said of them begins."""
    while at > 0 and (words[at - 1] in COPULA_WORDS or _value(words[at - 1])):
        at -= 1
    start = at
    while start > 0 and _run(words, start - 1):
        start -= 1
    return words[start:at]


def _value(word: str) -> tuple[str, frozenset[str]] | None:
    if word.isdecimal():
        return "number", frozenset({word.lstrip("0") or "0"})
    return next(((aspect, table[word]) for aspect, table in ATTRIBUTES.items() if word in table), None)


def _mentions(words: list[str]) -> tuple[_Mention, ...]:
    mentions = []
    at = 0
    while at < len(words):
        value = _value(words[at])
        if value is None:
            at += 1
            continue
        aspect, values, after = value[0], [value[1]], at + 1
        while after < len(words):  # red, white and blue
            joint = words[after] in _JOINTS and after + 1 < len(words)
            another = _value(words[after + joint])
            if another is None or another[0] != aspect:
                break
            values.append(another[1])
            after += joint + 1
        run = _run(words, after)
        denied = _denial(words[max(0, at - 2) : at])
        if not run and words[at] != "one" and (after >= len(words) or words[after] != "of"):
            run = _run_before(words, at)
        if run:
            modifiers = frozenset(run[:-1]) - GENERIC_WORDS | _position(words, after + len(run))
            mentions.append(_Mention(aspect, tuple(values), run[-1], modifiers, denied))
        at = after
    return tuple(mentions)


def _position(words: list[str], at: int) -> frozenset[str]:
    """Where the thing is whose phrase ends here: "in the middle", "along each outer edge"."""
    end = at
    while end < len(words) and end < at + 5 and not (words[end] in _BREAKS or words[end] in CLAUSE_WORDS):
        end += 1
    return POSITION_WORDS & frozenset(words[at:end])


def _absent(words: list[str], at: int, seen: set[int]) -> list[frozenset[str]]:
    """What the negator at this position says is not there; the positions of those words are added to ``seen``."""
    if not _denial(words[at : at + 2]) or words[at] not in NEGATORS:
        return []
    if ABSENT_WORDS & set(words[at : at + 5]):
        return []
    after = at + 1
    verbs = {"have", "has", "show", "see", "any", "a", "an", "the", "of", "be", "visible"}
    while after < len(words) and words[after] in verbs:
        after += 1
    found = []
    while True:
        run = _run(words, after)
        if not run or all(_value(word) for word in run) or (words[at] == "not" and after == at + 1):
            break
        found.append(frozenset(run) - (GENERIC_WORDS - set(run[-1:])))
        seen.update(range(after, after + len(run)))
        after += len(run)
        if after >= len(words) or words[after] not in ("or", "nor"):
            break
        after += 1
    said = words[at] in ("absent", "missing", "forbidden", "prohibited")
    subject = said or (at + 1 < len(words) and words[at + 1] in PREDICATE_WORDS)
    if not found and subject:
        run = _run_before(words, at)
        before = at
        while before > 0 and words[before - 1] in COPULA_WORDS:
            before -= 1
        seen.update(range(before - len(run), before))
        if run:
            found.append(frozenset(run) - (GENERIC_WORDS - set(run[-1:])))
    return found


def _sides(clause: list[str]) -> list[_Side]:
    sides = []
    for at, word in enumerate(clause):
        after = clause[at + 1 : at + 3]
        if word not in SIDES or after == ["of", "way"] or set(after[:1]) & SIDE_IDIOMS:
            continue
        words = frozenset(clause) - STOP_WORDS - {word, "side", "hand"}
        known = words | ({"hand_drive"} if after == ["hand", "drive"] else set())
        topic = next((name for name, cues in SIDE_TOPICS.items() if cues & known), None)
        if (SIDES[word] in ("north", "south")) == (topic in ("sun", "shadow")):
            sides.append(_Side(SIDES[word], topic, words, _denial(clause[:at])))
    return sides
