"""SSILoss against the reference in value and gradient, and what its definition promises."""

import copy
import pickle

import numpy as np
import pytest
import torch

from geobias_torch import Regions
from geobias_torch.functional import spatial_self_information
from geobias_torch.losses import SSILoss
from tests.losses.test_sre import points
from tests.reference import gradient
from tests.reference import ssi as reference

RADIUS = 0.1
OPTIONS = [
    {},
    {"k": 2},
    {"background_ratio": 5},
    {"background_ratio": 2, "coding": "raw"},
    {"value_floor": 0.3},
    {"max_members": 12},
]


def both(lat, lon, performance, **options):
    """Loss and gradient, ours and the reference's."""
    values = torch.tensor(performance, requires_grad=True)
    loss = SSILoss(**options)(values, Regions.from_points(lat=lat, lon=lon, radius=RADIUS))
    loss.backward()
    centers = list(zip(lat, lon, strict=True))

    def slow(v):
        return reference.loss(v, lat, lon, centers, RADIUS, **options)

    return loss.item(), values.grad.numpy(), slow(performance), gradient.numerical_gradient(slow, performance)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_value_and_gradient_equal_the_reference(options):
    loss, grad, expected, expected_grad = both(*points(count=24), **options)
    assert loss == pytest.approx(expected, rel=1e-8, abs=1e-12)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-4, atol=1e-7)
    assert np.abs(grad).max() > 1e-4


@pytest.mark.parametrize(("lat", "lon"), [(89.5, 0.0), (0.0, 179.9), (-60.0, -179.9)])
def test_poles_and_antimeridian(lat, lon):
    loss, grad, expected, expected_grad = both(*points(lat, lon, count=20))
    assert loss == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-4, atol=1e-7)


def test_gradcheck():
    lat, lon, performance = points(count=16)
    regions = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    values = torch.tensor(performance, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: SSILoss()(v, regions), values)
    assert torch.autograd.gradcheck(lambda v: SSILoss(background_ratio=3)(v, regions), values)


def test_without_a_floor_it_would_be_the_mean_of_the_scores():
    lat, lon, performance = points()
    regions = Regions.from_points(lat=lat, lon=lon, radius=RADIUS)
    values = torch.tensor(performance)
    local = spatial_self_information(values, regions, coding="centred", background_ratio=0, surprisal="two_sided")
    torch.testing.assert_close(
        SSILoss(value_floor=1e-6)(values, regions), local[~local.isnan()].mean(), rtol=1e-5, atol=0
    )


def test_both_sides_cost_and_no_pattern_does_not():
    grid = torch.cartesian_prod(torch.arange(12), torch.arange(12)).double() / 4
    regions = Regions.from_points(lat=grid[:, 0], lon=grid[:, 1], radius=0.2, center_index=[70])
    halves, board = (grid[:, 0] > 1.4).double(), (grid.mul(4).sum(dim=1) % 2).double()
    mixed = torch.randperm(144, generator=torch.Generator().manual_seed(0)).double() / 144
    clustered, alternating, random = (SSILoss(max_members=None)(v, regions) for v in (halves, board, mixed))
    assert min(clustered, alternating) > 50
    assert random < 4


def test_gradient_steps_dissolve_a_cluster():
    """100 steps on free values take Moran's I above .8 to within 2 standard errors of none."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(40, 43, 100), rng.uniform(5, 9, 100)
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.08, center_lat=[41.5], center_lon=[7.0])
    assert regions.sizes.item() == 100
    distance = np.hypot(lat[:, None] - lat, (lon[:, None] - lon) * np.cos(np.radians(41.5)))
    np.fill_diagonal(distance, np.inf)
    weights = (distance <= np.sort(distance, axis=1)[:, 3:4]).astype(float)

    def moran(values):
        deviation = values - values.mean()
        return deviation @ weights @ deviation / weights.sum() / deviation.var()

    field = np.sin(lat * 1.5) + np.cos(lon * 1.2)
    values = torch.tensor((field - field.min()) / np.ptp(field), requires_grad=True)
    assert moran(values.detach().numpy()) > 0.8
    loss, optimizer = SSILoss(), torch.optim.Adam([values], lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        loss(values, regions).backward()
        optimizer.step()
    final = values.detach().numpy()
    mu, variance = reference.permutation_moments(weights, final)
    deviation = final - final.mean()
    assert abs(deviation @ weights @ deviation - mu) < 2 * np.sqrt(variance)
    assert final.std() > 0.05  # not by making all alike


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_constant_performance_has_a_finite_gradient(value):
    lat, lon, _ = points()
    performance = torch.full((60,), value, requires_grad=True)
    loss = SSILoss()(performance, Regions.from_points(lat=lat, lon=lon, radius=RADIUS))
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert performance.grad.isfinite().all()


@pytest.mark.parametrize("spread", [1e-30, 1e-8, 1e-4, 1.0, 1e3, 1e8])
def test_any_spread_has_a_finite_gradient(spread):
    lat, lon, performance = points()
    values = torch.tensor(0.5 + spread * (performance - 0.5), requires_grad=True)
    loss = SSILoss()(values, Regions.from_points(lat=lat, lon=lon, radius=RADIUS))
    loss.backward()
    assert loss.isfinite()
    assert values.grad.isfinite().all()
    assert values.grad.abs().max() < 1e4  # 3.5e9 without the floor


@pytest.mark.parametrize(
    "case",
    [
        {"lat": [], "lon": []},
        {"lat": [50.0], "lon": [0.0]},
        {"lat": [50.0] * 30, "lon": [0.0] * 30},
        {"lat": [50.0, 50.1, 50.2], "lon": [0.0] * 3},
        {"lat": [50.0] * 3, "lon": [0.0] * 3, "center_lat": [], "center_lon": []},
    ],
    ids=["no points", "one", "coincident", "too few", "no ROI"],
)
def test_nothing_to_score_is_zero_with_a_graph(case):
    performance = torch.rand(len(case["lat"]), requires_grad=True)
    loss = SSILoss()(performance, Regions.from_points(radius=RADIUS, **case))
    loss.backward()
    assert loss.item() == 0
    assert (performance.grad == 0).all()


def test_rois_that_cannot_be_scored_take_no_part_in_the_mean():
    lat, lon, performance = points()
    alone = Regions.from_points(lat=np.append(lat, -70.0), lon=np.append(lon, 100.0), radius=RADIUS)
    without = SSILoss()(torch.tensor(performance), Regions.from_points(lat=lat, lon=lon, radius=RADIUS))
    torch.testing.assert_close(SSILoss()(torch.tensor(np.append(performance, 0.5)), alone), without)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_the_input_is_rounded_in_lower_precision(dtype):
    lat, lon, performance = points()
    regions, values = Regions.from_points(lat=lat, lon=lon, radius=RADIUS), torch.tensor(performance).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = SSILoss()(values, regions)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), SSILoss()(values.double(), regions), rtol=1e-6, atol=0)


def test_survives_pickle_and_copy():
    lat, lon, performance = points()
    regions, loss = Regions.from_points(lat=lat, lon=lon, radius=RADIUS), SSILoss(k=3)
    value = loss(torch.tensor(performance), regions)
    for other in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert torch.equal(other(torch.tensor(performance), regions), value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"k": 0}, "`k` to be an integer >= 1"),
        ({"value_floor": 0.0}, "`value_floor` > 0, but got 0.0"),
        ({"value_floor": float("inf")}, "`value_floor` > 0"),
        ({"coding": "signed"}, "'centred' or 'raw', but got 'signed'"),
        ({"background_ratio": -1}, "`background_ratio` >= 0"),
        ({"max_members": 0}, "`max_members` to be an integer >= 1 or None"),
    ],
)
def test_refused_options(options, match):
    with pytest.raises(ValueError, match=match):
        SSILoss(**options)


def test_refused_arguments():
    regions = Regions.from_points(lat=[50.0, 51.0], lon=[0.0] * 2, radius=RADIUS)
    with pytest.raises(ValueError, match="finite, but got nan at row 1"):
        SSILoss()(torch.tensor([0.5, float("nan")]), regions)
    with pytest.raises(ValueError, match=r"shape \(N,\) with N = 2.*got \(3,\)"):
        SSILoss()(torch.rand(3), regions)
    with pytest.raises(TypeError, match="Regions, but got list"):
        SSILoss()(torch.rand(2), [])


def test_print_shows_the_settings():
    shown = "SSILoss(k=3, background_ratio=0, value_floor=0.01, coding='centred', max_members=100)"
    assert str(SSILoss(k=3)) == shown
