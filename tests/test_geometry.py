"""Lengths, checks of coordinates, and the local frame."""

import math
import warnings

import numpy as np
import pytest
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid, km
from geobias_torch.geometry import LocalFrame, check_coordinates
from tests import scenes
from tests.reference import geometry


def test_km():
    assert km(6371.0088) == pytest.approx(1)
    assert km(318) == pytest.approx(318 / 6371.0088)
    assert isinstance(km(1), float)
    # somebody who asks for a third of the way round the globe means it
    assert Regions.from_points(lat=[10.0, 80.0], lon=[5.0, 100.0], radius=km(13000)).sizes.tolist() == [2, 2]
    for length in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"Expected `length` in kilometres to be finite, but got"):
            km(length)


@pytest.mark.parametrize("as_tensor", [True, False])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_local_frame_equals_the_reference(scene, as_tensor):
    lat, lon = scenes.points(scene)
    for center in range(0, len(lat), 11):
        expected = geometry.local_frame(lat, lon, lat[center], lon[center])
        near = expected.distance < 1.0
        arrays = [np.broadcast_to(v, lat.shape)[near] for v in (lat[center], lon[center], lat, lon)]
        frame = LocalFrame(*(torch.tensor(a) if as_tensor else a for a in arrays), radius=1.0)
        directed = expected.distance[near] > geometry.ON_CENTRE
        np.testing.assert_allclose(np.asarray(frame.distance), expected.distance[near], atol=1e-11)
        np.testing.assert_allclose(np.asarray(frame.x), expected.x[near], atol=1e-11)
        np.testing.assert_allclose(np.asarray(frame.y), expected.y[near], atol=1e-11)
        # angles: 0 and 2 pi are one direction
        turn = np.asarray(frame.azimuth)[directed] - expected.azimuth[near][directed]
        np.testing.assert_allclose(np.sin(turn / 2), 0, atol=1e-9)
        np.testing.assert_allclose(np.asarray(frame.delta_lat), expected.dlat[near], atol=1e-12)
        np.testing.assert_allclose(np.sin((np.asarray(frame.delta_lon) - expected.dlon[near]) / 2), 0, atol=1e-12)
        assert np.array_equal(np.asarray(frame.at_center), ~directed)


@pytest.mark.parametrize(
    ("lat", "lon", "message"),
    [
        (
            [0.0, 91.2],
            [0.0, 0.0],
            r"Expected `lat` of shape \(N,\) in degrees within \[-90, 90\], but got 91.2 at row 1\.",
        ),
        (
            [0.0, np.nan],
            [0.0, 0.0],
            r"Expected `lat` of shape \(N,\) in degrees within \[-90, 90\], but got nan at row 1",
        ),
        ([0.0, 1.0], [np.inf, 0.0], r"Expected `lon` of shape \(N,\) in degrees, finite, but got inf at row 0"),
        ([[0.0]], [[0.0]], r"Expected `lat` of shape \(N,\) in degrees, but got shape \(1, 1\)"),
        ([0.0, 1.0], [0.0], r"Expected `lat` and `lon` of one length, but got 2 and 1"),
    ],
)
def test_refuses_coordinates(lat, lon, message):
    with pytest.raises(ValueError, match=message):
        Regions.from_points(lat=lat, lon=lon, radius=0.1)


@pytest.mark.parametrize(
    ("radius", "message"),
    [
        (0.0, r"Expected `radius` in radians within \(0, pi\], but got 0"),
        (-0.1, r"Expected `radius` in radians within \(0, pi\], but got -0.1"),
        (math.nan, r"Expected `radius` in radians within \(0, pi\], but got nan"),
        (318, r"Expected `radius` in radians, but got 318: did you mean km\(318\)\?"),
        (1.5, r"did you mean km\(1.5\)\?"),
        (km(21000), r"Expected `radius` in radians within \(0, pi\], but got 3.29"),
    ],
)
def test_refuses_lengths(radius, message):
    with pytest.raises(ValueError, match=message):
        Regions.from_points(lat=[0.0], lon=[0.0], radius=radius)


def test_refuses_lengths_that_are_no_numbers():
    for value in ("318km", None, True):
        with pytest.raises(TypeError, match=r"Expected `radius` to be a number of radians, but got"):
            Regions.from_points(lat=[10.0], lon=[0.0], radius=value)
    with pytest.raises(TypeError, match=r"Expected `lag` to be a number of radians, but got str"):
        DistanceLag("5km")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DistanceLag(0), r"Expected `lag` in radians within \(0, pi\], but got 0"),
        (lambda: DistanceLag(32), r"Expected `lag` in radians, but got 32: did you mean km\(32\)\?"),
        (lambda: ScaleGrid(-1), r"Expected `scale` in radians within \(0, pi\], but got -1"),
        (lambda: ScaleGrid(64), r"did you mean km\(64\)\?"),
        (
            lambda: ScaleGrid(0.1, frame="mercator"),
            r'Expected `frame` to be "tangent" or "graticule", but got .mercator.',
        ),
        (lambda: DirectionSector(1), r"Expected `n`, the number of sectors, to be an integer >= 2, but got 1"),
        (lambda: DirectionSector(2.5), r"to be an integer >= 2, but got 2.5"),
        (lambda: DirectionSector(True), r"to be an integer >= 2, but got True"),
    ],
)
def test_refuses_partitions(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_warns_about_radians_and_about_zeros():
    with pytest.warns(UserWarning, match=r"these look like radians"):
        Regions.from_points(lat=[0.8, -0.3], lon=[2.1, -3.0], radius=0.1)
    with pytest.warns(UserWarning, match=r"2.0 % of the points lie exactly at \(0, 0\)"):
        Regions.from_points(lat=[0.0] + [40.0] * 49, lon=[0.0] + [10.0] * 49, radius=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Regions.from_points(lat=[0.0] + [40.0] * 120, lon=[0.0] + [10.0] * 120, radius=0.1)
        Regions.from_points(lat=[0.8, -0.3], lon=[2.1, -30.0], radius=0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_coordinates_are_refused(dtype):
    with pytest.raises(TypeError, match=r"Expected `lat` in at least single precision, but got torch\.b?float16"):
        check_coordinates(torch.tensor([48.0], dtype=dtype), torch.tensor([2.0]))
