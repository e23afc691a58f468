"""Small sets of points, each with a trap of the sphere in it, and performance on them. The same bytes every time."""

import numpy as np

from geobias_torch import DirectionSector, DistanceLag, ScaleGrid
from tests.reference import sre

NAMES = ("clustered", "polar", "antimeridian", "coincident", "island", "uniform")
RADIUS = 0.1
# the library's partition and the reference's
PARTITIONS = {
    "lag": (DistanceLag(0.03), sre.distance_lag(0.03)),
    "sector": (DirectionSector(5), sre.direction_sector(5)),
    "tangent": (ScaleGrid(0.04), sre.scale_grid(0.04)),
    "graticule": (ScaleGrid(0.04, frame="graticule"), sre.scale_grid(0.04, "graticule")),
}


def points(name, n=80, seed=0):
    """(lat, lon) in degrees, float64, n points."""
    rng = np.random.default_rng([seed, NAMES.index(name)])
    if name == "clustered":
        towns = np.array([[48.0, 10.0], [50.0, 14.0], [-30.0, 25.0]])
        lat, lon = (towns[rng.integers(0, 3, n)] + rng.normal(0, [1.0, 1.6], (n, 2))).T
    elif name == "polar":
        # both poles, the pole itself under two longitudes, points on every side of it
        lat = np.where(rng.random(n) < 0.7, 1, -1) * (90 - 4 * np.sqrt(rng.random(n)))
        lon = rng.uniform(-180, 180, n)
        lat[:3], lon[:3] = (90.0, 90.0, -90.0), (0.0, 77.0, -20.0)
    elif name == "antimeridian":
        lat, lon = rng.normal(-16, 2, n), 180 + rng.normal(0, 2.5, n)
        lon[::2] = (lon[::2] + 180) % 360 - 180  # half of them written as -180..180, half as up to 190
        lon[:2] = 180.0, -180.0
        lat[:2] = -16.0
    elif name == "coincident":
        places = rng.normal([20, 30], [2, 2], (max(n // 8, 1), 2))
        lat, lon = places[rng.integers(0, len(places), n)].T
    elif name == "island":
        lat, lon = rng.normal(5, 1.5, n), rng.normal(-60, 1.5, n)
        lat[-1], lon[-1] = -40.0, 120.0  # nobody within a radius of this one
    else:
        lat, lon = np.degrees(np.arcsin(rng.uniform(-0.2, 0.2, n))), rng.uniform(-14, 14, n)
    return lat.copy(), lon.copy()


def hits(name, n=80, seed=0):
    """0/1 performance that is worse towards the south-west, so that there is something to see."""
    lat, lon = points(name, n, seed)
    rng = np.random.default_rng([seed, 100, NAMES.index(name)])
    slope = (lat - np.median(lat)) + (lon - np.median(lon)) / 2
    return (rng.random(n) < 1 / (1 + np.exp(-0.5 - np.clip(slope, -4, 4)))).astype(float)


def probabilities(name, n=80, seed=0):
    """Performance within (0.03, 0.97), half hit and half noise: every value is another one."""
    rng = np.random.default_rng([seed, 200, NAMES.index(name)])
    return 0.03 + 0.94 * (0.5 * hits(name, n, seed) + 0.5 * rng.random(n))


def centers(lat, lon):
    """Every point as a centre, in the form that tests/reference takes."""
    return list(zip(np.asarray(lat).tolist(), np.asarray(lon).tolist(), strict=True))


def rotate(lat, lon, seed=0):
    """The points after one fixed rotation of the sphere."""
    axes, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    phi, theta = np.radians(lat), np.radians(lon)
    x, y, z = axes @ np.stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)])
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))
