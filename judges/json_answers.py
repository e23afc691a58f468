"""Read the fragments of a chain out of an answer in JSON, also where it breaks off."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache

from judges.sentences import clean, sentences, words


@dataclass(frozen=True)
class Fragment:
    """A part of the text that says one thing; `role` is "point" or "conclusion"."""

    start: int
    end: int
    text: str
    role: str
    thought: bool = False  # inside <think>
    label: str = ""  # "details" such as a country, "confidence"


_TOKEN = re.compile(
    r'"(?:[^"\\]|\\(?:.|$))*(?P<end>"|$)|'
    # single quotes as Python prints them, not those of a sentence: no line ends inside, and something of a list behind
    r"'(?:[^'\\\n]|\\.)*(?P<end_single>'(?=\s*(?:[,:\]}]|$))|$)|"
    r"""[{}\[\]:,]|[^\s"'{}\[\]:,][^\s"{}\[\]:,]*""",
    re.DOTALL,
)
_QUOTES = ('"', "'")
_COLON = re.compile(r"\s*:")
_OPEN, _CLOSE = "{[", "}]"
_DEPTH = 40  # deeper than any answer


@lru_cache(1)
def _known() -> dict[str, frozenset[str]]:
    """The keys of each kind."""
    return {name: frozenset(entries) for name, entries in words().items() if isinstance(entries, list)}


@dataclass
class _Level:
    """An open object or list, and where its fragments begin."""

    names: frozenset[str] = frozenset()  # of this and all around it
    outer: frozenset[str] = frozenset()  # without the name that is nearest
    ranking: bool = False  # a list of guesses
    record: bool = False  # an object that is one clue, as those in a list are
    starts: list[int] = field(default_factory=list)  # of each key's fragments

    def inner(self, key: str, shown: str) -> _Level:
        named = (self.names | {key}, self.names) if key else (self.names, self.outer)
        return _Level(*named, ranking=shown == "[" and key in _known()["ranking"])


def json_fragments(text: str, start: int, thought: bool) -> tuple[list[Fragment], int, bool] | None:
    """Fragments of JSON that starts here, where it ends, and whether a string is left open; None if it is no JSON.

    A reader of tokens rather than `json.loads`: answers are cut by the limit of tokens, and spans are needed. Also
    single quotes, as Python prints them.
    """
    found: list[Fragment] = []
    levels: list[_Level] = []
    key, known, last = "", _known(), start
    others = 0  # the depth of a list of guesses of which the first has been read
    for token in _TOKEN.finditer(text, start):
        shown, last = token.group(), token.end()
        if shown in _OPEN:
            if len(levels) == _DEPTH:
                return None
            within = levels[-1] if levels else _Level()
            levels.append(within.inner(key, shown))
            levels[-1].record = len(levels) > 1 and shown == "{" and not key
            key = ""
        elif shown in _CLOSE:
            if levels:
                others = 0 if len(levels) == others else others
                _join(found, levels.pop())
            key = ""
            if not levels:
                return (found, last, False) if found else None
        elif shown == ",":
            key = ""
            if not others and levels and levels[-1].ranking:
                others = len(levels)
        elif shown[0] in _QUOTES and _COLON.match(text, last):
            key = shown.strip(shown[0]).strip().lower().replace("_", " ")
        elif shown != ":" and (shown[0] in _QUOTES or key in known["confidence"] or key in known["details"]):
            if not (levels and all(map(str.isprintable, key))):
                return None
            read = [] if others else _value(text, token, key, levels[-1], thought)
            if read and key:
                levels[-1].starts.append(len(found))
                levels[-1].record |= key in known["implications"]
            found += read
            if shown[0] in _QUOTES and not _ended(token):
                return found, last, True
    return (found, last, False) if found else None


def _join(found: list[Fragment], level: _Level) -> None:
    """Make one point of a record: what is seen, and what it suggests."""
    if not level.record or len(level.starts) < 2 or any(part.role != "point" for part in found[level.starts[0] :]):
        return
    ends = [*level.starts[1:], len(found)]
    said = [" ".join(part.text for part in found[start:end]) for start, end in zip(level.starts, ends, strict=True)]
    shown = ": ".join([*(one.rstrip(".。:;") for one in said[:-1]), said[-1]])
    found[level.starts[0] :] = [replace(found[level.starts[0]], end=found[-1].end, text=shown)]


def _ended(token: re.Match[str]) -> bool:
    """Whether the string has its closing quote."""
    return bool(token["end"] or token["end_single"])


def _value(text: str, token: re.Match[str], key: str, level: _Level, thought: bool) -> list[Fragment]:
    """Fragments of one value of a JSON object or list."""
    known, names = _known(), level.names | {key}
    shown = token.group()
    start, end = token.start(), token.end()
    if shown[0] in _QUOTES:
        single = shown[0] == "'"
        start, end = start + 1, end - _ended(token)
        shown = text[start:end]
        if single:
            shown = shown.replace("\\'", "'").replace('"', '\\"')
        with suppress(ValueError):  # cut inside an escape
            shown = str(json.loads(f'"{shown}"', strict=False))
    shown = clean(shown)
    concluding = not names.isdisjoint(known["conclusion"] | known["ranking"])
    within = not (level.names if key else level.outer).isdisjoint(known["reasoning"])
    if not any(map(str.isalnum, shown)) or key in known["skipped_keys"]:
        return []
    if not within and (concluding or key in known["details"]):
        label = "details" if key in known["details"] else "confidence" if key in known["confidence"] else ""
        return [Fragment(start, end, shown, "conclusion", thought, label)]
    if key in known["confidence"]:
        return [] if within else [Fragment(start, end, shown, "conclusion", thought, "confidence")]
    if key in known["details"]:
        return []
    if key and "\\" not in text[start:end]:  # a text under its own name; entries of a list are points already
        return [Fragment(i, j, clean(text[i:j]), "point", thought) for i, j in sentences(text, start, end)]
    return [Fragment(start, end, shown, "point", thought)]
