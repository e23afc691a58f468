"""Some of the ROIs, or of their points: patches are taken over from the whole, not cut again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from geobias_torch.patches import Cells, Patches
from geobias_torch.segments import offsets_of, spans, take_runs

if TYPE_CHECKING:
    from geobias_torch.regions import Regions


@dataclass(frozen=True)
class SideBySide:
    """The patches of several partitions that were cut together, in one table: what a step of a training loop asks for.

    On the CPU, and in numpy: one operation on a short array costs a fifth of torch's. ROI by ROI, so that some of them
    are cut out as slices.

    Attributes:
        members: (P,) int32: point numbers, cell by cell.
        cells: (1 + partitions, L) int32: the number of points in each common cell, and the patch in which it lies under
            each partition.
        offsets: (M + 1, 3) int64: where the members, cells and patches of an ROI begin. Its first patch takes what lies
            in none.
    """

    members: np.ndarray
    cells: np.ndarray
    offsets: np.ndarray

    @classmethod
    def join(cls, parts: list[Patches]) -> SideBySide:
        """Put patches with the same cells side by side."""
        cells = parts[0].cells
        first, number = (run.numpy() for run in cells.runs)
        # patches of the ROI that come before those of each partition, and in all
        before = np.cumsum([np.ones_like(number), *(part.offsets.diff().numpy() for part in parts)], axis=0)
        counts = np.stack([cells.roi_sizes.numpy(), number, before[-1]], axis=1)
        offsets = np.concatenate([np.zeros((1, 3), dtype=np.int64), counts.cumsum(axis=0)])
        rows, _ = spans(first, number)
        roi = np.repeat(np.arange(len(number)), number)
        table = np.empty((1 + len(parts), len(rows)), dtype=np.int32)
        table[0] = cells.segments.sizes.numpy()[rows]
        for out, part, shift in zip(table[1:], parts, before, strict=False):
            patch = part.cell_patch.numpy()[rows]
            # a cell whose points are gone may be counted to a patch of the next ROI
            within = np.where((patch < len(part)) & (table[0] > 0), patch - part.offsets.numpy()[roi] + shift[roi], 0)
            out[:] = offsets[roi, 2] + within
        members = take_runs(cells.segments.members.numpy(), cells.segments.offsets.numpy()[first], counts[:, 0])
        return cls(members, table, offsets)

    def __len__(self) -> int:
        """Number of ROIs, M."""
        return len(self.offsets) - 1

    def of(self, which: Tensor) -> SideBySide:
        """Those of some ROIs."""
        rows = which.numpy()
        starts = self.offsets[rows]
        counts = self.offsets[rows + 1] - starts
        offsets = np.zeros((len(rows) + 1, 3), dtype=np.int64)
        np.cumsum(counts, axis=0, out=offsets[1:])
        cells = take_runs(self.cells, starts[:, 1], counts[:, 1])
        cells[1:] += np.repeat((offsets[:-1] - starts)[:, 2].astype(np.int32), counts[:, 1])
        return SideBySide(take_runs(self.members, starts[:, 0], counts[:, 0]), cells, offsets)

    def only(self, known: Tensor) -> SideBySide:
        """Without the points that are not ``known``, (N,) bool."""
        kept = known.numpy()[self.members]
        before = offsets_of(kept)
        cells, offsets = self.cells.copy(), self.offsets.copy()
        cells[0] = np.diff(before[offsets_of(cells[0])])
        offsets[:, 0] = before[offsets[:, 0]]
        return SideBySide(self.members[kept], cells, offsets)


@dataclass
class Whole:
    """What a part was taken from: those of its ROIs that are ``which``, or without the points that are not known.

    ``complete``: the other way round, every ROI of the whole is in the part, some more than once. What the part lacks
    is found for the whole then.
    """

    regions: Regions
    which: Tensor | None = None
    known: Tensor | None = None
    complete: bool = False
    _cells: list[tuple[Cells, tuple[Any, ...]]] = field(
        default_factory=list
    )  # patches that share theirs share them here too

    def patches(self, theirs: Patches) -> Patches:
        """The part's patches."""
        own = next((own for known, own in self._cells if known is theirs.cells), None)
        if own is None:
            own = theirs.cells.of(self.which) if self.which is not None else (theirs.cells.only(self._points()),)
            self._cells.append((theirs.cells, own))
        return theirs.of(self.which, *own) if self.which is not None else theirs.only(*own)

    def joined(self, theirs: SideBySide) -> SideBySide:
        """The same for patches side by side."""
        return theirs.of(self.which) if self.which is not None else theirs.only(self._points())

    def _points(self) -> Tensor:
        assert self.known is not None
        return self.known
