"""RoiBatchSampler: what it draws, that it is reproducible, and the batch that the task sees."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from geobias_torch import Regions
from training.data import Points
from training.samplers import HeldOutSampler, RoiBatchSampler

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


def test_no_rois_are_plain_random_batches_of_which_nothing_is_searched(points, monkeypatch):
    with_rois = list(make(points, seed=1))
    monkeypatch.setattr(Regions, "from_points", None)
    sampler = make(points, seed=1, rois=0, min_members=10_000)
    for draw, batch, other in zip(
        sampler, DataLoader(points, sampler=sampler, batch_size=None), with_rois, strict=True
    ):
        assert torch.equal(draw.random_rows, other.random_rows)
        assert batch.regions is None
        assert batch.num_random == len(batch.rows) == len(batch.lat) == 16
        assert torch.equal(batch.rows, draw.random_rows)


def test_rows_without_a_location_are_random_rows_only(points):
    lat, lon = points.lat.clone(), points.lon.clone()
    lat[::3] = torch.nan
    lon[1::6] = torch.nan  # the latitude alone is no location
    missing = lat.isnan() | lon.isnan()
    some = Points(lat, lon, points.target, RADIUS)
    sampler = make(some, steps=50, points=64, min_members=5)
    random = torch.cat([draw.random_rows for draw in sampler])
    assert torch.equal(random.unique(), torch.arange(185))
    regions = Regions.from_points(lat=lat[~missing], lon=lon[~missing], radius=RADIUS)
    row_of = (~missing).nonzero()[:, 0]
    for draw in sampler:
        batch = some[draw]
        assert not missing[draw.member_rows].any()
        assert torch.equal(batch.rows[batch.regions.members.long()], draw.member_rows)
        assert torch.equal(batch.lat.isnan() | batch.lon.isnan(), missing[batch.rows])
        for m, center in enumerate(draw.center_rows.tolist()):
            number = int((row_of == center).nonzero()[0])
            whole = set(row_of[regions[number].members.long()].tolist())
            assert set(draw.member_rows[draw.offsets[m] : draw.offsets[m + 1]].tolist()) <= whole
            assert center in whole


def test_no_located_row_is_no_roi(points):
    nowhere = torch.full((20,), torch.nan, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"at least 3 rows \(`rois`\).*but got 0"):
        make(Points(nowhere, nowhere, nowhere, RADIUS))
    assert len(list(make(Points(nowhere, nowhere, nowhere, RADIUS), rois=0))) == 4


def test_frequent_classes_are_cut_to_a_few_rows_of_an_epoch(points):
    classes = torch.cat([torch.full((150,), 7), torch.full((30,), 2), torch.full((5,), 4)])
    classes = classes[torch.randperm(185, generator=torch.Generator().manual_seed(0))]
    sampler = make(points, steps=200, rois=1, classes=classes, max_per_class=20)

    def drawn(epoch):
        sampler.set_epoch(epoch)
        return torch.cat([draw.random_rows for draw in sampler]).unique()

    first, second = drawn(0), drawn(1)
    assert classes[first].bincount().tolist() == [0, 0, 20, 0, 5, 0, 0, 20]
    assert classes[second].bincount().tolist() == [0, 0, 20, 0, 5, 0, 0, 20]
    assert len(set(first.tolist()) & set(second.tolist())) < 35
    assert torch.equal(first, drawn(0))
    everything = make(points, steps=200, rois=1)
    for a, b in zip(sampler, everything, strict=True):  # whose ROIs are the same
        assert torch.equal(a.member_rows, b.member_rows)


@pytest.mark.parametrize("classes", [None, torch.zeros(3)])
def test_refuses_a_bound_without_classes(points, classes):
    with pytest.raises(ValueError, match=r"`classes` of shape \(185,\), but got"):
        make(points, classes=classes, max_per_class=3)


@pytest.mark.parametrize("name", ["steps", "points", "min_members", "max_members", "max_per_class"])
def test_refuses_counts_below_one(points, name):
    with pytest.raises(ValueError, match=f"`{name}` of at least 1, but got 0"):
        make(points, classes=points.target, **{name: 0})


@pytest.mark.parametrize("name", ["rois", "seed"])
def test_refuses_numbers_below_zero(points, name):
    with pytest.raises(ValueError, match=f"`{name}` of at least 0, but got -1"):
        make(points, **{name: -1})


def test_refuses_data_without_enough_rois(points):
    with pytest.raises(ValueError, match=r"at least 3 rows \(`rois`\) with 150 rows.*but got 0: lower"):
        make(points, min_members=150)


@pytest.mark.parametrize(("count", "world"), [(1, 1), (13, 1), (12, 2), (13, 2), (17, 2), (18, 4)])
def test_held_out_rows_are_dealt_out_once_in_as_many_batches(count, world):
    dealt = [list(HeldOutSampler(range(count), 4, world, rank)) for rank in range(world)]
    assert torch.equal(torch.cat([rows for batches in dealt for rows in batches]).sort().values, torch.arange(count))
    assert len({len(batches) for batches in dealt}) == 1
    assert all(1 <= len(rows) <= 4 for batches in dealt for rows in batches)
    assert len(HeldOutSampler(range(count), 4, world)) == len(dealt[0])


def test_fewer_held_out_rows_than_devices_are_refused():
    with pytest.raises(ValueError, match="a held-out row for each of 3 devices, but got 2"):
        HeldOutSampler(range(2), 4, 3)
