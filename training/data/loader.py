"""A loader that goes on within an epoch: Lightning asks it where it is for every checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader

from training.data.points import Batch

__all__ = ["ResumableLoader"]


class ResumableLoader(DataLoader[Batch]):
    """A ``DataLoader`` whose state is how many batches of which epoch were given away.

    Lightning saves it in the checkpoints of a run and, when one is resumed, loads it: training goes on with the batch
    after the last one, provided that the sampler draws the same in the same epoch, as
    `training.samplers.RoiBatchSampler` does. The batches before are made once more and dropped, untrained.

    Args:
        *args: those of ``DataLoader``; the sampler has an attribute ``epoch``.
        **kwargs: those of ``DataLoader``.

    Example:
        >>> import torch
        >>> from training.data import Points
        >>> from training.data.loader import ResumableLoader
        >>> from training.samplers import RoiBatchSampler
        >>> lat, lon = torch.linspace(-9, 9, 20, dtype=torch.float64), torch.linspace(-9, 9, 20, dtype=torch.float64)
        >>> sampler = RoiBatchSampler(lat, lon, radius=0.1, steps=3, points=4, rois=0)
        >>> first, second = (ResumableLoader(Points(lat, lon, lat, 0.1), sampler=sampler, batch_size=None)
        ...                  for _ in range(2))
        >>> batches = iter(first)
        >>> _ = next(batches)
        >>> second.load_state_dict(first.state_dict())
        >>> torch.equal(next(batches).rows, next(iter(second)).rows)
        True
    """

    _given = 0
    _resumed: dict[str, int] | None = None

    # Nothing is fetched before the first batch is asked for: Lightning makes the iterator before it sets the epoch.
    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        resumed, self._resumed = self._resumed, None
        self._given = resumed["batches"] if resumed is not None and resumed["epoch"] == self._epoch else 0
        for batch in islice(super().__iter__(), self._given, None):
            self._given += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """The epoch, and how many of its batches were given away."""
        return {"epoch": self._epoch, "batches": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Start the next iteration where the other loader was, if it is of the same epoch."""
        self._resumed = state

    @property
    def _epoch(self) -> int:
        sampler: Any = self.sampler
        return sampler.epoch
