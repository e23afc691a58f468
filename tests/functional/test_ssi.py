"""SSI against tests/reference and esda, and what must not change it."""

import functools
import itertools
import math

import numpy as np
import pytest
import torch

from geobias_torch import Regions
from geobias_torch.functional import spatial_self_information
from geobias_torch.geometry import Arc
from tests import published, scenes
from tests.reference import geometry, ssi
from tests.reference.gradient import numerical_gradient

PUBLISHED = {**published.SSI, "max_members": 15}
OPTIONS = {
    "defaults": {},
    "no background": {"background_ratio": 0},
    "nearest ten": {"max_members": 10},
    "two neighbours": {"k": 2, "background_ratio": 2},
    "two sided": {"surprisal": "two_sided"},
    "floor": {"floor": 1e-3},
    "value scheme": {"null": "value_scheme", "background_ratio": 3},
    "concentric": {"background": "concentric", "background_ratio": 4},
    "raw": {"coding": "raw"},
    "centred": {"coding": "centred"},
}
RTOL = {torch.float64: 1e-8, torch.float32: 1e-4}
CHOSEN = np.arange(0, 50, 7)


@functools.lru_cache(maxsize=4096)
def _weights(data, k, ties):
    return ssi.knn_weights(np.frombuffer(data).reshape(-1, 3), k, ties)


def remembered(points, k, ties):
    """The reference's graph, made once for the same points."""
    return _weights(points.tobytes(), k, ties)


def reference(values, lat, lon, chosen, **keywords):
    centers = [(lat[i], lon[i]) for i in chosen]
    return ssi.spatial_self_information(values, lat, lon, centers, scenes.RADIUS, graph=remembered, **keywords)


def regions_of(scene, n=50, chosen=CHOSEN):
    lat, lon = scenes.points(scene, n)
    return Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS, center_index=chosen)


@pytest.mark.parametrize("kind", ["unmarked", "hits", "real"])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_scores_equal_the_reference(scene, kind):
    lat, lon = scenes.points(scene, 50)
    values = {"unmarked": None, "hits": scenes.hits(scene, 50), "real": scenes.probabilities(scene, 50)}[kind]
    regions = regions_of(scene)
    scored = 0
    for name, options in OPTIONS.items():
        if kind == "unmarked" and "coding" in options:
            continue
        if kind == "real" and name == "value scheme":
            continue  # more than 32 distinct values
        expected = reference(values, lat, lon, CHOSEN, **options)
        scored += np.isfinite(expected).sum()
        if kind == "unmarked":
            actual = spatial_self_information(None, regions, **options)
            np.testing.assert_allclose(actual.double().numpy(), expected, rtol=1e-6, err_msg=name)
            continue
        for dtype, rtol in RTOL.items():
            actual = spatial_self_information(torch.tensor(values, dtype=dtype), regions, **options)
            assert actual.dtype == dtype
            np.testing.assert_allclose(actual.numpy(), expected, rtol=rtol, atol=rtol, err_msg=name)
    assert scored > 20


def arrangement(name, n, reach, rng):
    """Offsets in degrees, (n, 2), of members around a centre, within `reach` degrees."""
    if name == "spread":
        return rng.uniform(-0.7, 0.7, (n, 2)) * reach
    if name == "tight":  # all of them closer together than the background, one far away
        return np.concatenate([rng.normal(0, 0.01, (n - 1, 2)), [[0.0, 0.9]]]) * reach
    if name == "edge":  # on the rim, where the background ends
        turn = rng.uniform(0, 2 * np.pi, n)
        return 0.98 * reach * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if name == "tiles":  # up to 16 share each location
        return rng.uniform(-0.7, 0.7, (max(n // 16, 1), 2))[rng.integers(0, max(n // 16, 1), n)] * reach
    return np.stack([np.linspace(-0.9, 0.9, n), np.zeros(n)], axis=1) * reach  # "meridian": equally spaced, ties


@pytest.mark.parametrize("radius", [3e-7, 1e-5, 0.01, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("name", ["spread", "tight", "edge", "tiles", "meridian"])
def test_graphs_of_every_shape_and_size_equal_the_reference(name, radius):
    rng = np.random.default_rng([0, len(name), int(radius * 1e7)])
    for n, lat0, options in (
        (1, 30.0, {}),
        (3, 89.9999, {"k": 3}),
        (6, -50.0, {"background_ratio": 1}),
        (25, 0.0, {"k": 6, "background_ratio": 2}),
        (40, 67.0, {}),
        (60, 67.0, {"max_members": 30}),
    ):
        reach = np.degrees(min(radius, 0.9)) * 0.98
        offset = arrangement(name, n, reach, rng)
        lat, lon = lat0 + offset[:, 0], 179.9 + offset[:, 1] / np.cos(np.radians(lat0))
        lat, lon = np.where(lat > 90, 180 - lat, lat), np.where(lat > 90, lon + 180, lon)
        lat, lon = np.where(lat < -90, -180 - lat, lat), np.where(lat < -90, lon + 180, lon)
        where = {"center_lat": [lat0], "center_lon": [179.9]}
        regions = Regions.from_points(lat=lat, lon=lon, radius=Arc(radius), **where)
        values = rng.random(n)
        for performance in (None, values):
            expected = ssi.spatial_self_information(
                performance, lat, lon, [(lat0, 179.9)], radius, graph=remembered, **options
            )
            marked = None if performance is None else torch.from_numpy(performance)
            actual = spatial_self_information(marked, regions, **options).double().numpy()
            # below some 100 m distances on the background differ by no more than what counts as a tie
            rtol = 1e-6 if radius >= 0.01 else 1e-3
            np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-6, err_msg=f"{n} {options}")


@pytest.mark.parametrize("options", [{}, {"max_members": None, "background_ratio": 2}])
def test_large_rois_equal_the_reference(options):
    lat, lon = scenes.points("clustered", 400)
    values = scenes.probabilities("clustered", 400)
    chosen = np.array([3, 111, 222])
    regions = Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS, center_index=chosen)
    assert int(regions.sizes.max()) > 110
    for performance in (None, values):
        expected = reference(performance, lat, lon, chosen, **options)
        marked = None if performance is None else torch.from_numpy(performance)
        actual = spatial_self_information(marked, regions, **options).double().numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def lean(sign):
    """The reference's graph with equal distances cut in favour of the members (+1) or of the background (-1)."""

    def graph(points, k, ties):
        weights = np.zeros((len(points), len(points)))
        for i, point in enumerate(points):
            distance = geometry.arc_distance(points, point) + sign * 1e-12 * np.arange(len(points))
            distance[i] = np.inf
            weights[i, np.argsort(distance)[:k]] = 1
        return weights

    return graph


@pytest.mark.parametrize("scene", ["clustered", "island", "uniform"])
def test_published_settings_equal_the_reference(scene):
    """Where no members coincide: the order of equal distances is then a matter of rounding."""
    lat, lon = scenes.points(scene, 50)
    chosen = CHOSEN[1:]
    centers = [(lat[i], lon[i]) for i in chosen]
    for values in (None, scenes.hits(scene, 50)):
        # the centre and the second ring are equally far from the first ring: either of them may be the neighbour
        either = [
            ssi.spatial_self_information(values, lat, lon, centers, scenes.RADIUS, graph=lean(sign), **PUBLISHED)
            for sign in (1, -1)
        ]
        performance = None if values is None else torch.from_numpy(values)
        actual = spatial_self_information(performance, regions_of(scene, chosen=chosen), **PUBLISHED).double().numpy()
        agree = [np.isclose(actual, expected, rtol=1e-6, equal_nan=True) for expected in either]
        assert np.isfinite(actual).any()
        assert (agree[0] | agree[1]).all()


def test_value_scheme_with_several_values_equals_the_reference():
    lat, lon = scenes.points("clustered", 50)
    values = np.floor(4 * scenes.probabilities("clustered", 50)) - 1  # -1, 0, 1, 2: 0 counts with the background
    for coding in ("raw", "centred"):
        for dtype, rtol in RTOL.items():
            options = {"null": "value_scheme", "coding": coding}
            expected = reference(values, lat, lon, CHOSEN, **options)
            assert np.isfinite(expected).sum() > 4
            actual = spatial_self_information(torch.tensor(values, dtype=dtype), regions_of("clustered"), **options)
            np.testing.assert_allclose(actual.numpy(), expected, rtol=rtol)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_gradient_equals_the_reference(scene, dtype):
    lat, lon = scenes.points(scene, 30)
    values, chosen = scenes.probabilities(scene, 30), np.arange(0, 30, 10)
    regions = regions_of(scene, 30, chosen)
    weight = np.array([0.7, -1.3, 0.4])
    for options in (
        {"coding": "centred"},
        {"coding": "centred", "background_ratio": 0},
        {"coding": "raw", "surprisal": "two_sided", "background_ratio": 2},
        {"coding": "raw", "floor": 1e-4, "k": 3},
    ):

        def total(v, options=options):
            return float(np.nansum(weight * reference(v, lat, lon, chosen, **options)))

        expected = numerical_gradient(total, values)
        performance = torch.tensor(values, dtype=dtype, requires_grad=True)
        local = spatial_self_information(performance, regions, **options)
        (torch.from_numpy(weight) * local).nansum().backward()
        scale = max(np.abs(expected).max(), 1.0)
        tolerance = 1e-5 if dtype == torch.float64 else 1e-3
        np.testing.assert_allclose(performance.grad.numpy(), expected, atol=tolerance * scale, err_msg=str(options))
        assert np.isfinite(performance.grad.numpy()).all()


@pytest.mark.parametrize(
    "options",
    [{}, {"background_ratio": 0, "surprisal": "two_sided"}, {"coding": "raw", "max_members": 8, "floor": 1e-3}],
)
def test_gradcheck(options):
    regions = regions_of("clustered", 25, np.arange(0, 25, 5))
    performance = torch.tensor(scenes.probabilities("clustered", 25), requires_grad=True)

    def score(v):
        local = spatial_self_information(v, regions, **options)
        return local[torch.isfinite(local)]

    assert len(score(performance)) > 2
    assert torch.autograd.gradcheck(score, performance)


@pytest.mark.parametrize("values", ["hits", "real"])
def test_moments_are_esdas(values):
    """One ROI that holds everybody, no background: the score follows from esda's I, EI and VI_rand."""
    esda, libpysal = pytest.importorskip("esda"), pytest.importorskip("libpysal")
    lat, lon = scenes.points("clustered", 45)
    lat, lon = 40 + (lat - lat.mean()) / 40, 10 + (lon - lon.mean()) / 40
    z = scenes.hits("clustered", 45) if values == "hits" else scenes.probabilities("clustered", 45)
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.5, center_index=[0])
    score = spatial_self_information(torch.from_numpy(z), regions, coding="raw", background_ratio=0)
    points = geometry.unit_vectors(lat, lon)
    knn = libpysal.weights.KNN(points, k=4, silence_warnings=True)
    moran = esda.Moran(z, knn, transformation="o", permutations=0)
    scale = 4 * len(z) * z.var()
    t = (moran.I - moran.EI) / math.sqrt(moran.VI_rand)
    expected = t**2 / 2 + 0.5 * math.log(2 * math.pi * moran.VI_rand * scale**2)
    assert float(score) == pytest.approx(expected, rel=1e-9)


def test_mean_density_surprisal_over_all_orders_is_the_floor():
    """log sigma + (1 + log 2 pi) / 2, exactly, because mu and sigma are the exact moments of G."""
    lat, lon = [50.0, 50.1, 50.3, 50.2, 50.6, 50.7, 50.75], [8.0, 8.3, 8.1, 8.9, 8.5, 8.2, 8.6]
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1, center_index=[0])
    z = [0.0, 0.0, 1.0, 1.0, 1.0, 0.5, 2.0]
    orders = torch.tensor(list(itertools.permutations(z)), dtype=torch.float64).T
    scores = spatial_self_information(orders, regions, coding="raw", background_ratio=0, k=2)[0]
    unit = geometry.unit_vectors(lat, lon)
    _, variance = ssi.permutation_moments(ssi.knn_weights(unit, 2), np.array(z))
    assert float(scores.mean()) == pytest.approx(0.5 * math.log(variance) + (1 + math.log(2 * math.pi)) / 2, rel=1e-10)


def test_columns_are_scored_one_by_one():
    regions = regions_of("coincident")
    columns = torch.from_numpy(np.stack([scenes.probabilities("coincident", 50, seed=s) for s in range(3)], axis=1))
    for options in ({}, {"background_ratio": 0}, {"coding": "raw", "surprisal": "two_sided"}):
        together = spatial_self_information(columns, regions, **options)
        assert together.shape == (len(CHOSEN), 3)
        alone = torch.stack([spatial_self_information(c, regions, **options) for c in columns.T], dim=1)
        torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("options", [{}, {"background_ratio": 0}, PUBLISHED])
def test_no_points_no_rois_and_lone_points(options):
    nothing = Regions.from_points(lat=[], lon=[], radius=0.1)
    assert spatial_self_information(None, nothing, **options).shape == (0,)
    assert spatial_self_information(torch.zeros(0), nothing, **options).shape == (0,)
    no_rois = Regions.from_points(lat=[40.0], lon=[20.0], radius=0.1, center_index=[])
    assert spatial_self_information(torch.ones(1), no_rois, **options).shape == (0,)
    assert spatial_self_information(torch.ones(1, 3), no_rois, **options).shape == (0, 3)
    lone = Regions.from_points(lat=[40.0, -40.0], lon=[20.0, 20.0], radius=0.1)
    assert torch.isnan(spatial_self_information(torch.tensor([1.0, 0.0]), lone, **options)).all()
    empty = Regions.from_points(lat=[40.0], lon=[20.0], radius=0.1, center_lat=[-40.0], center_lon=[0.0])
    assert torch.isnan(spatial_self_information(None, empty, **options)).tolist() == [True]
    # one member and its five background points are enough for an unmarked score
    assert torch.isfinite(spatial_self_information(None, lone)).all()


def test_what_is_not_scored():
    lat, lon = scenes.points("clustered", 50)
    regions = Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS)
    constant = spatial_self_information(torch.ones(50), regions)
    assert torch.isnan(constant).all()
    # without a background locations alone have no pattern
    assert torch.isnan(spatial_self_information(None, regions, background_ratio=0)).all()
    # all points in one place: every placement looks the same
    one_place = Regions.from_points(lat=[40.0] * 20, lon=[10.0] * 20, radius=0.1)
    hits = torch.tensor([0.0, 1.0] * 10, dtype=torch.float64)
    assert torch.isnan(spatial_self_information(hits, one_place, background_ratio=0)).all()
    assert torch.isfinite(spatial_self_information(hits, one_place)).all()


def test_a_gradient_passes_rois_that_are_not_scored():
    lat, lon = scenes.points("island", 30)
    regions = Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS)
    performance = torch.tensor(scenes.probabilities("island", 30), requires_grad=True)
    for surprisal in ("density", "two_sided"):
        score = spatial_self_information(performance, regions, surprisal=surprisal)
        assert torch.isnan(score).any()
        (gradient,) = torch.autograd.grad(score.nansum(), performance)
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 0


@pytest.mark.parametrize("options", [{}, {"background_ratio": 0}, {"max_members": 12}])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_nothing_changes_with_the_way_that_coordinates_are_written(scene, options):
    lat, lon = scenes.points(scene, 50)
    values = torch.from_numpy(scenes.probabilities(scene, 50))

    def score(lat, lon, values=values, chosen=CHOSEN):
        regions = Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS, center_index=chosen)
        return spatial_self_information(values, regions, **options)

    plain = score(lat, lon)
    close = functools.partial(torch.testing.assert_close, rtol=1e-8, atol=1e-10, equal_nan=True)
    close(score(lat, lon + 360), plain)
    close(score(lat, lon + 64.0), plain)
    order = np.random.default_rng(0).permutation(50)
    close(score(lat[order], lon[order], values[order], np.argsort(order)[CHOSEN]), plain)
    if options.get("background_ratio") == 0:
        close(score(*scenes.rotate(lat, lon)), plain)


def test_two_sided_surprisal_does_not_depend_on_the_scale_of_the_values():
    regions = regions_of("uniform")
    values = torch.from_numpy(scenes.probabilities("uniform", 50))
    scores = [
        spatial_self_information(a * values, regions, coding="raw", surprisal="two_sided") for a in (1.0, 1e-4, 1e4)
    ]
    torch.testing.assert_close(scores[1], scores[0], rtol=1e-9, atol=1e-12, equal_nan=True)
    torch.testing.assert_close(scores[2], scores[0], rtol=1e-9, atol=1e-12, equal_nan=True)


def test_default_coding():
    regions = regions_of("clustered")
    hits = torch.from_numpy(scenes.hits("clustered", 50))
    real = torch.from_numpy(scenes.probabilities("clustered", 50))

    def same(a, b):
        torch.testing.assert_close(a, b, equal_nan=True)

    same(spatial_self_information(hits, regions), spatial_self_information(hits, regions, coding="signed"))
    same(spatial_self_information(hits, regions), spatial_self_information(2 * hits - 1, regions, coding="raw"))
    same(spatial_self_information(3 * hits + 7, regions), spatial_self_information(hits, regions))
    same(spatial_self_information(real, regions), spatial_self_information(real, regions, coding="centred"))


def test_every_column_is_coded_by_its_own_values():
    """A table of hits and probabilities side by side, or of hits written in different ways."""
    regions = regions_of("clustered")
    hits = torch.from_numpy(scenes.hits("clustered", 50))
    columns = [hits, torch.from_numpy(scenes.probabilities("clustered", 50)), 5 * hits - 3, torch.ones(50).double()]
    together = spatial_self_information(torch.stack(columns, dim=1), regions)
    for i, column in enumerate(columns):
        torch.testing.assert_close(together[:, i], spatial_self_information(column, regions), equal_nan=True)
    two = torch.stack([columns[0], columns[2]], dim=1)
    signed = spatial_self_information(two, regions, coding="signed")
    torch.testing.assert_close(signed[:, 0], signed[:, 1], equal_nan=True)
    assert signed.isfinite().any()


@pytest.mark.parametrize("coding", [None, "signed", "centred", "raw"])
def test_no_points(coding):
    regions = Regions.from_points(lat=[], lon=[], radius=0.1)
    assert spatial_self_information(torch.zeros(0), regions, coding=coding).shape == (0,)
    assert spatial_self_information(torch.zeros(0, 3), regions, coding=coding).shape == (0, 3)
