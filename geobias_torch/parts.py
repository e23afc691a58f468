"""Some of the ROIs, or of their points: patches are taken over from the whole, not cut again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from geobias_torch.patches import Cells, Patches
from geobias_torch.segments import arrays, offsets_of, repeat, scatter_rows, spans, tensors

if TYPE_CHECKING:
    from geobias_torch.regions import Regions


@dataclass(frozen=True)
class SideBySide:
    """The patches of several partitions that were cut together, in one table: what a step of a training loop asks for.

    Attributes:
        cells: their common cells.
        offsets: (M + 1,) int64: ROI m has the patches ``offsets[m]`` to ``offsets[m + 1]``, of all partitions.
        sizes: (K,) int64: number of points in each; 0 where all of them are gone.
        place: (L, partitions) int64: the patch of each cell under each partition, K where there is none.
    """

    cells: Cells
    offsets: Tensor
    sizes: Tensor
    place: Tensor

    @classmethod
    def join(cls, parts: list[Patches]) -> SideBySide:
        """Put patches with the same cells side by side."""
        counts = torch.stack([part.offsets.diff() for part in parts])  # (partitions, M)
        offsets = offsets_of(counts.sum(dim=0))
        shifts = offsets[:-1] + counts.cumsum(0) - counts  # where the patches of a partition begin within their ROI
        sizes = offsets.new_zeros(int(offsets[-1]))
        place = torch.empty(len(parts[0].cell_patch), len(parts), dtype=torch.int64, device=offsets.device)
        for column, part, shift in zip(place.unbind(1), parts, shifts, strict=True):
            number = torch.arange(len(part), device=offsets.device) + (shift - part.offsets[:-1])[part.roi]
            sizes[number] = part.sizes
            column.copy_(torch.cat([number, number.new_tensor([len(sizes)])])[part.cell_patch])
        return cls(parts[0].cells, offsets, sizes, place)

    def of(self, which: Tensor) -> SideBySide:
        """Those of some ROIs."""
        cells, rows = self.cells.of(which)
        offsets, sizes, place = arrays(self.offsets, self.sizes, self.place)
        roi, rows, which = arrays(cells.roi, rows, which)
        starts = offsets[which]
        own, new = spans(starts, offsets[which + 1] - starts)
        old = place[rows]
        moved = old + (new[:-1] - starts)[roi][:, None]
        moved[old == len(sizes)] = len(own)
        new, sizes, moved = tensors(new, sizes[own], moved)
        return SideBySide(cells, new, sizes, moved)

    def only(self, known: Tensor) -> SideBySide:
        """Without the points that are not ``known``, (N,) bool."""
        cells = self.cells.only(known)
        sizes = scatter_rows(
            len(self.sizes) + 1, self.place.flatten(), repeat(cells.segments.sizes, self.place.shape[1])
        )
        return SideBySide(cells, self.offsets, sizes[:-1], self.place)

    def to(self, device: torch.device | str) -> SideBySide:
        """Copy to a device."""
        return SideBySide(self.cells.to(device), *(x.to(device) for x in (self.offsets, self.sizes, self.place)))


@dataclass
class Whole:
    """What a part was taken from: those of its ROIs that are ``which``, or without the points that are not known."""

    regions: Regions
    which: Tensor | None = None
    known: Tensor | None = None
    _cells: dict[int, Any] = field(default_factory=dict)  # patches that share theirs share them in the part too

    def patches(self, theirs: Patches) -> Patches:
        """The part's patches."""
        key = id(theirs.cells)
        if self.which is not None:
            if key not in self._cells:
                self._cells[key] = theirs.cells.of(self.which)
            return theirs.of(self.which, *self._cells[key])
        assert self.known is not None
        if key not in self._cells:
            self._cells[key] = theirs.cells.only(self.known)
        return theirs.only(self._cells[key])

    def joined(self, theirs: SideBySide) -> SideBySide:
        """The same for patches side by side."""
        if self.which is not None:
            return theirs.of(self.which)
        assert self.known is not None
        return theirs.only(self.known)
