"""Where sentences end, and what remains of a text without its markdown."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(1)
def words() -> dict[str, Any]:
    """Words that carry structure, hedges and categories, in several languages."""
    return json.loads((files("judges") / "data" / "words.json").read_text(encoding="utf-8"))


_END = re.compile(
    r"(?:(?<![.!?…])[.!?…]+[\"'”’»)\]*_]*(?=\s|$)|[。！？｡]+[」』”’）)]*|[؟۔।॥]+[\"'”’»)]*)\s*|"
    r"\n\s*\n\s*"
)


def sentences(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Split a text at full stops of many scripts, but not at abbreviations, initials and decimals.

    Args:
        text: any text.
        start: first character of the part that is split.
        end: the one after its last; by default that of the text.

    Returns:
        First character and the one after the last of each sentence, without the space around it.

    Example:
        >>> text = "Poles of approx. 2.5 m, e.g. in Peru. 道は赤い。木は高い"
        >>> [text[start:end] for start, end in sentences(text)]
        ['Poles of approx. 2.5 m, e.g. in Peru.', '道は赤い。', '木は高い']
    """
    end = len(text) if end is None else end
    spans = []
    for stop in _END.finditer(text, start, end):
        if stop.group()[0] in ".…" and _goes_on(text, start, stop):
            continue
        spans.append((start, stop.end()))
        start = stop.end()
    spans.append((start, end))
    return [span for span in (trim(text, *span) for span in spans) if span[0] < span[1]]


def _goes_on(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a dot belongs to a word and not to the sentence."""
    before = re.search(r"[\w.]*$", text[max(start, stop.start() - 12) : stop.start()])
    word = before.group() if before else ""
    following = text[stop.end() : stop.end() + 1]
    if not following:
        return False
    if stop.group().rstrip() != ".":
        return stop.group().startswith(("..", "…")) and following.islower()
    if word.casefold() in words()["abbreviations"] or (word[-1:].isupper() and len(word.split(".")[-1]) == 1):
        return True
    number = stop.start() - start < 8 and not text[start : stop.start()].strip(" \t0123456789#*-")  # of a list
    return number or (following.islower() and len(word) < 3)


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The same part of a text without the space around it."""
    piece = text[start:end]
    stripped = piece.strip()
    start += len(piece) - len(piece.lstrip())
    return start, start + len(stripped)


_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^()\n]{0,500}\)")
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,60}>")
_MARKDOWN = re.compile(r"\*\*+|(?<!\w)\*|\*(?!\w)|`+|~~|(?<!\w)_+|(?<!_)_+(?!\w)|^#{1,6}\s")
_LATEX = re.compile(r"\\(?:boxed|text(?:bf|it|tt)?|emph|mathbf|mathrm)\s*\{")


def clean(text: str) -> str:
    """The words without markdown, tags and line breaks."""
    text, latex = _LATEX.subn("", text)
    text = _MARKDOWN.sub("", _TAG.sub(" ", _LINK.sub(r"\1", text)))
    return " ".join((text.replace("}", "").replace("$", "") if latex else text).split())


def is_talk(text: str) -> bool:
    """Whether a text only says that its author begins to think, as in "Let's look at the image step by step"."""
    known = words()
    said = _WORD.findall(text.casefold())
    if any(phrase in text for phrase in known["talk_unspaced"]):
        return len(text) < 30
    return 1 < len(said) < 25 and said[0] in known["talk_opens"] and set(known["talk"]).issuperset(said)


@lru_cache(1)
def _lexicon() -> tuple[dict[tuple[str, ...], list[str]], int]:
    """{words: the lists that they are in}, and the most words of an entry."""
    entries: dict[tuple[str, ...], list[str]] = {}
    lists = {name: words()[name] for name in ("hedges", "everywhere")} | words()["categories"]
    for name, phrases in lists.items():
        for phrase in phrases:
            entries.setdefault(tuple(_WORD.findall(phrase.casefold())), []).append(name)
    return entries, max(map(len, entries))


_WORD = re.compile(r"\w+")


NO_EVIDENCE = ("hedges", "everywhere")
"""The lists of `mentions` that are no categories of evidence."""


def mentions(text: str) -> list[tuple[str, int, int]]:
    """The words of our lists in a text.

    Returns:
        Name of the list ("hedges", "everywhere" or a category), first character and the one after the last; the
        longest entry at each word, in the order of the text.

    Example:
        >>> mentions("Probably red soil")
        [('hedges', 0, 8), ('geology', 9, 17)]
    """
    entries, longest = _lexicon()
    found = list(_WORD.finditer(text))
    said = [word.group().casefold() for word in found]
    named: list[tuple[str, int, int]] = []
    first = 0
    while first < len(said):
        for count in range(min(longest, len(said) - first), 0, -1):
            names = entries.get(tuple(said[first : first + count]))
            if names:
                named += [(name, found[first].start(), found[first + count - 1].end()) for name in names]
                first += count - 1
                break
        first += 1
    for name in ("hedges", "everywhere"):  # in scripts without spaces
        for phrase in words()[f"{name}_unspaced"]:
            at = text.find(phrase)
            if at >= 0:
                named.append((name, at, at + len(phrase)))
    return named
