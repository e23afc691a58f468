"""Many scores in a few numbers: means with intervals, shares, and how many could not be scored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Interval", "Summary", "bootstrap"]

_AT_ONCE = 4_000_000  # draws held at a time


@dataclass(frozen=True)
class Interval:
    """A mean, and where it lies when other locations had been drawn.

    Attributes:
        mean: of the values that are known; NaN without any.
        low: lower end of the interval.
        high: upper end of the interval.
        number: how many values are known.

    Example:
        >>> print(Interval(0.5, 0.4, 0.6, 30), Interval(float("nan"), float("nan"), float("nan"), 0))
        0.500 [0.400, 0.600] -
    """

    mean: float
    low: float
    high: float
    number: int

    def __str__(self) -> str:
        return "-" if self.number == 0 else f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap(
    values: Sequence[float], locations: Sequence[str], *, draws: int = 2000, level: float = 0.95, seed: int = 0
) -> Interval:
    """The mean, with a bootstrap interval over locations: chains of one location are drawn together.

    Args:
        values: N numbers; NaN = not scored, left out.
        locations: the location of each.
        draws: how often as many locations as there are are drawn, with replacement.
        level: share of the draws inside the interval.
        seed: makes it the same every time.

    Returns:
        The mean with the percentiles of the draws; equal ends where there is one location.

    Raises:
        ValueError: if the lengths differ, ``draws`` is below 1, or ``level`` is not between 0 and 1.

    Example:
        >>> interval = bootstrap([1.0, 0.0, 1.0, float("nan")], ["a", "b", "c", "d"])
        >>> round(interval.mean, 3), interval.low < interval.mean < interval.high, interval.number
        (0.667, True, 3)
    """
    if len(values) != len(locations):
        raise ValueError(f"Expected one of `locations` for each of the {len(values)} values, but got {len(locations)}.")
    if draws < 1 or not 0 < level < 1:
        raise ValueError(f"Expected `draws` of at least 1 and `level` within (0, 1), but got {draws} and {level}.")
    value = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(value)
    if not known.any():
        return Interval(math.nan, math.nan, math.nan, 0)
    # numbered as they come: names do not change the draws
    number: dict[str, int] = {}
    place = np.array([number.setdefault(name, len(number)) for name in locations])[known]
    _, place = np.unique(place, return_inverse=True)
    sums, counts = np.bincount(place, value[known]), np.bincount(place)
    generator = np.random.default_rng(seed)
    means = np.empty(draws)
    step = max(1, _AT_ONCE // len(sums))
    for start in range(0, draws, step):
        drawn = generator.integers(len(sums), size=(min(step, draws - start), len(sums)))
        means[start : start + step] = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(sums.sum() / counts.sum()), float(low), float(high), int(known.sum()))


@dataclass
class Summary:
    """Gathers output records of the judges one by one, and keeps of each only what the table needs.

    Example:
        >>> summary = Summary()
        >>> points = [{"categories": ["geology"], "restated": False}]
        >>> summary.add({"id": "a", "model": "m", "f1": 0.5, "points": points, "country_correct": True})
        >>> summary.mean("f1").mean, summary.groups(), summary.categories()
        (0.5, [('m', None)], {'geology': 1.0})
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    status: Counter[str] = field(default_factory=Counter)
    points: int = 0
    _categories: Counter[str] = field(default_factory=Counter)

    def add(self, record: dict[str, Any]) -> None:
        """Take one record."""
        self.rows.append({name: value for name, value in record.items() if not isinstance(value, (list, dict))})
        self.failures.update(record.get("failures", {}))
        self.status[record.get("status", "")] += 1
        for point in record.get("points", ()):
            if not point["restated"]:
                self.points += 1
                self._categories.update(point["categories"])

    def groups(self) -> list[tuple[str | None, str | None]]:
        """The distinct (model, kind), in the order of the records."""
        return list(dict.fromkeys((row.get("model"), row.get("kind")) for row in self.rows))

    def mean(self, name: str, group: tuple[str | None, str | None] | None = None, seed: int = 0) -> Interval:
        """Mean of a field with its interval, over all records or those of one group.

        Args:
            name: the field; numbers, or true and false. None is left out.
            group: (model, kind).
            seed: of the draws.
        """
        rows = [row for row in self.rows if group is None or (row.get("model"), row.get("kind")) == group]
        values = [math.nan if row.get(name) is None else float(row[name]) for row in rows]
        return bootstrap(values, [row["id"] for row in rows], seed=seed)

    def count(self, group: tuple[str | None, str | None] | None = None) -> int:
        """How many records there are."""
        return sum(group is None or (row.get("model"), row.get("kind")) == group for row in self.rows)

    def categories(self) -> dict[str, float]:
        """Share of the points that hold each kind of evidence, the commonest first; a point may hold three."""
        return {name: count / self.points for name, count in self._categories.most_common()}

    def share(self, name: str) -> float:
        """Share of the records, of those that know a field, where it is above 0."""
        known = [row[name] for row in self.rows if row.get(name) is not None]
        return sum(value > 0 for value in known) / len(known) if known else math.nan
