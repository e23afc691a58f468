"""Each point of one chain against the whole of the other: precision, recall and F1 of reasoning chains."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from judges.chains import ReasoningChain, mark_restated, parse_chain, told
from judges.embeddings import Encoder
from judges.pairing import Side, compare
from judges.results import ChainScores
from judges.scorers.contract import Scorer
from judges.scorers.embedding import EmbeddingScorer

__all__ = ["Chain", "OneToAllJudge", "pairs"]

Chain: TypeAlias = str | ReasoningChain
Similarity: TypeAlias = Callable[[list[str], list[str]], Any]


class OneToAllJudge:
    r"""Precision, recall and F1 of candidate chains, each point held against the whole chain on the other side.

    With :math:`s(p, C)` the support of point p by chain C, :math:`c_1..c_m` the points of the candidate, and
    :math:`r_1..r_n` those of a reference R:

    .. math::
        P = \frac1m \sum_i s\Big(c_i, \bigcup R\Big), \qquad
        R = \max_R \frac1n \sum_j s(r_j, C), \qquad F_1 = \frac{2PR}{P + R}

    The candidate is held against the distinct points of all its references, and recall is that of the reference it
    covers best. Points that only restate an earlier one or the conclusion count on neither side. Nothing said (no
    points, or a refusal) is 0 / 0 / 0; without a point in any reference all three are NaN. Pairs that the scorer could
    not score are left out; where they are more than ``max_failed`` of a direction, it is NaN.

    All distinct pairs of a call go to the scorer at once.

    Args:
        scorer: says how far a chain supports a statement.
        similarity: finds restatements; an `Encoder` (place names are masked, and what contradicts is no restatement),
            or a function as in `judges.chains.mark_restated`. By default the encoder of the scorer, if it has one, else
            only what needs no model is marked. An `Encoder` also fills the matches of scorers that cannot say any, such
            as `CausalLMScorer`; without one they stay None.
        max_failed: share of failed pairs, in [0, 1], above which a direction is NaN.

    Raises:
        TypeError: if ``scorer`` has no ``score``, or ``similarity`` is neither an encoder nor a function.
        ValueError: if ``max_failed`` is outside [0, 1].

    Example:
        >>> from judges.scorers import EmbeddingScorer
        >>> judge = OneToAllJudge(EmbeddingScorer())
        >>> scores = judge.score(["- Red soil.\n- A lighthouse."], ["- The soil is red."])
        >>> scores.precision.item(), scores.recall.item(), scores.candidate_points[0][0].match_text
        (0.5, 1.0, 'The soil is red.')

    References:
        GeoRC (arXiv 2601.21278), Algorithm 1.
    """

    def __init__(
        self, scorer: Scorer, *, similarity: Encoder | Similarity | None = None, max_failed: float = 0.25
    ) -> None:
        if not callable(getattr(scorer, "score", None)):
            raise TypeError(f"Expected `scorer` with a method `score`, but got {type(scorer).__name__}.")
        if not (similarity is None or isinstance(similarity, Encoder) or callable(similarity)):
            raise TypeError(
                f"Expected `similarity` to be an Encoder or a function, but got {type(similarity).__name__}."
            )
        if not 0 <= max_failed <= 1:
            raise ValueError(f"Expected `max_failed` within [0, 1], but got {max_failed}.")
        self.scorer = scorer
        self.similarity = similarity if similarity is not None else getattr(scorer, "encoder", None)
        self.max_failed = max_failed

    @property
    def encoder(self) -> Encoder | None:
        """The encoder that marks restatements and fills matches; None without one."""
        return self.similarity if isinstance(self.similarity, Encoder) else None

    @property
    def approximate(self) -> bool:
        """Whether the scores rest on similarity rather than on a judgement."""
        return isinstance(self.scorer, EmbeddingScorer)

    def score(self, candidates: Sequence[Chain], references: Sequence[Chain | Sequence[Chain]]) -> ChainScores:
        """Score B candidates.

        Args:
            candidates: B chains, or texts, which `parse_chain` takes apart.
            references: for each the chain, the text, or a list of these that it is held against.

        Raises:
            TypeError: if the arguments are not lists of chains and texts.
            ValueError: if they differ in length.

        Example:
            >>> from judges.scorers import EmbeddingScorer
            >>> OneToAllJudge(EmbeddingScorer()).score([""], [["- Red soil.", "- Tea fields."]]).f1
            tensor([0.], dtype=torch.float64)
        """
        mine, theirs = check(candidates, references)
        sides = self._sides([*mine, *itertools.chain.from_iterable(theirs)])
        rest = iter(sides[len(mine) :])
        return compare(
            self.scorer,
            sides[: len(mine)],
            [[next(rest) for _ in others] for others in theirs],
            max_failed=self.max_failed,
            approximate=self.approximate,
            encoder=self.encoder,
        )

    def _sides(self, chains: list[ReasoningChain]) -> list[Side]:
        return [Side.whole(chain) for chain in self.mark(chains)]

    def mark(self, chains: Sequence[ReasoningChain]) -> list[ReasoningChain]:
        """Mark what restates an earlier point, by `similarity`.

        Args:
            chains: any number.

        Returns:
            The same chains, with their points marked.

        Example:
            >>> from judges.scorers import EmbeddingScorer
            >>> chain = ReasoningChain.of(["Red soil in Kenya.", "Red soil in Ghana.", "Black soil."])
            >>> (marked,) = OneToAllJudge(EmbeddingScorer()).mark([chain])
            >>> [point.restated for point in marked.points]
            [False, True, False]
        """
        if self.similarity is None:
            return list(chains)
        if not isinstance(self.similarity, Encoder):
            return [mark_restated(chain, self.similarity) for chain in chains]
        texts = {text for chain in chains for said in told(chain) for text in (said.evidence, said.gloss)}
        self.similarity.encode(sorted(texts))  # in one batch; what follows is remembered
        encoder = self.similarity
        return [mark_restated(chain, lambda a, b: encoder.similarity(a, b).numpy()) for chain in chains]

    @staticmethod
    def pairs(references: Sequence[Chain | Sequence[Chain]]) -> list[tuple[Chain, Chain]]:
        """Expert against expert; see `judges.one_to_all.pairs`."""
        return pairs(references)


def pairs(references: Sequence[Chain | Sequence[Chain]]) -> list[tuple[Chain, Chain]]:
    """Every reference as a candidate against every other of its location: what the experts reach, a ceiling.

    Args:
        references: for each location its chains; a location with one has no pairs.

    Returns:
        (candidate, reference), location by location, both ways round.

    Raises:
        TypeError: if they are not lists of chains and texts.

    Example:
        >>> pairs([["- Red soil.", "- Tea fields."], "- Alone."])
        [('- Red soil.', '- Tea fields.'), ('- Tea fields.', '- Red soil.')]
    """
    _check_list("references", references)
    return [pair for entry in references for pair in itertools.permutations(_several(entry), 2)]


def check(
    candidates: Sequence[Chain], references: Sequence[Chain | Sequence[Chain]]
) -> tuple[list[ReasoningChain], list[list[ReasoningChain]]]:
    """Check the arguments of a judge, and parse what is text; equal texts once.

    Args:
        candidates: as in `OneToAllJudge.score`.
        references: as in `OneToAllJudge.score`.

    Returns:
        The candidates, and the references of each.

    Raises:
        TypeError: if they are not lists of chains and texts.
        ValueError: if they differ in length.

    Example:
        >>> check(["- Red soil."], ["- Tea fields."])[1][0][0].points[0].text
        'Tea fields.'
    """
    for name, given in (("candidates", candidates), ("references", references)):
        _check_list(name, given)
    if len(candidates) != len(references):
        raise ValueError(
            f"Expected one entry of `references` for each of the {len(candidates)} candidates, but got "
            f"{len(references)}."
        )
    parsed: dict[str, ReasoningChain] = {}

    def chain(given: object, where: str) -> ReasoningChain:
        if isinstance(given, ReasoningChain):
            return given
        if not isinstance(given, str):
            raise TypeError(f"Expected {where} to be a text or a ReasoningChain, but got {type(given).__name__}.")
        if given not in parsed:
            parsed[given] = parse_chain(given)
        return parsed[given]

    mine = [chain(given, f"`candidates[{row}]`") for row, given in enumerate(candidates)]
    theirs = [
        [chain(one, f"every chain of `references[{row}]`") for one in _several(given)]
        for row, given in enumerate(references)
    ]
    return mine, theirs


def _several(given: Chain | Sequence[Chain]) -> Sequence[Chain]:
    """The chains of one entry, which may be a single one."""
    return given if isinstance(given, (list, tuple)) else [given]  # type: ignore[list-item]


def _check_list(name: str, given: object) -> None:
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"Expected `{name}` to be a list, one entry for each chain, but got {type(given).__name__}.")
