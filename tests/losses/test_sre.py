"""SRELoss against the reference in value and gradient, and what its definition promises."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.losses import SRELoss
from tests.reference import gradient
from tests.reference import sre as reference

RADIUS = 0.1
PARTITIONS = {
    "grid": (ScaleGrid(0.05), reference.scale_grid(0.05)),
    "lag": (DistanceLag(0.03), reference.distance_lag(0.03)),
    "sectors": (DirectionSector(4), reference.direction_sector(4)),
}


def points(center_lat=40.0, center_lon=10.0, count=60, seed=0):
    """Points around a centre, some of them coincident, and smooth performance."""
    rng = np.random.default_rng(seed)
    lat = center_lat + rng.normal(0, 3, count)
    lat = np.where(lat > 90, 180 - lat, lat)  # over the pole
    lon = (center_lon + rng.normal(0, 3, count) / max(np.cos(np.radians(center_lat)), 0.05) + 180) % 360 - 180
    lat[5:9], lon[5:9] = lat[4], lon[4]
    return lat, lon, rng.uniform(0.02, 0.98, count)


def both(partition, lat, lon, performance, **options):
    """Loss and gradient, ours and the reference's."""
    ours, theirs = PARTITIONS[partition]
    values = torch.tensor(performance, requires_grad=True)
    regions = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    loss = SRELoss(ours, **options)(values, regions)
    loss.backward()
    centers = list(zip(lat, lon, strict=True))
    expected = reference.loss(performance, lat, lon, centers, RADIUS, theirs, **options)
    expected_gradient = gradient.numerical_gradient(
        lambda v: reference.loss(v, lat, lon, centers, RADIUS, theirs, frozen=performance, **options), performance
    )
    return loss.item(), values.grad.numpy(), expected, expected_gradient


OPTIONS = [
    {},
    {"one_sided": False},
    {"one_sided": 0.6},
    {"target": "roi"},
    {"target": "roi", "one_sided": False},
    {"estimator": "kl"},
    {"estimator": "kl", "target": "roi", "one_sided": False, "prior": 2.0},
    {"bins": [0.0, 0.3, 0.6, 1.0], "bandwidth": 0.1},
    {"bins": [0.0, 0.3, 0.6, 1.0], "bandwidth": 0.1, "estimator": "kl", "target": "roi"},
    {"min_patch_size": 2},
    {"min_patch_size": 8},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_value_and_gradient_equal_the_reference(partition, options):
    loss, grad, expected, expected_grad = both(partition, *points(count=28), **options)
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-5, atol=1e-8)
    assert np.abs(grad).max() > 1e-6


@pytest.mark.parametrize("error", [0.05, 5e-4])
def test_nearly_perfect_performance_and_the_smallest_share(error):
    lat, lon, performance = points(count=30)
    loss, grad, expected, expected_grad = both("grid", lat, lon, 1 - error * performance)
    assert loss == pytest.approx(expected, rel=1e-7)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("lat", "lon"), [(89.5, 0.0), (0.0, 179.9), (-60.0, -179.9)])
def test_poles_and_antimeridian(lat, lon):
    loss, grad, expected, expected_grad = both("grid", *points(lat, lon, count=30))
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-5, atol=1e-8)


def test_several_partitions_are_summed():
    lat, lon, performance = points()
    regions = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    values = torch.tensor(performance)
    parts = [ours for ours, _ in PARTITIONS.values()]
    together = SRELoss(parts)(values, regions)
    torch.testing.assert_close(together, sum(SRELoss(part)(values, regions) for part in parts))


def test_hard_and_soft_bins_agree_on_certain_performance():
    lat, lon, performance = points()
    regions, certain = Regions.from_points(lat=lat, lon=lon, radius=RADIUS), torch.tensor(performance).round()
    by_probability = SRELoss(DirectionSector(4), estimator="kl")(certain, regions)
    by_edges = SRELoss(DirectionSector(4), estimator="kl", bins=[0, 0.5, 1], bandwidth=1e-3)(certain, regions)
    torch.testing.assert_close(by_probability, by_edges)


def one_roi(sizes):
    """One ROI with a sector of each size, as (regions, partition)."""
    angle = np.concatenate([np.full(n, (k + 0.5) * 2 * np.pi / len(sizes)) for k, n in enumerate(sizes)])
    lat, lon = np.degrees(0.05) * np.cos(angle), 20 + np.degrees(0.05) * np.sin(angle)
    regions = Regions.from_points(lat=lat, lon=lon, radius=RADIUS, center_lat=[0.0], center_lon=[20.0])
    return regions, DirectionSector(len(sizes))


@pytest.mark.parametrize("values", ["hits", "probabilities"])
def test_noise_alone_is_worth_nothing(values):
    """Two-sided, the mean over shuffles of the performance within the ROI is 0; that of the KL is not."""
    regions, partition = one_roi([6, 9, 12, 20])
    rng = np.random.default_rng(0)
    performance = rng.uniform(0, 1, 47) if values == "probabilities" else (rng.random(47) < 0.7).astype(float)
    loss = SRELoss(partition, one_sided=False)
    shuffled = np.array([loss(torch.tensor(rng.permutation(performance)), regions).item() for _ in range(800)])
    assert abs(shuffled.mean()) < 4 * shuffled.std() / np.sqrt(len(shuffled))
    assert shuffled.std() > 0.005  # or the line above says nothing
    kl = SRELoss(partition, estimator="kl", one_sided=False)
    assert np.mean([kl(torch.tensor(rng.permutation(performance)), regions).item() for _ in range(100)]) > 0.005


def test_expectation_over_all_orders_is_exactly_zero():
    regions, partition = one_roi([2, 4])
    performance = np.array([0.1, 0.4, 0.5, 0.9, 0.9, 1.0])
    loss = SRELoss(partition, one_sided=False, min_patch_size=2)
    orders = [loss(torch.tensor(performance[list(o)]), regions).item() for o in itertools.permutations(range(6))]
    assert np.mean(orders) == pytest.approx(0, abs=1e-15)
    assert np.std(orders) > 0.01


def test_only_the_bad_patch_is_moved_and_upwards():
    regions, partition = one_roi([10, 10, 10])
    performance = torch.tensor([0.2] * 10 + [0.6] * 10 + [0.9] * 10, requires_grad=True)
    SRELoss(partition)(performance, regions).backward()
    assert (performance.grad[:10] < 0).all()
    assert (performance.grad[10:] == 0).all()
    performance.grad = None
    SRELoss(partition, one_sided=False)(performance, regions).backward()
    assert (performance.grad[20:] > 0).all()  # levelling down: why one-sided is the default


def test_by_hand():
    # h = 1/2; the bad half has h_k = 1/4 and variance 4/3 * 3/16 = 1/4; (1/16 - 1/4 (1/4 - 1/8)) / (1/2) in each bin
    regions, partition = one_roi([4, 4])
    performance = torch.tensor([0.0, 0, 0, 1, 1, 1, 1, 0])
    expected = 0.5 * (1 / 16 - 1 / 32) / 0.5
    assert SRELoss(partition, min_patch_size=2)(performance, regions).item() == pytest.approx(expected)


def test_a_roi_without_a_scored_patch_adds_zero_to_the_mean():
    lat, lon, performance = points()
    alone_lat, alone_lon = np.append(lat, -70.0), np.append(lon, 100.0)
    without = SRELoss(DirectionSector(4))(
        torch.tensor(performance), Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    )
    with_one = SRELoss(DirectionSector(4))(
        torch.tensor(np.append(performance, 0.5)),
        Regions.from_points(lat=alone_lat, lon=alone_lon, radius=RADIUS),
    )
    torch.testing.assert_close(with_one, without * len(lat) / (len(lat) + 1))


@pytest.mark.parametrize("estimator", ["excess", "kl"])
def test_no_roi_is_zero_with_a_graph(estimator):
    performance = torch.rand(3, requires_grad=True)
    regions = Regions.from_points(lat=[50.0] * 3, lon=[0.0] * 3, radius=RADIUS, center_lat=[], center_lon=[])
    loss = SRELoss(DistanceLag(0.05), estimator=estimator)(performance, regions)
    loss.backward()
    assert loss.item() == 0
    assert (performance.grad == 0).all()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_wrong_and_all_right_have_finite_gradients(options, value):
    lat, lon, _ = points()
    performance = torch.full((60,), value, dtype=torch.float64, requires_grad=True)
    loss = SRELoss(DirectionSector(4), **options)(performance, Regions.from_points(lat=lat, lon=lon, radius=RADIUS))
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert performance.grad.isfinite().all()


def test_sampled_rois_with_rows_outside_them():
    """What a training batch hands over: each sample is its ROI; rows in none get no gradient."""
    lat, lon, performance = points()
    regions = Regions.from_members(
        lat=lat, lon=lon, center_lat=lat[:2], center_lon=lon[:2], radius=RADIUS,
        offsets=[0, 20, 45], members=list(range(10, 30)) + list(range(20, 45)),
    )  # fmt: skip
    values = torch.tensor(performance, requires_grad=True)
    loss = SRELoss(DirectionSector(3), min_patch_size=3)(values, regions)
    loss.backward()
    rois = [np.arange(10, 30), np.arange(20, 45)]
    expected = reference.loss(
        performance, lat, lon, list(zip(lat[:2], lon[:2], strict=True)), RADIUS, reference.direction_sector(3),
        min_patch_size=3, rois=rois,
    )  # fmt: skip
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    assert (values.grad[:10] == 0).all()
    assert (values.grad[45:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_the_input_is_rounded_in_lower_precision(dtype):
    lat, lon, performance = points()
    regions = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    values = torch.tensor(performance).to(dtype)
    loss = SRELoss(ScaleGrid(0.05))(values, regions)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), SRELoss(ScaleGrid(0.05))(values.double(), regions), rtol=1e-6, atol=0)


def test_survives_pickle_and_copy():
    lat, lon, performance = points()
    regions, loss = Regions.from_points(lat=lat, lon=lon, radius=RADIUS), SRELoss([ScaleGrid(0.05), DistanceLag(0.02)])
    value = loss(torch.tensor(performance), regions)
    for other in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert torch.equal(other(torch.tensor(performance), regions), value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"estimator": "js"}, "'excess' or 'kl', but got 'js'"),
        ({"target": "free"}, "'fixed' or 'roi', but got 'free'"),
        ({"min_patch_size": 1}, "`min_patch_size` of at least 2.*got 1"),
        ({"prior": 0.0}, "`prior` > 0"),
        ({"one_sided": 1.5}, r"True, False or within \[0, 1\], but got 1.5"),
        ({"min_patch_size": 2.5}, "`min_patch_size` of at least 2, whole.*got 2.5"),
        ({"min_patch_size": float("nan")}, "got nan"),
        ({"prior": float("inf")}, "`prior` > 0 and finite.*got inf"),
        ({"bandwidth": 0.1}, "no `bandwidth` with bins='probability'"),
        ({"bins": None}, "hard bins have no gradient"),
        ({"bins": [0, 0.5, 1]}, "hard bins have no gradient"),
        ({"bins": "categories", "bandwidth": 0.1}, "got bins='categories'"),
    ],
)
def test_refused_options(options, match):
    with pytest.raises(ValueError, match=match):
        SRELoss(DistanceLag(0.01), **options)


def test_refused_partitions():
    with pytest.raises(TypeError, match=r"partitions such as DistanceLag\(0.01\), but got 0.05 of type float"):
        SRELoss([DistanceLag(0.01), 0.05])
    with pytest.raises(ValueError, match="an empty sequence"):
        SRELoss([])


@pytest.mark.parametrize(
    ("performance", "match"),
    [
        ([0.5, 0.5], r"shape \(N,\) with N = 3.*got \(2,\)"),
        ([[0.5], [0.5], [0.5]], r"got \(3, 1\)"),
        ([0.5, float("nan"), 0.5], "finite, but got nan at row 1"),
        ([0.5, 0.5, float("inf")], "finite, but got inf at row 2"),
        ([0.5, 0.5, 1.5], r'within \[0, 1\] for bins="probability", but got 1.5 at row 2'),
        ([-0.5, 0.5, 0.5], "but got -0.5 at row 0"),
        ([50.0, 87.5, 100.0], "but got 50 at row 0: these look like percent: divide by 100."),
    ],
)
def test_refused_performance(performance, match):
    regions = Regions.from_points(lat=[50.0, 51.0, 52.0], lon=[0.0] * 3, radius=RADIUS)
    with pytest.raises(ValueError, match=match):
        SRELoss(DistanceLag(0.01))(torch.tensor(performance), regions)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("estimator", ["excess", "kl"])
def test_a_probability_rounded_beyond_one_is_one_and_keeps_its_gradient(dtype, estimator):
    regions, partition = one_roi([10, 10])
    plain = torch.tensor([0.0] * 5 + [1.0] * 15, dtype=dtype)
    rounded = torch.where(plain == 1, plain + 2e-7, plain - 2e-7)
    assert (rounded > 1).sum() == 15
    losses, gradients = [], []
    for values in (plain, rounded):
        performance = values.clone().requires_grad_()
        loss = SRELoss(partition, estimator=estimator)(performance, regions)
        loss.backward()
        losses.append(loss.detach())
        gradients.append(performance.grad)
    assert torch.equal(*losses)
    assert torch.equal(*gradients)
    assert (gradients[1][:10] < 0).all()


@pytest.mark.parametrize("performance", [np.full(3, 0.5), [0.5, 0.5, 0.5], None])
def test_performance_that_is_no_tensor(performance):
    regions = Regions.from_points(lat=[50.0, 51.0, 52.0], lon=[0.0] * 3, radius=RADIUS)
    with pytest.raises(TypeError, match=f"to be a tensor with a gradient, but got {type(performance).__name__}"):
        SRELoss(DistanceLag(0.01))(performance, regions)


def test_refused_regions():
    with pytest.raises(TypeError, match="Regions, but got Tensor"):
        SRELoss(DistanceLag(0.01))(torch.rand(3), torch.zeros(3))


def test_print_shows_the_settings():
    shown = str(SRELoss([DistanceLag(0.02), DirectionSector(8)], estimator="kl", one_sided=0.5))
    assert shown.startswith("SRELoss(partition=[DistanceLag(lag=0.02), DirectionSector(n=8)], estimator='kl'")
    assert shown.endswith("one_sided=0.5)")


def test_edges_that_are_none_are_refused_at_once():
    with pytest.raises(ValueError, match="`bins` to be at least three strictly increasing edges"):
        SRELoss(DirectionSector(4), bins=[0.5], bandwidth=0.1)


@pytest.mark.parametrize("options", [{}, {"bins": [0, 0.3, 0.7, 1], "bandwidth": 0.2}], ids=["probability", "bins"])
@pytest.mark.parametrize("one_sided", [True, False])
def test_gradcheck(options, one_sided):
    """With the ROI's own histogram in the graph; what is held fixed otherwise is the reference's business."""
    generator = torch.Generator().manual_seed(1)
    lat, lon = 40 + 4 * torch.rand(2, 30, generator=generator, dtype=torch.float64)
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.05, center_index=[0, 7, 19])
    loss = SRELoss(
        [DirectionSector(3), DistanceLag(0.02)], estimator="kl", target="roi", one_sided=one_sided, **options
    )
    values = (0.1 + 0.8 * torch.rand(30, generator=generator, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: loss(v, regions), values)
    assert torch.autograd.grad(loss(values, regions), values)[0].any()
