"""Batches that contain whole ROIs, without which a geo-bias loss would see scattered points; held-out ones in turn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, DistributedSampler, Sampler

from geobias_torch import Regions
from training.encoders.base import has_location

__all__ = ["HeldOutSampler", "RoiBatchSampler", "RoiDraw"]


def check_least(least: int, **counts: int) -> None:
    """Refuse the first of the settings that is below ``least``."""
    for name, count in counts.items():
        if count < least:
            raise ValueError(f"Expected `{name}` of at least {least}, but got {count}.")


@dataclass(frozen=True)
class RoiDraw:
    """The rows of one step: random points for the task loss, ROI samples for the geo-bias term.

    Attributes:
        random_rows: rows of the training split for the task loss, shape (points,).
        member_rows: rows of the ROI samples, ROI by ROI, shape (Q,). A row may be in several samples and random too.
        offsets: sample m is ``member_rows[offsets[m]:offsets[m + 1]]``, shape (rois + 1,).
        center_rows: row at the centre of each ROI, shape (rois,).

    Example:
        >>> import torch
        >>> from training.samplers import RoiDraw
        >>> draw = RoiDraw(torch.tensor([7]), torch.tensor([0, 3, 5]), torch.tensor([0, 3]), torch.tensor([3]))
        >>> draw.offsets.diff().tolist()
        [3]
    """

    random_rows: Tensor
    member_rows: Tensor
    offsets: Tensor
    center_rows: Tensor


class RoiBatchSampler(Sampler[RoiDraw]):
    """Each step draws ``points`` random rows and ``rois`` ROIs, at most ``max_members`` members of each.

    ROI centres are drawn uniformly, without replacement within a step, among the rows with at least ``min_members``
    rows within ``radius``; the members of a ROI without replacement; the random rows with replacement. Rows without a
    location (NaN) are drawn as random ones only. A draw depends on ``(seed, epoch, step)`` only: neither on the loss in
    use nor on the number of workers, so runs with and without a geo-bias loss see the same batches.

    Give it to a loader as ``DataLoader(points, sampler=sampler, batch_size=None)``: every draw is then a whole batch,
    made by ``points[draw]``. Lightning calls ``set_epoch`` by itself and, with several devices, deals the steps of an
    epoch out among them. The full list of members is kept (4 bytes a pair).

    Args:
        lat: latitude of the training rows in degrees, shape (N,); NaN where there is none.
        lon: longitude of the training rows in degrees, shape (N,); NaN where there is none.
        radius: of the ROIs, in radians.
        steps: steps per epoch.
        points: random rows per step.
        rois: ROIs per step; 0 = random rows only, nothing is searched then.
        min_members: rows that an ROI needs, itself included.
        max_members: rows drawn from an ROI at most.
        seed: of all draws.
        classes: class of each row, shape (N,); wanted with ``max_per_class``.
        max_per_class: rows of a class, drawn anew for every epoch, that its random rows are taken from; None = all.

    Raises:
        ValueError: if a count is below 1 (``rois``, ``seed``: below 0), ``classes`` are missing or not of shape (N,),
            or fewer than ``rois`` rows have enough others around them.

    Example:
        >>> import torch
        >>> from training.samplers import RoiBatchSampler
        >>> lat, lon = torch.linspace(-1, 1, 50), torch.linspace(-1, 1, 50)
        >>> sampler = RoiBatchSampler(lat, lon, radius=0.1, steps=2, points=4, rois=1, min_members=10, max_members=8)
        >>> [(len(draw.random_rows), len(draw.member_rows)) for draw in sampler]
        [(4, 8), (4, 8)]
    """

    def __init__(
        self,
        lat: Tensor,
        lon: Tensor,
        *,
        radius: float,
        steps: int = 100,
        points: int = 1024,
        rois: int = 24,
        min_members: int = 30,
        max_members: int = 96,
        seed: int = 0,
        classes: Tensor | None = None,
        max_per_class: int | None = None,
    ) -> None:
        counts = {"steps": steps, "points": points, "min_members": min_members, "max_members": max_members}
        if max_per_class is not None:
            counts["max_per_class"] = max_per_class
            shape = None if classes is None else tuple(classes.shape)
            if shape != tuple(lat.shape):
                raise ValueError(f"Expected `classes` of shape {tuple(lat.shape)}, but got {shape}.")
        check_least(1, **counts)
        check_least(0, rois=rois, seed=seed)
        # centers and members are numbers of located rows
        self.located = has_location(lat, lon).nonzero()[:, 0]
        self.centers = torch.zeros(0, dtype=torch.int64)
        if rois:
            regions = Regions.from_points(lat=lat[self.located], lon=lon[self.located], radius=radius)
            self.centers = (regions.sizes >= min_members).nonzero()[:, 0]
            self.members = regions.members
            self.offsets = regions.offsets
        if len(self.centers) < rois:
            raise ValueError(
                f"Expected at least {rois} rows (`rois`) with {min_members} rows within the radius (`min_members`), "
                f"but got {len(self.centers)}: lower `min_members` or `rois`, or raise `radius`."
            )
        self.num_rows = len(lat)
        self.classes = classes
        self.max_per_class = max_per_class
        self.steps = steps
        self.points = points
        self.rois = rois
        self.max_members = max_members
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the draws: the same epoch gives the same ones."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[RoiDraw]:
        pool = self._pool()
        for step in range(self.steps):
            yield self._draw(step, pool)

    def _pool(self) -> Tensor | None:
        """The rows that the random ones of this epoch are taken from; None = all."""
        if self.max_per_class is None or self.classes is None:
            return None
        shuffled = torch.randperm(self.num_rows, generator=self._generator(0, 1))
        shuffled = shuffled[self.classes[shuffled].argsort(stable=True)]  # class by class
        counts = self.classes[shuffled].unique_consecutive(return_counts=True)[1]
        place = torch.arange(self.num_rows) - (counts.cumsum(0) - counts).repeat_interleave(counts)  # within its class
        return shuffled[place < self.max_per_class]

    def _draw(self, step: int, pool: Tensor | None) -> RoiDraw:
        generator = self._generator(step)
        if pool is None:
            random_rows = torch.randint(self.num_rows, (self.points,), generator=generator)
        else:
            random_rows = pool[torch.randint(len(pool), (self.points,), generator=generator)]
        centers = self.centers[torch.randperm(len(self.centers), generator=generator)[: self.rois]]
        samples = [torch.zeros(0, dtype=torch.int64)]
        for center in centers.tolist():
            members = self.members[int(self.offsets[center]) : int(self.offsets[center + 1])]
            chosen = torch.randperm(len(members), generator=generator)[: self.max_members]
            samples.append(self.located[members[chosen].long()])
        offsets = torch.tensor([len(sample) for sample in samples]).cumsum(0)
        return RoiDraw(random_rows, torch.cat(samples), offsets, self.located[centers])

    def _generator(self, *numbers: int) -> torch.Generator:
        # Mixed, not added: seed 0 in epoch 1 must not draw what seed 1 draws in epoch 0.
        mixed = np.random.SeedSequence([self.seed, self.epoch, *numbers]).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(mixed[0]))


class HeldOutSampler(DistributedSampler[Tensor]):
    """Batches of all rows in turn, dealt out among the devices: each row once, as many batches for every device.

    Lightning leaves a ``DistributedSampler`` as it is. One of its own would give some batches to two devices, and their
    rows would count twice in what is averaged over all.

    Args:
        points: the rows, N.
        batch_size: rows of a batch at most.
        num_replicas: number of devices.
        rank: of this device.

    Raises:
        ValueError: if there are fewer rows than devices.

    Example:
        >>> from training.samplers import HeldOutSampler
        >>> [[rows.tolist() for rows in HeldOutSampler(range(5), 2, num_replicas=2, rank=rank)] for rank in (0, 1)]
        [[[0, 2], [4]], [[1], [3]]]
    """

    def __init__(self, points: Dataset, batch_size: int, num_replicas: int = 1, rank: int = 0) -> None:
        super().__init__(points, num_replicas, rank, shuffle=False)
        count = len(points)  # type: ignore[arg-type]
        if count < num_replicas:
            raise ValueError(f"Expected a held-out row for each of {num_replicas} devices, but got {count}.")
        self.rows = torch.arange(count)
        self.num_batches = math.ceil(count / (num_replicas * batch_size))

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.rows[self.rank :: self.num_replicas].tensor_split(self.num_batches))
