"""Points moved a little, at random."""

from __future__ import annotations

import torch
from torch import Tensor

from geobias_torch.geometry import unit_vectors

__all__ = ["jittered"]


def jittered(lat: Tensor, lon: Tensor, spread: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    r"""Move points on the sphere, in every direction alike, also at the poles and across the antimeridian.

    .. math:: v' = \frac{v + \text{spread} \cdot \epsilon}{|v + \text{spread} \cdot \epsilon|}, \qquad
              \epsilon \sim N(0, I_3)

    with v the unit vector of a point: for a small spread its shift north and its shift east are normal, each with this
    standard deviation.

    Args:
        lat: (N,) degrees.
        lon: (N,) degrees.
        spread: radians, >= 0.
        generator: to draw with, of the CPU.

    Returns:
        latitude and longitude in degrees, float64, (N,) each, on the device of ``lat``; NaN where these are.

    Example:
        >>> import torch
        >>> from training.jitter import jittered
        >>> north_pole = torch.full((10_000,), 90.0), torch.zeros(10_000)
        >>> lat, lon = jittered(*north_pole, spread=0.01, generator=torch.Generator().manual_seed(0))
        >>> round(torch.deg2rad(90 - lat).square().mean().sqrt().item(), 4)  # of two directions
        0.0142
    """
    noise = torch.randn(len(lat), 3, generator=generator, dtype=torch.float64).to(lat.device)
    x, y, z = (unit_vectors(lat.to(torch.float64), lon.to(torch.float64)) + spread * noise).unbind(dim=-1)
    return torch.rad2deg(torch.atan2(z, torch.hypot(x, y))), torch.rad2deg(torch.atan2(y, x))
