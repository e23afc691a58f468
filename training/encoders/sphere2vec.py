"""Sphere2Vec: sines and cosines of latitude and longitude at many scales, made of products that live on the sphere."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from geobias_torch.geometry import EARTH_RADIUS_KM
from training.encoders.base import PositionEncoder, geometric_frequencies

__all__ = ["Sphere2Vec"]

_KINDS = {"sphereC": 3, "sphereC+": 6, "sphereM": 5}  # features per scale


class Sphere2Vec(PositionEncoder):
    r"""Position encoding of Sphere2Vec.

    With latitude :math:`\phi` and longitude :math:`\theta` in radians and S frequencies :math:`f_i = 1/r_i`, the radii
    spaced geometrically, :math:`r_i = r_{min} (r_{max}/r_{min})^{i/(S-1)}` (i = 0 is the finest):

    .. math::
        \text{sphereC} &: [\sin f_i\phi, \ \cos f_i\phi \cos f_i\theta, \ \cos f_i\phi \sin f_i\theta] \\
        \text{sphereC+} &: [\text{sphereC}, \ \cos f_i\phi, \ \sin f_i\theta, \ \cos f_i\theta] \\
        \text{sphereM} &: [\sin f_i\phi, \ \cos f_i\phi \cos\theta, \ \cos\phi \cos f_i\theta,
            \ \cos f_i\phi \sin\theta, \ \cos\phi \sin f_i\theta]

    Features come kind by kind: the S sines of the latitude first, then the S of the next kind, and so on.

    Args:
        scales: number of scales S >= 1.
        min_radius: finest radius in radians, > 0.
        max_radius: coarsest radius in radians, >= ``min_radius``; used for S > 1 only.
        variant: "sphereC"; "sphereC+", which adds the waves of `Space2VecGrid` in radians; or "sphereM", in whose
            products one factor is always of the coarsest scale.
        periodic: round the frequencies to whole numbers (at least 1). Otherwise the encoding jumps at the antimeridian:
            longitudes 180 and -180 get different codes.

    Attributes:
        dim: number of features, 3S, 6S or 5S.
        frequencies: buffer of shape (S,), float64 whatever the module's dtype.

    Raises:
        ValueError: if ``scales``, a radius or ``variant`` is none of these.

    Example:
        >>> import torch
        >>> from training.encoders import Sphere2Vec
        >>> encoder = Sphere2Vec(scales=2, min_radius=0.1, max_radius=1.0)
        >>> encoder(lat=torch.tensor([0.0, float("nan")]), lon=torch.tensor([0.0, 10.0]))
        tensor([[0., 0., 1., 1., 0., 0.],
                [0., 0., 0., 0., 0., 0.]])

    References:
        Mai et al., "Sphere2Vec: A General-Purpose Location Representation Learning over a Spherical Surface for
        Large-Scale Geospatial Predictions", 2023.
    """

    frequencies: Tensor

    def __init__(
        self,
        scales: int = 24,
        min_radius: float = 0.05,
        max_radius: float = 1.0,
        variant: Literal["sphereC", "sphereC+", "sphereM"] = "sphereC",
        periodic: bool = False,
    ) -> None:
        if variant not in _KINDS:
            raise ValueError(f"Expected `variant` to be one of {list(_KINDS)}, but got {variant!r}.")
        super().__init__(dim=_KINDS[variant] * scales)
        frequencies = geometric_frequencies(scales, min_radius, max_radius)
        self.variant = variant
        self.register_buffer("frequencies", frequencies.round().clamp_min(1) if periodic else frequencies)

    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, dim) float64."""
        phi, theta = (degrees.deg2rad()[:, None] for degrees in (lat, lon))  # (N, 1)
        fine_phi, fine_theta = phi * self.frequencies, theta * self.frequencies  # (N, S)
        sine, cosine = fine_phi.sin(), fine_phi.cos()
        sine_lon, cosine_lon = fine_theta.sin(), fine_theta.cos()
        if self.variant == "sphereM":
            parts = [cosine * theta.cos(), phi.cos() * cosine_lon, cosine * theta.sin(), phi.cos() * sine_lon]
        else:
            parts = [cosine * cosine_lon, cosine * sine_lon]
            if self.variant == "sphereC+":
                parts += [cosine, sine_lon, cosine_lon]
        return torch.cat([sine, *parts], dim=1)

    def wavelengths_km(self) -> Tensor:
        """Length in km, along a meridian, after which each scale repeats, finest first: 2 pi R / f, shape (S,).

        What is much smaller than the finest cannot be resolved.

        Example:
            >>> Sphere2Vec(scales=2, min_radius=0.1, max_radius=1.0).wavelengths_km().round()
            tensor([ 4003., 40030.], dtype=torch.float64)
        """
        return 2 * math.pi * EARTH_RADIUS_KM / self.frequencies
