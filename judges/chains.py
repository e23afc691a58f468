"""A reasoning chain: points that say what is seen and what part of the world it supports, and a conclusion."""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judges.conclusions import REFUSAL, Conclusion, nothing_left, read_conclusion, says_again, with_conclusion
from judges.contradiction import contradiction
from judges.glossary import language
from judges.json_answers import Fragment
from judges.parsing import fragments
from judges.places import BREADTHS as BREADTHS
from judges.places import Place, breadth_of, find_places
from judges.restatement import SURE, Said, adds_no_word, contrasts, restates
from judges.sentences import mentions, sentences

__all__ = [
    "Conclusion",
    "Point",
    "ReasoningChain",
    "mark_restated",
    "parse_chain",
    "sentences",
    "told",
]

CATEGORIES = (
    *("infrastructure", "vegetation", "architecture", "meta", "language"),
    *("terrain", "climate", "vehicles", "geology", "culture"),
)
"""Kinds of evidence."""

SAME = 0.9
"""Cosine from which a point restates an earlier one."""

NEAREST = 32
"""How many earlier points, those of the largest cosines, a point is compared with: a long chain must not take long."""


@dataclass(frozen=True)
class Point:
    """One statement of a chain: attributes of the scene, and what part of the world they support.

    Args:
        text: its words, without markdown.
        span: first character of the chain's text and the one after the last; more than the words may lie between.
        places: the places that it names.
        breadth: the part of the world that they are (one of `BREADTHS`), None without places.
        hedge: whether it says how sure it is in words such as "likely".
        categories: at most three of `CATEGORIES`, by keywords.
        restated: whether it repeats an earlier point or the conclusion, or names places and nothing else.

    Example:
        >>> point = parse_chain("- Red soil is likely Uganda").points[0]
        >>> point.breadth, point.hedge, point.categories
        ('country', True, ('geology',))
    """

    text: str
    span: tuple[int, int]
    places: tuple[Place, ...] = ()
    breadth: str | None = None
    hedge: bool = False
    categories: tuple[str, ...] = ()
    restated: bool = False


@dataclass(frozen=True)
class ReasoningChain:
    r"""Points and a conclusion.

    Args:
        points: in the order of the text; the conclusion is none of them.
        conclusion: None where the text has none.
        text: the whole text, which the spans index.
        refused: whether the text declines to name a location.
        truncated: whether the text breaks off inside its last point.
        dropped: how many sentences were left out as copies of the prompt.

    Example:
        >>> chain = parse_chain("1. Red soil.\n2. Drives on the left.\nFinal answer: Uganda")
        >>> [point.text for point in chain.points], chain.conclusion.country
        (['Red soil.', 'Drives on the left.'], 'UG')
    """

    points: tuple[Point, ...]
    conclusion: Conclusion | None
    text: str
    refused: bool = False
    truncated: bool = False
    dropped: int = 0

    @classmethod
    def of(cls, points: Sequence[str], conclusion: str | None = None) -> ReasoningChain:
        """Make a chain of points that are known already; each stays as it is.

        Args:
            points: a text each.
            conclusion: its text.

        Example:
            >>> ReasoningChain.of(["Red soil. Tea."], "Uganda").points[0].text
            'Red soil. Tea.'
        """
        given = [("point", text) for text in points] + [("conclusion", conclusion or "")]
        given = [(role, text) for role, text in given if text.strip()]
        ends = list(itertools.accumulate(len(text) + 1 for _, text in given))
        parts = [
            Fragment(end - len(text) - 1, end - 1, text.strip(), role)
            for (role, text), end in zip(given, ends, strict=True)
        ]
        return _chain("\n".join(text for _, text in given), parts)


def parse_chain(text: str, prompt: str | None = None) -> ReasoningChain:
    r"""Take a text apart into the points and the conclusion of a reasoning chain.

    Lists of any kind, markdown, tables, JSON, `<think>` and `<answer>`, sections such as "Reasoning" and "Conclusion"
    in several languages, `\boxed{}`, and plain text, sentence by sentence. What is thought inside `<think>` counts
    where the text has no points outside it. Headings are no points. Without a marked conclusion, the last sentence is
    one if it says where the image was taken.

    Args:
        text: what a model or a person has written; anything, also nothing.
        prompt: what the model was asked; sentences copied from it (four words or more) are dropped and counted.

    Example:
        >>> chain = parse_chain("## Clues\n- **Poles**: concrete\n- Cyrillic text\n\nI think this is in Bulgaria.")
        >>> [point.text for point in chain.points]
        ['Poles: concrete', 'Cyrillic text']
        >>> chain.conclusion.country, chain.conclusion.confidence
        ('BG', 'I think')
    """
    read = text.translate(_BLANK)
    parts, cut = fragments(read)
    if any(part.role == "point" and not part.thought for part in parts):
        parts = [part for part in parts if not part.thought]
    kept = _without_copies(parts, prompt) if prompt else parts
    chain = _chain(read, with_conclusion(read, kept), len(parts) - len(kept))
    return replace(chain, text=text, truncated=cut or _breaks_off(chain))


# Rarer line ends; and what is not seen, such as the marks of direction around Arabic and Hebrew
_BLANK = dict.fromkeys(map(ord, "\u2028\u2029\u0085\v\f"), "\n") | dict.fromkeys(
    map(ord, "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"), " "
)


def told(chain: ReasoningChain) -> list[Said]:
    """The points that are not marked as restated, read in the language of the chain.

    Args:
        chain: any.

    Example:
        >>> [one.gloss for one in told(ReasoningChain.of(["Rote Erde.", "Masten aus Holz."]))]
        ['red soil', 'utility pole wood']
    """
    texts = [point.text for point in chain.points if not point.restated]
    spoken = language(texts)
    return [Said.of(text, spoken) for text in texts]


def mark_restated(
    chain: ReasoningChain, similarity: Callable[[list[str], list[str]], np.ndarray], same: float = SAME
) -> ReasoningChain:
    """Mark the points that restate an earlier point that is kept.

    Places and what is said of them are left out; then two points are the same from a cosine of ``same`` on, if the
    later one quotes nothing of its own, gives no number or code of its own, and does not contradict the other. Below,
    their words tell (`judges.restatement.restates`), in the languages of `judges.glossary`.

    Args:
        chain: its points that are marked already stay so.
        similarity: the cosine of each text of a list with each of another, (A, B).
        same: the cosine from which a point restates another whatever it says.

    Example:
        >>> chain = ReasoningChain.of(["Red soil.", "The soil is red.", "Tea fields."])
        >>> both_of_soil = lambda a, b: np.array([[float("soil" in x and "soil" in y) for y in b] for x in a])
        >>> [point.restated for point in mark_restated(chain, both_of_soil).points]
        [False, True, False]
    """
    said = told(chain)
    if len(said) < 2:
        return chain
    texts, glosses = [one.evidence for one in said], [one.gloss for one in said]
    cosine, of_glosses = (np.asarray(similarity(both, both)) for both in (texts, glosses))  # (A, A)
    alike = np.maximum(cosine, of_glosses)
    kept: list[int] = []
    points = list(chain.points)
    for row, i in enumerate(i for i, point in enumerate(points) if not point.restated):
        nearest = heapq.nlargest(NEAREST, kept, key=alike[row].__getitem__)
        if any(
            _repeats(said[row], said[other], float(cosine[row, other]), float(of_glosses[row, other]), same)
            for other in nearest
        ):
            points[i] = replace(points[i], restated=True)
        else:
            kept.append(row)
    return replace(chain, points=tuple(points))


def _repeats(later: Said, earlier: Said, cosine: float, of_glosses: float, same: float) -> bool:
    # an encoder takes any two texts of a script that it does not know for alike
    if later.words and not later.concepts and not later.text.isascii():
        common = {word.text for word in later.words} & {word.text for word in earlier.words}
        if len(common) < 0.75 * len(later.words):
            return False
    if contrasts(later, earlier):
        return False
    trusted = later.latin or adds_no_word(later, earlier)
    if trusted and not later.another and cosine >= same and later.specifics <= earlier.specifics:
        return contradiction(later.evidence, earlier.evidence) is None
    return restates(later, earlier, cosine, of_glosses) >= SURE


_WORD = re.compile(r"\w+")


def _without_copies(parts: list[Fragment], prompt: str) -> list[Fragment]:
    """The fragments whose words do not stand in the prompt."""
    asked = _normal(prompt)
    starts = {tuple(asked[i : i + 4]) for i in range(len(asked) - 3)}
    whole = f" {' '.join(asked)} "
    return [
        part
        for part in parts
        if not (tuple((said := _normal(part.text))[:4]) in starts and f" {' '.join(said)} " in whole)
    ]


def _chain(text: str, parts: Sequence[Fragment], dropped: int = 0) -> ReasoningChain:
    """The chain of these fragments."""
    told = [part for part in parts if not REFUSAL.search(part.text)]
    conclusion = read_conclusion(text, told)
    seen = {_normal(conclusion.text)} if conclusion else set()
    points = []
    for part in told:
        if part.role == "point":
            said = _normal(part.text)
            again = conclusion and conclusion.country and says_again(part.text, conclusion.country)
            points.append(_point(part, restated=said in seen or nothing_left(part.text) or bool(again)))
            seen.add(said)
    refused = len(told) < len(parts) and (conclusion is None or conclusion.country is None)
    return ReasoningChain(tuple(points), conclusion, text, refused=refused, dropped=dropped)


def _point(part: Fragment, restated: bool) -> Point:
    places = find_places(part.text)
    said = Counter(name for name, _, _ in mentions(part.text))
    breadth = "world" if said["everywhere"] else breadth_of(places)
    categories = sorted(filter(said.__getitem__, CATEGORIES), key=lambda name: -said[name])[:3]
    return Point(part.text, (part.start, part.end), places, breadth, said["hedges"] > 0, tuple(categories), restated)


def _normal(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def _breaks_off(chain: ReasoningChain) -> bool:
    """Whether a text ends inside its last point: others end with a full stop, and this one does not."""
    said = chain.text.rstrip()
    if not chain.points or chain.points[-1].span[1] < len(said):
        return False
    stops = (*".!?…。！？؟۔।॥)\"'”’»」*`|}]",)
    ended = [chain.text.endswith(stops, 0, point.span[1]) for point in chain.points]
    return not ended[-1] and (sum(ended) * 2 > len(ended) or said.endswith((",", ";", ":", "-", " and", " the", " a")))
