"""Spatial self-information as metrics."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from geobias_torch.functional.ssi import SSIOptions
from geobias_torch.geometry import check_arc
from geobias_torch.metrics.points import PointMetric
from geobias_torch.metrics.scores import LocalPlan, local_scores


class _SSI(PointMetric):
    """Global SSI: unweighted mean over the ROIs whose performance differs."""

    def __init__(self, radius: float, marked: bool, options: SSIOptions, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.radius = check_arc("radius", radius)
        self._plan = LocalPlan(ssi={"ssi": (marked, options)})

    def compute(self) -> Tensor:
        """Global score, 0-dim float64; NaN where no ROI counts."""
        points = self.points()
        local = local_scores(points, self.regions_of(points, self.radius), self._plan)
        (value, counted, _), _ = local.reduce("ssi", self._plan, None)
        self._warn_unscored([] if counted else [type(self).__name__], points)
        self._local = points.spread(local.columns["ssi"])
        return value.to(self.device)


class UnmarkedSSI(_SSI):
    """Unmarked SSI: how surprising the pattern of the locations of each ROI is, whatever the model predicts there.

    See :func:`~geobias_torch.functional.spatial_self_information` for the formula and the options. Performance only
    decides which ROIs count: those where it is not the same for all. ``local()``: one score per row given.

    Args:
        radius: of the ROIs around every point, radians.
        k: number of neighbours.
        background_ratio: background points per member.
        max_members: the nearest so many members take part, ``None``: all.
        null: ``"permutation"`` or ``"value_scheme"``.
        surprisal: ``"density"`` or ``"two_sided"``.
        kwargs: of :class:`torchmetrics.Metric`.

    Raises:
        ValueError: for options out of range.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import UnmarkedSSI
        >>> generator = torch.Generator().manual_seed(0)
        >>> lat, lon = 40 + 5 * torch.rand(2, 50, generator=generator)
        >>> metric = UnmarkedSSI(radius=0.03)
        >>> metric.update((lon > 42).float(), lat=lat, lon=lon)
        >>> bool(metric.compute() > 0)
        True

    References:
        GeoBS, Section 4.2.
    """

    def __init__(
        self,
        radius: float,
        k: int = 4,
        background_ratio: float = 5,
        max_members: int | None = 100,
        null: Literal["permutation", "value_scheme"] = "permutation",
        surprisal: Literal["density", "two_sided"] = "density",
        **kwargs: Any,
    ) -> None:
        options = SSIOptions(
            k=k, background_ratio=background_ratio, max_members=max_members, null=null, surprisal=surprisal
        )
        super().__init__(radius, False, options, **kwargs)


class MarkedSSI(_SSI):
    """Marked SSI: how surprising the spatial pattern of performance in each ROI is.

    See :func:`~geobias_torch.functional.spatial_self_information` for the formula and the options. ``local()``: one
    score per row given.

    Args:
        radius: of the ROIs around every point, radians.
        coding: ``"signed"``, ``"centred"`` or ``"raw"``; default by the values.
        k: number of neighbours.
        background_ratio: background points per member.
        max_members: the nearest so many members take part, ``None``: all.
        null: ``"permutation"`` or ``"value_scheme"``.
        surprisal: ``"density"`` or ``"two_sided"``.
        kwargs: of :class:`torchmetrics.Metric`.

    Raises:
        ValueError: for options out of range.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import MarkedSSI
        >>> generator = torch.Generator().manual_seed(0)
        >>> lat, lon = 40 + 5 * torch.rand(2, 50, generator=generator)
        >>> metric = MarkedSSI(radius=0.03)
        >>> metric.update((lon > 42).float(), lat=lat, lon=lon)
        >>> bool(metric.compute() > 0)
        True

    References:
        GeoBS, Section 4.2.
    """

    def __init__(
        self,
        radius: float,
        coding: Literal["signed", "centred", "raw"] | None = None,
        k: int = 4,
        background_ratio: float = 5,
        max_members: int | None = 100,
        null: Literal["permutation", "value_scheme"] = "permutation",
        surprisal: Literal["density", "two_sided"] = "density",
        **kwargs: Any,
    ) -> None:
        options = SSIOptions(
            coding=coding,
            k=k,
            background_ratio=background_ratio,
            max_members=max_members,
            null=null,
            surprisal=surprisal,
        )
        super().__init__(radius, True, options, **kwargs)
