"""SRE and its noise floor against tests/reference, and what must not change them."""

import numpy as np
import pytest
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.functional import noise_floor, spatial_relative_entropy
from tests import scenes
from tests.reference import sre
from tests.reference.gradient import numerical_gradient

OPTIONS = {
    "defaults": {},
    "small patches": {"min_patch_size": 2},
    "prior": {"min_patch_size": 3, "prior": 0.5},
    "smoothing": {"min_patch_size": 1, "smoothing": 0.01},
    "counting": {"min_patch_size": 3, "min_patches": 3, "min_roi_size": 20},
    "constant kept": {"min_patch_size": 1, "min_patches": 1, "drop_constant": False},
}
RTOL = {torch.float64: 1e-9, torch.float32: 2e-6}


def regions_of(scene, **keywords):
    lat, lon = scenes.points(scene)
    return Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS, **keywords)


def expected_of(function, values, scene, partition, **keywords):
    lat, lon = scenes.points(scene)
    return function(values, lat, lon, scenes.centers(lat, lon), scenes.RADIUS, partition, **keywords)


def check(actual, expected, rtol):
    np.testing.assert_allclose(actual.numpy(), expected, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("partition", scenes.PARTITIONS)
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_score_and_floor_equal_the_reference(scene, partition):
    ours, theirs = scenes.PARTITIONS[partition]
    regions, hits = regions_of(scene), scenes.hits(scene)
    scored = 0
    for options in OPTIONS.values():
        for function, reference in (
            (spatial_relative_entropy, sre.spatial_relative_entropy),
            (noise_floor, sre.noise_floor),
        ):
            expected = expected_of(reference, hits, scene, theirs, **options)
            scored += np.isfinite(expected).sum()
            for dtype, rtol in RTOL.items():
                actual = function(torch.tensor(hits, dtype=dtype), regions, ours, **options)
                assert actual.dtype == dtype
                assert actual.shape == (len(hits),)
                check(actual, expected, rtol)
    assert scored > 0


@pytest.mark.parametrize(
    ("bins", "bandwidth"),
    [
        ((0.0, 0.25, 0.5, 0.75, 1.0), None),
        ((0.0, 0.25, 0.5, 0.75, 1.0), 0.1),
        (None, 0.05),
        ("probability", None),
        ("categories", None),
    ],
)
def test_every_kind_of_histogram_equals_the_reference(bins, bandwidth):
    values = scenes.probabilities("clustered")
    if bins == "categories":
        values = np.floor(values * 4)
    for options in ({"min_patch_size": 2}, {"min_patch_size": 2, "prior": 0.5}):
        for ours, theirs in scenes.PARTITIONS.values():
            expected = expected_of(
                sre.spatial_relative_entropy, values, "clustered", theirs, bins=bins, bandwidth=bandwidth, **options
            )
            assert np.isfinite(expected).any()
            for dtype, rtol in RTOL.items():
                performance = torch.tensor(values, dtype=dtype)
                actual = spatial_relative_entropy(
                    performance, regions_of("clustered"), ours, bins=bins, bandwidth=bandwidth, **options
                )
                # soft memberships in float32 are sums of rounded terms; some shares are close to 0
                check(actual, expected, rtol if dtype == torch.float64 else 2e-4)


def test_floor_of_several_bins_equals_the_reference():
    values = scenes.probabilities("uniform")
    bins = (0.0, 0.25, 0.5, 0.75, 1.0)
    for ours, theirs in scenes.PARTITIONS.values():
        expected = expected_of(sre.noise_floor, values, "uniform", theirs, bins=bins, min_patch_size=3)
        actual = noise_floor(torch.from_numpy(values), regions_of("uniform"), ours, bins=bins, min_patch_size=3)
        check(actual, expected, 1e-9)


def test_floor_of_large_rois_equals_the_reference():
    """The sum over draws is cut where probabilities vanish: rare and common bins, large and small draws."""
    rng = np.random.default_rng(0)
    lat, lon = rng.normal(30, 0.4, 3000), rng.normal(0, 0.4, 3000)
    for rate in (0.001, 0.03, 0.5, 0.99):
        hits = (rng.random(3000) < rate).astype(float)
        for options in ({}, {"prior": 0.5}):
            regions = Regions.from_points(lat=lat, lon=lon, radius=0.03, center_lat=[30.0], center_lon=[0.0])
            actual = noise_floor(torch.from_numpy(hits), regions, DistanceLag(0.004), **options)
            expected = sre.noise_floor(
                hits, lat, lon, [(30.0, 0.0)], 0.03, sre.distance_lag(0.004), min_patch_size=10, **options
            )
            check(actual, expected, 1e-8)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_gradient_equals_the_reference(scene, dtype):
    lat, lon = scenes.points(scene, 40)
    values = scenes.probabilities(scene, 40)
    chosen = np.arange(0, 40, 5)
    centers = [(lat[i], lon[i]) for i in chosen]
    regions = Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS, center_index=chosen)
    weight = np.random.default_rng(0).normal(size=len(chosen))
    largest = 0.0
    for partition in ("lag", "tangent"):
        ours, theirs = scenes.PARTITIONS[partition]
        for keywords in (
            {"bins": "probability", "prior": 0.5, "min_patch_size": 2},
            {"bandwidth": 0.2, "min_patch_size": 2, "min_patches": 1, "drop_constant": False},
        ):

            def total(v, theirs=theirs, keywords=keywords):
                local = sre.spatial_relative_entropy(v, lat, lon, centers, scenes.RADIUS, theirs, **keywords)
                return float(np.nansum(weight * local))

            performance = torch.tensor(values, dtype=dtype, requires_grad=True)
            local = spatial_relative_entropy(performance, regions, ours, **keywords)
            (torch.from_numpy(weight) * local).nansum().backward()
            expected = numerical_gradient(total, values)
            scale = np.abs(expected).max()
            largest = max(largest, scale)
            tolerance = 1e-6 if dtype == torch.float64 else 1e-4
            np.testing.assert_allclose(performance.grad.numpy(), expected, rtol=tolerance, atol=tolerance * scale)
    assert largest > 0.01


@pytest.mark.parametrize("keywords", [{"bins": "probability"}, {"bandwidth": 0.2}, {"bandwidth": 0.2, "prior": 0.5}])
def test_gradcheck(keywords):
    lat, lon = scenes.points("clustered", 25)
    regions = Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS)
    performance = torch.tensor(scenes.probabilities("clustered", 25), requires_grad=True)

    def score(v):
        local = spatial_relative_entropy(v, regions, DistanceLag(0.03), min_patch_size=2, **keywords)
        return local[torch.isfinite(local)]

    assert len(score(performance)) > 5
    assert torch.autograd.gradcheck(score, performance)
    # two performance vectors side by side
    assert torch.autograd.gradcheck(lambda v: score(torch.stack([v, 1 - v], dim=1)), performance)


def test_columns_are_scored_one_by_one():
    regions = regions_of("coincident")
    columns = torch.from_numpy(np.stack([scenes.hits("coincident", seed=s) for s in range(3)], axis=1))
    for function in (spatial_relative_entropy, noise_floor):
        for options in OPTIONS.values():
            together = function(columns, regions, DistanceLag(0.03), **options)
            assert together.shape == (80, 3)
            alone = torch.stack([function(c, regions, DistanceLag(0.03), **options) for c in columns.T], dim=1)
            torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-15, equal_nan=True)


@pytest.mark.parametrize("partition", [DistanceLag(0.05), DirectionSector(4), ScaleGrid(0.05)])
@pytest.mark.parametrize("function", [spatial_relative_entropy, noise_floor])
def test_no_points_no_rois_and_one_point(function, partition):
    nothing = Regions.from_points(lat=[], lon=[], radius=0.1)
    assert function(torch.zeros(0), nothing, partition).shape == (0,)
    assert function(torch.zeros(0, 2), nothing, partition).shape == (0, 2)
    lone = Regions.from_points(lat=[10.0], lon=[20.0], radius=0.1)
    assert torch.isnan(function(torch.ones(1), lone, partition)).tolist() == [True]
    no_rois = Regions.from_points(lat=[10.0], lon=[20.0], radius=0.1, center_index=[])
    assert function(torch.ones(1), no_rois, partition).shape == (0,)
    empty_roi = Regions.from_points(lat=[10.0], lon=[20.0], radius=0.1, center_lat=[-40.0], center_lon=[0.0])
    assert torch.isnan(function(torch.ones(1), empty_roi, partition, prior=0.5)).tolist() == [True]


def test_counting_rules_by_hand():
    """Two rings of three and two members; the fourth, on the other side of the globe, is alone."""
    lat, lon = [10.0, 10.1, 9.9, 13.0, 7.0, 50.0], [0.0] * 6
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.06, center_index=[0, 5])
    hits = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)

    def score(hits=hits, **keywords):
        return spatial_relative_entropy(hits, regions, DistanceLag(0.03), **{"min_patch_size": 2, **keywords}).tolist()

    h, inner, outer = np.array([0.6, 0.4]), np.array([1 / 3, 2 / 3]), np.array([1.0, 0.0])
    divergence = [(h * np.log(h / (q + 1e-8))).sum() for q in (inner, outer)]
    assert score()[0] == pytest.approx(0.6 * divergence[0] + 0.4 * divergence[1])
    assert np.isnan(score()[1])
    # weights are not renormalised when the outer ring is too small
    assert score(min_patch_size=3, min_patches=1)[0] == pytest.approx(0.6 * divergence[0])
    assert np.isnan(score(min_patch_size=3)[0])
    assert np.isnan(score(min_roi_size=6)[0])
    assert np.isnan(score(torch.ones(6, dtype=torch.float64))[0])
    assert score(torch.ones(6, dtype=torch.float64), drop_constant=False)[0] == pytest.approx(0, abs=1e-7)
    # with a prior a constant ROI counts and has nothing to say
    assert score(torch.ones(6, dtype=torch.float64), prior=0.5)[0] == pytest.approx(0, abs=1e-12)
    prior = [(n * q + 0.5 * h) / (n + 0.5) for n, q in ((3, inner), (2, outer))]
    shrunk = [(h * np.log(h / q)).sum() for q in prior]
    assert score(prior=0.5)[0] == pytest.approx(0.6 * shrunk[0] + 0.4 * shrunk[1])


@pytest.mark.parametrize("soft", [{"bandwidth": 0.01}, {"bins": "probability"}])
def test_soft_histograms_of_a_constant_roi_are_dropped_too(soft):
    regions = regions_of("clustered")
    values = torch.from_numpy(0.9 + 0.05 * scenes.probabilities("clustered"))  # all of them in the upper bin
    score = spatial_relative_entropy(values, regions, DistanceLag(0.03), min_patch_size=2, **soft)
    assert torch.isnan(score).all()


@pytest.mark.parametrize("partition", scenes.PARTITIONS)
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_nothing_changes_with_the_way_that_coordinates_are_written(scene, partition):
    lat, lon = scenes.points(scene)
    hits = torch.from_numpy(scenes.hits(scene))
    ours = scenes.PARTITIONS[partition][0]

    def score(lat, lon, hits=hits):
        regions = Regions.from_points(lat=lat, lon=lon, radius=scenes.RADIUS)
        return spatial_relative_entropy(hits, regions, ours, min_patch_size=2)

    plain = score(lat, lon)
    torch.testing.assert_close(score(lat, lon + 360), plain, equal_nan=True)
    torch.testing.assert_close(score(lat, lon + 64.0), plain, equal_nan=True)
    torch.testing.assert_close(score(lat, lon - 192.0), plain, equal_nan=True)
    order = np.random.default_rng(0).permutation(len(lat))
    torch.testing.assert_close(score(lat[order], lon[order], hits[order]), plain[order], equal_nan=True)
    if partition == "lag":
        torch.testing.assert_close(score(*scenes.rotate(lat, lon)), plain, equal_nan=True)


@pytest.mark.parametrize("options", [{}, {"prior": 0.5}, {"smoothing": 1e-3}])
@pytest.mark.parametrize("partition", [DistanceLag(0.02), DirectionSector(6), ScaleGrid(0.04)])
def test_floor_is_the_mean_over_shuffles(partition, options):
    rng = np.random.default_rng(7)
    lat, lon = rng.normal(40, 1.5, 200), rng.normal(10, 2, 200)
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.06, center_lat=[40.0], center_lon=[10.0])
    inside = regions.members.long()
    hits = torch.zeros(200, dtype=torch.float64)
    hits[inside[: len(inside) // 6]] = 1  # one in six: the tail of the distribution matters
    shuffled = hits[:, None].repeat(1, 4000)
    for column in range(4000):
        shuffled[inside, column] = hits[inside][torch.from_numpy(rng.permutation(len(inside)))]
    scores = spatial_relative_entropy(shuffled, regions, partition, min_patch_size=5, **options)[0]
    floor = noise_floor(hits, regions, partition, min_patch_size=5, **options)[0]
    error = float(scores.std()) / 4000**0.5
    assert error < 0.05 * float(floor)
    assert abs(float(scores.mean()) - float(floor)) < 4 * error


def test_inputs_are_not_changed_and_results_repeat():
    regions = regions_of("clustered")
    hits = torch.from_numpy(scenes.hits("clustered"))
    before = hits.clone()
    first = spatial_relative_entropy(hits, regions, DistanceLag(0.03), min_patch_size=2)
    again = spatial_relative_entropy(hits, regions_of("clustered"), DistanceLag(0.03), min_patch_size=2)
    assert torch.equal(hits, before)
    assert torch.equal(torch.nan_to_num(first), torch.nan_to_num(again))
    assert not noise_floor(hits.requires_grad_(), regions, DistanceLag(0.03)).requires_grad


@pytest.mark.parametrize("performance", [[0, 1, 1, 0], (True, False), np.array([1, 0], dtype=np.int8)])
def test_lists_booleans_and_integers_are_performance(performance):
    count = len(performance)
    regions = Regions.from_points(lat=[10.0 + i / 10 for i in range(count)], lon=[60.0] * count, radius=0.1)
    score = spatial_relative_entropy(performance, regions, DistanceLag(0.05), min_patch_size=1, min_patches=1)
    expected = spatial_relative_entropy(
        torch.tensor(np.asarray(performance, float), dtype=torch.float32),
        regions, DistanceLag(0.05), min_patch_size=1, min_patches=1,
    )  # fmt: skip
    assert torch.equal(score, expected)


@pytest.mark.parametrize("function", [spatial_relative_entropy, noise_floor])
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"performance": torch.tensor([1.0, np.nan])}, r"Expected `performance` to be finite, but got nan at row 1"),
        ({"performance": torch.tensor([np.inf, 1.0])}, r"Expected `performance` to be finite, but got inf at row 0"),
        ({"performance": torch.ones(3)}, r"Expected `performance` of shape \(2,\) or \(2, R\), but got shape \(3,\)"),
        ({"performance": torch.ones(2, 1, 1)}, r"Expected `performance` of shape \(2,\) or \(2, R\)"),
        ({"partition": DistanceLag(0.2)}, r"Expected `lag` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
        ({"partition": ScaleGrid(0.2)}, r"Expected `scale` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
        ({"smoothing": -1.0}, r"Expected `smoothing` >= 0, but got -1.0"),
        ({"prior": float("nan")}, r"Expected `prior` >= 0, but got nan"),
        ({"min_patch_size": 0}, r"Expected `min_patch_size` to be an integer >= 1, but got 0"),
        ({"min_patches": 1.5}, r"Expected `min_patches` to be an integer >= 1, but got 1.5"),
        ({"min_roi_size": True}, r"Expected `min_roi_size` to be an integer >= 1, but got True"),
        ({"bins": [0, 1]}, r"Expected `bins` to be at least three strictly increasing edges, but got \[0.0, 1.0\]"),
        ({"bins": [0, 0.5, 0.5]}, r"strictly increasing edges"),
        ({"bins": "terciles"}, r'Expected `bins` to be edges, None, "categories" or "probability", but got .terciles.'),
    ],
)  # fmt: skip
def test_refused(function, keywords, message):
    regions = Regions.from_points(lat=[0.0, 1.0], lon=[50.0, 50.0], radius=0.1)
    arguments = {"performance": torch.tensor([1.0, 0.0]), "partition": DistanceLag(0.05), **keywords}
    with pytest.raises(ValueError, match=message):
        function(arguments.pop("performance"), regions, arguments.pop("partition"), **arguments)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"bandwidth": 0.0}, r"Expected `bandwidth` > 0, but got 0.0"),
        ({"bandwidth": 0.1, "bins": "probability"}, r'Expected no `bandwidth` with bins="probability", but got 0.1'),
        ({"bins": "probability", "performance": torch.tensor([0.5, 1.5])},
         r'Expected `performance` within \[0, 1\] for bins="probability", but got 1.5 at row 1'),
    ],
)  # fmt: skip
def test_refused_by_soft_histograms(keywords, message):
    regions = Regions.from_points(lat=[0.0, 1.0], lon=[50.0, 50.0], radius=0.1)
    keywords = {"performance": torch.tensor([1.0, 0.0]), **keywords}
    with pytest.raises(ValueError, match=message):
        spatial_relative_entropy(keywords.pop("performance"), regions, DistanceLag(0.05), **keywords)


@pytest.mark.parametrize("soft", [{"bandwidth": 0.1}, {"bins": "probability"}])
def test_floor_refuses_soft_histograms(soft):
    regions = Regions.from_points(lat=[0.0, 1.0], lon=[50.0, 50.0], radius=0.1)
    with pytest.raises(ValueError, match=r"Expected hard histograms for the noise floor, but got soft memberships"):
        noise_floor(torch.tensor([1.0, 0.0]), regions, DistanceLag(0.05), **soft)


def test_refuses_what_is_not_a_number_or_not_a_partition():
    regions = Regions.from_points(lat=[0.0, 1.0], lon=[50.0, 50.0], radius=0.1)
    with pytest.raises(TypeError, match=r"Expected `performance` to be real, but got torch.complex64"):
        spatial_relative_entropy(torch.ones(2, dtype=torch.complex64), regions, DistanceLag(0.05))
    with pytest.raises(TypeError, match=r"Expected `performance` to hold numbers, but got <U3"):
        spatial_relative_entropy(["yes", "no"], regions, DistanceLag(0.05))
    with pytest.raises(TypeError, match=r"Expected `partition` to be a partition or a callable, but got float"):
        spatial_relative_entropy(torch.ones(2), regions, 0.05)
