"""All geo-bias scores of a model as one metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from geobias_torch.convert import to_tensor
from geobias_torch.functional.sre import SREOptions
from geobias_torch.functional.ssi import SSIOptions
from geobias_torch.geometry import check_arc, part_of
from geobias_torch.histograms import Bins, is_hard, memberships
from geobias_torch.metrics.points import PointMetric
from geobias_torch.metrics.scores import (
    LocalPlan,
    check_weights,
    local_scores,
    select,
    spad_scores,
    worst_decile,
)
from geobias_torch.partitions import DirectionSector, DistanceLag, Partition, ScaleGrid

SCORES = ("sg_sre", "dl_sre", "ds_sre", "u_ssi", "m_ssi", "spad")


class GeoBiasScores(PointMetric):
    r"""The six geo-bias scores of one model, with noise floors, on one geometry.

    Every point is the centre of an ROI. Higher = more biased; score minus floor is what noise does not explain:
    :func:`~geobias_torch.metrics.excess`.

    ``compute()`` returns a dict of 0-dim float64 tensors: ``sg_sre, dl_sre, ds_sre`` (scale-grid, distance-lag and
    direction-sector SRE), ``u_ssi, m_ssi`` (unmarked and marked SSI), each also with ``_floor`` (its noise floor) and
    ``_rois`` (ROIs that counted); ``spad, spad_floor, spad_se``; ``performance`` (mean) and
    ``performance_worst_decile``
    (mean of the lowest tenth of the ROI means). ``local()`` returns what is behind it, row by row.

    An epoch over the same coordinates, in whatever order and batches, reuses the geometry of the last.

    Args:
        radius: of the ROIs, radians; :func:`~geobias_torch.km` converts.
        scale: side of a square of the scale grid, radians; default radius / 2.
        lag: width of a ring, radians; default radius / 5.
        sectors: number of direction sectors.
        bins: bins of performance, see :func:`~geobias_torch.histograms.memberships`; hard ones.
        min_patch_size: smaller patches are left out of the SRE scores.
        min_patches: an ROI with fewer such patches is not scored.
        min_roi_size: an ROI with fewer members is not scored (SRE) and not among the worst tenth.
        weights: a weight per row of ``local()`` (area, population) for the global SRE scores; default: the number of
            members.
        ssi_max_members: the nearest so many members take part in SSI.
        scores: which of the six to compute.
        prefix: put before every key.
        kwargs: of :class:`torchmetrics.Metric`.

    Attributes:
        progress: called with the share of the ROIs that is done, where there are too many to be scored at once.

    Raises:
        ValueError: for lengths out of range or above the radius, unknown scores, and in ``compute`` for performance
            outside [0, 1] by more than rounding (1e-6) where ``"spad"`` is among the scores.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import GeoBiasScores, excess
        >>> generator = torch.Generator().manual_seed(0)
        >>> lat, lon = 40 + 5 * torch.rand(2, 300, generator=generator)
        >>> metric = GeoBiasScores(radius=0.03, scores=("dl_sre", "ds_sre"))
        >>> metric.update((lon > 42).float(), lat=lat, lon=lon)
        >>> values = metric.compute()
        >>> bool(excess(values)["ds_sre_excess"] > values["ds_sre_floor"])
        True

    References:
        GeoBS, Sections 4.2-4.4; Xie et al., AAAI 2022 (SPAD).
    """

    def __init__(
        self,
        radius: float,
        scale: float | None = None,
        lag: float | None = None,
        sectors: int = 8,
        bins: Bins = None,
        min_patch_size: int = 10,
        min_patches: int = 2,
        min_roi_size: int = 1,
        weights: Any = None,
        ssi_max_members: int | None = 100,
        scores: Sequence[str] = SCORES,
        prefix: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.radius = check_arc("radius", radius)
        self.scale = check_arc("scale", part_of(self.radius, 2) if scale is None else scale, self.radius)
        self.lag = check_arc("lag", part_of(self.radius, 5) if lag is None else lag, self.radius)
        if not is_hard(bins, None):
            raise ValueError(
                f"Expected hard histograms for the noise floor, but got soft memberships, `bins` = {bins!r}."
            )
        memberships(torch.zeros(1), bins)  # refuses bins that are none before an epoch is spent
        self.scores, self.prefix = select(scores, SCORES), prefix
        self.progress: Callable[[float], None] | None = None
        self.weights = None if weights is None else to_tensor("weights", weights)
        partitions: dict[str, Partition] = {
            "sg_sre": ScaleGrid(self.scale),
            "dl_sre": DistanceLag(self.lag),
            "ds_sre": DirectionSector(sectors),
        }
        options = SREOptions(min_patch_size=min_patch_size, min_patches=min_patches, min_roi_size=min_roi_size)
        ssi = SSIOptions(max_members=ssi_max_members)
        self._plan = LocalPlan(
            {name: partition for name, partition in partitions.items() if name in self.scores},
            options,
            bins,
            {name: (name == "m_ssi", ssi) for name in ("u_ssi", "m_ssi") if name in self.scores},
        )

    def compute(self) -> dict[str, Tensor]:
        """Global scores, as described with the class."""
        points = self.points()
        if "spad" in self.scores:
            points = points.within((0, 1), '[0, 1] for "spad"', "leave it out of `scores`")
        regions = self.regions_of(points, self.radius)
        local = local_scores(points, regions, self._plan, self.progress)
        weights = check_weights(self.weights, points)
        values: dict[str, Tensor] = {}
        unscored = []
        for name in (*self._plan.partitions, *self._plan.ssi):
            (value, counted, _), floor = local.reduce(name, self._plan, weights)
            values |= {name: value, f"{name}_floor": floor, f"{name}_rois": torch.tensor(float(counted))}
            if not counted:
                unscored.append(name)
        self._warn_unscored(unscored, points)
        if "spad" in self.scores:
            values |= spad_scores(points)
        columns = local.columns
        values["performance"] = points.performance.mean()
        values["performance_worst_decile"] = worst_decile(
            columns["performance"], columns["members"], self._plan.sre.min_roi_size
        )
        shown = {name: points.spread(column) for name, column in columns.items() if name != "constant"}
        self._local = {"lat": points.lat_given.cpu(), "lon": points.lon_given.cpu(), **shown}
        return {f"{self.prefix}{key}": value.to(self.device, torch.float64) for key, value in values.items()}
