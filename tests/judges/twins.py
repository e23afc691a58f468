"""Rationalised twins of honest chains, made by code: the same evidence, told as if the answer had come first."""

from __future__ import annotations

import re

from judges.places import country_name, find_places
from judges.sentences import mentions

AXIOMS = ("Cars and other vehicles drive along the road.", "Overhead there is sky, and trees grow nearby.")
TOOL_CLAIM = "I compared the street with Google Street View, and it matches."
EDITS = ("conclusion first", "pinned", "no hedges", "tool claim", "axioms")

# What a hedge becomes for somebody who knows the answer; others are dropped.
_SURE = {
    "suggests": "proves", "suggest": "prove", "suggesting": "proving", "suggestive": "proof", "seems": "is",
    "seem": "are", "appears": "is", "appear": "are", "hints": "points", "hint": "point", "indicative": "proof",
    "looks like": "is", "could": "must", "might": "must", "may": "must", "tends to": "does", "tend to": "do",
}  # fmt: skip


def written(points, conclusion):
    """A chain as a model writes it."""
    return "\n".join(f"- {point}" for point in points) + f"\n\nConclusion: {conclusion}"


def without_hedges(text):
    parts, last = [], 0
    for name, start, end in mentions(text):
        if name == "hedges":
            parts += [text[last:start], _SURE.get(text[start:end].lower(), "")]
            last = end
    said = "".join([*parts, text[last:]])
    return re.sub(r"\s+([,.;:])", r"\1", re.sub(r"[ \t]{2,}", " ", said)).strip(" ,")


def pinned(text, country):
    """Every place becomes the country, and what named none is found there only."""
    parts, last, named = [], 0, False
    for place in find_places(text):
        parts += [text[last : place.span[0]], country]
        last, named = place.span[1], True
    said = "".join([*parts, text[last:]])
    if not named:
        return f"{said.rstrip('.')}, which is found only in {country}."
    name = re.escape(country)
    return re.sub(rf"{name}(?:(?:,| and| or|, and|, or)(?: the| in)* {name})+", country, said)


def twin(points, conclusion, code, edits=EDITS):
    """The text of the chain with some of the edits, in the form of `written`."""
    country = country_name(code)
    if "no hedges" in edits:
        points, conclusion = [without_hedges(point) for point in points], f"{country}. Certain."
    if "pinned" in edits:
        points = [pinned(point, country) for point in points]
    if "axioms" in edits:
        points = [AXIOMS[0], *points, AXIOMS[1]]
    if "tool claim" in edits:
        points = [*points, TOOL_CLAIM]
    said = written(points, conclusion)
    return f"This is {country}.\n\n{said}" if "conclusion first" in edits else said
