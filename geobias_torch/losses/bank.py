"""Everybody's latest performance, so that a loss over whole ROIs needs no more than an ordinary batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from geobias_torch.convert import check_index
from geobias_torch.geometry import check_coordinates
from geobias_torch.losses.inputs import check_performance
from geobias_torch.regions import Regions
from geobias_torch.segments import Segments

__all__ = ["PerformanceBank"]


class PerformanceBank(nn.Module):
    r"""Remembers the latest performance of every training point and hands out whole ROIs around the points of a batch.

    A geo-bias loss compares places, and a random batch holds no place whole. The bank knows the coordinates of all
    training points: each call stores the batch's performance, draws centres among the rows of the batch, and returns
    what a loss over ROIs takes,

    .. code-block:: python

        loss = task_loss + weight * sre(*bank(performance, batch["index"]))

    The rows of this batch carry their gradient, all others are what they were when they were last seen. Points that
    were never seen are left out of the ROIs. On the mean a batch of B holds B/N of the members of an ROI, so that the
    gradient through it is multiplied by N/B (``scale_gradient``): then it is, on the mean over batches, that of the
    loss in which all members carry theirs, and ``weight`` means what it means with whole ROIs in the batch.

    Args:
        lat: (N,) degrees, of all training points; `index` counts them.
        lon: (N,) degrees.
        radius: of the ROIs, radians.
        centers_per_step: ROIs per call, at least 1; fewer where the batch has fewer rows that qualify.
        min_coverage: share of the points that must have been seen, in [0, 1]; before, no ROI is handed out, and a loss
            over none is 0.
        min_members: points within the radius that a centre needs to be drawn.
        scale_gradient: multiply the gradient of the batch's rows by N/B.
        seed: of the draws, which depend on it and on the number of the call only.

    Attributes:
        performance: (N,) float64, the latest of each point, 0 where there is none.
        seen: (N,) int64, the number of the call in which it came, -1 = never. Both are buffers on the module's device
            that are not saved: after a checkpoint is loaded the bank fills up again within an epoch.

    Raises:
        ValueError: on bad coordinates or options; when called, performance and index of different shapes, performance
            that is not finite, or an index out of range.

    Example:
        >>> import torch
        >>> from geobias_torch import DirectionSector
        >>> from geobias_torch.losses import PerformanceBank, SRELoss
        >>> lat, lon = 10 * torch.rand(2, 200, generator=torch.Generator().manual_seed(0))
        >>> bank, sre = PerformanceBank(lat=lat, lon=lon, radius=0.1, centers_per_step=4), SRELoss(DirectionSector(4))
        >>> for index in torch.arange(200).split(50):
        ...     performance = (lon[index] / 10).requires_grad_()
        ...     loss = sre(*bank(performance, index))
        >>> bank.coverage, bool(loss != 0), bank.staleness().max().item()
        (1.0, True, 3)
    """

    performance: Tensor
    seen: Tensor

    def __init__(
        self,
        *,
        lat: Any,
        lon: Any,
        radius: float,
        centers_per_step: int = 32,
        min_coverage: float = 0.5,
        min_members: int = 30,
        scale_gradient: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, number in (("centers_per_step", centers_per_step), ("min_members", min_members)):
            if number < 1:
                raise ValueError(f"Expected `{name}` of at least 1, but got {number}.")
        if not 0 <= min_coverage <= 1:
            raise ValueError(f"Expected `min_coverage` within [0, 1], but got {min_coverage}.")
        lat, lon = check_coordinates(lat, lon)
        self.regions = Regions.from_points(lat=lat, lon=lon, radius=radius)
        self.eligible = self.regions.sizes >= min_members
        self.centers_per_step, self.min_coverage = centers_per_step, min_coverage
        self.scale_gradient, self.seed = scale_gradient, seed
        self.calls = 0
        self._last: Regions | None = None
        self.register_buffer("performance", torch.zeros(len(lat), dtype=torch.float64), persistent=False)
        self.register_buffer("seen", torch.full((len(lat),), -1), persistent=False)

    @property
    def coverage(self) -> float:
        """Share of the points that have been seen."""
        return float((self.seen >= 0).double().mean()) if len(self.seen) else 1.0

    def staleness(self) -> Tensor:
        """How many calls ago each point was seen last, (N,) int64: 0 = in the last; -1 = never."""
        return torch.where(self.seen < 0, -1, self.calls - self.seen)

    def forward(self, performance: Tensor, index: Tensor) -> tuple[Tensor, Regions]:
        """Store the performance (B,) of the points ``index`` (B,), and hand out what a loss takes.

        A point that comes twice (a sampler with replacement, padding) counts with its last row.

        Returns:
            (N,) performance of all points, float64, with gradient through this batch, and at most ``centers_per_step``
            ROIs around points of the batch, over the points seen so far.
        """
        check_performance(performance)
        index = check_index("index", index, len(self.seen)).to(self.seen.device)
        if index.shape != performance.shape:
            raise ValueError(
                f"Expected `index` of shape {tuple(performance.shape)} as `performance`, but got {tuple(index.shape)}."
            )
        self.calls += 1
        row = torch.arange(len(index), device=index.device)
        last = index.new_full(self.seen.shape, -1).scatter_reduce(0, index, row, "amax")
        points = (last >= 0).nonzero()[:, 0]
        values = performance.to(self.performance)[last[points]]
        self.performance[points] = values.detach()
        self.seen[points] = self.calls
        if self.scale_gradient and len(points):
            values = values.detach() + (values - values.detach()) * (len(self.seen) / len(points))
        everybody = self.performance.index_copy(0, points, values)
        return everybody, self._of_step(points)

    def sync(self) -> None:
        """Exchange what the ranks of a distributed run have seen: each point's latest, of several the highest rank's.

        Collective: every rank calls it, for example at the end of each epoch or every few steps.
        """
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return
        world = torch.distributed.get_world_size()
        seen = [torch.empty_like(self.seen) for _ in range(world)]
        performance = [torch.empty_like(self.performance) for _ in range(world)]
        torch.distributed.all_gather(seen, self.seen)
        torch.distributed.all_gather(performance, self.performance)
        latest = torch.stack(seen).max(dim=0).values
        for theirs, values in zip(seen, performance, strict=True):
            self.performance = torch.where(theirs == latest, values, self.performance)
        self.seen = latest

    def _of_step(self, points: Tensor) -> Regions:
        """The ROIs around some of these points, over the points seen."""
        points = points.cpu()
        chosen = points[self.eligible[points]]
        if self.coverage < self.min_coverage:
            chosen = chosen[:0]
        # mixed, not added: seed 0 in call 1 must not draw what seed 1 draws in call 0
        mixed = np.random.SeedSequence([self.seed, self.calls]).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(mixed[0]))
        chosen = chosen[torch.randperm(len(chosen), generator=generator)[: self.centers_per_step]]
        if self._last is not None:
            self.regions.build(self._last.partitions)  # what the last step's losses asked for is found once for all
        regions = self._last = self.regions[chosen].to(self.seen.device)
        if self.coverage == 1:
            return regions
        known = self.seen[regions.members.long()] >= 0
        offsets = torch.nn.functional.pad(known.long().cumsum(0), (1, 0))[regions.offsets]
        segments = Segments(offsets, regions.members[known], regions.num_points)
        return Regions(
            (regions.lat, regions.lon), (regions.center_lat, regions.center_lon), regions.radius, segments=segments
        )
