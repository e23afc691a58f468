"""Spatial relative entropy as metrics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from geobias_torch.convert import to_tensor
from geobias_torch.functional.sre import SREOptions
from geobias_torch.geometry import check_arc, part_of
from geobias_torch.histograms import Bins, memberships
from geobias_torch.metrics.points import PointMetric
from geobias_torch.metrics.scores import LocalPlan, check_weights, local_scores
from geobias_torch.partitions import DirectionSector, DistanceLag, Partition, ScaleGrid


class _SRE(PointMetric):
    """Global SRE under one partition."""

    def __init__(
        self,
        radius: float,
        partition: Partition,
        bins: Bins,
        options: SREOptions,
        weights: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.radius, self.weights = radius, None if weights is None else to_tensor("weights", weights)
        memberships(torch.zeros(1), bins)  # refuses bins that are none before an epoch is spent
        self._plan = LocalPlan({"sre": partition}, options, bins)

    def compute(self) -> Tensor:
        """Global score, 0-dim float64; NaN where no ROI counts."""
        points = self.points()
        bins = self._plan.bins
        if isinstance(bins, str) and bins == "probability":
            points = points.within((0, 1), '[0, 1] for bins="probability"')
        local = local_scores(points, self.regions_of(points, self.radius), self._plan)
        (value, counted, _), _ = local.reduce("sre", self._plan, check_weights(self.weights, points))
        self._warn_unscored([] if counted else [type(self).__name__], points)
        self._local = points.spread(local.columns["sre"])
        return value.to(self.device)


class ScaleGridSRE(_SRE):
    """Scale-grid SRE: how much performance differs between the squares of a grid within each ROI.

    See :func:`~geobias_torch.functional.spatial_relative_entropy` for the formula and the options,
    :class:`~geobias_torch.metrics.GeoBiasScores` for all scores at once. ``local()``: one score per row given.

    Args:
        radius: of the ROIs around every point, radians.
        scale: side of a square, radians; default radius / 2.
        bins: bins of performance.
        smoothing: added to the shares of a patch.
        prior: pseudo-counts, instead of ``smoothing``.
        min_patch_size: smaller patches are left out.
        min_patches: an ROI with fewer such patches is not scored.
        min_roi_size: an ROI with fewer members is not scored.
        drop_constant: an ROI with all members in one bin is not scored.
        weights: a weight per row given; default: the number of members.
        kwargs: of :class:`torchmetrics.Metric`.

    Raises:
        ValueError: for lengths and options out of range.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import ScaleGridSRE
        >>> generator = torch.Generator().manual_seed(0)
        >>> lat, lon = 40 + 5 * torch.rand(2, 300, generator=generator)
        >>> metric = ScaleGridSRE(radius=0.03)
        >>> metric.update((lon > 42).float(), lat=lat, lon=lon)
        >>> bool(metric.compute() > 0.5)
        True

    References:
        GeoBS, Section 4.3.
    """

    def __init__(
        self,
        radius: float,
        scale: float | None = None,
        bins: Bins = None,
        smoothing: float = 1e-8,
        prior: float = 0.0,
        min_patch_size: int = 10,
        min_patches: int = 2,
        min_roi_size: int = 1,
        drop_constant: bool = True,
        weights: Any = None,
        **kwargs: Any,
    ) -> None:
        radius = check_arc("radius", radius)
        partition = ScaleGrid(check_arc("scale", part_of(radius, 2) if scale is None else scale, radius))
        options = SREOptions(smoothing, prior, min_patch_size, min_patches, min_roi_size, drop_constant)
        super().__init__(radius, partition, bins, options, weights, **kwargs)


class DistanceLagSRE(_SRE):
    """Distance-lag SRE: how much performance differs between the rings around each centre.

    Args:
        radius: of the ROIs around every point, radians.
        lag: width of a ring, radians; default radius / 5.
        bins: as for :class:`ScaleGridSRE`, like all that follow.
        smoothing: as there.
        prior: as there.
        min_patch_size: as there.
        min_patches: as there.
        min_roi_size: as there.
        drop_constant: as there.
        weights: as there.
        kwargs: of :class:`torchmetrics.Metric`.

    Raises:
        ValueError: for lengths and options out of range.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import DistanceLagSRE
        >>> generator = torch.Generator().manual_seed(0)
        >>> lat, lon = 40 + 5 * torch.rand(2, 300, generator=generator)
        >>> metric = DistanceLagSRE(radius=0.03, lag=0.01)
        >>> metric.update((lon > 42).float(), lat=lat, lon=lon)
        >>> bool(metric.compute() > 0)
        True

    References:
        GeoBS, Section 4.3.
    """

    def __init__(
        self,
        radius: float,
        lag: float | None = None,
        bins: Bins = None,
        smoothing: float = 1e-8,
        prior: float = 0.0,
        min_patch_size: int = 10,
        min_patches: int = 2,
        min_roi_size: int = 1,
        drop_constant: bool = True,
        weights: Any = None,
        **kwargs: Any,
    ) -> None:
        radius = check_arc("radius", radius)
        partition = DistanceLag(check_arc("lag", part_of(radius, 5) if lag is None else lag, radius))
        options = SREOptions(smoothing, prior, min_patch_size, min_patches, min_roi_size, drop_constant)
        super().__init__(radius, partition, bins, options, weights, **kwargs)


class DirectionSectorSRE(_SRE):
    """Direction-sector SRE: how much performance differs between the directions from each centre.

    Args:
        radius: of the ROIs around every point, radians.
        sectors: number of sectors, at least 2.
        bins: as for :class:`ScaleGridSRE`, like all that follow.
        smoothing: as there.
        prior: as there.
        min_patch_size: as there.
        min_patches: as there.
        min_roi_size: as there.
        drop_constant: as there.
        weights: as there.
        kwargs: of :class:`torchmetrics.Metric`.

    Raises:
        ValueError: for lengths and options out of range.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import DirectionSectorSRE
        >>> generator = torch.Generator().manual_seed(0)
        >>> lat, lon = 40 + 5 * torch.rand(2, 300, generator=generator)
        >>> metric = DirectionSectorSRE(radius=0.03, sectors=4)
        >>> metric.update((lon > 42).float(), lat=lat, lon=lon)
        >>> bool(metric.compute() > 0.1)
        True

    References:
        GeoBS, Section 4.3.
    """

    def __init__(
        self,
        radius: float,
        sectors: int = 8,
        bins: Bins = None,
        smoothing: float = 1e-8,
        prior: float = 0.0,
        min_patch_size: int = 10,
        min_patches: int = 2,
        min_roi_size: int = 1,
        drop_constant: bool = True,
        weights: Any = None,
        **kwargs: Any,
    ) -> None:
        radius, partition = check_arc("radius", radius), DirectionSector(sectors)
        options = SREOptions(smoothing, prior, min_patch_size, min_patches, min_roi_size, drop_constant)
        super().__init__(radius, partition, bins, options, weights, **kwargs)
