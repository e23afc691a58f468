"""One number per completion for RL trainers, in which rationalisation, filler and repetition are expensive."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from judges.faults import Contrast
from judges.isolation import isolated
from judges.memo import Memo
from judges.reward_findings import PARTS, Finder, Finding, Judge, Result, mean
from judges.reward_parts import check_limit, check_quantum, check_share, fault_weights
from judges.reward_rows import Row, read_rows

__all__ = ["ChainReward", "compute_score_batch"]

_CONTRAST = ("generic", "misattribution", "stereotype")
_REMEMBERED = 10_000  # completions
_log = logging.getLogger(__name__)


class ChainReward:
    r"""A reward for GRPO and its kin: how far a completion reasons as the references do, less its faults.

    .. math::
        \text{reward} = F_1(P_r, R) \; \prod_k (1 - w_k f_k) \; (1 - c + c \cdot \text{country correct}), \qquad c = 0.3

    - :math:`R` is the judge's recall.
    - :math:`P_r = \sum_{\text{groups}} \max_{i \in \text{group}} v_i \,/\, (\#\text{groups} + \#\text{unmatched} +
      \#\text{restated})`. A group is the points whose best match is the same point of the references: to split a point
      changes nothing, to repeat one or to add filler lowers it.
    - :math:`v_i = \text{support}_i (1 - \text{generic}_i)`; generic is how far chains of other locations, drawn by a
      hash of the reference from the bank of ``contrast``, and axioms ("the sky is blue") support the point.
    - A point is unmatched when :math:`v_i <` ``min_value`` or it has no match. Unmatched and restated points belong to
      no group. A point whose pair failed (NaN) is left out of both sums.
    - :math:`f_k` are four faults in [0, 1] with weights :math:`w_k`: ``conclusion_first`` 0.3, ``false_tool`` 0.5,
      ``misattribution`` 0.3, ``injection`` 1. See `judges.faults`. One that is unknown costs nothing.
    - The right country without evidence earns 0; a wrong one with honest evidence earns :math:`1 - c` of what the right
      one would. Where the true country is unknown, its factor is 1.

    The reward is in [0, 1], in steps of ``quantum``; higher is better. None means that it could not be judged, for
    which a trainer must not punish. Completions that are equal, with equal prompt, reference and country, are judged
    once and earn the same to the last bit as long as the process lives. A call is one ``judge.score`` for all.

    What a completion or a prompt holds besides text (None, an image) says nothing: a completion without text earns 0.
    So does what could be neither (a number, bytes), which is counted besides, as ``chain_reward/unreadable``. Half a
    surrogate pair is read as "?", also in a reference.

    The points of a completion are cut into statements first (`judges.reward_parts.statements`: sentences, and what
    stands beside a semicolon or ", and", where each names evidence), so that it does not matter in how many points
    something is said. What is merged without such a joint still counts once; ``max_point_tokens`` bounds that, a limit
    near the length of the references' longest point leaves least of it.

    Called as TRL calls a reward, or through `compute_score_batch` as verl does. GRPO divides by the standard deviation
    of a group: ``scale_rewards="batch"`` or ``"none"`` keeps small differences small.

    Args:
        judge: such as `judges.one_to_all.OneToAllJudge`; there is no default. Its scorer must say which point of the
            reference matches, or the judge hold an encoder that does.
        contrast: finds what is generic, misattributed or stereotyped. None: generic is by the axioms alone, the other
            two are unknown.
        reference: name of the column with the references: a text, a list of texts (several references), or a record
            with ``points`` and ``conclusion``, or ``text``.
        country: name of the column with the true country (name, code or demonym; None or empty where unknown). None: no
            row has one.
        weights: of the four faults, in [0, 1]; those not given keep their default. A policy that has tools may say so:
            ``{"false_tool": 0}``.
        quantum: step of the reward, in (0, 1]; 1 is a multiple of it.
        min_value: :math:`v_i` below which a point is unmatched, in [0, 1].
        max_points: points that are judged. Those after them count as unmatched.
        max_point_tokens: words of a point that are judged. For every so many words after them one more point counts as
            unmatched.
        max_failed_calls: calls in a row without any reward, after which one raises.

    Raises:
        TypeError: if ``judge`` has no ``score``, an argument is of another type, or a reference or a country is none of
            what is said above.
        ValueError: if an argument is outside its range or a weight unknown; when called, if a column is missing or of
            the wrong length, a country is none, a reference has a ``text`` and ``points`` or a ``conclusion`` that do
            not stand in it, or the judge never says what matches.
        RuntimeError: after ``max_failed_calls`` calls in a row without any reward.

    Example:
        >>> from judges.chains import ReasoningChain
        >>> from judges.one_to_all import OneToAllJudge
        >>> from judges.scorers import EmbeddingScorer
        >>> from judges.records import Record
        >>> scorer = EmbeddingScorer()
        >>> bank = [Record("a", ReasoningChain.of(["Reindeer cross a snowy road."]), "FI", author="model")]
        >>> reward = ChainReward(OneToAllJudge(scorer), contrast=Contrast(bank, scorer))
        >>> said = ["- Deep red soil.\n- Tall eucalyptus trees.\n\nAnswer: Uganda", "- Nothing.\n\nAnswer: Uganda"]
        >>> reward(
        ...     prompts=["Where is this?"] * 2,
        ...     completions=said,
        ...     reference=["- The soil is deep red.\n- Eucalyptus trees are tall.\n\nUganda"] * 2,
        ...     country=["Uganda"] * 2,
        ... )
        [1.0, 0.0]
    """

    def __init__(
        self,
        judge: Judge,
        *,
        contrast: Contrast | None = None,
        reference: str = "reference",
        country: str | None = "country",
        weights: Mapping[str, float] | None = None,
        quantum: float = 0.01,
        min_value: float = 0.25,
        max_points: int = 24,
        max_point_tokens: int = 128,
        max_failed_calls: int = 3,
    ) -> None:
        if isinstance(judge, type) or not callable(getattr(judge, "score", None)):
            got = f"the class {judge.__name__} itself" if isinstance(judge, type) else type(judge).__name__
            raise TypeError(f"Expected `judge` with a method `score`, but got {got}.")
        if contrast is not None and not all(callable(getattr(contrast, name, None)) for name in _CONTRAST):
            raise TypeError(f"Expected `contrast` to be a Contrast or None, but got {contrast!r:.60}.")
        for name, column in (("reference", reference), ("country", country)):
            if not (isinstance(column, str) or (column is None and name == "country")):
                raise TypeError(f"Expected `{name}` to be the name of a column, but got {column!r:.60}.")
        check_quantum(quantum)
        check_share("min_value", min_value)
        check_limit("max_points", max_points)
        check_limit("max_point_tokens", max_point_tokens)
        check_limit("max_failed_calls", max_failed_calls)
        self.__name__ = "chain_reward"  # trainers name the metrics after it
        self.judge = judge
        self.contrast = contrast
        self.reference = reference
        self.country = country
        self.weights = fault_weights(weights)
        self.quantum = quantum
        self.min_value = min_value
        self.max_points = max_points
        self.max_point_tokens = max_point_tokens
        self.max_failed_calls = max_failed_calls
        if contrast is None:
            warnings.warn(
                "ChainReward without `contrast`: generic is by the axioms alone, and misattribution and stereotype are "
                "unknown and cost nothing.",
                stacklevel=2,
            )
        self._start()

    def _start(self) -> None:
        self._finder = Finder(self.judge, self.contrast, self.max_points, self.max_point_tokens)
        self._memo: Memo[Result] = Memo(_REMEMBERED)
        self._failed_calls = 0

    def __call__(
        self,
        prompts: Sequence[Any] | None = None,
        completions: Sequence[Any] = (),
        completion_ids: Any = None,
        trainer_state: Any = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of B completions.

        Args:
            prompts: B texts or lists of messages; what a completion copies from its prompt counts for nothing.
            completions: B texts or lists of messages, whose content is a text or a list of typed parts.
            completion_ids: not used.
            trainer_state: not used.
            log_extra: takes a column ``chain_reward`` with all that was found, a JSON text for each completion.
            log_metric: takes the mean of each part over the completions that have a reward, as ``chain_reward/f1``, the
                number of those that are no text or whose prompt is none, as ``chain_reward/unreadable``, and of those
                that have no reward, as ``chain_reward/failed``.
            **columns: columns of the data set, one cell for each completion.

        Returns:
            B rewards in [0, 1], None where it could not be judged.
        """
        results = self.results(completions, prompts, columns, log_extra, log_metric)
        return [result.reward for result in results]

    def results(
        self,
        completions: Sequence[Any],
        prompts: Sequence[Any] | None,
        columns: Mapping[str, Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
    ) -> list[Result]:
        """Rewards with all that they came from; arguments as when called.

        Returns:
            B results.
        """
        rows = read_rows(completions, prompts, columns, reference=self.reference, country=self.country)
        results, error = self._results(rows)
        if log_extra is not None:
            log_extra(self.__name__, [result.to_json() for result in results])
        if log_metric is not None:
            self._log(results, sum(not row.readable for row in rows), log_metric)
        self._count(results, error)
        return results

    def _results(self, rows: Sequence[Row]) -> tuple[list[Result], Exception | None]:
        """One for each row. Where the judge fails none has a reward, and what it raised is returned as well."""
        known = {row.key: result for row in rows if (result := self._memo.get(row.key)) is not None}
        new = {row.key: row for row in rows if row.key not in known}
        if new:
            try:
                with isolated(torch.device("cpu")):
                    findings = self._finder.find(list(new.values()))
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                _log.warning("No reward for %d completions. %s", len(rows), reason)
                return [Result(None, reason)] * len(rows), error
            self._check_matches(findings)
            for (key, row), finding in zip(new.items(), findings, strict=True):
                known[key] = result = finding.result(
                    row.country, weights=self.weights, min_value=self.min_value, quantum=self.quantum
                )
                if result.reward is not None:
                    self._memo[key] = result
        return [known[row.key] for row in rows], None

    def _check_matches(self, findings: Sequence[Finding]) -> None:
        points = [point for one in findings for point in one.points if point.value >= self.min_value]
        if points and all(point.match is None for point in points):
            raise ValueError(
                "Expected the judge to say which point of the reference matches, but got no match for any of "
                f"{len(points)} points: give it an encoder (`similarity=Encoder()`)."
            )

    def _log(self, results: Sequence[Result], unreadable: int, log_metric: Callable[[str, float], None]) -> None:
        scored = [result.parts for result in results if result.reward is not None]
        for name in PARTS:
            value = mean([value for parts in scored if (value := parts[name]) is not None])
            if value is not None:
                log_metric(f"{self.__name__}/{name}", value)
        log_metric(f"{self.__name__}/unreadable", float(unreadable))
        log_metric(f"{self.__name__}/failed", float(len(results) - len(scored)))

    def _count(self, results: Sequence[Result], error: Exception | None) -> None:
        """Raise after too many calls in a row without a reward."""
        if not results:
            return
        self._failed_calls = 0 if any(result.reward is not None for result in results) else self._failed_calls + 1
        if self._failed_calls >= self.max_failed_calls:
            raise RuntimeError(
                f"Expected rewards, but got none in {self._failed_calls} calls in a row; the last time because of: "
                f"{results[-1].reason}"
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_finder", "_memo", "_failed_calls")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()


def compute_score_batch(
    data_sources: Sequence[Any],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Any] | None = None,
    *,
    reward: ChainReward,
    **kwargs: Any,
) -> list[dict[str, float | bool]]:
    r"""Rewards as the batch manager of verl wants them.

    verl loads a function by file and name, so bind a reward to this one there, in that file:

        compute_score_batch = functools.partial(judges.reward.compute_score_batch, reward=ChainReward(judge))

    Args:
        data_sources: not used.
        solution_strs: B completions.
        ground_truths: B references, as the column ``reference`` of a `ChainReward`; or dictionaries that hold one, and
            the country, under the names of its columns.
        extra_infos: B dictionaries or None; the country and the ``prompt`` are taken from them where they have them.
        reward: what judges them.
        **kwargs: not used.

    Returns:
        B dictionaries: ``score`` in [0, 1]; ``failed``, True where it could not be judged, and ``score`` is 0.0 since
        verl knows no None; and the parts, NaN where unknown.

    Raises:
        ValueError: if the lengths differ, a country is none, or the judge never says what matches.
        TypeError: if an argument is no list, or a cell of a type that it cannot be.
        RuntimeError: after ``max_failed_calls`` calls in a row without any reward.

    Example:
        >>> from judges.one_to_all import OneToAllJudge
        >>> from judges.scorers import EmbeddingScorer
        >>> reward = ChainReward(OneToAllJudge(EmbeddingScorer()))
        >>> truth = {"reference": "- The soil is deep red.", "country": "Uganda"}
        >>> scores = compute_score_batch(["x"], ["- Deep red soil.\n\nAnswer: Uganda"], [truth], reward=reward)
        >>> scores[0]["score"], scores[0]["failed"]
        (1.0, False)
    """
    given = {"solution_strs": solution_strs, "ground_truths": ground_truths, "extra_infos": extra_infos}
    for name, cells in given.items():
        is_list = hasattr(cells, "__len__") and not isinstance(cells, (str, Mapping))
        if not is_list and not (cells is None and name == "extra_infos"):
            raise TypeError(f"Expected `{name}` to be a list, but got {cells!r:.60}.")
    infos = [{}] * len(solution_strs) if extra_infos is None else [{} if one is None else one for one in extra_infos]
    for index, info in enumerate(infos):
        if not isinstance(info, Mapping):
            raise TypeError(f"Expected `extra_infos[{index}]` to be a dictionary or None, but got {info!r:.60}.")
    if not len(solution_strs) == len(ground_truths) == len(infos):
        raise ValueError(
            f"Expected `ground_truths` and `extra_infos` for each of the {len(solution_strs)} completions, but got "
            f"{len(ground_truths)} and {len(infos)}."
        )
    truths = [truth if isinstance(truth, Mapping) and reward.reference in truth else {} for truth in ground_truths]
    columns = {
        reward.reference: [
            truth.get(reward.reference, given) for truth, given in zip(truths, ground_truths, strict=True)
        ]
    }
    if reward.country is not None:
        name = reward.country
        countries = [{**truth, **info}.get(name) for truth, info in zip(truths, infos, strict=True)]
        columns[name] = countries
    prompts = [info.get("prompt") for info in infos]
    results = reward.results(list(solution_strs), prompts, columns)
    return [
        {
            "score": result.reward or 0.0,
            "failed": result.reward is None,
            **{name: math.nan if value is None else value for name, value in result.parts.items()},
        }
        for result in results
    ]
