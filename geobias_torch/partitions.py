"""How an ROI is cut into patches: rings, sectors, squares, or any callable."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from geobias_torch.geometry import LocalFrame, check_arc

# A point on a boundary belongs to the higher index. Boundaries are met up to rounding, in units of one patch, so that
# "on the boundary" does not depend on how a distance was computed.
_ON_BOUNDARY = 1e-9
_MAX_ALONG = 10_000  # patches along a radius, and sectors

Partition = Callable[[LocalFrame], Any]


def _count(radius: float, width: float) -> int:
    """Number of patches of ``width`` that cover ``radius``."""
    if radius / width > _MAX_ALONG:
        raise ValueError(f"Expected patches no narrower than radius / {_MAX_ALONG}, but got {width:g} rad.")
    return max(1, math.ceil(radius / width - _ON_BOUNDARY))


def _floor(value: Any, low: int, high: int) -> Any:
    """Index of a patch from a fresh quotient, which is overwritten: new memory costs more than these operations."""
    xp = torch if isinstance(value, torch.Tensor) else np
    value += _ON_BOUNDARY
    xp.floor(value, out=value)
    return xp.clip(value, float(low), float(high), out=value)


@dataclass(frozen=True)
class DistanceLag:
    r"""Rings around the centre, the partition of the distance-lag SRE.

    .. math:: k = \lfloor d / \mathrm{lag} \rfloor, \quad k < \lceil r / \mathrm{lag} \rceil

    Args:
        lag: width of a ring in radians, at most the radius of the regions it is used with.

    Raises:
        ValueError: if ``lag`` is outside (0, pi], a bare number above 1, or above the radius.

    Example:
        >>> from geobias_torch import DistanceLag
        >>> DistanceLag(0.005)
        DistanceLag(lag=0.005)

    References:
        GeoBS, Section 4.3 (distance-lag partition).
    """

    lag: float

    def __post_init__(self) -> None:
        check_arc("lag", self.lag)

    def num_ids(self, radius: float) -> int:
        """Number of rings within ``radius``; ids are 0 .. num_ids - 1."""
        return _count(radius, check_arc("lag", self.lag, radius))

    def __call__(self, frame: LocalFrame) -> Any:
        """Ring of every pair."""
        return _floor(frame.distance / self.lag, 0, self.num_ids(frame.radius) - 1)


@dataclass(frozen=True)
class DirectionSector:
    r"""Sectors of equal angle, clockwise from north, the partition of the direction-sector SRE.

    .. math:: k = \lfloor a / (2 \pi / n) \rfloor

    A point on the centre has no direction and lies in no sector (it still counts as a member of the ROI).

    Args:
        n: number of sectors, at least 2.

    Raises:
        ValueError: if ``n`` is not an integer >= 2.

    Example:
        >>> from geobias_torch import DirectionSector
        >>> DirectionSector(8)
        DirectionSector(n=8)

    References:
        GeoBS, Section 4.3 (direction-sector partition).
    """

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, (int, np.integer)) or self.n < 2:
            raise ValueError(f"Expected `n`, the number of sectors, to be an integer >= 2, but got {self.n!r}.")
        if self.n > _MAX_ALONG:
            raise ValueError(f"Expected `n`, the number of sectors, to be at most {_MAX_ALONG}, but got {self.n}.")

    def num_ids(self, radius: float) -> int:
        """Number of sectors; ids are 0 .. num_ids - 1, and -1 at the centre."""
        return self.n

    def __call__(self, frame: LocalFrame) -> Any:
        """Sector of every pair, -1 at the centre."""
        sector = _floor(frame.bearing * (self.n / (2 * math.pi)), -self.n, self.n - 1)
        sector += (sector < 0) * float(self.n)  # the western half
        sector[frame.at_center] = -1
        return sector


@dataclass(frozen=True)
class ScaleGrid:
    r"""Squares of a grid through the centre, the partition of the scale-grid SRE.

    .. math:: k = (\lfloor x / \mathrm{scale} \rfloor, \lfloor y / \mathrm{scale} \rfloor)

    Args:
        scale: side of a square in radians, at most the radius of the regions it is used with.
        frame: ``"tangent"``: squares on the azimuthal equidistant plane of the centre. ``"graticule"``: boxes of
            latitude
            and longitude differences, as in the published code: not shrunk by cos(lat), and members further than
            :math:`\lceil r/\mathrm{scale} \rceil` boxes away are in none.

    Raises:
        ValueError: if ``scale`` is outside (0, pi], a bare number above 1, or above the radius, or ``frame`` is
            unknown.

    Example:
        >>> from geobias_torch import ScaleGrid
        >>> ScaleGrid(0.01)
        ScaleGrid(scale=0.01, frame='tangent')

    References:
        GeoBS, Section 4.3 (scale-grid partition).
    """

    scale: float
    frame: Literal["tangent", "graticule"] = "tangent"

    def __post_init__(self) -> None:
        check_arc("scale", self.scale)
        if self.frame not in ("tangent", "graticule"):
            raise ValueError(f'Expected `frame` to be "tangent" or "graticule", but got {self.frame!r}.')

    def num_ids(self, radius: float) -> int:
        """Number of squares; ids are 0 .. num_ids - 1."""
        return (2 * _count(radius, check_arc("scale", self.scale, radius))) ** 2

    def __call__(self, frame: LocalFrame) -> Any:
        """Square of every pair, row by row from the south-west; -1 outside the boxes of the graticule."""
        half = _count(frame.radius, self.scale)
        if self.frame == "tangent":
            column, row = (_floor(v / self.scale, -half, half - 1) for v in (frame.x, frame.y))
            row += half
            row *= 2 * half
            row += column
            row += half
            return row
        column, row = (_floor(v / self.scale, -half - 1, half) for v in (frame.delta_lon, frame.delta_lat))
        inside = (column >= -half) & (column < half) & (row >= -half) & (row < half)
        return ((row + half) * (2 * half) + (column + half) + 1) * inside - 1


SIZED = (DistanceLag, DirectionSector, ScaleGrid)  # partitions that know their number of patches beforehand


def check_patch_ids(ids: Any, like: torch.Tensor) -> torch.Tensor:
    """Check what a caller's own partition returned for the pairs of one frame."""
    if not isinstance(ids, torch.Tensor) or ids.shape != like.shape:
        got = tuple(ids.shape) if isinstance(ids, torch.Tensor) else type(ids).__name__
        raise ValueError(f"Expected the partition to return a tensor of shape {tuple(like.shape)}, but got {got}.")
    whole = ids.to(torch.int64)
    if ids.is_complex() or (ids.is_floating_point() and not torch.equal(whole.to(ids.dtype), ids)):
        raise ValueError("Expected the partition to return integer patch ids, but got fractions.")
    if len(whole) and int(whole.min()) < -1:
        raise ValueError(f"Expected the partition to return patch ids >= -1 (-1 = none), but got {int(whole.min())}.")
    return whole
