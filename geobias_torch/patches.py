"""Cut the ROIs of a :class:`~geobias_torch.regions.Regions` into patches.

The plain way looks at every pair once, works on any device and takes any partition. The fast way (CPU, the partitions
of this library) walks the search blocks and never lists the pairs unsorted; both give the same patches.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from geobias_torch.geometry import LocalFrame
from geobias_torch.partitions import SIZED, Partition, check_patch_ids
from geobias_torch.search import Block
from geobias_torch.segments import Segments, scatter_rows

if TYPE_CHECKING:
    from geobias_torch.regions import Regions

_CHUNK = 1 << 20  # pairs whose local frame is held at once by the plain way
_KEPT_COLUMNS = 4  # columns up to which sums over cells are kept
_MAX_CODES = 1 << 30  # combinations of patches that one sort key holds beside a candidate's number


@dataclass(frozen=True)
class Cells:
    """The finest common parts of the ROIs under one or several partitions: segments of points, each within one ROI."""

    segments: Segments  # (L,)
    roi: Tensor  # (L,) int64
    num_regions: int
    _last: dict[str, Any] = field(default_factory=dict, repr=False)

    def sums(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Sum point values (N, R) over every cell, (L, R), and every ROI, (M, R), differentiable in ``values``.

        The last sums of a few columns are kept: scores under several partitions, and their noise floors, ask for the
        same ones.
        """
        last = self._last.get("values")
        if last is not None and not values.requires_grad and last.dtype == values.dtype and torch.equal(last, values):
            return self._last["sums"]
        cell_sums = self.segments.sum(values)
        sums = cell_sums, scatter_rows(self.num_regions, self.roi, cell_sums)
        if not values.requires_grad and values.shape[1] <= _KEPT_COLUMNS:
            self._last.update(values=values.clone(), sums=sums)
        return sums

    def to(self, device: torch.device | str) -> Cells:
        """Copy to a device."""
        return Cells(self.segments.to(device), self.roi.to(device), self.num_regions)


@dataclass(frozen=True)
class Patches:
    """The non-empty patches of every ROI under one partition.

    Attributes:
        roi: (K,) int64, ascending: the ROI of each patch.
        ids: (K,) int64: the patch id that the partition gave.
        sizes: (K,) int64: number of points in each patch.

    Example:
        >>> import torch
        >>> from geobias_torch import DistanceLag, Regions
        >>> regions = Regions.from_points(lat=[0.0, 0.0, 0.0], lon=[0.0, 1.0, 2.0], radius=0.03)
        >>> patches = regions.patches(DistanceLag(0.01))
        >>> patches.roi.tolist(), patches.ids.tolist(), patches.sizes.tolist()
        ([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [1, 1, 1, 2, 1, 1])
        >>> patches.sum(torch.tensor([1.0, 10.0, 100.0])).tolist()
        [1.0, 10.0, 10.0, 101.0, 100.0, 10.0]
    """

    roi: Tensor
    ids: Tensor
    sizes: Tensor
    cells: Cells
    cell_patch: Tensor  # (L,) int64, K where a cell lies in no patch
    _slots: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.roi)

    def sum(self, values: Tensor) -> Tensor:
        """Sum point values (N,) or (N, R) over every patch: (K,) or (K, R), differentiable in ``values``."""
        return scatter_rows(len(self) + 1, self.cell_patch, self.cells.segments.sum(values))[:-1]

    def of_size(self, least: int) -> tuple[Tensor, Tensor]:
        """Patches of at least so many points: the place (L,) of every cell among them, and which (K',) they are.

        Cells of smaller patches, and of none, share the place behind the last.
        """
        if least not in self._slots:
            kept = (self.sizes >= least).nonzero()[:, 0]
            place = torch.full((len(self) + 1,), len(kept), dtype=torch.int64, device=kept.device)
            place[kept] = torch.arange(len(kept), device=kept.device)
            self._slots[least] = place[self.cell_patch], kept
        return self._slots[least]

    def to(self, device: torch.device | str, cells: Cells) -> Patches:
        """Copy to a device, where ``cells`` has been copied already."""
        roi, ids, sizes, cell_patch = (t.to(device) for t in (self.roi, self.ids, self.sizes, self.cell_patch))
        return Patches(roi, ids, sizes, cells, cell_patch)


def fold_cells(cells: Cells, ids: Tensor) -> Patches:
    """Patches from the patch id (L,) int64 of every cell, -1 = none."""
    inside = ids >= 0
    width = int(ids.max()) + 1 if len(ids) else 1
    key = torch.where(inside, cells.roi * width + ids, -1)
    found, cell_patch = _distinct(key, cells.num_regions * width)
    sizes = torch.zeros(len(found) + 1, dtype=torch.int64, device=ids.device)
    sizes.index_add_(0, cell_patch, cells.segments.sizes)
    return Patches(found // max(width, 1), found % max(width, 1), sizes[:-1], cells, cell_patch)


def _distinct(key: Tensor, bound: int) -> tuple[Tensor, Tensor]:
    """Distinct keys >= 0, ascending, and the position of every key among them (their number for keys < 0)."""
    if bound <= 8 * len(key) + 1024 and not key.is_cuda:
        keys = key.numpy()
        present = np.zeros(bound + 1, dtype=bool)
        present[keys] = True  # -1 is the last entry
        found = np.flatnonzero(present[:-1])
        position = np.empty(bound + 1, dtype=np.int64)
        position[found] = np.arange(len(found))
        position[-1] = len(found)
        return torch.from_numpy(found), torch.from_numpy(position[keys])
    distinct, which = torch.unique(key, return_inverse=True)
    none = int(len(distinct) > 0 and distinct[0] < 0)
    return distinct[none:], torch.where(key < 0, len(distinct) - none, which - none)


def plain_patches(regions: Regions, partition: Partition) -> Patches:
    """Patches from the list of members, a stretch of pairs at a time."""
    members, sizes = regions.members, regions.sizes
    roi = torch.repeat_interleave(torch.arange(len(regions), device=members.device), sizes)
    ids = torch.empty(len(members), dtype=torch.int64, device=members.device)
    if isinstance(partition, SIZED):
        partition.num_ids(regions.radius)  # refuses a width above the radius even where there are no points
    for start in range(0, len(members), _CHUNK):
        stretch = slice(start, start + _CHUNK)
        center, point = roi[stretch], members[stretch].long()
        frame = LocalFrame(
            regions.center_lat[center],
            regions.center_lon[center],
            regions.lat[point],
            regions.lon[point],
            regions.radius,
        )
        ids[stretch] = check_patch_ids(partition(frame), frame.lat)
    if len(ids) and int(ids.max()) >= 1 << 31:  # ids of a foreign grid (H3, S2): number those that occur
        distinct, which = torch.unique(ids, return_inverse=True)
        ids = which - int(distinct[0] < 0)
    width = int(ids.max()) + 2 if len(ids) else 1
    key, order = torch.sort(roi * width + ids + 1, stable=True)
    _, lengths = torch.unique_consecutive(key, return_counts=True)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    first = order[offsets[:-1]]
    cells = Cells(Segments(offsets, members[order], regions.num_points), roi[first], len(regions))
    return fold_cells(cells, ids[first])


def fast_patches(regions: Regions, partitions: list[Any]) -> list[Patches]:
    """Patches of several partitions in one walk over the search blocks."""
    widths = [partition.num_ids(regions.radius) + 1 for partition in partitions]
    if math.prod(widths) >= _MAX_CODES and len(partitions) > 1:
        return [fast_patches(regions, [partition])[0] for partition in partitions]
    found = regions._search.walk(_JointCells(partitions, widths))  # type: ignore[union-attr]
    empty = np.zeros(0, dtype=np.int64)
    rows, cells_per_row, codes, lengths, members = (
        np.concatenate([part[i] for part in found] or [empty]) for i in range(5)
    )
    roi = torch.from_numpy(np.repeat(rows, cells_per_row))
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
    segments = Segments(offsets, torch.from_numpy(members.astype(np.int32, copy=False)), regions.num_points)
    cells = Cells(segments, roi, len(regions))
    strides = np.cumprod([1, *widths[:0:-1]])[::-1].tolist()

    def fold(width: int, stride: int) -> Patches:
        return fold_cells(cells, torch.from_numpy(codes // stride % width - 1))

    with ThreadPoolExecutor(max(1, min(torch.get_num_threads(), len(widths)))) as pool:
        return list(pool.map(fold, widths, strides))


@dataclass(frozen=True)
class _JointCells:
    """Work on one block: sort the members of every centre by the combination of their patch ids."""

    partitions: list[Any]
    widths: list[int]

    def __call__(self, block: Block) -> tuple[np.ndarray, ...]:
        num_candidates = block.inside.shape[1]
        bits = max(1, int(num_candidates - 1).bit_length())
        dtype: Any = np.int32 if math.prod(self.widths) < 1 << (30 - bits) else np.int64
        codes = np.zeros(block.inside.shape)
        for partition, width in zip(self.partitions, self.widths, strict=True):
            codes *= width
            codes += partition(block.frame)
            codes += 1
        key: np.ndarray = codes.astype(dtype)
        # a member's key: its code, then its place among the candidates; everybody else sorts behind
        key <<= bits
        key += np.arange(num_candidates, dtype=dtype)
        outside = (~block.inside).view(np.int8).astype(dtype)
        outside <<= np.iinfo(dtype).bits - 2
        key |= outside
        key.sort(axis=1)
        counts = block.inside.sum(axis=1)
        picked = np.concatenate([row[:count] for row, count in zip(key, counts, strict=True)])
        code = picked >> bits
        new = np.empty(len(picked), dtype=bool)
        new[1:] = code[1:] != code[:-1]
        starts = np.concatenate([[0], np.cumsum(counts)])
        new[starts[:-1][counts > 0]] = True
        first = np.flatnonzero(new)
        cells_per_row = np.diff(np.searchsorted(first, starts))
        members = block.candidates.astype(np.int32)[picked & ((1 << bits) - 1)]
        return block.rows, cells_per_row, code[first], np.diff(first, append=len(picked)), members
