"""GeoBiasScores against the functions it is made of and against tests/reference, key by key."""

import inspect
import warnings

import numpy as np
import pytest
import torch
from scipy.special import ndtri_exp

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid, km, regions
from geobias_torch.functional import (
    noise_floor,
    reduce_scores,
    spad,
    spatial_relative_entropy,
    spatial_self_information,
)
from geobias_torch.metrics import GeoBiasScores, excess
from tests import scenes
from tests.metrics.rows import bits, check_tables, chosen, fed, rows_of, table
from tests.reference import geometry, reduce, sre, ssi

RADIUS = scenes.RADIUS
LOCAL_SCORES = ("sg_sre", "dl_sre", "ds_sre", "u_ssi", "m_ssi")
KEYS = [f"{name}{suffix}" for name in LOCAL_SCORES for suffix in ("", "_floor", "_rois")]
KEYS += ["spad", "spad_floor", "spad_se", "performance", "performance_worst_decile"]
COLUMNS = ["lat", "lon", "members", "performance"]
COLUMNS += [f"{name}{suffix}" for name in LOCAL_SCORES for suffix in ("", "_floor")]


def members_of(rows):
    """[row numbers of the members] of every point's ROI."""
    return geometry.rois(rows["lat"], rows["lon"], RADIUS, scenes.centers(rows["lat"], rows["lon"]))


def close(actual, expected, rtol=1e-8):
    np.testing.assert_allclose(np.asarray(actual, float), np.asarray(expected, float), rtol=rtol, atol=1e-10)


def ssi_floor(performance, found, **keywords):
    """The floor of the density from two public scores: log sigma + (1 + log 2 pi)/2 = density - t^2/2 + 1/2."""
    density = spatial_self_information(performance, found, **keywords).double().numpy()
    two_sided = spatial_self_information(performance, found, surprisal="two_sided", **keywords).double().numpy()
    return density - ndtri_exp(-two_sided - np.log(2)) ** 2 / 2 + 0.5


# ------------------------------------------------------------------ values


@pytest.mark.parametrize("values", [scenes.hits, scenes.probabilities])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_scores_are_those_of_the_functions(scene, values):
    rows = rows_of(scene, 80, values)
    options = {"min_patch_size": 3, "min_patches": 2, "min_roi_size": 8, "bins": (0.0, 0.3, 0.6, 1.0)}
    metric = fed(GeoBiasScores(RADIUS, 0.04, 0.03, 5, ssi_max_members=20, **options), rows)
    actual, local = metric.compute(), table(metric)
    assert list(local) == COLUMNS
    assert sorted(actual) == sorted(KEYS)
    assert all(value.shape == () and value.dtype == torch.float64 for value in actual.values())
    performance, lat, lon = (torch.from_numpy(column) for column in rows.values())
    found = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    close(local["members"], found.sizes)
    close(local["performance"], found.sum(performance) / found.sizes)
    for name, partition in (
        ("sg_sre", ScaleGrid(0.04)),
        ("dl_sre", DistanceLag(0.03)),
        ("ds_sre", DirectionSector(5)),
    ):
        score = spatial_relative_entropy(performance, found, partition, **options)
        floor = noise_floor(performance, found, partition, **options)
        close(local[name], score)
        close(local[f"{name}_floor"], floor)
        close(actual[name], reduce_scores(score, found).value)
        close(actual[f"{name}_floor"], reduce_scores(floor, found).value)
        assert float(actual[f"{name}_rois"]) == reduce_scores(score, found).rois_counted > 0
    differs = np.array([np.ptp(rows["performance"][inside]) > 0 for inside in members_of(rows)])
    for name, marks in (("u_ssi", None), ("m_ssi", performance)):
        score = spatial_self_information(marks, found, max_members=20).double()
        floor = ssi_floor(marks, found, max_members=20)
        close(local[name], score, 1e-6)
        close(local[f"{name}_floor"], floor, 1e-6)
        counted = differs & np.isfinite(score.numpy())
        # unweighted, over ROIs whose performance differs
        close(actual[name], score[counted].mean(), 1e-6)
        close(actual[f"{name}_floor"], floor[counted].mean(), 1e-6)
        assert float(actual[f"{name}_rois"]) == counted.sum() > 0
    expected = spad(performance, lat=lat, lon=lon)
    close(actual["spad"], expected.score)
    close(actual["spad_se"], expected.standard_error)
    close(actual["performance"], rows["performance"].mean())


@pytest.mark.parametrize("scene", ["coincident", "island", "polar"])
def test_scores_equal_the_reference(scene, monkeypatch):
    rows = rows_of(scene, 24)
    metric = fed(GeoBiasScores(RADIUS, 0.04, 0.03, 5, min_patch_size=2), rows)
    actual, local = metric.compute(), table(metric)
    hits, lat, lon = rows.values()
    where = (lat, lon, scenes.centers(lat, lon), RADIUS)
    inside = members_of(rows)
    sizes = np.array([len(m) for m in inside])
    expected = {}
    for name, partition in (("sg_sre", "tangent"), ("dl_sre", "lag"), ("ds_sre", "sector")):
        theirs = scenes.PARTITIONS[partition][1]
        for key, function in ((name, sre.spatial_relative_entropy), (f"{name}_floor", sre.noise_floor)):
            expected[key] = function(hits, *where, theirs, min_patch_size=2)
            close(actual[key], reduce.reduce_scores(expected[key], sizes)[0])
        assert float(actual[f"{name}_rois"]) == np.isfinite(expected[name]).sum() > 0
    expected |= {name: ssi.spatial_self_information(m, *where) for name, m in (("u_ssi", None), ("m_ssi", hits))}
    monkeypatch.setattr(ssi, "surprisal_of", lambda g, mu, v, *_: 0.5 * (np.log(v) + 1 + np.log(2 * np.pi)))
    expected |= {
        f"{name}_floor": ssi.spatial_self_information(m, *where) for name, m in (("u_ssi", None), ("m_ssi", hits))
    }
    for key, scores in expected.items():
        close(local[key], scores, 1e-6)
        if "ssi" in key:
            differs = [len(set(hits[m])) > 1 for m in inside]
            value, counted, _ = reduce.reduce_scores(np.where(differs, scores, np.nan))
            close(actual[key], value, 1e-6)
            assert float(actual[f"{key[:5]}_rois"]) == counted > 0


def test_defaults():
    metric = GeoBiasScores(0.1)
    assert (metric.scale, metric.lag) == (0.05, 0.02)
    parameters = list(inspect.signature(GeoBiasScores).parameters.values())[:-1]
    assert {p.name: p.default for p in parameters[1:]} == {
        "scale": None, "lag": None, "sectors": 8, "bins": None, "min_patch_size": 10, "min_patches": 2,
        "min_roi_size": 1, "weights": None, "ssi_max_members": 100,
        "scores": ("sg_sre", "dl_sre", "ds_sre", "u_ssi", "m_ssi", "spad"), "prefix": "",
    }  # fmt: skip
    rows = rows_of(n=120)
    spelled = GeoBiasScores(radius=0.1, scale=0.05, lag=0.02, sectors=8, min_patch_size=10, ssi_max_members=100)
    assert bits(fed(metric, rows).compute()) == bits(fed(spelled, rows).compute())


def test_half_of_a_converted_radius_is_converted_too():
    assert GeoBiasScores(km(15_000)).scale == pytest.approx(7500 / 6371.0088)


def test_the_floor_of_spad_is_the_mean_of_shuffles():
    rows = rows_of("uniform", 80)
    actual = fed(GeoBiasScores(RADIUS, scores=["spad"]), rows).compute()
    hits, lat, lon = rows.values()
    shuffles = np.stack([np.random.default_rng(seed).permutation(hits) for seed in range(200)], axis=1)
    floors = spad(torch.from_numpy(shuffles), lat=lat, lon=lon).score
    assert float(actual["spad_floor"]) == pytest.approx(float(floors.mean()), abs=4 * float(floors.std()) / 20**0.5)
    assert float(actual["spad_floor"]) != pytest.approx(float(actual["spad"]), rel=1e-3)


# ------------------------------------------------------------------ the worst tenth


def town(lat, *values):
    """Rows at one place far from all others: every one of them has the same ROI."""
    return {"performance": np.array(values, float), "lat": np.full(len(values), lat), "lon": np.zeros(len(values))}


@pytest.mark.parametrize(
    ("zeros", "keywords", "expected"),
    [
        (10, {}, 0.0),  # 35 ROIs: the three lowest are all-wrong ones
        (1, {}, (0.0 + 0.25) / 2),  # 26 ROIs: a lone wrong point, then one of the twenty
        (10, {"min_roi_size": 11}, 0.25),  # the twenty alone
        (10, {"min_roi_size": 20}, 0.25),
        (10, {"min_roi_size": 21}, np.nan),
    ],
)
def test_worst_tenth_by_hand(zeros, keywords, expected):
    metric = GeoBiasScores(0.01, scores=["dl_sre"], **keywords)
    for batch in (town(10.0, *[1, 0, 0, 0] * 5), town(20.0, *[0] * zeros), town(30.0, *[1] * 5)):
        fed(metric, batch)
    values = metric.compute()
    close(values["performance_worst_decile"], expected)
    close(values["performance"], 10 / (25 + zeros))
    # the table holds all ROIs, small ones too
    close(table(metric)["performance"], [0.25] * 20 + [0] * zeros + [1] * 5)
    close(table(metric)["members"], [20] * 20 + [zeros] * zeros + [5] * 5)


def test_worst_tenth_of_fewer_than_ten_is_the_worst():
    metric = fed(GeoBiasScores(0.01, scores=[]), town(10.0, 1, 1), town(20.0, 1, 0, 0, 0))
    values = metric.compute()
    assert float(values["performance_worst_decile"]) == 0.25
    assert sorted(values) == ["performance", "performance_worst_decile"]
    assert list(table(metric)) == COLUMNS[:4]


# ------------------------------------------------------------------ which ROIs count


def test_an_extreme_value_does_not_make_other_rois_constant():
    """Whether performance differs is asked of each ROI, whatever is far away."""
    rows, scores = rows_of("island", values=scenes.probabilities), ["u_ssi", "m_ssi"]
    expected = fed(GeoBiasScores(RADIUS, scores=scores), rows).compute()
    rows["performance"][-1] = -1e7  # the lone point
    actual = fed(GeoBiasScores(RADIUS, scores=scores), rows).compute()
    for key in ("u_ssi", "u_ssi_rois", "m_ssi", "m_ssi_rois"):
        close(actual[key], expected[key], 1e-6)


def test_small_differences_on_a_large_offset_differ():
    rows = rows_of("clustered", values=scenes.probabilities)
    expected = fed(GeoBiasScores(RADIUS, scores=["u_ssi"]), rows).compute()
    rows["performance"] += 1e6
    assert bits(fed(GeoBiasScores(RADIUS, scores=["u_ssi"]), rows).compute())["u_ssi"] == bits(expected)["u_ssi"]


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3])
def test_constant_performance(value):
    rows = rows_of(values=lambda scene, n: np.full(n, value))
    metric = fed(GeoBiasScores(RADIUS, min_patch_size=2), rows)
    values = metric.compute()
    for name in LOCAL_SCORES:
        assert np.isnan(float(values[name]))
        assert np.isnan(float(values[f"{name}_floor"]))
        assert float(values[f"{name}_rois"]) == 0
    assert [float(values[key]) for key in ("spad", "spad_floor", "spad_se")] == pytest.approx([0, 0, 0], abs=1e-12)
    assert float(values["performance"]) == pytest.approx(value)
    assert float(values["performance_worst_decile"]) == pytest.approx(value)
    # where the points lie can be scored all the same
    assert np.isfinite(table(metric)["u_ssi"]).all()
    assert np.isnan(table(metric)["m_ssi"]).all()


def test_scores_that_are_nan_say_so_once():
    metric = fed(GeoBiasScores(RADIUS, scores=["sg_sre", "m_ssi"]), rows_of(values=lambda scene, n: np.ones(n)))
    with pytest.warns(UserWarning, match="points can be scored by sg_sre, m_ssi, so that the score is NaN"):
        metric.compute()
    metric.reset()
    scored = GeoBiasScores(RADIUS, scores=["sg_sre"], min_patch_size=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed(metric, rows_of(values=lambda scene, n: np.ones(n))).compute()
        fed(scored, rows_of()).compute()


def test_all_at_one_place():
    values = fed(GeoBiasScores(RADIUS), town(48.0, *[0, 1] * 20)).compute()
    assert [float(values[f"{name}_rois"]) for name in LOCAL_SCORES] == [0, 0, 0, 40, 40]
    assert np.isfinite([float(values[key]) for key in ("u_ssi", "u_ssi_floor", "m_ssi", "m_ssi_floor")]).all()
    assert [float(values[key]) for key in ("spad", "spad_floor", "spad_se")] == [0, 0, 0]
    assert float(values["performance_worst_decile"]) == 0.5


@pytest.mark.parametrize("rows", ["none", "empty", "dropped", "one"])
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric", "ignore:. of . rows lack")
def test_next_to_no_rows(rows):
    metric, nan = GeoBiasScores(RADIUS), [np.nan, np.nan]
    batch = {"performance": [1.0, 0.0], "lat": [48.0, np.nan], "lon": [10.0, 11.0]}
    if rows != "none":
        batch = {"empty": {name: [] for name in batch}, "dropped": batch | {"lat": nan}, "one": batch}[rows]
        fed(metric, batch)
    values = metric.compute()
    assert sorted(values) == sorted(KEYS)
    one = {"spad": 0, "spad_floor": 0, "spad_se": 0, "performance": 1, "performance_worst_decile": 1}
    for key, value in values.items():
        close(value, 0 if key.endswith("_rois") else (one if rows == "one" else {}).get(key, np.nan))
    local = table(metric)
    assert list(local) == COLUMNS
    close(local["members"], {"none": [], "empty": [], "dropped": nan, "one": [1, np.nan]}[rows])


# ------------------------------------------------------------------ options


def test_weights_go_with_the_rows_given():
    rows = rows_of("island")
    rows["performance"][[3, 50]] = np.nan
    weights = np.random.default_rng(0).random(60)
    plain = fed(GeoBiasScores(RADIUS, min_patch_size=2), rows)
    with pytest.warns(UserWarning, match="2 of 60 rows lack"):
        expected, local = plain.compute(), table(plain)
    order = np.random.default_rng(1).permutation(60)
    for form in (weights, weights.tolist(), torch.from_numpy(weights), weights[order]):
        now = order if form is not weights and np.array_equal(form, weights[order]) else np.arange(60)
        metric = fed(GeoBiasScores(RADIUS, min_patch_size=2, weights=form), chosen(rows, now))
        with pytest.warns(UserWarning, match="2 of 60 rows lack"):
            actual = metric.compute()
        for name in ("sg_sre", "dl_sre", "ds_sre"):
            for key in (name, f"{name}_floor"):
                close(actual[key], reduce.reduce_scores(local[key], weights)[0])
            assert float(actual[name]) != float(expected[name])
        # nothing else is weighted
        others = [key for key in KEYS if "sre" not in key or key.endswith("_rois")]
        assert bits({k: actual[k] for k in others}) == bits({k: expected[k] for k in others})


def test_a_choice_of_scores_and_a_prefix():
    rows = rows_of()
    every = fed(GeoBiasScores(RADIUS), rows)
    values = every.compute()
    for scores in (["spad"], ("m_ssi",), ["ds_sre", "u_ssi"], []):
        metric = fed(GeoBiasScores(RADIUS, scores=scores, prefix="val/geobias/"), rows)
        own = [key for key in KEYS if key.startswith((*scores, "performance"))]
        expected = {f"val/geobias/{key}": values[key] for key in own}
        assert dict(sorted(bits(metric.compute()).items())) == dict(sorted(bits(expected).items()))
        # the table has no prefix: it is written as columns
        columns = [key for key in COLUMNS if key.startswith((*scores, "lat", "lon", "members", "performance"))]
        assert list(table(metric)) == columns
        check_tables(table(metric), {key: table(every)[key] for key in columns})


def test_excess_of_the_scores_and_of_their_table():
    metric = fed(GeoBiasScores(RADIUS, prefix="val/"), rows_of())
    values, local = metric.compute(), metric.local()
    above, rows_above = excess(values), excess(local)
    assert list(above) == [f"val/{name}_excess" for name in (*LOCAL_SCORES, "spad")]
    assert list(rows_above) == [f"{name}_excess" for name in LOCAL_SCORES]
    for name in LOCAL_SCORES:
        assert torch.equal(above[f"val/{name}_excess"], values[f"val/{name}"] - values[f"val/{name}_floor"])
        close(rows_above[f"{name}_excess"], local[name] - local[f"{name}_floor"])
    assert excess({}) == {}


def test_performance_of_any_size_where_spad_is_not_asked_for():
    rows = rows_of(values=scenes.probabilities)
    rows["performance"] = np.log(rows["performance"] / (1 - rows["performance"]))
    with pytest.raises(ValueError, match=r'Expected `performance` within \[0, 1\] for "spad", but got'):
        fed(GeoBiasScores(RADIUS), rows).compute()
    metric = GeoBiasScores(RADIUS, bins=(-9.0, -1.0, 0.0, 9.0), min_patch_size=3, scores=LOCAL_SCORES)
    values = fed(metric, rows).compute()
    assert np.isfinite([float(values[name]) for name in LOCAL_SCORES]).all()
    close(values["performance"], rows["performance"].mean())


def test_values_outside_the_range_of_spad_are_found_in_the_rows_given():
    rows = rows_of()
    rows["performance"][17] = 1.5
    with pytest.raises(ValueError, match=r"but got 1.5 at row 17"):
        fed(GeoBiasScores(RADIUS), rows).compute()


# ------------------------------------------------------------------ more than fits into memory


@pytest.mark.parametrize("scene", ["clustered", "coincident", "polar"])
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_neighbourhood_by_neighbourhood(scene, share, monkeypatch):
    rows = rows_of(scene, 120, scenes.probabilities)
    # points at one place have one ROI
    places, _ = Regions.from_points(lat=rows["lat"], lon=rows["lon"], radius=RADIUS).distinct
    limit = int(share * places.sizes.sum())
    keywords = {"min_patch_size": 3, "ssi_max_members": 30, "weights": np.random.default_rng(0).random(120)}
    plain = fed(GeoBiasScores(RADIUS, **keywords), rows)
    expected, local = plain.compute(), table(plain)
    assert local["members"].sum() > limit
    blocks = []
    original = Regions.neighbourhoods

    def counted(self):
        for which, block in original(self):
            blocks.append(len(which))
            yield which, block

    monkeypatch.setattr(Regions, "neighbourhoods", counted)
    monkeypatch.setattr(regions, "MAX_PAIRS", limit)
    metric = fed(GeoBiasScores(RADIUS, **keywords), rows)
    actual = metric.compute()
    assert sum(blocks) == len(places)
    assert len(blocks) > 3
    for key, value in expected.items():
        close(actual[key], value, 1e-9)
    for key, column in local.items():
        close(table(metric)[key], column, 1e-9)
    # again, from the geometry that is kept
    metric.reset()
    assert bits(fed(metric, rows).compute()) == bits(actual)


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"radius": 318}, r"Expected `radius` in radians, but got 318: did you mean km\(318\)\?"),
        ({"radius": 0.0}, r"Expected `radius` in radians within \(0, pi\], but got 0"),
        ({"scale": 0.2}, r"Expected `scale` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
        ({"lag": 0.2}, r"Expected `lag` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
        ({"lag": 30}, r"Expected `lag` in radians, but got 30: did you mean km\(30\)\?"),
        ({"sectors": 1}, r"Expected `n`, the number of sectors, to be an integer >= 2, but got 1"),
        ({"min_patch_size": 0}, "Expected `min_patch_size` to be an integer >= 1, but got 0"),
        ({"min_patches": 1.5}, "Expected `min_patches` to be an integer >= 1, but got 1.5"),
        ({"min_roi_size": True}, "Expected `min_roi_size` to be an integer >= 1, but got True"),
        ({"scores": ["sre"]}, r"Expected `scores` out of \('sg_sre', .*\), but got 'sre'"),
        ({"bins": "probability"}, "Expected hard histograms for the noise floor, but got soft memberships"),
        ({"bins": [0.0, 1.0]}, r"Expected `bins` to be at least three strictly increasing edges, but got \[0.0, 1.0\]"),
        ({"ssi_max_members": 0}, "Expected `max_members` to be an integer >= 1 or None, but got 0"),
    ],
)
def test_refused_when_given(keywords, message):
    """Not at the end of the first epoch."""
    with pytest.raises(ValueError, match=message):
        GeoBiasScores(**{"radius": 0.1, **keywords})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(59), r"Expected `weights` with one weight for each of 60 rows, but got \(59,\)"),
        (np.where(np.arange(60) == 20, -2.0, 1.0), "Expected `weights` >= 0 and finite, but got -2.0 at row 20"),
        (np.where(np.arange(60) == 20, np.nan, 1.0), "Expected `weights` >= 0 and finite, but got nan at row 20"),
    ],
)
def test_weights_that_do_not_fit(weights, message):
    with pytest.raises(ValueError, match=message):
        fed(GeoBiasScores(RADIUS, weights=weights), rows_of()).compute()
