"""The six metrics of one score each, against the functions they are made of and against tests/reference."""

import numpy as np
import pytest
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid, km, regions
from geobias_torch.functional import reduce_scores, spad, spatial_relative_entropy, spatial_self_information
from geobias_torch.metrics import (
    SPAD,
    DirectionSectorSRE,
    DistanceLagSRE,
    GeoBiasScores,
    MarkedSSI,
    ScaleGridSRE,
    UnmarkedSSI,
)
from tests import scenes
from tests.metrics.rows import METRICS, RADIUS, bits, fed, rows_of
from tests.reference import geometry, reduce, sre, ssi
from tests.reference import spad as spad_reference

SRE = {
    "scale grid": (ScaleGridSRE, {"scale": 0.04}, ScaleGrid(0.04), "tangent"),
    "lag": (DistanceLagSRE, {"lag": 0.03}, DistanceLag(0.03), "lag"),
    "sector": (DirectionSectorSRE, {"sectors": 5}, DirectionSector(5), "sector"),
}
SRE_OPTIONS = {
    "small patches": {"min_patch_size": 2},
    "prior": {"prior": 0.5, "min_patch_size": 3},
    "smoothing": {"smoothing": 0.01, "min_patch_size": 1},
    "counting": {"min_patch_size": 3, "min_patches": 3, "min_roi_size": 20},
    "constant kept": {"min_patch_size": 1, "min_patches": 1, "drop_constant": False},
    "bins": {"bins": (0.0, 0.3, 0.6, 1.0), "min_patch_size": 2},
    "probability": {"bins": "probability", "prior": 0.5, "min_patch_size": 2},
    "categories": {"bins": "categories", "min_patch_size": 4},
}
SSI_OPTIONS = {
    "defaults": {},
    "neighbours": {"k": 6, "background_ratio": 2},
    "no background": {"background_ratio": 0},
    "few members": {"max_members": 10},
    "all members": {"max_members": None},
    "published": {"null": "value_scheme"},
    "two tails": {"surprisal": "two_sided"},
}


def tensors(rows):
    return tuple(torch.from_numpy(column) for column in rows.values())


def differs(rows):
    """Which ROIs hold different values of performance."""
    inside = geometry.rois(rows["lat"], rows["lon"], RADIUS, scenes.centers(rows["lat"], rows["lon"]))
    return np.array([np.ptp(rows["performance"][m]) > 0 for m in inside])


def close(actual, expected, rtol=1e-8):
    np.testing.assert_allclose(np.asarray(actual, float), np.asarray(expected, float), rtol=rtol, atol=1e-10)


# ------------------------------------------------------------------ SRE


@pytest.mark.parametrize("options", SRE_OPTIONS)
@pytest.mark.parametrize("kind", SRE)
def test_sre(kind, options):
    make, size, ours, theirs = SRE[kind]
    keywords = SRE_OPTIONS[options]
    for scene in ("clustered", "island"):
        values = scenes.hits if options in ("small patches", "constant kept") else scenes.probabilities
        rows = rows_of(scene, 60, values)
        if options == "categories":
            rows["performance"] = np.floor(4 * rows["performance"])
        metric = fed(make(RADIUS, **size, **keywords), rows)
        actual = metric.compute()
        assert actual.shape == ()
        assert actual.dtype == torch.float64
        performance, lat, lon = tensors(rows)
        found = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
        local = spatial_relative_entropy(performance, found, ours, **keywords)
        close(metric.local(), local)
        close(actual, reduce_scores(local, found).value)
        where = (rows["lat"], rows["lon"], scenes.centers(rows["lat"], rows["lon"]), RADIUS)
        expected = sre.spatial_relative_entropy(
            rows["performance"], *where, scenes.PARTITIONS[theirs][1], **{"min_patch_size": 10, **keywords}
        )
        assert np.isfinite(expected).any()
        close(metric.local(), expected)
        close(actual, reduce.reduce_scores(expected, found.sizes)[0])


@pytest.mark.parametrize("kind", SRE)
def test_sre_weights_go_with_the_rows_given(kind):
    make, size, _, _ = SRE[kind]
    rows, weights = rows_of(), np.random.default_rng(0).random(60)
    order = np.random.default_rng(1).permutation(60)
    plain = fed(make(RADIUS, **size, min_patch_size=2), rows)
    unweighted = plain.compute()
    weighted = fed(make(RADIUS, **size, min_patch_size=2, weights=weights), rows)
    close(weighted.compute(), reduce.reduce_scores(plain.local(), weights)[0])
    assert float(weighted.compute()) != float(unweighted)
    shuffled = {name: column[order] for name, column in rows.items()}
    other = fed(make(RADIUS, **size, min_patch_size=2, weights=weights[order]), shuffled)
    assert bits(other.compute()) == bits(weighted.compute())


# ------------------------------------------------------------------ SSI


@pytest.mark.parametrize("options", SSI_OPTIONS)
@pytest.mark.parametrize("scene", ["clustered", "coincident", "island"])
def test_ssi(scene, options):
    rows, keywords = rows_of(scene), SSI_OPTIONS[options]
    performance, lat, lon = tensors(rows)
    found = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    for make, marks in ((UnmarkedSSI, None), (MarkedSSI, performance)):
        if make is UnmarkedSSI and options == "no background":
            continue  # without background all values are alike: test_unmarked_needs_a_background
        metric = fed(make(RADIUS, **keywords), rows)
        actual = metric.compute()
        local = spatial_self_information(marks, found, **keywords).double()
        close(metric.local(), local, 1e-6)
        # unweighted, over ROIs whose performance differs
        close(actual, np.nanmean(np.where(differs(rows), local, np.nan)), 1e-6)
        assert actual.shape == ()
        assert actual.dtype == torch.float64


def test_ssi_equals_the_reference():
    rows = rows_of("island", 20)
    where = (rows["lat"], rows["lon"], scenes.centers(rows["lat"], rows["lon"]), RADIUS)
    assert not differs(rows).all()
    for make, marks in ((UnmarkedSSI, None), (MarkedSSI, rows["performance"])):
        for keywords in ({}, {"null": "value_scheme"}, {"surprisal": "two_sided", "k": 3}):
            metric = fed(make(RADIUS, **keywords), rows)
            expected = ssi.spatial_self_information(marks, *where, **keywords)
            close(metric.compute(), np.nanmean(np.where(differs(rows), expected, np.nan)), 1e-6)
            close(metric.local(), expected, 1e-6)


def test_codings_of_marked_ssi():
    rows = rows_of()
    values = {c: fed(MarkedSSI(RADIUS, coding=c), rows).compute() for c in (None, "signed", "centred", "raw")}
    assert bits(values[None]) == bits(values["signed"])
    assert len({float(value) for value in values.values()}) == 3
    # many values are centred, two are signed wherever they lie
    many = rows_of(values=scenes.probabilities)
    assert bits(fed(MarkedSSI(RADIUS), many).compute()) == bits(
        fed(MarkedSSI(RADIUS, coding="centred"), many).compute()
    )
    other = rows | {"performance": 7 * rows["performance"] - 3}
    assert bits(fed(MarkedSSI(RADIUS), other).compute()) == bits(values["signed"])


def test_unmarked_needs_a_background():
    metric = fed(UnmarkedSSI(RADIUS, background_ratio=0), rows_of())
    assert torch.isnan(metric.compute())
    assert torch.isnan(metric.local()).all()


def test_performance_only_decides_which_rois_are_counted_in_unmarked_ssi():
    rows = rows_of()
    one, other = (fed(UnmarkedSSI(RADIUS), rows | {"performance": rows["performance"] ** 2 + s}) for s in (0, 5))
    assert bits(one.compute()) == bits(other.compute())
    constant = fed(UnmarkedSSI(RADIUS), rows | {"performance": np.ones(60)})
    assert torch.isnan(constant.compute())
    close(constant.local(), one.local())


# ------------------------------------------------------------------ SPAD


def test_spad():
    rows = rows_of(values=scenes.probabilities)
    performance, lat, lon = tensors(rows)
    for keywords in ({}, {"partitionings": 7, "seed": 3}, {"max_rows": 5, "max_cols": 3}, {"value_range": (-1, 2)}):
        metric = fed(SPAD(**keywords), rows)
        expected = spad(performance, lat=lat, lon=lon, **keywords)
        close(metric.compute(), expected.score)
        close(metric.local(), expected.standard_error)
        assert metric.compute().shape == ()
        assert float(metric.local()) > 0


def test_spad_equals_the_reference():
    for scene in scenes.NAMES:
        rows = rows_of(scene)
        lattice = [(r, c) for r in (1, 4, 7, 10) for c in (1, 4, 7)]
        metric = fed(SPAD(exhaustive=True, max_rows=10, max_cols=7), rows)
        close(metric.compute(), spad_reference.spad(*rows.values(), lattice)[0])
        assert float(metric.local()) == 0
    signed = fed(SPAD(value_range=(-1, 1)), rows | {"performance": 2 * rows["performance"] - 1})
    close(signed.compute(), fed(SPAD(), rows).compute())


def test_values_outside_the_range_are_found_in_the_rows_given():
    rows = rows_of()
    rows["performance"][[50, 41]] = -0.25
    with pytest.raises(ValueError, match=r"within `value_range` = \(0, 1\), but got -0.25 at row 41"):
        fed(SPAD(), rows).compute()
    with pytest.raises(ValueError, match=r'within \[0, 1\] for bins="probability", but got -0.25 at row 41'):
        fed(DistanceLagSRE(RADIUS, bins="probability"), rows).compute()


@pytest.mark.parametrize(
    "make",
    [
        SPAD,
        lambda: GeoBiasScores(RADIUS, min_patch_size=2),
        lambda: DistanceLagSRE(RADIUS, bins="probability", min_patch_size=2),
    ],
)
def test_probabilities_rounded_beyond_one_are_one(make):
    rows = rows_of()
    plain = fed(make(), rows).compute()
    rounded = rows | {"performance": np.where(rows["performance"] > 0, np.float32(1.0000001), -1e-7)}
    assert bits(fed(make(), rounded).compute()) == bits(plain)
    percent = rows | {"performance": 100 * rows["performance"]}
    with pytest.raises(ValueError, match=r"but got 100 at row \d+: these look like percent: divide by 100\."):
        fed(make(), percent).compute()


# ------------------------------------------------------------------ together


def test_defaults_are_those_of_the_collection():
    rows = rows_of(n=120)
    values = fed(GeoBiasScores(RADIUS), rows).compute()
    singles = {
        "sg_sre": ScaleGridSRE(RADIUS),
        "dl_sre": DistanceLagSRE(RADIUS),
        "ds_sre": DirectionSectorSRE(RADIUS),
        "u_ssi": UnmarkedSSI(RADIUS),
        "m_ssi": MarkedSSI(RADIUS),
        "spad": SPAD(),
    }
    actual = {name: fed(metric, rows).compute() for name, metric in singles.items()}
    assert bits(actual) == bits({name: values[name] for name in singles})
    assert all(np.isfinite(float(value)) for value in actual.values())


def test_half_of_a_converted_radius_is_converted_too():
    assert torch.isfinite(fed(ScaleGridSRE(km(15_000)), rows_of()).compute())


@pytest.mark.parametrize("metric", [name for name in METRICS if name not in ("collection", "spad")])
def test_neighbourhood_by_neighbourhood(metric, monkeypatch):
    rows = rows_of("clustered", 100, scenes.probabilities)
    plain = fed(METRICS[metric](), rows)
    expected = plain.compute()
    monkeypatch.setattr(regions, "MAX_PAIRS", 2500)
    blocks, original = [], Regions.neighbourhoods

    def counted(self):
        for which, block in original(self):
            blocks.append(len(which))
            yield which, block

    monkeypatch.setattr(Regions, "neighbourhoods", counted)
    streamed = fed(METRICS[metric](), rows)
    close(streamed.compute(), expected)
    assert sum(blocks) == 100
    assert len(blocks) > 3
    close(streamed.local(), plain.local())


@pytest.mark.parametrize("metric", [name for name in METRICS if name != "collection"])
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric", "ignore:. of . rows lack")
def test_next_to_no_rows(metric):
    spad_of_one = 0.0 if metric == "spad" else np.nan
    nan = [np.nan, np.nan]
    for rows, expected, length in (
        ({"performance": [], "lat": [], "lon": []}, np.nan, 0),
        ({"performance": nan, "lat": [1.0, 2.0], "lon": [3.0, 4.0]}, np.nan, 2),
        ({"performance": [1.0], "lat": [1.0], "lon": [3.0]}, spad_of_one, 1),
        ({"performance": [1.0] * 30, "lat": [48.0] * 30, "lon": [3.0] * 30}, spad_of_one, 30),
    ):
        one = fed(METRICS[metric](), rows)
        close(one.compute(), expected)
        assert one.local().shape == (() if metric == "spad" else (length,))
    never = METRICS[metric]()
    assert torch.isnan(never.compute())
    assert never.local().shape == (() if metric == "spad" else (0,))


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("make", "keywords", "message"),
    [
        (ScaleGridSRE, {"radius": 300}, r"Expected `radius` in radians, but got 300: did you mean km\(300\)\?"),
        (ScaleGridSRE, {"scale": 0.2}, r"Expected `scale` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
        (DistanceLagSRE, {"lag": 0.2}, r"Expected `lag` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
        (DistanceLagSRE, {"lag": -0.2}, r"Expected `lag` in radians within \(0, pi\], but got -0.2"),
        (DirectionSectorSRE, {"sectors": 1}, "Expected `n`, the number of sectors, to be an integer >= 2, but got 1"),
        (DirectionSectorSRE, {"radius": 4.0}, r"Expected `radius` in radians, but got 4: did you mean km\(4\)\?"),
        (ScaleGridSRE, {"smoothing": -1.0}, "Expected `smoothing` >= 0, but got -1.0"),
        (DistanceLagSRE, {"smoothing": 0.0}, "Expected `smoothing` > 0 without a `prior`"),
        (DirectionSectorSRE, {"prior": np.nan}, "Expected `prior` >= 0, but got nan"),
        (DistanceLagSRE, {"min_patch_size": 0}, "Expected `min_patch_size` to be an integer >= 1, but got 0"),
        (DistanceLagSRE, {"bins": "quartiles"}, r"Expected `bins` to be edges, .*, but got 'quartiles'"),
        (UnmarkedSSI, {"radius": 0.0}, r"Expected `radius` in radians within \(0, pi\], but got 0"),
        (UnmarkedSSI, {"k": 0}, "Expected `k` to be an integer >= 1, but got 0"),
        (UnmarkedSSI, {"background_ratio": -1}, "Expected `background_ratio` >= 0, but got -1"),
        (MarkedSSI, {"null": "normal"}, r"Expected `null` to be one of .*, but got 'normal'"),
        (MarkedSSI, {"surprisal": "tails"}, r"Expected `surprisal` to be one of .*, but got 'tails'"),
        (MarkedSSI, {"coding": "zscore"}, r"Expected `coding` to be one of .*, but got 'zscore'"),
        (MarkedSSI, {"null": "value_scheme", "background_ratio": 2}, "Expected `background_ratio` >= 3 with null="),
        (MarkedSSI, {"max_members": 0}, "Expected `max_members` to be an integer >= 1 or None, but got 0"),
        (SPAD, {"partitionings": 0}, "Expected `partitionings` to be an integer >= 1, but got 0"),
        (SPAD, {"max_cols": 0, "exhaustive": True}, "Expected `max_cols` to be an integer >= 1, but got 0"),
        (SPAD, {"value_range": (1, 0)}, r"Expected `value_range` as \(low, high\), but got \(1, 0\)"),
        (SPAD, {"value_range": (0, np.inf)}, r"Expected `value_range` as \(low, high\), but got \(0, inf\)"),
        (SPAD, {"value_range": None}, r"Expected `value_range` as \(low, high\), but got None"),
    ],
)
def test_refused_when_given(make, keywords, message):
    """Not at the end of the first epoch."""
    with pytest.raises(ValueError, match=message):
        make(**({} if make is SPAD else {"radius": 0.1}) | keywords)


def test_one_weight_for_each_row():
    with pytest.raises(ValueError, match=r"Expected `weights` with one weight for each of 60 rows, but got \(1,\)"):
        fed(DistanceLagSRE(RADIUS, weights=[1.0]), rows_of()).compute()


def test_signed_coding_needs_two_values():
    with pytest.raises(ValueError, match='Expected `performance` with two values for coding="signed", but got more'):
        fed(MarkedSSI(RADIUS, coding="signed"), rows_of(values=scenes.probabilities)).compute()
    with pytest.raises(ValueError, match='Expected at most 32 distinct values with null="value_scheme", but got'):
        fed(MarkedSSI(RADIUS, null="value_scheme"), rows_of(values=scenes.probabilities)).compute()
