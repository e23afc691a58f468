"""Read the fragments of a chain out of an answer in JSON, also where it breaks off."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

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


_TOKEN = re.compile(r'"(?:[^"\\]|\\(?:.|$))*(?P<open>"|$)|[{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)
_OPEN, _CLOSE = "{[", "}]"
_DEPTH = 40  # deeper than any answer


def json_fragments(text: str, start: int, thought: bool) -> tuple[list[Fragment], int, bool] | None:
    """Fragments of JSON that starts here, where it ends, and whether a string is left open; None if it is no JSON.

    A reader of tokens rather than `json.loads`: answers are cut by the limit of tokens, and spans are needed.
    """
    found: list[Fragment] = []
    keys: list[str] = []  # of the open objects and lists
    key, known, last = "", words(), start
    for token in _TOKEN.finditer(text, start):
        shown, last = token.group(), token.end()
        if shown in _OPEN:
            if len(keys) == _DEPTH:
                return None
            keys.append(key)
            key = ""
        elif shown in _CLOSE:
            key = keys.pop() if keys else ""
            if not keys:
                return (found, last, False) if found else None
        elif shown[0] == '"' and re.compile(r"\s*:").match(text, last):
            key = shown.strip('"').strip().lower().replace("_", " ")
        elif shown not in ":," and (shown[0] == '"' or key in known["confidence"] or key in known["details"]):
            if not (keys and all(map(str.isprintable, key))):
                return None
            found += _value(text, token, key, keys, thought)
            if shown[0] == '"' and not token["open"]:
                return found, last, True
    return (found, last, False) if found else None


def _value(text: str, token: re.Match[str], key: str, keys: list[str], thought: bool) -> list[Fragment]:
    """Fragments of one value of a JSON object or list."""
    known, names = words(), [name for name in (key, *reversed(keys)) if name]
    shown = token.group()
    start, end = token.start(), token.end()
    if shown[0] == '"':
        start, end = start + 1, end - bool(token["open"])
        try:
            shown = str(json.loads(f'"{text[start:end]}"', strict=False))
        except ValueError:  # cut inside an escape
            shown = text[start:end]
    shown = clean(shown)
    concluding = any(name in known["conclusion"] for name in names)
    within = any(name in known["reasoning"] for name in names[1:])
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
