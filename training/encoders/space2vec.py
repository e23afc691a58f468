"""Space2Vec: plane waves over the map of longitudes and latitudes, along two or three directions."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from geobias_torch.geometry import EARTH_RADIUS_KM
from training.encoders.base import PositionEncoder, geometric_frequencies

__all__ = ["Space2VecGrid", "Space2VecTheory"]


class _PlaneWaves(PositionEncoder):
    """Sines, then cosines, of f_i <x, u_j>: direction by direction, finest scale first."""

    frequencies: Tensor
    directions: Tensor

    # What f_i * 180 / pi must be a multiple of, so that f_i <x, u_j> grows by full turns over 360 degrees of longitude.
    _whole: int

    def __init__(
        self, scales: int = 64, min_radius: float = 0.05, max_radius: float = 360.0, periodic: bool = False
    ) -> None:
        directions = self._directions()
        super().__init__(dim=2 * len(directions) * scales)
        frequencies = geometric_frequencies(scales, min_radius, max_radius)
        if periodic:
            per_turn = frequencies * 180 / math.pi
            frequencies = (per_turn / self._whole).round().clamp_min(1) * self._whole * math.pi / 180
        self.register_buffer("frequencies", frequencies)
        self.register_buffer("directions", directions)

    @staticmethod
    @abstractmethod
    def _directions() -> Tensor:
        """(J, 2) unit vectors (along longitude, along latitude), float64."""

    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, dim) float64."""
        # no matrix product: its rounding would depend on the number of rows
        along = lon[:, None] * self.directions[:, 0] + lat[:, None] * self.directions[:, 1]  # (N, J)
        angles = (along[:, :, None] * self.frequencies).flatten(1)  # (N, J S)
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    def wavelengths_km(self) -> Tensor:
        """Length in km, along a meridian, of one wave along the latitude, finest first: shape (S,).

        The wave is 2 pi / f degrees long. Along a parallel it is shorter on the ground, by the cosine of the latitude.

        Example:
            >>> from training.encoders import Space2VecGrid
            >>> Space2VecGrid(scales=2, min_radius=1.0, max_radius=10.0).wavelengths_km().round()
            tensor([ 699., 6987.], dtype=torch.float64)
        """
        return torch.deg2rad(2 * math.pi / self.frequencies) * EARTH_RADIUS_KM


class Space2VecGrid(_PlaneWaves):
    r"""Position encoding of Space2Vec, variant grid: waves along the longitude and along the latitude.

    With longitude and latitude in degrees, used as if they were radians, and S frequencies :math:`f_i = 1/r_i`, the
    radii spaced geometrically, :math:`r_i = r_{min} (r_{max}/r_{min})^{i/(S-1)}` (i = 0 is the finest):

    .. math:: [\sin f_i \mathrm{lon}, \quad \sin f_i \mathrm{lat}, \quad \cos f_i \mathrm{lon}, \quad
               \cos f_i \mathrm{lat}]_{i = 0..S-1}

    The S sines of the longitude come first, then those of the latitude, then the cosines.

    Args:
        scales: number of scales S >= 1.
        min_radius: finest radius in degrees, > 0; a wave is 2 pi times as long.
        max_radius: coarsest radius in degrees, >= ``min_radius``; used for S > 1 only.
        periodic: round the frequencies so that whole waves (at least one) fit into 360 degrees. Otherwise the encoding
            jumps at the antimeridian: longitudes 180 and -180 get different codes. A pole has many codes either way,
            one per longitude.

    Attributes:
        dim: number of features, 4S.
        frequencies: buffer of shape (S,), float64 whatever the module's dtype.
        directions: buffer of shape (2, 2), float64, a row (along longitude, along latitude) each.

    Raises:
        ValueError: if ``scales`` or a radius is out of its range.

    Example:
        >>> import torch
        >>> from training.encoders import Space2VecGrid
        >>> encoder = Space2VecGrid(scales=1, min_radius=1.0)
        >>> encoder(lat=torch.tensor([0.0]), lon=torch.tensor([1.0]))
        tensor([[0.8415, 0.0000, 0.5403, 1.0000]])

    References:
        Mai et al., "Multi-Scale Representation Learning for Spatial Feature Distributions using Grid Cells", 2020.
    """

    _whole = 1

    @staticmethod
    def _directions() -> Tensor:
        return torch.eye(2, dtype=torch.float64)


class Space2VecTheory(_PlaneWaves):
    r"""Position encoding of Space2Vec, variant theory: waves along three directions, as the grid cells of a brain fire.

    With :math:`x = (\mathrm{lon}, \mathrm{lat})` in degrees, used as if they were radians, unit vectors :math:`u_j` at
    0, 120 and 240 degrees from the longitude's axis, and S frequencies :math:`f_i = 1/r_i`, the radii spaced
    geometrically, :math:`r_i = r_{min} (r_{max}/r_{min})^{i/(S-1)}` (i = 0 is the finest):

    .. math:: [\sin f_i \langle x, u_j \rangle, \quad \cos f_i \langle x, u_j \rangle]_{j = 0..2, \ i = 0..S-1}

    The sines come first, direction by direction, then the cosines.

    Args:
        scales: number of scales S >= 1.
        min_radius: finest radius in degrees, > 0; a wave is 2 pi times as long.
        max_radius: coarsest radius in degrees, >= ``min_radius``; used for S > 1 only.
        periodic: round the frequencies so that whole waves of every direction (at least two along the parallel) fit
            into 360 degrees. Otherwise the encoding jumps at the antimeridian: longitudes 180 and -180 get different
            codes. A pole has many codes either way, one per longitude.

    Attributes:
        dim: number of features, 6S.
        frequencies: buffer of shape (S,), float64 whatever the module's dtype.
        directions: buffer of shape (3, 2), float64, a row (along longitude, along latitude) each.

    Raises:
        ValueError: if ``scales`` or a radius is out of its range.

    Example:
        >>> import torch
        >>> from training.encoders import Space2VecTheory
        >>> encoder = Space2VecTheory(scales=1, min_radius=1.0)
        >>> encoder(lat=torch.tensor([0.0]), lon=torch.tensor([1.0]))
        tensor([[ 0.8415, -0.4794, -0.4794,  0.5403,  0.8776,  0.8776]])

    References:
        Mai et al., "Multi-Scale Representation Learning for Spatial Feature Distributions using Grid Cells", 2020.
    """

    _whole = 2  # the second and third direction see half of the longitude

    @staticmethod
    def _directions() -> Tensor:
        angles = torch.arange(3, dtype=torch.float64) * 2 * math.pi / 3
        return torch.stack([angles.cos(), angles.sin()], dim=1)
