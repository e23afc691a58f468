"""The unit vector as it is, and no location at all: what the other encoders are held against."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from geobias_torch.geometry import EARTH_RADIUS_KM, unit_vectors
from training.encoders.base import PositionEncoder

__all__ = ["XYZ", "NoLocation"]


class XYZ(PositionEncoder):
    r"""The unit vector of a point, z towards the north pole.

    .. math:: [\cos\phi \cos\theta, \quad \cos\phi \sin\theta, \quad \sin\phi]

    with latitude :math:`\phi` and longitude :math:`\theta`. No seam at the antimeridian, and a pole has one code.

    Attributes:
        dim: number of features, 3.

    Example:
        >>> import torch
        >>> from training.encoders import XYZ
        >>> XYZ()(lat=torch.tensor([0.0, 30.0]), lon=torch.tensor([0.0, 90.0])).round(decimals=3)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.0000, 0.8660, 0.5000]])
    """

    def __init__(self) -> None:
        super().__init__(dim=3)

    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, 3) float64."""
        return unit_vectors(lat, lon)

    def wavelengths_km(self) -> Tensor:
        """Length in km after which it repeats: once around the Earth, 2 pi R, shape (1,).

        Example:
            >>> XYZ().wavelengths_km().round()
            tensor([40030.], dtype=torch.float64)
        """
        return torch.tensor([2 * math.pi * EARTH_RADIUS_KM], dtype=torch.float64)


class NoLocation(PositionEncoder):
    """No features at all: what is predicted without knowing where, from the image alone or as one constant.

    Attributes:
        dim: number of features, 0.

    Example:
        >>> import torch
        >>> from training.encoders import NoLocation
        >>> NoLocation()(lat=torch.tensor([0.0, float("nan")]), lon=torch.tensor([0.0, 10.0])).shape
        torch.Size([2, 0])
    """

    def __init__(self) -> None:
        super().__init__(dim=0)

    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, 0) float64."""
        return torch.stack([lat, lon], dim=1)[:, :0]  # still of the points: their gradients are 0, not missing

    def wavelengths_km(self) -> Tensor:
        """It resolves nothing: shape (0,).

        Example:
            >>> NoLocation().wavelengths_km()
            tensor([], dtype=torch.float64)
        """
        return torch.empty(0, dtype=torch.float64)
