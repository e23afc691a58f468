"""Whether the evidence alone leads a language model to the country."""

from __future__ import annotations

from judges.chains import ReasoningChain
from judges.conclusions import nothing_left
from judges.faults.fault import Fault
from judges.places import country_name, mask_places, neighbours
from judges.rubrics import Rubric
from judges.scorers.contract import Scorer
from judges.scorers.embedding import EmbeddingScorer

__all__ = ["WHERE", "sufficiency"]

WHERE = Rubric(
    task=(
        "Somebody noted what can be seen in a street-level photo. You get the notes as a numbered chain, in which the "
        "names of places are replaced by the word somewhere, then a statement that names a country. Decide how far the "
        "notes show that the statement is true."
    ),
    rules=(
        "Use what you know about the country: its roads, signs, plates, languages, plants, buildings and customs.",
        "Notes that fit many countries show little for any one of them.",
        "Notes that do not fit the country at all put the level at the lowest.",
        "Without notes, go by how many photos are taken in the country.",
    ),
    levels=(
        "the notes rule the country out",
        "the notes speak against the country",
        "hardly any note fits the country",
        "few notes fit the country, and they fit others better",
        "the notes fit the country as well as many others",
        "the notes fit the country a little better than most",
        "the notes fit the country and few others",
        "the notes fit the country and hardly any other",
        "the notes make the country almost certain",
        "the notes leave no other country possible",
    ),
)
"""The question of `sufficiency`: construct its scorer as ``CausalLMScorer(model, rubric=WHERE)``."""

NO_NOTES = "(no notes)"


def sufficiency(chain: ReasoningChain, country: str | None, scorer: Scorer | None) -> Fault:
    r"""How much the points of a chain, places masked, move a language model towards the true country.

    With v the level that the scorer gives to "The photo was taken in c.", c the country or one of its four neighbours:

    .. math::
        P(c \mid \text{points}) = v_c / \sum_{c'} v_{c'}, \qquad
        \text{value} = \max(0, P(\text{country} \mid \text{points}) - P(\text{country} \mid \text{no points}))

    Args:
        chain: the chain; its conclusion and points that only name places are left out.
        country: ISO alpha-2 code of the true country.
        scorer: a scorer that reads a language model with the rubric `WHERE`. Similarity cannot answer this.

    Returns:
        The value in [0, 1], higher = the evidence is enough by itself, a virtue; None without a country, points or a
        language model, or if a score failed. No spans: the points count together.

    Example:
        >>> import torch
        >>> from judges.chains import ReasoningChain
        >>> from judges.faults import sufficiency
        >>> from judges.scorers import PairScores
        >>> class Knows:
        ...     def score(self, statements, contexts):
        ...         hits = [("Uganda" in one) == ("red" in "".join(notes)) for one, notes in zip(statements, contexts)]
        ...         value = torch.tensor(hits).double()
        ...         return PairScores(value, value, (None,) * len(hits), (None,) * len(hits))
        >>> sufficiency(ReasoningChain.of(["A red soil"]), "UG", Knows()).value
        1.0
        >>> sufficiency(ReasoningChain.of(["A red soil"]), "UG", None).value is None
        True
    """
    notes = tuple(mask_places(point.text) for point in chain.points if not nothing_left(point.text))
    if scorer is None or isinstance(scorer, EmbeddingScorer) or not country or not notes:
        return Fault(None)
    codes = (country, *neighbours(country))
    said = [f"The photo was taken in {country_name(code)}." for code in codes]
    values = scorer.score(said * 2, [notes] * len(said) + [(NO_NOTES,)] * len(said)).value.reshape(2, -1)
    totals = values.sum(1)
    if not bool((totals > 0).all()):  # also where one is NaN
        return Fault(None)
    given, blank = (values[:, 0] / totals).tolist()
    return Fault(min(1.0, max(0.0, given - blank)))
