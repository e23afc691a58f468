"""Radial basis functions: how near a point is to each of some anchors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from geobias_torch.geometry import EARTH_RADIUS_KM, check_arc, check_coordinates
from training.encoders.base import PositionEncoder

__all__ = ["RBF"]

# Bounds of sin^2(d / 2). Slopes of the distance are infinite at the anchor and at its antipode, where they are cut off:
# at the anchor itself the kernel is flat.
_NEAREST, _FARTHEST = 1e-30, 1 - 1e-15


class RBF(PositionEncoder):
    r"""Gaussian kernels around M anchors.

    .. math:: [\exp(-d(x, a_m)^2 / (2 \sigma^2))]_{m = 1..M}

    with d the great-circle distance in radians, or the plain distance of longitudes and latitudes in degrees. Values
    are within [0, 1], 1 at the anchor.

    Args:
        anchors: shape (M, 2), a row (latitude, longitude) in degrees each, M >= 1; see `from_points` to draw them.
        sigma: width, > 0: in radians for "great_circle" (at most pi; `geobias_torch.km` converts), in degrees for
            "euclid_deg".
        metric: "great_circle", or "euclid_deg" as in TorchSpatial, with a seam at the antimeridian and a pole of many
            codes, one per longitude.
        periodic: with "euclid_deg" longitudes differ by the short way around. Otherwise the encoding jumps at the
            antimeridian: longitudes 180 and -180 get different codes. Great-circle distances have no seam.

    Attributes:
        dim: number of features, M.
        anchors: buffer of shape (M, 2), float64 whatever the module's dtype.
        sigma: buffer of shape (), float64.

    Raises:
        ValueError: if ``anchors``, ``sigma`` or ``metric`` is none of these.

    Example:
        >>> import torch
        >>> from training.encoders import RBF
        >>> encoder = RBF(anchors=[[0.0, 0.0], [0.0, 90.0]], sigma=1.0)
        >>> encoder(lat=torch.tensor([0.0]), lon=torch.tensor([180.0]))
        tensor([[0.0072, 0.2912]])

    References:
        Mai et al., "Multi-Scale Representation Learning for Spatial Feature Distributions using Grid Cells", 2020,
        baseline rbf.
    """

    anchors: Tensor
    sigma: Tensor

    def __init__(
        self,
        anchors: Tensor | Sequence[Sequence[float]],
        sigma: float,
        metric: Literal["great_circle", "euclid_deg"] = "great_circle",
        periodic: bool = False,
    ) -> None:
        anchors = torch.as_tensor(anchors, dtype=torch.float64).detach()
        if anchors.ndim != 2 or anchors.shape[1] != 2 or not len(anchors):
            raise ValueError(f"Expected `anchors` of shape (M, 2), M >= 1, but got shape {tuple(anchors.shape)}.")
        check_coordinates(anchors[:, 0], anchors[:, 1], names=("anchors[:, 0]", "anchors[:, 1]"))
        if metric not in ("great_circle", "euclid_deg"):
            raise ValueError(f"Expected `metric` to be 'great_circle' or 'euclid_deg', but got {metric!r}.")
        if metric == "great_circle":
            check_arc("sigma", sigma)
        elif not 0 < sigma < math.inf:
            raise ValueError(f"Expected `sigma` in degrees to be finite and > 0, but got {sigma}.")
        super().__init__(dim=len(anchors))
        self.metric, self.periodic = metric, periodic
        self.register_buffer("anchors", anchors.clone())
        self.register_buffer("sigma", torch.tensor(float(sigma), dtype=torch.float64))

    @classmethod
    def from_points(
        cls,
        lat: Tensor,
        lon: Tensor,
        sigma: float,
        num_anchors: int = 200,
        seed: int = 0,
        metric: Literal["great_circle", "euclid_deg"] = "great_circle",
        periodic: bool = False,
    ) -> RBF:
        """An encoder with anchors drawn from points, without replacement; points without a location are left out.

        Args:
            lat: latitude of the training points in degrees, shape (N,).
            lon: longitude in degrees, shape (N,).
            sigma: see `RBF`.
            num_anchors: number of anchors M, at least 1 and at most the number of points.
            seed: of the draw.
            metric: see `RBF`.
            periodic: see `RBF`.

        Raises:
            ValueError: if there are fewer than ``num_anchors`` points with a location.

        Example:
            >>> import torch
            >>> from training.encoders import RBF
            >>> RBF.from_points(torch.rand(9), torch.rand(9), sigma=0.035, num_anchors=4).dim
            4
        """
        points = torch.stack([lat, lon], dim=1)
        points = points[points.isfinite().all(dim=1)]
        if not 1 <= num_anchors <= len(points):
            raise ValueError(f"Expected `num_anchors` within [1, {len(points)}], the points, but got {num_anchors}.")
        rows = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))[:num_anchors]
        return cls(points[rows.to(points.device)], sigma, metric, periodic)

    @classmethod
    def from_data(
        cls,
        data: LightningDataModule,
        sigma: float,
        num_anchors: int = 200,
        seed: int = 0,
        metric: Literal["great_circle", "euclid_deg"] = "great_circle",
        periodic: bool = False,
    ) -> RBF:
        """An encoder with anchors drawn from the training points of a data module: what a configuration names.

        Args:
            data: data module whose ``train_points`` have ``lat`` and ``lon``; it is set up here.
            sigma: see `RBF`.
            num_anchors: see `from_points`.
            seed: see `from_points`.
            metric: see `RBF`.
            periodic: see `RBF`.

        Example:
            >>> from training.data import AirportsDataModule
            >>> from training.encoders import RBF
            >>> RBF.from_data(AirportsDataModule(), sigma=0.035, num_anchors=4).dim
            4
        """
        data.setup("fit")
        module: Any = data  # Lightning's class has no train_points
        return cls.from_points(
            module.train_points.lat, module.train_points.lon, sigma, num_anchors, seed, metric, periodic
        )

    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, M) float64."""
        squared = self._squared_distance(lat[:, None], lon[:, None], *self.anchors.T)
        return torch.exp(-squared / (2 * self.sigma**2))

    def _squared_distance(self, lat: Tensor, lon: Tensor, anchor_lat: Tensor, anchor_lon: Tensor) -> Tensor:
        delta_lat, delta_lon = lat - anchor_lat, lon - anchor_lon  # (N, M)
        if self.metric == "euclid_deg":
            if self.periodic:
                delta_lon = torch.remainder(delta_lon + 180, 360) - 180
            return delta_lat**2 + delta_lon**2
        # haversine: exact for near points, and unlike an arc cosine with a gradient there
        cosines = lat.deg2rad().cos() * anchor_lat.deg2rad().cos()
        squared_sine = (delta_lat.deg2rad() / 2).sin() ** 2 + cosines * (delta_lon.deg2rad() / 2).sin() ** 2
        return (2 * squared_sine.clamp(_NEAREST, _FARTHEST).sqrt().asin()) ** 2

    def wavelengths_km(self) -> Tensor:
        """Length in km of the finest wave that is left after the kernel's smoothing: 2 pi sigma, shape (1,).

        There the kernel's spectrum is down to exp(-1/2). For "euclid_deg" it is meant along a meridian.

        Example:
            >>> RBF(anchors=[[0.0, 0.0]], sigma=0.035).wavelengths_km().round()
            tensor([1401.], dtype=torch.float64)
        """
        sigma = self.sigma.deg2rad() if self.metric == "euclid_deg" else self.sigma
        return 2 * math.pi * EARTH_RADIUS_KM * sigma[None]
