import math

import numpy as np
import pytest

from judges.summary import Interval, Summary, bootstrap
from tests.reference import judges as reference


def test_is_the_reference():
    values, locations = [0.1, 0.9, 0.4, 0.5, 1.0], ["a", "a", "b", "c", "c"]
    interval = bootstrap(values, locations, draws=500, seed=3)
    draws = np.random.default_rng(3).integers(3, size=(500, 3))
    means = reference.bootstrap_mean(values, locations, [["abc"[i] for i in draw] for draw in draws])
    low, high = np.quantile(means, [0.025, 0.975])
    assert interval == Interval(pytest.approx(0.58), pytest.approx(low), pytest.approx(high), 5)


def test_seeded_and_blind_to_names():
    values = np.random.default_rng(0).random(50).tolist()
    one = bootstrap(values, [f"a{i // 2}" for i in range(50)])
    assert one == bootstrap(values, [f"z{99 - i // 2}" for i in range(50)])
    assert one != bootstrap(values, [f"a{i // 2}" for i in range(50)], seed=1)
    assert one.low < one.mean < one.high


def test_blocks_change_nothing(monkeypatch):
    values, locations = np.linspace(0, 1, 40).tolist(), [str(i) for i in range(40)]
    whole = bootstrap(values, locations)
    monkeypatch.setattr("judges.summary._AT_ONCE", 1000)
    assert bootstrap(values, locations) == whole


def test_unknown_values_are_left_out():
    assert bootstrap([1.0, math.nan], ["a", "b"]) == Interval(1, 1, 1, 1)
    empty = bootstrap([math.nan], ["a"])
    assert empty.number == 0
    assert str(empty) == "-"
    assert math.isnan(empty.mean)


def test_coverage():
    """Intervals of 95 % hold the truth about as often."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        place = generator.normal(0.5, 0.2, 40)
        values = (place[:, None] + generator.normal(0, 0.1, (40, 3))).ravel()
        interval = bootstrap(values.tolist(), [str(i // 3) for i in range(120)], draws=400)
        hits += interval.low <= 0.5 <= interval.high
    assert 0.88 <= hits / 200 <= 0.99


def test_bad_input():
    with pytest.raises(ValueError, match="one of `locations` for each of the 1 values, but got 0"):
        bootstrap([1.0], [])
    with pytest.raises(ValueError, match="`draws` of at least 1"):
        bootstrap([1.0], ["a"], draws=0)
    with pytest.raises(ValueError, match=r"`level` within \(0, 1\)"):
        bootstrap([1.0], ["a"], level=1)


def test_summary():
    summary = Summary()
    points = [{"categories": ["geology", "terrain"], "restated": False}, {"categories": ["culture"], "restated": True}]
    summary.add({"id": "a", "model": "m", "f1": 1.0, "points": points, "failures": {"odd": 2}, "status": "scored"})
    summary.add({"id": "b", "model": "n", "f1": None, "points": points[:1], "failures": {"odd": 1}, "status": "failed"})
    assert summary.groups() == [("m", None), ("n", None)]
    assert summary.mean("f1").number == 1
    assert summary.mean("f1", ("n", None)).number == 0
    assert (summary.count(), summary.count(("m", None))) == (2, 1)
    assert summary.categories() == {"geology": 1.0, "terrain": 1.0}
    assert summary.failures == {"odd": 3}
    assert summary.status["failed"] == 1
    assert summary.share("f1") == 1.0
    assert math.isnan(summary.share("unknown"))
    assert "points" not in summary.rows[0]
