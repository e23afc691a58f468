"""Spherical geometry, one centre at a time, in float64. Written from the definitions; imports nothing of geobias_torch.

Readings of what the definitions leave open:
- "on the centre" (no direction) is d <= 1e-12 rad, so that two longitudes written for the same pole count as one place;
- points at the cut of `max_members` tie when their distances differ by <= 1e-10 rad (the rule of the k-NN graph).
"""

from dataclasses import dataclass

import numpy as np

TIE = 1e-10  # radians: distances that differ by no more are the same distance
ON_CENTRE = 1e-12  # radians


@dataclass
class Frame:
    """Local coordinates of points around one centre: arc distance, azimuth, tangent plane, and the raw differences."""

    distance: np.ndarray
    azimuth: np.ndarray  # clockwise from north, [0, 2 pi)
    x: np.ndarray  # east
    y: np.ndarray  # north
    dlat: np.ndarray
    dlon: np.ndarray  # [-pi, pi)


def unit_vectors(lat, lon):
    """Degrees to (N, 3)."""
    lat, lon = np.radians(np.asarray(lat, float)), np.radians(np.asarray(lon, float))
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def arc_distance(u, v):
    """d = 2 atan2(|u - v|, |u + v|)."""
    return 2 * np.arctan2(np.linalg.norm(u - v, axis=-1), np.linalg.norm(u + v, axis=-1))


def local_frame(lat, lon, center_lat, center_lon):
    """Frame of all points (lat, lon) around one centre, all in degrees."""
    lat, lon = np.asarray(lat, float), np.asarray(lon, float)
    distance = arc_distance(unit_vectors(lat, lon), unit_vectors(center_lat, center_lon))
    # the difference is wrapped in degrees, where 360 is exact: a point on the centre's meridian has dlon = 0 exactly
    dlon = np.radians(np.mod(lon - center_lon + 180.0, 360.0) - 180.0)
    phi, phi_c = np.radians(lat), np.radians(center_lat)
    # exactly 0 at a pole, which lies on every meridian: due north of everybody is e = 0, not a rounding error
    cos, cos_c = (np.where(np.abs(degrees) == 90, 0.0, np.cos(np.radians(degrees))) for degrees in (lat, center_lat))
    east = cos * np.sin(dlon)
    north = cos_c * np.sin(phi) - np.sin(phi_c) * cos * np.cos(dlon)
    azimuth = np.mod(np.arctan2(east, north), 2 * np.pi)
    length = np.hypot(east, north)
    safe = np.where(length > 0, length, 1.0)
    return Frame(
        distance=distance,
        azimuth=azimuth,
        x=distance * east / safe,
        y=distance * north / safe,
        dlat=phi - phi_c,
        dlon=dlon,
    )


def members(lat, lon, center_lat, center_lon, radius, max_members=None):
    """Row numbers, ascending, of the points within `radius` of the centre; only the nearest with `max_members`."""
    distance = local_frame(lat, lon, center_lat, center_lon).distance
    inside = np.flatnonzero(distance <= radius)
    if max_members is not None and len(inside) > max_members:
        cut = np.sort(distance[inside])[max_members - 1]
        inside = inside[distance[inside] <= cut + TIE]
    return inside


def rois(lat, lon, radius, centers=None, max_members=None):
    """List of member arrays, one per centre; `centers` is a list of (lat, lon), by default every point."""
    if centers is None:
        centers = list(zip(np.asarray(lat, float), np.asarray(lon, float), strict=True))
    return [members(lat, lon, a, b, radius, max_members) for a, b in centers]
