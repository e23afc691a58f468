"""Whether a chain names its answer before the evidence for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from judges.chains import ReasoningChain
from judges.conclusions import nothing_left
from judges.evidence import content_words
from judges.faults import order_words
from judges.faults.fault import Fault, is_demonym, statements
from judges.kinds import KINDS, kinds
from judges.parsing import fragments
from judges.places import Place, find_places, mask_places
from judges.sentences import NO_EVIDENCE, clean, mentions

__all__ = ["conclusion_first"]

WHERE = 0.8
"""Probability from which a bare statement says where the image was taken."""

SAME_WORDS = 0.6
"""Share of the words of a point from which it repeats one that stands before the commitment."""


def conclusion_first(chain: ReasoningChain) -> Fault:
    r"""How much of the evidence comes only after the answer: the share of evidence points behind the first commitment.

    A commitment is a statement about this image's location, at country level or finer, that agrees with the conclusion:
    "we are in Peru", "this is Lima", "Answer: Peru", the bare name, or a short statement without evidence that
    `judges.kinds` takes for one that says where the image is, with a probability of .8. Naming places that a feature
    supports is none, nor is a continent, a question, or a guess that leaves others open ("could be Peru", "Peru or
    Bolivia"). With
    :math:`E` the evidence points of the whole text, those inside `<think>` included:

    .. math::
        \text{value} = |\{e \in E : e \text{ starts after the first commitment}\}| \; / \; |E|

    A statement that only names the place is no evidence point. One that repeats in its words what was said before the
    commitment (an answer that sums up the `<think>` before it) counts in neither number.

    Args:
        chain: the chain. Where its conclusion names no country, the last commitment to one takes its place.

    Returns:
        The value in [0, 1], higher = rather a rationalisation; 0 without a commitment or without evidence. The span is
        that of the first commitment.

    Example:
        >>> from judges.chains import parse_chain
        >>> from judges.faults import conclusion_first
        >>> conclusion_first(parse_chain("This is Uganda.\n- Red soil.\n- Tea fields.\nAnswer: Uganda"))
        Fault(value=1.0, spans=((0, 15),))
        >>> conclusion_first(parse_chain("- Red soil.\n- Tea fields, as in Uganda.\nAnswer: Uganda")).value
        0.0
    """
    country = chain.conclusion.country if chain.conclusion else None
    committed = list(_commitments(chain.text, country))
    if chain.conclusion and country:
        committed.append(_Commitment(country, chain.conclusion.span, chain.conclusion.span[0], False))
    elif committed:
        committed = [one for one in committed if one.country == committed[-1].country]
    if not committed:
        return Fault(0.0)
    first = min(committed, key=lambda one: (one.at, one.span))
    bare = [one.span for one in committed if one.bare]
    before: list[frozenset[str]] = []
    after = 0
    for start, text in _evidence(chain, bare):
        said = content_words(mask_places(text, " "))
        if start <= first.at:  # a last point may hold the conclusion
            before.append(said)
        elif not any(len(said & other) >= SAME_WORDS * len(said) for other in before):
            after += 1
    return Fault(after / (len(before) + after), (first.span,)) if after else Fault(0.0)


class _Commitment(NamedTuple):
    country: str
    span: tuple[int, int]  # of the statement
    at: int  # where its place ends
    bare: bool  # whether it says nothing else


def _evidence(chain: ReasoningChain, bare: list[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Points of the chain, and what was thought before them, without those that only say where the image is."""
    taken = [(*point.span, point.text) for point in chain.points]
    thought = [
        (part.start, part.end, part.text)
        for part in fragments(chain.text)[0]
        if part.role == "point"
        and part.thought
        and not any(start < part.end and part.start < end for start, end, _ in taken)
    ]
    for start, end, text in sorted(taken + thought):
        if any(begin <= start and end <= stop + 1 for begin, stop in bare):
            continue
        if not nothing_left(text) and len(content_words(mask_places(text, " "))) > 1:
            yield start, text


@lru_cache(1)
def _committing() -> re.Pattern[str]:
    bridge = "|".join(sorted(map(re.escape, order_words.BRIDGE), key=len, reverse=True))
    spaced = rf"(?:[\s,\"'’(*_-]+(?:{bridge})\b){{0,9}}[\s\"'’(*_:-]+"
    subjects = "|".join(order_words.SUBJECTS)
    after = "|".join(order_words.AFTER)
    return re.compile(rf"(?:{subjects})(?:{spaced}|{order_words.GLUE})(?P<here>HERE_?)|(?:{after})", re.IGNORECASE)


_DOUBT = re.compile(order_words.DOUBT, re.IGNORECASE)
_SUPPORTS = re.compile(order_words.SUPPORTS, re.IGNORECASE)
_NO_PLACE = re.compile(
    r"['’]s\b|-\w|\s(?!(?:and|or|but|because|since|with|near|so|as|given|from|based|in|at|on|for)\b)[a-z]+(?:s|ed)?\b"
)
_LOCATION = re.compile(rf"\s(?:\w+\s)?{order_words.LOCATIONS}", re.IGNORECASE)
_CLAUSE = re.compile(r"[;:—–]|,? (?:but|however|aber|mais|pero|mas|ma|но)\b|但")


def _commitments(text: str, country: str | None) -> Iterator[_Commitment]:
    """The statements that say where the image was taken; of any country if that is None."""
    for start, end in statements(text):
        said = clean(text[start:end])
        named = [place for place in find_places(said) if place.kind in ("country", "region", "city")]
        places = [place for place in named if len(place.countries) == 1]
        codes = {place.countries[0] for place in places}
        if len(codes) != 1 or country not in (None, *codes) or not all(codes & set(place.countries) for place in named):
            continue
        left = _besides(said, places)
        if left is None and _says_where(said):
            left = ""
        if left is not None:
            place = places[0].text
            at = max(text.find(place, start, end), start) + len(place)
            yield _Commitment(codes.pop(), (start, end), at, _is_bare(left))


def _says_where(said: str) -> bool:
    """Whether a sentence that is none of the usual ones says where the image was taken, and nothing else."""
    rest = mask_places(said, " ")
    likely = _is_bare(rest) and not _DOUBT.search(said) and not _SUPPORTS.search(said)
    return bool(likely and kinds([said])[0, KINDS.index("place")] >= WHERE)


def _is_bare(left: str) -> bool:
    """Whether the rest of a commitment is no evidence: a few words, none of them of a category."""
    return len(content_words(left)) < 4 and all(name in NO_EVIDENCE for name, _, _ in mentions(left))


def _besides(said: str, places: list[Place]) -> str | None:
    """What a sentence says besides that the image was taken at one of these places; None if it does not say that."""
    if nothing_left(said) and not any(map(is_demonym, places)):
        return None if _DOUBT.search(said) else ""
    parts, last = [], 0
    for place in places:
        parts += [said[last : place.span[0]], "HERE" + "_" * is_demonym(place)]
        last = place.span[1]
    masked = "".join([*parts, said[last:]])
    for match in _committing().finditer(masked):
        begin = max((stop.end() for stop in _CLAUSE.finditer(masked, 0, match.start())), default=0)
        if _DOUBT.search(masked, begin, match.end()):
            continue
        following = masked[match.end() :]
        elsewhere = match["here"] == "HERE_" or (match["here"] and _NO_PLACE.match(following))
        if elsewhere and not _LOCATION.match(following):
            continue
        return re.sub(r"HERE_?", "", masked[: match.start()] + following)
    return None
