"""What all metrics share: rows in any order and any batches, rows left out, numbered rows, one geometry."""

import warnings

import numpy as np
import pytest
import torch

from geobias_torch.metrics import DistanceLagSRE
from tests import scenes
from tests.metrics.rows import (
    METRICS,
    RADIUS,
    SIZES,
    Walks,
    bits,
    check_tables,
    chosen,
    every_metric,
    fed,
    rows_of,
    table,
)

# ------------------------------------------------------------------ batches and order


@every_metric
def test_batches_are_the_whole(metric):
    rows = rows_of()
    whole = fed(METRICS[metric](), rows)
    parts = [chosen(rows, part) for part in np.split(np.arange(60), [1, 1, 30, 59])]
    assert [len(part["lat"]) for part in parts] == [1, 0, 29, 29, 1]
    batches = fed(METRICS[metric](), *parts)
    assert bits(batches.compute()) == bits(whole.compute())
    check_tables(table(batches), table(whole))
    # and on: what came after a compute counts in the next one
    half = fed(METRICS[metric](), *parts[:3])
    assert bits(half.compute()) != bits(whole.compute())
    assert bits(fed(half, *parts[3:]).compute()) == bits(whole.compute())


@every_metric
@pytest.mark.parametrize("scene", ["coincident", "polar"])
def test_row_order_changes_no_bit(metric, scene):
    for values in (scenes.hits, scenes.probabilities):
        rows = rows_of(scene, values=values)
        plain = fed(METRICS[metric](), rows)
        expected = bits(plain.compute())
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(60)
            shuffled = fed(METRICS[metric](), chosen(rows, order))
            assert bits(shuffled.compute()) == expected
            check_tables(table(shuffled), {n: c[order] if c.ndim else c for n, c in table(plain).items()})


def test_longitudes_may_be_written_in_any_way():
    rows = rows_of("antimeridian")
    other = rows | {"lon": rows["lon"] + 360 * np.random.default_rng(0).integers(-1, 2, 60)}
    written, plain = (fed(METRICS["collection"](), r) for r in (other, rows))
    for name, value in written.compute().items():
        assert float(value) == pytest.approx(float(plain.compute()[name]), rel=1e-9), name
    # the table shows them as they were given
    np.testing.assert_array_equal(table(written)["lon"], other["lon"])


# ------------------------------------------------------------------ rows that are left out


@every_metric
def test_rows_that_lack_something_are_left_out(metric):
    rows = rows_of()
    gaps = {name: column.copy() for name, column in rows.items()}
    gaps["performance"][5] = gaps["lat"][17] = gaps["lon"][17] = gaps["lon"][40] = gaps["lat"][59] = np.nan
    left = np.setdiff1d(np.arange(60), [5, 17, 40, 59])
    with_gaps = METRICS[metric]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed(with_gaps, chosen(gaps, slice(0, 20)), chosen(gaps, slice(20, 60)))
        expected = fed(METRICS[metric](), chosen(rows, left))
        expected.compute()
    with pytest.warns(UserWarning, match="4 of 60 rows lack a location or performance and are left out") as said:
        values = with_gaps.compute()
    assert len(said) == 1
    assert bits(values) == bits(expected.compute())
    actual = table(with_gaps)
    check_tables(actual, table(expected), left)
    for name, column in actual.items():
        if column.ndim:
            assert len(column) == 60
            given = gaps.get(name) if name in ("lat", "lon") else np.full(60, np.nan)
            np.testing.assert_array_equal(column[[5, 17, 40, 59]], given[[5, 17, 40, 59]])
    # said once: not again at the end of the next epoch
    with_gaps.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits(fed(with_gaps, gaps).compute()) == bits(values)


@every_metric
def test_local_needs_a_compute_and_outlives_reset(metric):
    one = METRICS[metric]()
    with pytest.raises(RuntimeError, match=r"Expected `compute\(\)` before `local\(\)`"):
        one.local()
    fed(one, rows_of())
    with pytest.raises(RuntimeError, match=r"Expected `compute\(\)` before `local\(\)`"):
        one.local()
    one.compute()
    before = table(one)
    one.reset()
    check_tables(table(one), before)
    fed(one, rows_of("island"))
    check_tables(table(one), before)
    one.compute()
    assert any(not np.array_equal(column, before[name], equal_nan=True) for name, column in table(one).items())


# ------------------------------------------------------------------ numbered rows


@every_metric
def test_index_removes_repeats(metric):
    rows = rows_of() | {"index": np.arange(60) * 7}
    plain = fed(METRICS[metric](), rows_of())
    expected = bits(plain.compute())
    order = np.random.default_rng(0).permutation(60)
    for batches in (
        (rows,),
        (rows, chosen(rows, slice(3, 20))),
        (chosen(rows, order), chosen(rows, order[:20]), chosen(rows, order[:1]), chosen(rows, order[:0])),
    ):
        numbered = fed(METRICS[metric](), *batches)
        assert bits(numbered.compute()) == expected
        # in the order of the index, without the repeats
        check_tables(table(numbered), table(plain))
    without = {name: x for name, x in chosen(rows, np.r_[0:60, 3:20]).items() if name != "index"}
    assert bits(fed(METRICS[metric](), without).compute()) != expected


@pytest.mark.parametrize("form", [list, np.int32, np.uint16, torch.from_numpy])
def test_index_may_be_any_integers(form):
    index = np.arange(60)[::-1].copy()
    index = index.tolist() if form is list else form(index)
    metric = fed(DistanceLagSRE(RADIUS, **SIZES), rows_of() | {"index": index})
    metric.compute()
    plain = fed(DistanceLagSRE(RADIUS, **SIZES), rows_of())
    plain.compute()
    check_tables(table(metric), {"local": table(plain)["local"][::-1]})


def test_a_repeat_may_differ_in_performance_and_lack_a_location():
    """The first one counts; a row without a location is one row however often it comes."""
    rows = rows_of() | {"index": np.arange(60)}
    rows["lat"][10] = rows["lon"][20] = np.nan
    again = chosen(rows, slice(5, 25))
    again["performance"] = 1 - again["performance"]
    metric = fed(METRICS["collection"](), rows, again)
    with pytest.warns(UserWarning, match="2 of 60 rows lack"):
        values = metric.compute()
    once = fed(METRICS["collection"](), rows)
    with pytest.warns(UserWarning, match="2 of 60 rows lack"):
        assert bits(once.compute()) == bits(values)


@every_metric
def test_one_index_is_one_location(metric):
    rows = rows_of() | {"index": np.arange(60)}
    for moved in ({"lat": rows["lat"][30:31] + 1e-9}, {"lon": rows["lon"][30:31] + 1}, {"lat": np.array([np.nan])}):
        mixed = fed(METRICS[metric](), rows, chosen(rows, slice(30, 31)) | moved)
        with pytest.raises(
            ValueError, match="Expected one location for each `index`, but got 30 with different `lat`, `lon`"
        ):
            mixed.compute()


def test_index_is_given_always_or_never():
    rows = rows_of()
    metric = fed(METRICS["lag"](), rows | {"index": np.arange(60)}, chosen(rows, slice(0, 5)))
    with pytest.raises(ValueError, match="Expected `index` in every update or in none, but got it in some"):
        metric.compute()
    # a batch without rows needs none
    fed(METRICS["lag"](), rows | {"index": np.arange(60)}, chosen(rows, slice(0, 0))).compute()


# ------------------------------------------------------------------ one geometry


@pytest.mark.parametrize("metric", [name for name in METRICS if name != "spad"])
def test_an_epoch_over_the_same_coordinates_searches_nothing(metric, monkeypatch):
    walks, epochs = Walks(monkeypatch), METRICS[metric]()
    rows = rows_of("coincident", values=scenes.probabilities)
    first = walks.during(epochs, rows)
    assert first > 0
    # another order, batches and model
    order = np.random.default_rng(1).permutation(60)
    again = chosen(rows, order) | {"performance": rows["performance"] ** 2}
    assert walks.during(epochs, again) == 0
    fresh = fed(METRICS[metric](), again)
    assert bits(fresh.compute()) == bits(epochs.compute())
    check_tables(table(epochs), table(fresh))
    # a place that moved, one that is missing
    for axis in ("lat", "lon"):
        walks.during(epochs, again)
        moved = again | {axis: np.where(np.arange(60) == 7, again[axis] + 1e-6, again[axis])}
        assert walks.during(epochs, moved) == first
        assert bits(fed(METRICS[metric](), moved).compute()) == bits(epochs.compute())
    assert walks.during(epochs, chosen(moved, slice(1, 60))) == first
    assert walks.during(epochs, chosen(moved, slice(1, 60))) == 0


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"lat": [0.0, 91.2, 3.0]}, ValueError,
         r"Expected `lat` of shape \(N,\) in degrees within \[-90, 90\], but got 91.2 at row 1"),
        ({"lat": [0.0, np.nan, -90.5]}, ValueError, r"within \[-90, 90\], but got -90.5 at row 2"),
        ({"lon": [0.0, 1.0, np.inf]}, ValueError,
         r"Expected `lon` of shape \(N,\) in degrees, finite, but got inf at row 2"),
        ({"lon": [0.0, 1.0]}, ValueError, r"of one shape \(n,\), but got \(3,\) and `lon` of shape \(2,\)"),
        ({"lat": 1.0}, ValueError, r"of one shape \(n,\), but got \(3,\) and `lat` of shape \(\)"),
        ({"performance": [[0.0], [1.0], [1.0]]}, ValueError,
         r"of one shape \(n,\), but got \(3, 1\) and `performance` of shape \(3, 1\)"),
        ({"performance": [0.0, np.nan, -np.inf]}, ValueError,
         r"Expected `performance` to be finite or NaN, but got -inf at row 2"),
        ({"performance": ["a", "b", "c"]}, TypeError, "Expected `performance` to hold numbers, but got <U1"),
        ({"performance": torch.zeros(3, dtype=torch.complex64)}, TypeError,
         r"Expected `performance` to be real, but got torch.complex64"),
        ({"lat": ["1", "2", "3"]}, TypeError, "Expected `lat` to hold numbers, but got <U1"),
        ({"index": [0, -1, 2]}, ValueError, r"Expected `index` .* below 2\^53, but got -1 at row 1"),
        ({"index": [0.0, 1.0, 2.0]}, ValueError, r"Expected `index` to hold integers >= 0, but got torch.float64"),
        ({"index": [True, False, True]}, ValueError, r"Expected `index` to hold integers >= 0, but got torch.bool"),
        ({"index": [0, 1]}, ValueError, r"of one shape \(n,\), but got \(3,\) and `index` of shape \(2,\)"),
    ],
)  # fmt: skip
def test_refused(keywords, error, message):
    rows = {"performance": [0.0, 1.0, 1.0], "lat": [10.0, 11.0, 12.0], "lon": [40.0, 41.0, 42.0]}
    for make in METRICS.values():
        metric = make()
        with pytest.raises(error, match=message):
            fed(metric, rows | keywords)
        # nothing of a batch that was refused is kept
        assert metric.rows == []
