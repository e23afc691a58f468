"""SPAD as a metric."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from geobias_torch.functional.spad import check_value_range, said_of, spad
from geobias_torch.metrics.points import PointMetric


class SPAD(PointMetric):
    """SPAD: how much the mean performance of boxes differs from the overall mean, over many random grids.

    See :func:`~geobias_torch.functional.spad` for the formula. After ``compute()``, ``local()`` is the standard error.

    Args:
        partitionings: number of grids.
        max_rows: largest number of rows.
        max_cols: largest number of columns.
        value_range: what performance can be.
        exhaustive: a fixed lattice of grids instead of a sample.
        seed: of the sample.
        kwargs: of :class:`torchmetrics.Metric`.

    Raises:
        ValueError: for options out of range, and in ``compute`` for performance outside ``value_range``.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import SPAD
        >>> generator = torch.Generator().manual_seed(0)
        >>> lat, lon = 40 + 5 * torch.rand(2, 300, generator=generator)
        >>> metric = SPAD()
        >>> metric.update((lon > 42).float(), lat=lat, lon=lon)
        >>> bool(metric.compute() > 40)
        True

    References:
        Xie et al., Fairness by "Where", AAAI 2022.
    """

    def __init__(
        self,
        partitionings: int = 100,
        max_rows: int = 100,
        max_cols: int = 100,
        value_range: tuple[float, float] = (0, 1),
        exhaustive: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.options: dict[str, Any] = {
            "partitionings": partitionings,
            "max_rows": max_rows,
            "max_cols": max_cols,
            "value_range": check_value_range(value_range),
            "exhaustive": exhaustive,
            "seed": seed,
        }
        # checks the options
        spad([self.options["value_range"][0]], lat=[45.0], lon=[45.0], **{**self.options, "exhaustive": False})

    def compute(self) -> Tensor:
        """SPAD, 0-dim float64; NaN without points."""
        value_range = self.options["value_range"]
        points = self.points().within(value_range, *said_of(value_range))
        score, self._local = spad(points.performance, lat=points.lat, lon=points.lon, **self.options)
        return score
