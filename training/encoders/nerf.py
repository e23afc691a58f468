"""NeRF's encoding of the unit vector: sines and cosines at octaves."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from geobias_torch.geometry import EARTH_RADIUS_KM, unit_vectors
from training.encoders.base import PositionEncoder, check_count

__all__ = ["NeRF"]

# From 2^k pi on, k above these, half a wave is shorter than the spacing of the coordinates' dtype.
_FINEST_FLOAT32, _FINEST_FLOAT64 = 22, 52


class NeRF(PositionEncoder):
    r"""Position encoding of NeRF, of the point's unit vector.

    With :math:`v = (x, y, z)` the unit vector (z towards the north pole) and octaves k = 0..L-1 (0 is the coarsest):

    .. math:: [\sin 2^k \pi v, \quad \cos 2^k \pi v, \quad v]

    The 3L sines come first, the L of x, then of y, then of z; then the cosines alike; then x, y, z. There is no seam at
    the antimeridian, and a pole has one code.

    Args:
        scales: number of octaves L >= 1. Above 23 (k > 22) the finest are rounding noise where coordinates come as
            float32, above 53 (k > 52) everywhere: warned about.
        include_input: append x, y, z. Without, v and its opposite in any axis share a code where they are +1 and -1:
            the two poles are one place.

    Attributes:
        dim: number of features, 6L + 3, without the input 6L.
        frequencies: buffer of shape (L,), 2^k pi, float64 whatever the module's dtype.

    Raises:
        ValueError: if ``scales`` is below 1 or no whole number.

    Example:
        >>> import torch
        >>> from training.encoders import NeRF
        >>> NeRF(scales=1)(lat=torch.tensor([30.0]), lon=torch.tensor([90.0])).round(decimals=3)
        tensor([[ 0.0000,  0.4090,  1.0000,  1.0000, -0.9130, 0.0000,  0.0000,  0.8660,  0.5000]])

    References:
        Mildenhall et al., "NeRF: Representing Scenes as Neural Radiance Fields for View Synthesis", 2020, equation 4.
    """

    frequencies: Tensor

    def __init__(self, scales: int = 16, include_input: bool = True) -> None:
        check_count("scales", scales)
        finest = scales - 1
        if finest > _FINEST_FLOAT32:
            noise, where = (
                (_FINEST_FLOAT64, "in float64 too")
                if finest > _FINEST_FLOAT64
                else (_FINEST_FLOAT32, "where coordinates come as float32")
            )
            warnings.warn(
                f"NeRF with `scales` {scales} has octaves k > {noise}, which are rounding noise {where}: "
                f"use {noise + 1} scales at most.",
                stacklevel=2,
            )
        super().__init__(dim=6 * scales + 3 * include_input)
        self.include_input = include_input
        self.register_buffer("frequencies", 2.0 ** torch.arange(scales, dtype=torch.float64) * math.pi)

    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, dim) float64."""
        xyz = unit_vectors(lat, lon)
        angles = (xyz[:, :, None] * self.frequencies).flatten(1)  # (N, 3 L)
        return torch.cat([angles.sin(), angles.cos(), *([xyz] if self.include_input else [])], dim=1)

    def wavelengths_km(self) -> Tensor:
        """Length in km, along the axis, after which each octave repeats, finest first: 2 R / 2^k, shape (L,).

        On the ground it is that long where the axis runs along the ground, and longer elsewhere.

        Example:
            >>> NeRF(scales=3).wavelengths_km().round()
            tensor([ 3186.,  6371., 12742.], dtype=torch.float64)
        """
        return 2 * math.pi * EARTH_RADIUS_KM / self.frequencies.flip(0)
