"""RoiBatchSampler: what it draws, that it is reproducible, and the batch that the task sees."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from geobias_torch import Regions
from training.data import Points
from training.samplers import RoiBatchSampler

RADIUS = 0.1


@pytest.fixture(scope="module")
def points():
    """Three clusters, one of them too small for a ROI, one across the antimeridian."""
    rng = np.random.default_rng(0)
    lat = np.concatenate([rng.normal(40, 2, 120), rng.normal(-20, 2, 60), rng.normal(0, 0.5, 5)])
    lon = np.concatenate([rng.normal(10, 2, 120), rng.normal(180, 2, 60), rng.normal(-90, 0.5, 5)])
    lat, lon = torch.tensor(lat), torch.tensor((lon + 180) % 360 - 180)
    return Points(lat, lon, torch.arange(185.0), RADIUS)


def make(split, **options):
    settings = {"radius": RADIUS, "steps": 4, "points": 16, "rois": 3, "min_members": 10, "max_members": 20} | options
    return RoiBatchSampler(split.lat, split.lon, **settings)


def equal(a, b):
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_members_are_distinct_rows_of_their_roi(points):
    regions = Regions.from_points(lat=points.lat, lon=points.lon, radius=RADIUS)
    for draw in make(points):
        assert len(draw.random_rows) == 16
        assert len(set(draw.center_rows.tolist())) == 3
        for m, center in enumerate(draw.center_rows.tolist()):
            sample = draw.member_rows[draw.offsets[m] : draw.offsets[m + 1]].tolist()
            whole = set(regions.members[regions.offsets[center] : regions.offsets[center + 1]].tolist())
            assert len(whole) >= 10
            assert len(sample) == len(set(sample)) == min(20, len(whole))
            assert set(sample) <= whole


def test_centres_are_uniform_among_the_rows_with_enough_others(points):
    sampler = make(points, steps=400, rois=1)
    drawn = torch.cat([draw.center_rows for draw in sampler]).bincount(minlength=185)
    regions = Regions.from_points(lat=points.lat, lon=points.lon, radius=RADIUS)
    enough = regions.sizes >= 10
    assert 0 < enough.sum() < 185
    assert drawn[~enough].sum() == 0
    expected = 400 / int(enough.sum())
    assert ((drawn[enough] - expected) ** 2 / expected).sum() < 1.4 * int(enough.sum())  # chi-square


def test_every_member_can_be_drawn(points):
    sampler = make(points, steps=200, rois=1, max_members=5)
    whole = Regions.from_points(lat=points.lat, lon=points.lon, radius=RADIUS)
    reachable = torch.cat([whole[int(c)].members.long() for c in sampler.centers]).unique()
    assert torch.equal(torch.cat([draw.member_rows for draw in sampler]).unique(), reachable)


def test_draws_depend_on_seed_and_epoch_only(points):
    first = list(make(points, seed=3))
    sampler = make(points, seed=3)
    assert all(equal(a, b) for a, b in zip(first, sampler, strict=True))
    sampler.set_epoch(1)
    assert not any(equal(a, b) for a, b in zip(first, sampler, strict=True))
    sampler.set_epoch(0)
    assert all(equal(a, b) for a, b in zip(first, sampler, strict=True))
    other = make(points, seed=2)
    other.set_epoch(1)
    assert not any(equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_do_not_depend_on_the_workers(points, num_workers):
    sampler = make(points)
    loader = DataLoader(points, sampler=sampler, batch_size=None, num_workers=num_workers)
    assert len(loader) == 4
    for draw, batch in zip(sampler, loader, strict=True):
        assert torch.equal(batch.rows, torch.cat([draw.random_rows, draw.member_rows]))
        assert torch.equal(batch.target, batch.rows.float())
        assert torch.equal(batch.lat, points.lat[batch.rows])
        assert torch.equal(batch.lon, points.lon[batch.rows])
        assert batch.num_random == 16
        regions = batch.regions
        assert torch.equal(regions.offsets, draw.offsets)
        assert torch.equal(batch.rows[regions.members.long()], draw.member_rows)
        torch.testing.assert_close(regions.center_lat, points.lat[draw.center_rows])
        assert regions.num_points == len(batch.rows)


@pytest.mark.parametrize("name", ["steps", "points", "rois", "min_members", "max_members"])
def test_refuses_counts_below_one(points, name):
    with pytest.raises(ValueError, match=f"`{name}` of at least 1, but got 0"):
        make(points, **{name: 0})


def test_refuses_data_without_enough_rois(points):
    with pytest.raises(ValueError, match=r"at least 3 rows \(`rois`\) with 150 rows.*but got 0: lower"):
        make(points, min_members=150)
