"""Spherical harmonics: the waves of the sphere itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from geobias_torch.geometry import EARTH_RADIUS_KM, unit_vectors
from training.encoders.base import PositionEncoder, check_count

__all__ = ["SphericalHarmonics"]


class SphericalHarmonics(PositionEncoder):
    r"""Real spherical harmonics of all degrees l < L, as in SatCLIP.

    With (x, y, z) the unit vector, z towards the north pole, :math:`\theta` the longitude and :math:`P_l^m` the
    associated Legendre functions without the factor :math:`(-1)^m` (no Condon-Shortley phase):

    .. math::
        Y_{l0} &= N_{l0} P_l(z), \qquad
        Y_{lm} = \sqrt 2 N_{lm} P_l^m(z) \cos m\theta, \qquad
        Y_{l,-m} = \sqrt 2 N_{lm} P_l^m(z) \sin m\theta \quad (m > 0) \\
        N_{lm}^2 &= \frac{2l+1}{4\pi} \frac{(l-m)!}{(l+m)!}

    Orthonormal: the integral over the sphere of a product of two is 1 for one with itself, else 0. Feature l^2 + l + m
    is :math:`Y_{lm}`: by degree, and within it from m = -l to l.

    Computed from x, y, z without an angle: :math:`P_l^m(z) = (1 - z^2)^{m/2} \Pi_l^m(z)`, the root times
    :math:`\cos m\theta` and :math:`\sin m\theta` are real and imaginary part of :math:`(x + iy)^m`, and the polynomial
    :math:`\Pi_l^m` follows from those of the two degrees below. So gradients are finite at the poles, a pole has one
    code, and there is no seam at the antimeridian.

    Args:
        bandlimit: number of degrees L >= 1.

    Attributes:
        dim: number of features, L^2.
        rise, fall: buffers of shape (L, L), float64: the recurrence
            :math:`\Pi_l^m = \mathrm{rise}_{lm} (z \Pi_{l-1}^m - \mathrm{fall}_{lm} \Pi_{l-2}^m)`.
        start: buffer of shape (L,), float64: :math:`\Pi_m^m`, where it starts.

    Raises:
        ValueError: if ``bandlimit`` is below 1 or no whole number.

    Example:
        >>> import torch
        >>> from training.encoders import SphericalHarmonics
        >>> SphericalHarmonics(bandlimit=2)(lat=torch.tensor([90.0]), lon=torch.tensor([0.0])).round(decimals=4)
        tensor([[0.2821, 0.0000, 0.4886, 0.0000]])

    References:
        Russwurm et al., "Geographic Location Encoding with Spherical Harmonics and Sinusoidal Representation
        Networks", 2024; Klemmer et al., "SatCLIP: Global, General-Purpose Location Embeddings with Satellite
        Imagery", 2025.
    """

    rise: Tensor
    fall: Tensor
    start: Tensor

    def __init__(self, bandlimit: int = 20) -> None:
        check_count("bandlimit", bandlimit)
        super().__init__(dim=bandlimit**2)
        order = torch.arange(bandlimit, dtype=torch.float64)
        degree = order[:, None]
        below = degree - 1
        # used for orders below the degree only: elsewhere they are not numbers
        used = order < degree
        rise = torch.where(used, ((4 * degree**2 - 1) / (degree**2 - order**2)).sqrt(), 0.0)
        fall = torch.where(used & (degree > 1), ((below**2 - order**2) / (4 * below**2 - 1)).sqrt(), 0.0)
        ratio = ((2 * order[1:] + 1) / (2 * order[1:])).sqrt()
        self.register_buffer("rise", rise)
        self.register_buffer("fall", fall)
        self.register_buffer("start", torch.cat([ratio.new_ones(1), ratio]).cumprod(0) / math.sqrt(4 * math.pi))

    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, L^2) float64."""
        x, y, z = unit_vectors(lat, lon).split(1, dim=1)  # (N, 1) each
        real, imaginary = [torch.ones_like(x)], [torch.zeros_like(x)]  # of (x + iy)^m
        last = self.start[:1].expand_as(z)  # degree l - 1, orders 0..l-1
        before = last[:, :0]  # degree l - 2, orders 0..l-2
        degrees = [last]
        for degree in range(1, len(self.start)):
            a, b = real[-1], imaginary[-1]
            real.append(x * a - y * b)
            imaginary.append(x * b + y * a)
            before = torch.nn.functional.pad(before, (0, 1))
            rising = self.rise[degree, :degree] * (z * last - self.fall[degree, :degree] * before)
            last, before = torch.cat([rising, self.start[degree].expand_as(z)], dim=1), last
            tesseral = math.sqrt(2) * last[:, 1:]
            cosines, sines = torch.cat(real[1:], dim=1), torch.cat(imaginary[1:], dim=1)
            degrees.append(torch.cat([(tesseral * sines).flip(1), last[:, :1], tesseral * cosines], dim=1))
        return torch.cat(degrees, dim=1)

    def wavelengths_km(self) -> Tensor:
        """Length in km of the waves of degree l around the Earth, 2 pi R / l, for l = L-1..1: shape (L-1,).

        Example:
            >>> SphericalHarmonics(bandlimit=3).wavelengths_km().round()
            tensor([20015., 40030.], dtype=torch.float64)
        """
        degrees = torch.arange(len(self.start) - 1, 0, -1, dtype=torch.float64, device=self.start.device)
        return 2 * math.pi * EARTH_RADIUS_KM / degrees
