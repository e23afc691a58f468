"""Hold a chain against chains of other locations: what they say too is no evidence for this one."""

from __future__ import annotations

import math
import os
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from judges.axioms import AXIOMS
from judges.chains import Point, ReasoningChain
from judges.contradiction import in_english
from judges.evidence import attributes, clauses, content_words, covers, evidence
from judges.faults.fault import Fault, supported
from judges.kinds import KINDS, kinds, length
from judges.memo import digest
from judges.places import country_code, mask_places
from judges.records import Record, read_records
from judges.scorers.contract import Scorer
from judges.scorers.embedding import EmbeddingScorer

__all__ = ["Contrast", "axiomatic"]

SUPPORTED = 0.5
"""Support from which a point counts as said by another chain."""

OWN_WORDS = 0.6
"""Share of a text's words that must stand in the axioms for it to be held against them."""

RAMP = (0.5, 0.7)
"""Cosines between which support grows from 0 to 1."""

PLAIN = frozenset(("blue", "white", "grey", "green", "paved"))
"""Colours and materials that occur in axioms."""

LIKELY = {"axiom": (0.6, 0.9), "lore": (0.3, 0.7)}
"""Probabilities of a kind (`judges.kinds`) between which a point's value grows from 0 to 1."""

COMMON = 0.6
"""Probability of being common from which a point counts as seen in many countries, whatever the bank knows."""

COUNTRIES = 3
"""Other countries that must say it before pinning it on one is a misattribution."""


def axiomatic(points: Sequence[str], scorer: Scorer, axioms: Sequence[str] = AXIOMS) -> list[float]:
    """How far each point says what is true of almost every photo.

    The higher of two values: how likely it is written as axioms are, in many languages (`judges.kinds`: 0 up to a
    probability of .6, 1 from .9 on), and its support by a list of them.

    Args:
        points: N texts.
        scorer: how a point is held against the axioms; an `EmbeddingScorer` as a rule.
        axioms: the list.

    Returns:
        N values in [0, 1], higher = emptier; NaN for a blank text.

    Example:
        >>> from judges.faults import axiomatic
        >>> from judges.scorers import EmbeddingScorer
        >>> blue, soil = axiomatic(["The sky is blue.", "Plates start with the letter U."], EmbeddingScorer())
        >>> blue, soil
        (1.0, 0.0)
    """
    known = frozenset().union(*map(content_words, axioms))
    said = [evidence(point) for point in points]
    values = _likely(said, "axiom").tolist()
    # The encoder takes houses of any kind for alike, and sentences of a language that it does not know.
    open_rows = [row for row, text in enumerate(said) if _own_words(text, known) or not text.strip()]
    listed = scorer.score([said[row] for row in open_rows], [tuple(axioms)] * len(open_rows)).value.tolist()
    for row, value in zip(open_rows, listed, strict=True):
        values[row] = value if math.isnan(value) else max(values[row], value)
    return values


def _likely(texts: Sequence[str], kind: str) -> np.ndarray:
    """From 0, where a text is hardly of a kind, to 1, where it very likely is."""
    low, high = LIKELY[kind]
    clipped: np.ndarray = ((kinds(texts)[:, KINDS.index(kind)] - low) / (high - low)).clip(0, 1)
    return np.where([length(text) > 1 for text in texts], clipped, 0.0)  # a single word is worded as nothing


def _own_words(text: str, known: frozenset[str]) -> bool:
    """Whether a text has the words of axioms, and no colour or material that these lack."""
    words = content_words(text)
    return _plain(text) and len(words & known) >= OWN_WORDS * len(words)


def _plain(text: str) -> bool:
    """Whether a text names no other colour or material than skies, plants and roads have anywhere."""
    return all(values & PLAIN for _, values in attributes(text))


class Contrast:
    r"""A fixed bank of chains of many countries, to tell what is particular to a location from what is said anywhere.

    Args:
        bank: a file that `read_records` reads, its records, or pairs (chain, country). Chains written by models should
            be among them: experts never write what is true everywhere.
        encoder: an `Encoder` or an `EmbeddingScorer` to share, or what `Encoder` takes; by default MiniLM.
        size: chains drawn for a reference.
        axioms: what is true of almost every photo.

    Raises:
        ValueError: if the bank has no chain with points, a record no country, ``size`` is below 1, or the file cannot
            be read.

    Warns:
        UserWarning: if no record of the bank has the author "model" or names a model.

    Example:
        >>> from judges.chains import ReasoningChain
        >>> from judges.faults import Contrast
        >>> from judges.records import Record
        >>> bank = [
        ...     Record(code, ReasoningChain.of(["Cars drive on the left."]), code, author="model")
        ...     for code in ("GB", "JP", "KE", "AU")
        ... ]
        >>> contrast = Contrast(bank)
        >>> shared, rare = contrast.generic(["Traffic keeps to the left.", "The bollard is red."], "a reference", "UG")
        >>> shared > 0.5, rare
        (True, 0.0)
        >>> contrast.misattribution(ReasoningChain.of(["Cars drive on the left, so this is Uganda."]), "", "UG").value
        1.0
    """

    def __init__(
        self,
        bank: str | os.PathLike[str] | Sequence[Record] | Sequence[tuple[ReasoningChain, str]],
        encoder: Any = None,
        size: int = 8,
        axioms: Sequence[str] = AXIOMS,
    ) -> None:
        if size < 1:
            raise ValueError(f"Expected `size` of at least 1, but got {size}.")
        default = {} if encoder is None else {"model": encoder}
        ready = hasattr(encoder, "score")
        self.scorer: Scorer = encoder if ready else EmbeddingScorer(**default, lower=RAMP[0], upper=RAMP[1])
        self.size = size
        self.axioms = tuple(axioms)
        records = _records(bank)
        if not any(record.model or record.author == "model" for record in records):
            warnings.warn(
                "The contrast bank has no chain written by a model (author 'model'): what models say of every photo "
                "will pass as evidence.",
                stacklevel=2,
            )
        self._bank: dict[str, list[str]] = defaultdict(list)
        self._chains: list[tuple[bytes, str, ReasoningChain]] = []
        for record in records:
            if record.country and record.chain.points:
                self._bank[record.country].extend(_parts(record.chain))
                name = digest(point.text for point in record.chain.points)
                self._chains.append((name, record.country, record.chain))
        if not self._chains:
            source = f" from {bank}" if isinstance(bank, (str, os.PathLike)) else ""
            raise ValueError(f"Expected a bank with at least one chain that has points, but got none{source}.")

    @property
    def texts(self) -> list[str]:
        """What an encoder is asked about the bank: its distinct parts, places masked."""
        return sorted({mask_places(part) for parts in self._bank.values() for part in parts})

    def draw(self, reference_text: str, country: str | None) -> tuple[ReasoningChain, ...]:
        """The chains that a reference is contrasted with: of other countries, always the same for the same text.

        Args:
            reference_text: text of the reference chain.
            country: the true country, its ISO alpha-2 code or its name; None: chains of any country.

        Returns:
            At most ``size`` chains: those whose hash with the text is smallest. It depends neither on the order of the
            bank nor on the process.

        Raises:
            ValueError: if ``country`` is none.
        """
        code = _code(country)
        others = [one for one in self._chains if one[1] != code]
        others.sort(key=lambda one: digest([reference_text, one[0].hex()]))
        return tuple(chain for _, _, chain in others[: self.size])

    def generic(self, points: Sequence[str], reference_text: str, country: str | None) -> list[float]:
        r"""How far each point could be said of other locations.

        With K drawn chains, :math:`s_{ik}` the support of point i by chain k (its best point) and :math:`a_i` its
        support by the axioms:

        .. math::
            \text{generic}_i = \max\Big(\tfrac1K \sum_k s_{ik}, \; a_i\Big)

        The axioms are not averaged with the chains, for a single axiom must come out as generic whatever was drawn.

        Args:
            points: N texts.
            reference_text: as in `draw`.
            country: as in `draw`.

        Returns:
            N values in [0, 1], higher = says less; NaN for a blank text.
        """
        contexts = [_parts(chain) for chain in self.draw(reference_text, country)]
        values = self._support(points, contexts)
        empty = axiomatic(points, self.scorer, self.axioms)
        means = [sum(row) / max(len(row), 1) for row in values]
        return [axiom if math.isnan(axiom) else max(mean, axiom) for mean, axiom in zip(means, empty, strict=True)]

    def misattribution(self, chain: ReasoningChain, reference_text: str = "", country: str | None = None) -> Fault:
        """The share of points that pin on one country what is seen in many.

        Such a point names exactly one country, without a hedge, and what it says, places masked, is an axiom, is
        supported >= 1/2 by chains of at least three countries of the bank that are neither the true country nor the
        one it names (in English), or is with a probability of .6 of the kinds that many countries have
        (`judges.kinds`). The whole bank is searched, so the reference's text does not matter.

        Args:
            chain: the chain.
            reference_text: not used; the three methods share their arguments.
            country: as in `draw`.

        Returns:
            The share of all points in [0, 1]; 0 without points. The spans are those of the points.
        """
        true = _code(country)
        pinned = [(point, code) for point in chain.points if (code := _only_country(point)) and not point.hedge]
        if not pinned:
            return Fault(0.0)
        codes = sorted(self._bank)
        said = [point.text for point, _ in pinned]
        values = self._support(said, [tuple(self._bank[code]) for code in codes])
        empty = axiomatic(said, self.scorer, self.axioms)
        common = kinds([evidence(text) for text in said])[:, [KINDS.index("axiom"), KINDS.index("common")]].sum(1)
        spans = tuple(
            point.span
            for (point, named), row, axiom, likely in zip(pinned, values, empty, common, strict=True)
            if axiom >= SUPPORTED
            or likely >= COMMON
            # an encoder takes sentences of a language that it does not know for alike
            or (in_english(point.text) and _others(codes, row, {named, true}) >= COUNTRIES)
        )
        return Fault(len(spans) / len(chain.points), spans)

    def stereotype(self, chain: ReasoningChain, country: str | None) -> Fault:
        """How far a chain says what other chains of the same country say: it could be written knowing only the answer.

        A statement about the country itself ("Japan is known for its cleanliness", in many languages) needs no bank to
        be one: `judges.kinds` knows how such statements are written.

        Args:
            chain: the chain.
            country: as in `draw`; None: only what is said of a country itself is found.

        Returns:
            Mean over the points of their best support by chains of this country in the bank, in [0, 1], higher = less
            of this image; None without points, or where the bank has no such chain and no point is such a statement.
            The spans are those of the points supported >= 1/2.
        """
        texts = [point.text for point in chain.points]
        same = tuple(self._bank.get(_code(country) or "", ()))
        support = [row[0] for row in self._support(texts, [same])]
        values = np.fmax(support, _likely(texts, "lore")).tolist()  # a blank point has no support
        if not values or not (same or any(values)):
            return Fault(None)
        spans = tuple(p.span for p, value in zip(chain.points, values, strict=True) if value >= SUPPORTED)
        return Fault(sum(values) / len(values), spans)

    def _support(self, points: Sequence[str], contexts: list[tuple[str, ...]]) -> list[list[float]]:
        """Support of each point by each context, in one call: by what names its colours, materials and sides."""
        said = [evidence(point) for point in points]
        pairs = [(text, tuple(part for part in context if covers(part, text))) for text in said for context in contexts]
        asked = [pair for pair in pairs if pair[1]]
        scores = self.scorer.score([text for text, _ in asked], [context for _, context in asked]).value.tolist()
        left = iter(scores)
        values = [next(left) if context else 0.0 for _, context in pairs]
        return [values[i * len(contexts) : (i + 1) * len(contexts)] for i in range(len(points))]


def _parts(chain: ReasoningChain) -> tuple[str, ...]:
    """The evidence of a chain, its points and their clauses."""
    return tuple(part for point in chain.points for part in clauses(evidence(point.text)))


def _code(country: str | None) -> str | None:
    code = None if country is None else country_code(country)
    if country is not None and code is None:
        raise ValueError(f"Expected `country` to be a country, by its ISO code or name, or None, but got {country!r}.")
    return code


def _others(codes: list[str], row: list[float], known: set[str | None]) -> int:
    """How many countries but these support a point."""
    return sum(value >= SUPPORTED for code, value in zip(codes, row, strict=True) if code not in known)


def _records(bank: Any) -> list[Record]:
    given = read_records(bank, references=True)[0] if isinstance(bank, (str, os.PathLike)) else bank
    records = [
        one if isinstance(one, Record) else Record(str(number), one[0], country_code(one[1]))
        for number, one in enumerate(given)
    ]
    for record in records:
        if record.country is None:
            at = f" at {record.line}" if record.line else ""
            raise ValueError(f"Expected a country for every chain of the bank, but got none for {record.id!r}{at}.")
    return records


def _only_country(point: Point) -> str | None:
    """The one country that a point names, by name, demonym, region or city."""
    codes = {code for place in point.places for code in place.countries if place.kind != "continent"}
    return codes.pop() if len(codes) == 1 and supported(point) == point.places else None
