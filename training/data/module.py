"""What all data sets of located points have in common: the split, the batches and their loaders."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Literal

import lightning.pytorch as pl
from torch import Tensor
from torch.utils.data import DataLoader

from geobias_torch.geometry import check_arc
from training.data.loader import ResumableLoader
from training.data.points import Batch, Points
from training.data.splits import check_both_splits, split_rows
from training.samplers import HeldOutSampler, RoiBatchSampler, check_least

__all__ = ["LocatedDataModule"]

_ROWS_PER_BATCH = 4096  # of the held-out points: memory only, results do not depend on it


class LocatedDataModule(pl.LightningDataModule, ABC):
    """Located points, split into training and held-out rows; a subclass brings ``load``.

    A checkpoint taken during the training keeps how far the epoch was: the resumed run sees the batches that the
    uninterrupted one would have seen (one taken after a run has ended by ``max_steps`` goes on with the next epoch:
    Lightning has closed the last one). A subclass with classes sets ``class_names`` in ``load``, and may set
    ``max_per_class``, see `training.samplers.RoiBatchSampler`.

    Args:
        split: "random" rows are held out, or "block": whole cells of equal area, with sides of about ``block`` radians
            (about ``block`` squared steradians each; bands of equal height on the axis, cut at equal longitudes).
        held_out: share of the rows held out, in (0, 1). With "block" cells are added until the share is reached.
        seed: of the split and of the batches.
        radius: of the ROI samples, in radians.
        block: side of the cells of the block split, in radians.
        steps: training steps per epoch.
        points: random points per step (task loss).
        rois: ROI samples per step (geo-bias loss); 0 = none.
        min_members: training rows that an ROI needs to be drawn.
        max_members: rows drawn from an ROI at most.
        num_workers: processes that build training batches.

    Raises:
        ValueError: if ``seed``, ``rois`` or ``num_workers`` is below 0, another count below 1 or ``radius`` no arc.

    Attributes:
        train_points, held_out_points: the splits, from ``setup`` on.
        class_names: name of each class, from ``setup`` on; None where the target is a number.

    Example:
        >>> import torch
        >>> from training.data import LocatedDataModule, Points
        >>> class Latitudes(LocatedDataModule):
        ...     def load(self):
        ...         lat, lon = torch.rand(2, 100, dtype=torch.float64)
        ...         return Points(lat, lon, lat.float(), self.radius), self.hold_out(lat, lon)
        >>> data = Latitudes(held_out=0.2)
        >>> data.setup()
        >>> len(data.train_points), len(data.held_out_points)
        (80, 20)
    """

    def __init__(
        self,
        split: Literal["random", "block"] = "random",
        held_out: float = 0.25,
        seed: int = 0,
        radius: float = 0.1,
        block: float = 0.2,
        steps: int = 100,
        points: int = 1024,
        rois: int = 24,
        min_members: int = 30,
        max_members: int = 96,
        num_workers: int = 0,
    ) -> None:
        super().__init__()
        check_arc("radius", radius)
        check_least(1, steps=steps, points=points, min_members=min_members, max_members=max_members)
        check_least(0, seed=seed, rois=rois, num_workers=num_workers)
        self.split, self.held_out, self.seed, self.radius, self.block = split, held_out, seed, radius, block
        self.steps, self.points, self.rois = steps, points, rois
        self.min_members, self.max_members, self.num_workers = min_members, max_members, num_workers
        self.train_points: Points | None = None
        self.held_out_points: Points | None = None
        self.sampler: RoiBatchSampler | None = None
        self.class_names: list[str] | None = None
        self.max_per_class: int | None = None

    @abstractmethod
    def load(self) -> tuple[Points, Tensor]:
        """All rows, and which of them are held out, shape (N,) bool."""

    def hold_out(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Which rows are held out by the settings of this module, shape (N,) bool."""
        held_out = split_rows(lat, lon, split=self.split, held_out=self.held_out, seed=self.seed, block=self.block)
        share = float(held_out.double().mean())
        if self.split == "block" and abs(share - self.held_out) > 0.1:
            warnings.warn(
                f"{int(held_out.sum())} of {len(held_out)} rows, {share:.0%}, are held out, where `held_out` asks "
                f"for {self.held_out:.0%}: cells of {self.block:g} radians (`block`) are large for these places.",
                stacklevel=4,
            )
        return held_out

    def setup(self, stage: str | None = None) -> None:
        """Load and split once, whatever the stage: the target's scale comes from the training split."""
        if self.train_points is None:
            points, held_out = self.load()
            check_both_splits(held_out)
            self.train_points, self.held_out_points = points.take(~held_out), points.take(held_out)

    @property
    def num_classes(self) -> int:
        """Number of classes; the data are loaded if they were not yet."""
        self.setup()
        if self.class_names is None:
            raise ValueError("Expected data with classes, but got a number as the target.")
        return len(self.class_names)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of random points and ROI samples."""
        if getattr(self.trainer, "overfit_batches", 0):
            raise ValueError(
                "Expected `overfit_batches` 0, as Lightning would replace the sampler that draws the ROIs, but got "
                f"{self.trainer.overfit_batches}: shorten an epoch with `limit_train_batches`."  # type: ignore[union-attr]
            )
        self.setup()
        assert self.train_points is not None
        if self.sampler is None:
            self.sampler = RoiBatchSampler(
                self.train_points.lat,
                self.train_points.lon,
                radius=self.radius,
                steps=self.steps,
                points=self.points,
                rois=self.rois,
                min_members=self.min_members,
                max_members=self.max_members,
                seed=self.seed,
                classes=None if self.max_per_class is None else self.train_points.target,
                max_per_class=self.max_per_class,
            )
        return ResumableLoader(
            self.train_points,
            sampler=self.sampler,
            batch_size=None,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """The held-out points, in order; with several devices each has its part of them."""
        self.setup()
        assert self.held_out_points is not None
        world_size, rank = (self.trainer.world_size, self.trainer.global_rank) if self.trainer else (1, 0)
        sampler = HeldOutSampler(self.held_out_points, _ROWS_PER_BATCH, world_size, rank)
        return DataLoader(self.held_out_points, sampler=sampler, batch_size=None)

    def predict_dataloader(self) -> DataLoader[Batch]:
        """The held-out points, as in ``val_dataloader``."""
        return self.val_dataloader()
