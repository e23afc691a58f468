"""Rows of a data set and the batches made of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from geobias_torch import Regions
from training.samplers import RoiDraw

__all__ = ["Batch", "Points"]


class Batch(NamedTuple):
    """What one step of a task sees.

    Attributes:
        lat, lon: degrees, float64, shape (B,).
        target: shape (B,).
        rows: row numbers in their split, int64, shape (B,).
        num_random: so many points are random ones, the task loss is over them; those after them are ROI samples.
        regions: the ROI samples over all B rows; None where there are none, as in held-out batches.
        features: (B, F) float32, such as those of an image; None where the data has none.

    Example:
        >>> import torch
        >>> from training.data import Points
        >>> lat, lon, target = torch.rand(3, 8, dtype=torch.float64)
        >>> batch = Points(lat, lon, target, radius=0.1)[[5, 2]]
        >>> batch.rows.tolist(), batch.num_random, batch.regions
        ([5, 2], 2, None)
    """

    lat: Tensor
    lon: Tensor
    target: Tensor
    rows: Tensor
    num_random: int
    regions: Regions | None
    features: Tensor | None = None


class Points(Dataset[Batch]):
    """The rows of one split; ``points[rows]`` is a batch of them, ``points[draw]`` the batch of a `RoiDraw`.

    Args:
        lat: (N,) degrees, float64.
        lon: (N,) degrees, float64.
        target: (N,) what is to be predicted.
        radius: of the ROI samples, in radians.
        features: (N, F), a tensor or a memory-mapped array of which only the rows of a batch are read.

    Example:
        >>> import torch
        >>> from training.data import Points
        >>> len(Points(*torch.rand(3, 8, dtype=torch.float64), radius=0.1))
        8
    """

    def __init__(
        self, lat: Tensor, lon: Tensor, target: Tensor, radius: float, features: Tensor | np.ndarray | None = None
    ) -> None:
        self.lat, self.lon, self.target, self.radius, self.features = lat, lon, target, radius, features
        self.feature_rows: Tensor | None = None  # where the features of each row are; None = in its own row

    def __len__(self) -> int:
        return len(self.lat)

    def __getitem__(self, rows: list[int] | Tensor | RoiDraw) -> Batch:
        if not isinstance(rows, RoiDraw):
            index = torch.as_tensor(rows)
            return self._batch(index, len(index), None)
        index = torch.cat([rows.random_rows, rows.member_rows])
        if not len(rows.center_rows):
            return self._batch(index, len(index), None)
        regions = Regions.from_members(
            lat=self.lat[index],
            lon=self.lon[index],
            center_lat=self.lat[rows.center_rows],
            center_lon=self.lon[rows.center_rows],
            radius=self.radius,
            offsets=rows.offsets,
            members=torch.arange(len(rows.random_rows), len(index)),
        )
        return self._batch(index, len(rows.random_rows), regions)

    def take(self, rows: Tensor) -> Points:
        """Some of the rows, by number or mask."""
        numbers = torch.arange(len(self))[rows]
        feature_rows = numbers if self.feature_rows is None else self.feature_rows[numbers]
        chosen = Points(self.lat[rows], self.lon[rows], self.target[rows], self.radius, self.features)
        chosen.feature_rows = feature_rows
        return chosen

    def _batch(self, index: Tensor, num_random: int, regions: Regions | None) -> Batch:
        return Batch(
            self.lat[index], self.lon[index], self.target[index], index, num_random, regions, self._features(index)
        )

    def _features(self, index: Tensor) -> Tensor | None:
        if self.features is None:
            return None
        rows = index if self.feature_rows is None else self.feature_rows[index]
        chosen = self.features[rows] if isinstance(self.features, Tensor) else self.features[rows.numpy()]
        return torch.as_tensor(chosen).float()
