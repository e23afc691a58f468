"""How ROIs are cut into patches: against tests/reference, by hand, and on the boundaries."""

import math

import numpy as np
import pytest
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from tests import scenes
from tests.reference import sre


def cut(patches, num_points):
    """Patches as a set of (ROI, members)."""
    sums = patches.sum(torch.eye(num_points, dtype=torch.float64)).round().to(torch.int64)
    # members that coincide are counted one by one
    return {(int(roi), tuple(row.nonzero()[:, 0].tolist())) for roi, row in zip(patches.roi, sums, strict=True)}


def reference_cut(lat, lon, radius, partition):
    parts = sre.patches(lat, lon, scenes.centers(lat, lon), radius, partition)
    return {(m, tuple(p.tolist())) for m, (_, of_roi) in enumerate(parts) for p in of_roi}


@pytest.mark.parametrize("radius", [0.04, 0.1, 0.9])
@pytest.mark.parametrize("partition", scenes.PARTITIONS)
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_patches_equal_the_reference(scene, partition, radius):
    lat, lon = scenes.points(scene)
    ours, theirs = scenes.PARTITIONS[partition]
    expected = reference_cut(lat, lon, radius, theirs)
    regions = Regions.from_points(lat=lat, lon=lon, radius=radius)
    patches = regions.patches(ours)
    assert cut(patches, 80) == expected
    assert patches.sizes.tolist() == patches.sum(torch.ones(80, dtype=torch.float64)).round().long().tolist()
    assert bool((patches.roi.diff() >= 0).all())
    assert bool((patches.sizes > 0).all())
    # the plain way: a callable is not known to the fast one
    plain = Regions.from_points(lat=lat, lon=lon, radius=radius).patches(lambda frame: ours(frame))
    assert cut(plain, 80) == expected


@pytest.mark.parametrize("scene", scenes.NAMES)
def test_patches_made_together_are_those_made_alone(scene):
    lat, lon = scenes.points(scene)
    partitions = [p for p, _ in scenes.PARTITIONS.values()]
    together = Regions.from_points(lat=lat, lon=lon, radius=0.1).patches_of(partitions)
    values = torch.from_numpy(scenes.probabilities(scene))
    for partition, patches in zip(partitions, together, strict=True):
        alone = Regions.from_points(lat=lat, lon=lon, radius=0.1).patches(partition)
        assert torch.equal(patches.roi, alone.roi)
        assert torch.equal(patches.ids, alone.ids)
        assert torch.equal(patches.sizes, alone.sizes)
        torch.testing.assert_close(patches.sum(values), alone.sum(values))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_over_patches_are_differentiable(dtype):
    lat, lon = scenes.points("clustered")
    patches = Regions.from_points(lat=lat, lon=lon, radius=0.1).patches(ScaleGrid(0.03))
    values = torch.tensor(scenes.probabilities("clustered"), dtype=dtype)[:, None].repeat(1, 2).requires_grad_()
    table = patches.sum(torch.eye(80, dtype=dtype))
    torch.testing.assert_close(patches.sum(values), table @ values)
    weight = torch.linspace(-1, 1, len(patches.roi), dtype=dtype)
    (weight[:, None] * patches.sum(values)).sum().backward()
    torch.testing.assert_close(values.grad, (weight @ table)[:, None].repeat(1, 2))


def test_a_compass_by_hand():
    """One point in every direction around a centre: half-open sectors, clockwise, the first one starting due north."""
    step = 0.01
    lat = [0.0, step, step, 0.0, -step, -step, -step, 0.0, step]
    lon = [0.0, 0.0, step, step, step, 0.0, -step, -step, -step]
    for lat0, lon0 in ((20.0, 30.0), (-20.0, 179.995)):
        regions = Regions.from_points(lat=lat0 + np.array(lat), lon=lon0 + np.array(lon), radius=0.1, center_index=[0])
        patches = regions.patches(DirectionSector(4))
        assert patches.ids.tolist() == [0, 1, 2, 3]
        # due east and due west leave the parallel: seen on a great circle they lie a little to the north
        south = lat0 < 0
        expected = [(1, 2), (3, 4), (5, 6, 7), (8,)] if south else [(1, 2, 3), (4,), (5, 6), (7, 8)]
        assert cut(patches, 9) == {(0, members) for members in expected}
        assert cut(regions.patches(DirectionSector(2)), 9) == {
            (0, (1, 2, 3, 4)),
            (0, (5, 6, 7, 8)),
        }


def test_boundaries_belong_to_the_higher_index():
    step = math.degrees(0.01)
    lat = 10 + step * np.array([0.0, 0.5, 1.0, 2.0, 2.5, 3.0, -1.0])
    regions = Regions.from_points(lat=lat, lon=np.full(7, 50.0), radius=0.03 + 1e-12, center_index=[0])
    # the last ring and square hold what lies on the radius itself
    assert cut(regions.patches(DistanceLag(0.01)), 7) == {(0, (0, 1)), (0, (2, 6)), (0, (3, 4, 5))}
    assert cut(regions.patches(ScaleGrid(0.01)), 7) == {(0, (6,)), (0, (0, 1)), (0, (2,)), (0, (3, 4, 5))}
    # due north is the start of sector 0, due south that of the middle one; the centre is in none
    assert cut(regions.patches(DirectionSector(8)), 7) == {(0, (1, 2, 3, 4, 5)), (0, (6,))}


def test_a_pole_is_due_north_of_everybody():
    lat, lon = [88.0, 90.0, 90.0, 90.0, 88.0], [17.0, 0.0, -160.0, 93.0, 17.0]
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    assert cut(regions[0].patches(DirectionSector(8)), 5) == {(0, (1, 2, 3))}
    # the poles coincide: none of them has a direction from another one
    assert all(not {1, 2, 3} & set(members) for _, members in cut(regions[1:4].patches(DirectionSector(8)), 5))


def test_graticule_boxes_do_not_shrink_towards_the_pole():
    # at latitude 60 a degree of longitude is half as long as one of latitude
    lat, lon = [60.0, 60.1, 60.1, 60.1], [10.0, 11.0, 13.0, 18.0]
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1, center_index=[0])
    scale = math.radians(2.0)
    boxes = regions.patches(ScaleGrid(scale, frame="graticule"))
    # 18 degrees is 8 to the east, beyond the ceil(r / scale) = 3 boxes of 2 degrees
    assert cut(boxes, 4) == {(0, (0, 1)), (0, (2,))}
    assert cut(regions.patches(ScaleGrid(scale)), 4) == {(0, (0, 1, 2)), (0, (3,))}


def test_partitions_are_values():
    assert DistanceLag(0.1) == DistanceLag(0.1)
    assert hash(ScaleGrid(0.1)) != hash(ScaleGrid(0.1, frame="graticule"))
    with pytest.raises(AttributeError, match="cannot assign"):
        DirectionSector(8).n = 4


def test_a_callable_cuts_as_it_likes():
    lat, lon = [40.0, 40.5, 39.5, 40.0], [10.0, 10.0, 10.0, 10.5]
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1, center_index=[0])

    def north_or_not(frame):
        return torch.where(frame.at_center, -1, (frame.y > 0.001).long())

    assert cut(regions.patches(north_or_not), 4) == {(0, (1,)), (0, (2, 3))}


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (lambda frame: torch.zeros(3), r"Expected the partition to return a tensor of shape \(2,\), but got \(3,\)"),
        (lambda frame: [0, 0], r"Expected the partition to return a tensor of shape \(2,\), but got list"),
        (lambda frame: frame.x + 0.5, r"Expected the partition to return integer patch ids, but got fractions"),
        (
            lambda frame: torch.tensor([0, -2]),
            r"Expected the partition to return patch ids >= -1 \(-1 = none\), but got -2",
        ),
        (DistanceLag(0.2), r"Expected `lag` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
        (ScaleGrid(0.2), r"Expected `scale` to be at most the radius \(0.1 rad\), but got 0.2 rad"),
    ],
)
def test_refused(partition, message):
    regions = Regions.from_points(lat=[40.0, 41.0], lon=[10.0, 10.0], radius=0.1, center_index=[0])
    with pytest.raises(ValueError, match=message):
        regions.patches(partition)


def test_refuses_what_is_not_callable():
    regions = Regions.from_points(lat=[40.0], lon=[10.0], radius=0.1)
    with pytest.raises(TypeError, match=r"Expected `partition` to be a partition or a callable, but got str"):
        regions.patches("rings")


def test_ids_of_a_foreign_grid_are_told_apart():
    lat, lon = np.linspace(40, 41, 30), np.full(30, 5.0)
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.05)
    small = regions.patches(lambda frame: (frame.lat > 40.5).long())
    large = regions.patches(lambda frame: (frame.lat > 40.5).long() * 8 + 600_000_000_000_000_000)
    assert torch.equal(small.roi, large.roi)
    assert torch.equal(small.sizes, large.sizes)
