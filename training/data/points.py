"""Rows of a data set and the batches made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from geobias_torch import Regions
from training.data.features import FeatureFiles
from training.samplers import RoiDraw

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

__all__ = ["Batch", "ImagePredictions", "Points"]


class ImagePredictions(NamedTuple):
    """The likely classes of every row, as an image classifier saw them; K is the most that a row of the batch has.

    Attributes:
        classes: class numbers, int64, shape (B, K); -1 = padding.
        probabilities: of these classes, float32, shape (B, K); 0 = padding.

    Example:
        >>> import torch
        >>> from training.data import ImagePredictions
        >>> image = ImagePredictions(torch.tensor([[7, 2], [3, -1]]), torch.tensor([[0.6, 0.3], [0.9, 0.0]]))
        >>> image.probabilities.sum(dim=1)
        tensor([0.9000, 0.9000])
    """

    classes: Tensor
    probabilities: Tensor


class Batch(NamedTuple):
    """What one step of a task sees.

    Attributes:
        lat, lon: degrees, float64, shape (B,).
        target: shape (B,).
        rows: row numbers in their split, int64, shape (B,).
        num_random: so many points are random ones, the task loss is over them; those after them are ROI samples.
        regions: the ROI samples over all B rows; None where there are none, as in held-out batches.
        features: (B, F) float32, such as those of an image; None where the data has none.
        image: what an image classifier predicts for the rows; None where the data has no such predictions.

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
    image: ImagePredictions | None = None


class Points(Dataset[Batch]):
    """The rows of one split; ``points[rows]`` is a batch of them, ``points[draw]`` the batch of a `RoiDraw`.

    Args:
        lat: (N,) degrees, float64; NaN where there is no location.
        lon: (N,) degrees, float64; NaN where there is no location.
        target: (N,) what is to be predicted.
        radius: of the ROI samples, in radians.
        features: (N, F), a tensor, an array or files of which only the rows of a batch are read.
        image: (N, C) probabilities of an image classifier, sparse and kept so.
        feature_rows: which row of ``features`` and ``image`` is that of each point, (N,) int64; None = its own.

    Raises:
        ValueError: if the numbers of rows do not fit together; for a batch, if its features are not finite.

    Example:
        >>> import torch
        >>> from training.data import Points
        >>> len(Points(*torch.rand(3, 8, dtype=torch.float64), radius=0.1))
        8
    """

    def __init__(
        self,
        lat: Tensor,
        lon: Tensor,
        target: Tensor,
        radius: float,
        features: Tensor | np.ndarray | FeatureFiles | None = None,
        image: csr_matrix | csr_array | None = None,
        feature_rows: Tensor | None = None,
    ) -> None:
        shapes = [tuple(column.shape) for column in (lat, lon, target)]
        if lat.ndim != 1 or len(set(shapes)) > 1:
            raise ValueError(f"Expected `lat`, `lon` and `target` of the same shape (N,), but got {shapes}.")
        for name, table in (("features", features), ("image", image)):
            if table is not None and feature_rows is None and table.shape[0] != len(lat):
                raise ValueError(f"Expected `{name}` of {len(lat)} rows, but got {table.shape[0]}.")
        self.lat, self.lon, self.target, self.radius = lat, lon, target, radius
        self.features, self.image, self.feature_rows = features, image, feature_rows

    def __len__(self) -> int:
        return len(self.lat)

    def __getitem__(self, rows: list[int] | Tensor | RoiDraw) -> Batch:
        if not isinstance(rows, RoiDraw):
            index = torch.arange(len(self))[rows]  # of a mask or from the end, too
            return self._batch(index, len(index), None)
        index = torch.cat([rows.random_rows, rows.member_rows])
        if not len(rows.center_rows):
            return self._batch(index, len(index), None)
        regions = Regions.from_members(
            # random rows without a location are in no ROI: any number does for them
            lat=self.lat[index].nan_to_num(),
            lon=self.lon[index].nan_to_num(),
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
        return Points(
            self.lat[rows], self.lon[rows], self.target[rows], self.radius, self.features, self.image, feature_rows
        )

    def _batch(self, index: Tensor, num_random: int, regions: Regions | None) -> Batch:
        rows = index if self.feature_rows is None else self.feature_rows[index]
        return Batch(
            self.lat[index],
            self.lon[index],
            self.target[index],
            index,
            num_random,
            regions,
            self._features(rows),
            self._image(rows),
        )

    def _features(self, rows: Tensor) -> Tensor | None:
        if self.features is None:
            return None
        chosen = self.features[rows] if isinstance(self.features, Tensor) else self.features[rows.numpy()]
        features = torch.as_tensor(chosen).float()
        wrong = (~features.isfinite()).nonzero()
        if len(wrong):
            first, column = wrong[0].tolist()
            row = int(rows[first])
            where = self.features.place(row) if isinstance(self.features, FeatureFiles) else f"row {row}"
            raise ValueError(
                f"Expected finite `features`, but got {features[first, column]} in {where}, counted from 0."
            )
        return features

    def _image(self, rows: Tensor) -> ImagePredictions | None:
        if self.image is None:
            return None
        chosen = self.image[rows.numpy()]
        counts = np.diff(chosen.indptr)
        row = np.repeat(np.arange(len(counts)), counts)
        column = np.arange(chosen.nnz) - np.repeat(chosen.indptr[:-1], counts)
        classes = torch.full((len(counts), int(counts.max(initial=0))), -1)
        probabilities = torch.zeros(classes.shape)
        classes[row, column] = torch.as_tensor(chosen.indices).long()
        probabilities[row, column] = torch.as_tensor(chosen.data).float()
        return ImagePredictions(classes, probabilities)
