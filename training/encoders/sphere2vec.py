"""Sphere2Vec: sines and cosines of latitude and longitude at many scales, made of products that live on the sphere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from geobias_torch.geometry import EARTH_RADIUS_KM

__all__ = ["Sphere2Vec"]


class Sphere2Vec(nn.Module):
    r"""Position encoding of Sphere2Vec, variant sphereC.

    With latitude :math:`\phi` and longitude :math:`\theta` in radians and S frequencies :math:`f_i = 1/r_i`, the radii
    spaced geometrically, :math:`r_i = r_{min} (r_{max}/r_{min})^{i/(S-1)}` (i = 0 is the finest):

    .. math:: [\sin f_i\phi, \quad \cos f_i\phi \, \cos f_i\theta, \quad \cos f_i\phi \, \sin f_i\theta]_{i = 0..S-1}

    The S sines come first, then the S cos-cos, then the S cos-sin. Computed in float64, for at fine scales a float32
    angle is off by a visible part of the wave, and returned in the module's dtype.

    Args:
        scales: number of scales S >= 1.
        min_radius: finest radius in radians, > 0.
        max_radius: coarsest radius in radians, >= ``min_radius``; used for S > 1 only.
        variant: "sphereC".
        periodic: round the frequencies to whole numbers (at least 1). Otherwise the encoding jumps at the antimeridian:
            longitudes 180 and -180 get different codes.

    Attributes:
        dim: number of features, 3S.
        frequencies: buffer of shape (S,), float64 whatever the module's dtype.

    Example:
        >>> import torch
        >>> from training.encoders import Sphere2Vec
        >>> encoder = Sphere2Vec(scales=2, min_radius=0.1, max_radius=1.0)
        >>> encoding, located = encoder(lat=torch.tensor([0.0, float("nan")]), lon=torch.tensor([0.0, 10.0]))
        >>> encoding
        tensor([[0., 0., 1., 1., 0., 0.],
                [0., 0., 0., 0., 0., 0.]])
        >>> located
        tensor([ True, False])

    References:
        Mai et al., "Sphere2Vec: A General-Purpose Location Representation Learning over a Spherical Surface for
        Large-Scale Geospatial Predictions", 2023.
    """

    frequencies: Tensor
    _dtype_of_output: Tensor

    def __init__(
        self,
        scales: int = 24,
        min_radius: float = 0.05,
        max_radius: float = 1.0,
        variant: Literal["sphereC"] = "sphereC",
        periodic: bool = False,
    ) -> None:
        super().__init__()
        if scales < 1:
            raise ValueError(f"Expected `scales` of at least 1, but got {scales}.")
        if not 0 < min_radius <= max_radius:
            raise ValueError(f"Expected 0 < `min_radius` <= `max_radius`, but got {min_radius} and {max_radius}.")
        if variant != "sphereC":
            raise ValueError(f"Expected `variant` to be 'sphereC', but got {variant!r}.")
        step = torch.arange(scales, dtype=torch.float64) / max(scales - 1, 1)
        frequencies = 1 / (min_radius * (max_radius / min_radius) ** step)
        if periodic:
            frequencies = frequencies.round().clamp_min(1)
        self.dim = 3 * scales
        self.register_buffer("frequencies", frequencies)
        # An empty tensor follows .to(), .half(), .double() as parameters do: it knows the dtype to return.
        self.register_buffer("_dtype_of_output", torch.empty(0), persistent=False)

    def forward(self, lat: Tensor, lon: Tensor) -> tuple[Tensor, Tensor]:
        """Encode points.

        Args:
            lat: latitude in degrees, shape (N,).
            lon: longitude in degrees, shape (N,).

        Returns:
            the encoding, shape (N, 3S), and which rows have a location, shape (N,) bool: rows with a NaN or infinite
            coordinate are encoded as zeros.
        """
        if lat.ndim != 1 or lat.shape != lon.shape:
            raise ValueError(
                f"Expected `lat` and `lon` of the same shape (N,), but got {tuple(lat.shape)} and {tuple(lon.shape)}."
            )
        located = lat.isfinite() & lon.isfinite()
        degrees = torch.stack([lat, lon]).to(torch.float64)
        angles = torch.where(located, degrees, 0.0).deg2rad()[:, :, None] * self.frequencies  # (2, N, S)
        sine, cosine = angles.sin(), angles.cos()
        encoding = torch.cat([sine[0], cosine[0] * cosine[1], cosine[0] * sine[1]], dim=1)
        return (encoding * located[:, None]).to(self._dtype_of_output.dtype), located

    def wavelengths_km(self) -> Tensor:
        """Length in km, along a meridian, after which each scale repeats, finest first: 2 pi R / f, shape (S,).

        What is much smaller than the finest cannot be resolved.

        Example:
            >>> Sphere2Vec(scales=2, min_radius=0.1, max_radius=1.0).wavelengths_km().round()
            tensor([ 4003., 40030.], dtype=torch.float64)
        """
        return 2 * math.pi * EARTH_RADIUS_KM / self.frequencies

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Sphere2Vec:
        exact = self.frequencies
        super()._apply(fn, recurse)
        self.frequencies = exact.to(self.frequencies.device)  # moved, but never rounded to the module's dtype
        return self
