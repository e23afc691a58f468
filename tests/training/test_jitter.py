"""Points moved at random before the geo-bias losses see them."""

import pytest
import torch

from geobias_torch.geometry import LocalFrame
from tests.training.test_tasks import Spy, loader, make_points, make_task
from training.jitter import jittered

SPREAD = 0.01


def draw(lat, lon, spread=SPREAD, count=20_000):
    places = torch.full((count,), lat), torch.full((count,), lon)
    return *places, *jittered(*places, spread, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("lat", "lon"), [(0.0, 0.0), (60.0, 179.99), (-45.0, -180.0), (90.0, 12.0), (-90.0, 0.0)])
def test_shifts_are_normal_and_alike_in_all_directions(lat, lon):
    from_lat, from_lon, to_lat, to_lon = draw(lat, lon)
    frame = LocalFrame(from_lat.double(), from_lon.double(), to_lat, to_lon, 0.1)
    east, north = frame.distance * frame.azimuth.sin(), frame.distance * frame.azimuth.cos()
    for shift in (east, north):
        assert abs(shift.mean()) < 4 * SPREAD / len(shift) ** 0.5
        assert abs(shift.std() - SPREAD) < 4 * SPREAD / len(shift) ** 0.5
    assert abs((east * north).mean()) < 4 * SPREAD**2 / len(east) ** 0.5
    assert to_lat.abs().max() <= 90
    assert to_lon.abs().max() <= 180


def test_without_a_spread_nothing_moves_and_nowhere_stays_nowhere():
    lat, lon = torch.tensor([10.0, float("nan"), -89.0]), torch.tensor([20.0, float("nan"), 179.0])
    moved = jittered(lat, lon, 0.0, torch.Generator())
    torch.testing.assert_close(torch.stack(moved), torch.stack([lat, lon]).double(), equal_nan=True)


def soft(task, lat, lon, target):
    return torch.sigmoid((0.5 - (task(lat, lon) - target).abs()) / 0.1)


def test_roi_samples_are_moved_and_random_rows_are_not():
    batch, spy = next(iter(loader(make_points()))), Spy()
    task = make_task(spy, jitter=SPREAD, weight=0.0)
    still = make_task(Spy(), weight=0.0)
    torch.testing.assert_close(task.training_step(batch, 0), still.training_step(batch, 0))
    random, samples = spy.performance[: batch.num_random], spy.performance[batch.num_random :]
    expected = soft(task, batch.lat, batch.lon, batch.target)
    torch.testing.assert_close(random, expected[: batch.num_random])
    moved = jittered(
        batch.lat[batch.num_random :], batch.lon[batch.num_random :], SPREAD, torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(samples, soft(task, *moved, batch.target[batch.num_random :]))
    assert (samples - expected[batch.num_random :]).abs().max() > 1e-4
    task.training_step(batch, 0)
    torch.testing.assert_close(spy.performance[batch.num_random :], samples)  # the same step draws the same


def test_with_a_bank_the_random_rows_are_moved_in_a_pass_of_their_own():
    points, spy = make_points(), Spy()
    batch = points[list(range(40))]
    task, still = make_task(spy, jitter=SPREAD, weight=0.0), make_task(weight=0.0)
    given = []
    task.__dict__["bank"] = lambda performance, index: given.append(performance) or (performance, Rois())
    task._bank_rows = torch.arange(len(points))
    torch.testing.assert_close(task.training_step(batch, 0), still.training_step(batch, 0))
    moved = jittered(batch.lat, batch.lon, SPREAD, torch.Generator().manual_seed(0))
    torch.testing.assert_close(given[0], soft(task, *moved, batch.target))


class Rois:
    def sum(self, values):
        return values


def test_a_spread_out_of_range():
    with pytest.raises(ValueError, match=r"`jitter` within \[0, pi\) radians, but got -0.1"):
        make_task(jitter=-0.1)
