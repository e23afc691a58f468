"""Patches of several partitions in one table: the same as one by one, whole, in part and thinned out."""

import pickle

import numpy as np
import pytest
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.losses import SRELoss

PARTITIONS = (ScaleGrid(0.05), DistanceLag(0.03), DirectionSector(5))
N = 150


def make(seed=0):
    rng = np.random.default_rng(seed)
    return Regions.from_points(lat=40 + rng.uniform(0, 6, N), lon=177 + rng.uniform(0, 6, N), radius=0.1)


def tables(joined):
    """{(ROI, members)} of every patch that has any."""
    lengths, *places = joined.cells.tolist()
    ends = np.cumsum(lengths)
    members = [joined.members[end - length : end].tolist() for end, length in zip(ends, lengths, strict=True)]
    first = joined.offsets[:, 2].tolist()
    roi = np.repeat(np.arange(len(joined)), np.diff(first))
    found = []
    for place in places:
        patches = {}
        for cell, patch in enumerate(place):
            if patch not in first:
                patches.setdefault(patch, []).extend(members[cell])
        found.append(sorted((int(roi[patch]), sorted(points)) for patch, points in patches.items() if points))
    return found


def expected(regions):
    """The same from the patches of each partition."""
    found = []
    for partition in PARTITIONS:
        patches = regions.patches(partition)
        members = [[] for _ in range(len(patches))]
        segments = patches.cells.segments
        for cell, patch in enumerate(patches.cell_patch.tolist()):
            if patch < len(patches):
                members[patch] += segments.members[segments.offsets[cell] : segments.offsets[cell + 1]].tolist()
        found.append(sorted((int(roi), sorted(points)) for roi, points in zip(patches.roi, members, strict=True)))
    return found


def regions_of(regions, partition):
    patches = regions.patches(partition)
    return patches.roi.tolist(), patches.ids.tolist(), patches.sizes.tolist()


KNOWN = torch.arange(N) % 7 > 1
PARTS = {
    "whole": lambda regions: regions,
    "some": lambda regions: regions[torch.tensor([5, 3, 149, 3])],
    "none": lambda regions: regions[torch.tensor([], dtype=torch.int64)],
    "thinned out": lambda regions: regions.only(KNOWN),
    "some, thinned out": lambda regions: regions[10:60].only(KNOWN),
    "nobody left": lambda regions: regions[:3].only(torch.zeros(N, dtype=torch.bool)),
    "some of some": lambda regions: regions[20:90][torch.tensor([1, 40])],
    "some, pickled": lambda regions: pickle.loads(pickle.dumps(regions[4:40])),
}


@pytest.mark.parametrize("before", [True, False], ids=["found before", "found for the part"])
@pytest.mark.parametrize("name", PARTS)
def test_they_are_the_patches_of_each_partition(name, before):
    regions, fresh = make(), make()
    regions.segments, fresh.segments  # noqa: B018  (listed, as in a bank)
    if before:
        regions.side_by_side(PARTITIONS)
    part = PARTS[name](regions)
    assert bool(part.joined) == before
    joined = part.side_by_side(PARTITIONS)
    plain = PARTS[name](fresh)
    # members that are listed, not searched, are cut by each partition on its own
    listed = not before and name != "whole"
    assert (joined is None) == listed
    if listed:
        assert [regions_of(part, p) for p in PARTITIONS] == [regions_of(plain, p) for p in PARTITIONS]
        return
    assert tables(joined) == expected(plain)
    assert part.sizes.tolist() == plain.sizes.tolist()


@pytest.mark.parametrize(
    ("known", "got"),
    [(torch.ones(N - 1, dtype=torch.bool), r"torch.bool and \(149,\)"), (torch.arange(N), r"torch.int64 and \(150,\)")],
)
def test_who_is_known_is_a_mask_of_the_points(known, got):
    with pytest.raises(ValueError, match=rf"`known` of dtype bool and shape \(150,\), but got {got}"):
        make().only(known)


def test_a_pickled_part_leaves_the_whole_behind():
    regions = make()
    regions.side_by_side(PARTITIONS)
    assert len(pickle.dumps(regions[:2])) < 0.2 * len(pickle.dumps(regions))


@pytest.mark.parametrize("estimator", ["excess", "kl"])
@pytest.mark.parametrize("one_sided", [True, False, 0.4])
def test_the_gradient_written_down_is_that_of_autograd(estimator, one_sided):
    regions, loss = make(), SRELoss(PARTITIONS, estimator=estimator, one_sided=one_sided)
    values = torch.rand(N, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values[::5] = values[::5].round()
    results = []
    for way in (loss, lambda v, r: loss._by_autograd(v, r)):
        v = values.clone().requires_grad_()
        value = way(v, regions)
        (first,) = torch.autograd.grad(value, v, create_graph=True)
        (second,) = torch.autograd.grad((first * torch.linspace(-1, 1, N)).sum(), v)
        results.append((value, first, second))
    for written, automatic in zip(*results, strict=True):
        torch.testing.assert_close(written, automatic, rtol=1e-9, atol=1e-12)
    plain = values.clone().requires_grad_()
    loss(plain, regions).backward()
    torch.testing.assert_close(plain.grad, results[1][1].detach(), rtol=1e-9, atol=1e-12)


def test_patches_whose_points_are_all_gone_lie_nowhere():
    """Their cells are empty, and counted to a patch of the next ROI until the tables are joined."""
    lat = torch.tensor([10.01, 10.02, 10.00, 10.00, 50.01, 50.02, 49.99, 49.98], dtype=torch.float64)
    lon = torch.tensor([20.00, 20.00, 19.99, 19.98, 20.00, 20.00, 20.00, 20.00], dtype=torch.float64)
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.01, center_lat=[10.0, 50.0], center_lon=[20.0, 20.0])
    loss = SRELoss(DirectionSector(4), min_patch_size=2)
    regions.patches(loss.partitions[0])
    fewer = regions.only(torch.tensor([1, 1, 0, 0, 1, 1, 1, 1]).bool())
    performance = torch.tensor([0.9, 0.8, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], dtype=torch.float64, requires_grad=True)
    for part in (fewer, fewer[:1], fewer[1:]):
        torch.testing.assert_close(loss(performance, part), loss._by_autograd(performance, part))
    joined = fewer.side_by_side(loss.partitions)
    assert (joined.cells[1] < joined.offsets[-1, 2]).all()
    assert (fewer[:1].side_by_side(loss.partitions).cells[1] < joined.offsets[1, 2]).all()
