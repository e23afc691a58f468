"""Coordinates in, checked; lengths; unit vectors; the local frame of a centre. The only trigonometry there is."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from geobias_torch.convert import to_tensor

EARTH_RADIUS_KM = 6371.0088

# Adding and subtracting this rounds to multiples of 2^-40 rad (6 micrometres on the ground), which is what coordinates
# in degrees are worth. It keeps "due north of the centre" and "at the centre" exact, however the products were made.
_COARSE = 6144.0


class Arc(float):
    """An arc length in radians that somebody converted on purpose, so that it may exceed 1."""


def km(length: float) -> Arc:
    r"""Convert a length on the Earth's surface to the arc length in radians that every function here takes.

    .. math:: \mathrm{km}(x) = x / 6371.0088

    Args:
        length: kilometres, a finite number.

    Returns:
        The arc in radians (a ``float``).

    Raises:
        ValueError: if ``length`` is not finite.

    Example:
        >>> from geobias_torch import km
        >>> round(km(318), 4)
        0.0499
    """
    if not math.isfinite(length):
        raise ValueError(f"Expected `length` in kilometres to be finite, but got {length}.")
    return Arc(length / EARTH_RADIUS_KM)


def check_arc(name: str, value: float, radius: float | None = None) -> float:
    """Check an arc length in radians: positive, at most pi, and not longer than ``radius`` where one is given."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise TypeError(f"Expected `{name}` to be a number of radians, but got {type(value).__name__}.")
    if value > 1 and not isinstance(value, Arc):
        raise ValueError(f"Expected `{name}` in radians, but got {value:g}: did you mean km({value:g})?")
    if not 0 < value <= math.pi:
        raise ValueError(f"Expected `{name}` in radians within (0, pi], but got {value:g}.")
    if radius is not None and value > radius:
        raise ValueError(f"Expected `{name}` to be at most the radius ({radius:g} rad), but got {value:g} rad.")
    return value if isinstance(value, Arc) else float(value)


def part_of(radius: float, parts: int) -> Arc:
    """A fraction of a radius, as the default of another length."""
    return Arc(radius / parts)


def coordinate_tensor(name: str, values: Any) -> Tensor:
    """Degrees as float64; half precision, which moves points by up to 50 km, is refused."""
    values = to_tensor(name, values).detach()
    if values.dtype in (torch.float16, torch.bfloat16):
        raise TypeError(
            f"Expected `{name}` in at least single precision, but got {values.dtype}: keep coordinates float32."
        )
    return values.to(torch.float64)


def check_coordinates(lat: Any, lon: Any, names: tuple[str, str] = ("lat", "lon")) -> tuple[Tensor, Tensor]:
    """Check a pair of coordinate vectors and return them as float64 degrees, longitudes within [-180, 180)."""
    lat, lon = (coordinate_tensor(name, x) for name, x in zip(names, (lat, lon), strict=True))
    for name, value in zip(names, (lat, lon), strict=True):
        if value.ndim != 1:
            raise ValueError(f"Expected `{name}` of shape (N,) in degrees, but got shape {tuple(value.shape)}.")
    if lat.shape != lon.shape:
        raise ValueError(f"Expected `{names[0]}` and `{names[1]}` of one length, but got {len(lat)} and {len(lon)}.")
    for name, value, bound in ((names[0], lat, 90.0), (names[1], lon, math.inf)):
        # the comparison is written so that NaN fails it
        bad = ~((value.abs() <= bound) & torch.isfinite(value))
        if bad.any():
            row = int(bad.nonzero()[0])
            within = " within [-90, 90]" if bound == 90 else ", finite"
            raise ValueError(
                f"Expected `{name}` of shape (N,) in degrees{within}, but got {float(value[row]):.6g} at row {row}."
            )
    # only values outside the range are touched: a longitude inside keeps every bit
    lon = torch.where((lon >= -180) & (lon < 180), lon, torch.remainder(lon + 180, 360) - 180)
    return lat, lon


def warn_odd_coordinates(lat: Tensor, lon: Tensor) -> None:
    """Warn once about coordinates that look like radians, or like missing values written as (0, 0)."""
    if len(lat) < 2:
        return
    at_origin = (lat == 0) & (lon == 0)
    if bool((lat.abs() <= math.pi / 2).all()) and bool((lon.abs() <= math.pi).all()) and not at_origin.all():
        warnings.warn(
            "Every `lat` is within pi/2 and every `lon` within pi: these look like radians; degrees are expected.",
            stacklevel=3,
        )
    share = float(at_origin.double().mean())
    if share > 0.01:
        warnings.warn(
            f"{100 * share:.1f} % of the points lie exactly at (0, 0): missing coordinates written as zeros?",
            stacklevel=3,
        )


def distinct_points(lat: Tensor, lon: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct places: one point at each (U,), the place of every point (N,), and the points per place (U,)."""
    # as complex numbers, which sort ten times as fast as columns
    places = torch.complex(lat, lon).cpu().numpy()
    _, first, which, counts = np.unique(places, return_index=True, return_inverse=True, return_counts=True)
    return tuple(torch.from_numpy(v).to(lat.device) for v in (first, which, counts))  # type: ignore[return-value]


def unit_vectors(lat: Tensor, lon: Tensor) -> Tensor:
    """Points on the unit sphere, (N, 3) float64, from degrees."""
    phi, theta = torch.deg2rad(lat), torch.deg2rad(lon)
    return torch.stack([phi.cos() * theta.cos(), phi.cos() * theta.sin(), phi.sin()], dim=-1)


def frame_axes(lat: Tensor, lon: Tensor) -> tuple[Tensor, Tensor]:
    """East and north directions, each (M, 3) float64, of the local frames at centres given in degrees."""
    phi, theta = torch.deg2rad(lat), torch.deg2rad(lon)
    east = torch.stack([-theta.sin(), theta.cos(), torch.zeros_like(theta)], dim=-1)
    north = torch.stack([-phi.sin() * theta.cos(), -phi.sin() * theta.sin(), phi.cos()], dim=-1)
    return east, north


@dataclass(frozen=True)
class LocalFrame:
    """Where points lie as seen from their centre, pair by pair.

    Built from coordinates in degrees (``center_lat, center_lon, lat, lon``: arrays that broadcast against each other),
    ``radius`` of the ROI in radians), everything else is computed when it is asked for. Torch tensors (CPU or CUDA)
    give tensors, numpy arrays give arrays.

    Attributes:
        distance: arc distance d in radians.
        azimuth: direction in [0, 2 pi), clockwise from north; 0 at the centre itself, which has none.
        at_center: whether the point coincides with the centre.
        x: d sin(azimuth), radians towards the east on the azimuthal equidistant plane.
        y: d cos(azimuth), radians towards the north.
        delta_lat: latitude difference in radians.
        delta_lon: longitude difference in radians within [-pi, pi).

    Example:
        >>> import torch
        >>> from geobias_torch.geometry import LocalFrame
        >>> frame = LocalFrame(*(torch.tensor([v], dtype=torch.float64) for v in (0.0, 179.0, 0.0, -179.0)), radius=0.1)
        >>> round(float(frame.x.rad2deg()), 6), round(float(frame.azimuth.rad2deg()), 6)
        (2.0, 90.0)
    """

    center_lat: Any
    center_lon: Any
    lat: Any
    lon: Any
    radius: float
    # sin(d) sin(a), sin(d) cos(a), cos(d), where a caller has them already from products of unit vectors
    products: tuple[Any, Any, Any] | None = None

    @property
    def _xp(self) -> Any:
        return torch if isinstance(self.lat, Tensor) else np  # coordinates are None where there are numpy products

    @cached_property
    def _components(self) -> tuple[Any, Any, Any]:
        xp = self._xp
        if self.products is None:
            phi, phi_c = xp.deg2rad(self.lat), xp.deg2rad(self.center_lat)
            dlon = xp.deg2rad(self.lon - self.center_lon)
            sin, cos, sin_c, cos_c = xp.sin(phi), xp.cos(phi), xp.sin(phi_c), xp.cos(phi_c)
            cos_dlon = xp.cos(dlon)
            east, north = cos * xp.sin(dlon), cos_c * sin - sin_c * cos * cos_dlon
            cosine = sin_c * sin + cos_c * cos * cos_dlon
        else:
            east, north, cosine = self.products
        for component in (east, north):  # in place: they are nobody else's
            component += _COARSE
            component -= _COARSE
        return east, north, cosine

    @cached_property
    def _sine(self) -> Any:
        east, north, _ = self._components
        sine = east * east
        sine += north * north
        return self._xp.sqrt(sine, out=sine)

    @cached_property
    def at_center(self) -> Any:  # noqa: D102 - described with the class
        return self._sine == 0

    @cached_property
    def distance(self) -> Any:  # noqa: D102
        cosine = self._components[2]
        # a cosine that is known to be positive need not be carried: arcsin is exact enough up to a radian
        return self._xp.arcsin(self._sine) if cosine is None else self._xp.arctan2(self._sine, cosine)

    @cached_property
    def azimuth(self) -> Any:  # noqa: D102
        return self._xp.where(self.bearing < 0, self.bearing + 2 * math.pi, self.bearing)

    @cached_property
    def bearing(self) -> Any:
        """The azimuth within (-pi, pi]."""
        east, north, _ = self._components
        # sums of opposites are +0, never -0: due south is pi and not -pi
        return self._xp.arctan2(east, north)

    @cached_property
    def _stretch(self) -> Any:
        return self.distance / (self._sine + self.at_center)

    @cached_property
    def x(self) -> Any:  # noqa: D102
        return self._stretch * self._components[0]

    @cached_property
    def y(self) -> Any:  # noqa: D102
        return self._stretch * self._components[1]

    @cached_property
    def delta_lat(self) -> Any:  # noqa: D102
        return self._xp.deg2rad(self.lat - self.center_lat)

    @cached_property
    def delta_lon(self) -> Any:  # noqa: D102
        difference = self.lon - self.center_lon
        # no remainder where none is needed: it would cost a point on the centre's meridian its exact zero
        xp = self._xp
        difference = xp.where(difference >= 180, difference - 360, difference)
        return xp.deg2rad(xp.where(difference < -180, difference + 360, difference))
