"""Everybody's latest performance, so that a loss over whole ROIs needs no more than an ordinary batch."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from geobias_torch.convert import check_index
from geobias_torch.geometry import check_coordinates
from geobias_torch.losses.inputs import check_performance, settings
from geobias_torch.ranks import world_size
from geobias_torch.regions import Regions
from geobias_torch.segments import arrays

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
        gather: in a distributed run each call takes the rows of all ranks, so that every rank holds the same bank and
            draws the same ROIs as one process with the whole batch would; every rank has to call it at every step. The
            gradient of a rank's own rows is multiplied by the number of ranks, as DDP and FSDP average over them.
            False: each rank knows its own rows only, until `sync`; DDP must not broadcast the buffers then: keep the
            bank out of the module that it wraps, or give it ``broadcast_buffers=False``.
        seed: of the draws, which depend on it and on the number of the call only.

    Attributes:
        performance: (N,) float64, the latest of each point, 0 where there is none.
        seen: (N,) int64, the number of the call in which it came, -1 = never. Both are buffers on the module's device
            that are no part of the ``state_dict``, which stays that of the model: a run that is resumed either fills
            the bank again within an epoch, or keeps `state` in its checkpoint and goes on as if never stopped.

    Raises:
        ValueError: on bad coordinates or options; when called, performance and index of different shapes, performance
            that is not finite, or an index out of range.
        RuntimeError: when called without ``gather`` where DDP has overwritten the bank.

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
        gather: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, number in (("centers_per_step", centers_per_step), ("min_members", min_members)):
            if int(number) != number or number < 1:
                raise ValueError(f"Expected `{name}` to be an integer of at least 1, but got {number}.")
        if not 0 <= min_coverage <= 1:
            raise ValueError(f"Expected `min_coverage` within [0, 1], but got {min_coverage}.")
        if int(seed) != seed or seed < 0:
            raise ValueError(f"Expected `seed` to be an integer >= 0, but got {seed}.")
        lat, lon = check_coordinates(lat, lon)
        self.regions = Regions.from_points(lat=lat, lon=lon, radius=radius)
        self.eligible = self.regions.sizes >= min_members
        if len(lat) and not self.eligible.any():
            warnings.warn(
                f"No point has {min_members} points (`min_members`) within the radius of {radius:g} rad, the most are "
                f"{int(self.regions.sizes.max())}: the bank hands out no ROI.",
                stacklevel=2,
            )
        self.centers_per_step, self.min_coverage = int(centers_per_step), min_coverage
        self.scale_gradient, self.gather, self.seed = scale_gradient, gather, int(seed)
        self.calls = self._num_seen = 0
        self._last: Regions | None = None
        self._own: Tensor | None = None  # the points of the last call
        self.register_buffer("performance", torch.zeros(len(lat), dtype=torch.float64), persistent=False)
        self.register_buffer("seen", torch.full((len(lat),), -1), persistent=False)

    @property
    def coverage(self) -> float:
        """Share of the points that have been seen."""
        return self._num_seen / len(self.seen) if len(self.seen) else 1.0

    def staleness(self) -> Tensor:
        """How many calls ago each point was seen last, (N,) int64: 0 = in the last; -1 = never."""
        return torch.where(self.seen < 0, -1, self.calls - self.seen)

    def extra_repr(self) -> str:
        """What the bank was made with, for ``print``."""
        return settings(
            points=len(self.seen), radius=self.regions.radius, centers_per_step=self.centers_per_step,
            min_coverage=self.min_coverage, scale_gradient=self.scale_gradient, gather=self.gather, seed=self.seed,
        )  # fmt: skip

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
        self._check_own()
        self.calls += 1
        index, performance, world = self._of_all_ranks(index, performance.to(self.performance))
        points, rows = self._latest(index)
        if self._num_seen < len(self.seen):
            self._num_seen += int((self.seen[points] < 0).sum())
        if not self.gather:
            self._own = points
        known, seen, latest, where, which = arrays(
            self.performance, self.seen, performance.detach().resolve_neg(), points, rows
        )
        known[where], seen[where] = latest[which], self.calls
        scale = world * (len(self.seen) / max(len(points), 1) if self.scale_gradient else 1)
        everybody: Tensor = _Everybody.apply(performance, self.performance, points, rows, scale)
        return everybody, self._of_step(points)

    def state(self) -> dict[str, Any]:
        """All that the bank knows, for a checkpoint: copies of its tensors and the number of calls."""
        return {
            "performance": self.performance.clone(),
            "seen": self.seen.clone(),
            "calls": self.calls,
            "points": self._fingerprint(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where a bank over the same points was when its `state` was taken.

        Raises:
            ValueError: if that bank had other points.
        """
        if state["points"] != self._fingerprint():
            raise ValueError(
                f"Expected `state` of a bank of these {len(self.seen)} points, but got one of {len(state['seen'])} "
                "others, or of another order."
            )
        self.performance.copy_(state["performance"])
        self.seen.copy_(state["seen"])
        self.calls, self._own = state["calls"], None
        self._count()

    def sync(self) -> None:
        """Exchange what the ranks of a distributed run have seen: each point's latest, of several the highest rank's.

        Collective: every rank calls it, for example at the end of each epoch or every few steps. With ``gather`` there
        is nothing left to exchange, and nothing is done.
        """
        world = world_size()
        if world == 1 or self.gather:
            return
        seen = [torch.empty_like(self.seen) for _ in range(world)]
        performance = [torch.empty_like(self.performance) for _ in range(world)]
        torch.distributed.all_gather(seen, self.seen)
        torch.distributed.all_gather(performance, self.performance)
        latest = torch.stack(seen).max(dim=0).values
        for theirs, values in zip(seen, performance, strict=True):
            self.performance = torch.where(theirs == latest, values, self.performance)
        self.seen = latest
        self._count()

    def _of_all_ranks(self, index: Tensor, performance: Tensor) -> tuple[Tensor, Tensor, int]:
        """The rows of all ranks, with gradient through this one's, and the number of ranks."""
        world = world_size() if self.gather else 1
        if world == 1:
            return index, performance, 1
        counts = [index.new_zeros(1) for _ in range(world)]
        torch.distributed.all_gather(counts, index.new_tensor([len(index)]))
        longest = int(torch.cat(counts).max())
        rows = []
        for own in (index, performance.detach()):
            padded = [own.new_zeros(longest) for _ in range(world)]
            torch.distributed.all_gather(padded, pad(own, (0, longest - len(own))))
            rows.append([theirs[: int(count)] for theirs, count in zip(padded, counts, strict=True)])
        rows[1][torch.distributed.get_rank()] = performance
        return torch.cat(rows[0]), torch.cat(rows[1]), world

    def _check_own(self) -> None:
        """Refuse to go on where another rank's bank has been written over this one's: it counts what it has seen."""
        if self.gather or world_size() == 1 or self._own is None:
            return
        if (self.seen[self._own] < self.calls).any():
            raise RuntimeError(
                "Expected a bank with `gather=False` to be this rank's own, but got one that was overwritten: keep it "
                "out of the module that DDP wraps, or give DDP broadcast_buffers=False."
            )

    def _latest(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The points of a batch, each once and ascending, and the last row of each."""
        if index.is_cuda:
            points, which = index.unique(return_inverse=True)
            number = torch.arange(len(index), device=index.device)
            return points, torch.zeros_like(points).scatter_reduce(0, which, number, "amax")
        # numpy sorts so few in a tenth of the time; the row follows the point in the key
        key = index.numpy() * len(index) + np.arange(len(index))
        key.sort()
        points, rows = np.divmod(key, max(len(index), 1))
        last = np.ones(len(index), dtype=bool)
        np.not_equal(points[1:], points[:-1], out=last[:-1])
        return torch.from_numpy(points[last]), torch.from_numpy(rows[last])

    def _of_step(self, points: Tensor) -> Regions:
        """The ROIs around some of these points, over the points seen."""
        candidates = points.cpu().numpy()
        candidates = candidates[self.eligible.numpy()[candidates]][: None if self.coverage >= self.min_coverage else 0]
        draw = random.Random(self.seed << 32 | self.calls)  # a generator of numpy takes ten times as long to make
        drawn = draw.sample(range(len(candidates)), min(self.centers_per_step, len(candidates)))
        if self._last is not None:
            self.regions.learn_from(self._last)  # what the last step's losses asked for is found once for all
        self._last = self.regions.part(torch.from_numpy(candidates[drawn])).to(self.seen.device)
        if self._num_seen < len(self.seen):
            self._last = self._last.only(self.seen >= 0)
        return self._last

    def _fingerprint(self) -> int:
        """A number that other points, or another order, do not have."""
        return zlib.crc32(torch.stack([self.regions.lat, self.regions.lon]).cpu().numpy().tobytes())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        kept = self.performance  # in float64 whatever the module's precision
        super()._apply(fn, recurse)
        self.performance = kept.to(self.performance.device)
        return self

    def _count(self) -> None:
        self._num_seen = int((self.seen >= 0).sum())


class _Everybody(torch.autograd.Function):
    """The performance of all points (N,), whose gradient goes to the rows (B,) that are the latest of some points."""

    @staticmethod
    def forward(ctx: Any, performance: Tensor, everybody: Tensor, points: Tensor, rows: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(points, rows)
        ctx.scale, ctx.num_rows = scale, len(performance)
        return everybody.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        points, rows = ctx.saved_tensors
        return grad.new_zeros(ctx.num_rows).index_copy(0, rows, grad[points] * ctx.scale), None, None, None, None
