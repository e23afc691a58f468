"""Cut the ROIs of a :class:`~geobias_torch.regions.Regions` into patches.

The plain way looks at every pair once, works on any device and takes any partition. The fast way (CPU, the partitions
of this library) walks the search blocks and never lists the pairs unsorted; both give the same patches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from geobias_torch.geometry import LocalFrame
from geobias_torch.partitions import SIZED, Partition, check_patch_ids
from geobias_torch.search import Block
from geobias_torch.segments import Segments, arrays, labels, offsets_of, scatter_rows, spans, take_runs, tensors
from geobias_torch.threads import spread

if TYPE_CHECKING:
    from geobias_torch.regions import Regions

_CHUNK = 1 << 20  # pairs whose local frame is held at once by the plain way
_KEPT_COLUMNS = 4  # columns up to which sums over cells are kept
_MAX_CODES = 1 << 30  # combinations of patches that one sort key holds beside a candidate's number


@dataclass(frozen=True)
class Cells:
    """The finest common parts of the ROIs under one or several partitions: segments of points, each within one ROI."""

    segments: Segments  # (L,)
    roi: Tensor  # (L,) int64; the cells of an ROI lie together
    num_regions: int
    _order: tuple[Tensor, Tensor] | None = field(default=None, repr=False)
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
        sums = cell_sums, self._of_rois(cell_sums)
        if not values.requires_grad and values.shape[1] <= _KEPT_COLUMNS:
            self._last.update(values=values.clone(), sums=sums)
        return sums

    @cached_property
    @torch.inference_mode(False)  # what is kept may be part of a graph later
    def roi_sizes(self) -> Tensor:
        """(M,) int64: number of points in each ROI."""
        return scatter_rows(self.num_regions, self.roi, self.segments.sizes)

    def _of_rois(self, cell_sums: Tensor) -> Tensor:
        """Sums (M, R) of cell values (L, R) over the ROIs."""
        if cell_sums.is_floating_point() or cell_sums.is_cuda or not len(self.roi):
            return scatter_rows(self.num_regions, self.roi, cell_sums)
        rois, starts = self.order  # whole numbers have no gradient, and added run by run they cost half
        of_run = torch.from_numpy(
            np.add.reduceat(cell_sums.numpy(), starts.numpy(), axis=0, dtype=cell_sums.numpy().dtype)
        )
        return cell_sums.new_zeros(self.num_regions, cell_sums.shape[1]).index_copy_(0, rois, of_run)

    @cached_property
    def order(self) -> tuple[Tensor, Tensor]:
        """The ROIs with cells, in the order in which these lie, and where those of each begin."""
        if self._order is not None:
            return self._order
        new = torch.nn.functional.pad(self.roi.diff() != 0, (1, 0), value=True)[: len(self.roi)].nonzero()[:, 0]
        return self.roi[new], new

    @cached_property
    def runs(self) -> tuple[Tensor, Tensor]:
        """(M,) int64 each: where the cells of an ROI begin, and how many they are."""
        rois, starts = self.order
        none = starts.new_zeros(self.num_regions)
        counts = torch.cat([starts[1:], starts.new_tensor([len(self.roi)])])[: len(starts)] - starts
        return none.index_copy(0, rois, starts), none.index_copy(0, rois, counts)

    def of(self, which: Tensor) -> tuple[Cells, Tensor]:
        """The cells of some ROIs, and which of these cells they are."""
        offsets, sizes, members = arrays(self.segments.offsets, self.segments.sizes, self.segments.members)
        starts, counts, roi_sizes, which = arrays(*self.runs, self.roi_sizes, which)
        starts, counts, roi_sizes = starts[which], counts[which], roi_sizes[which]
        rows, _ = spans(starts, counts)
        # the cells of an ROI lie together, and so do their members
        members = take_runs(members, offsets[starts], roi_sizes)
        offsets, members, roi, rows = tensors(offsets_of(sizes[rows]), members, labels(counts), rows)
        return Cells(Segments(offsets, members, self.segments.num_points), roi, len(which)), rows

    def only(self, known: Tensor) -> Cells:
        """The same cells, some perhaps empty, without the points that are not ``known``, (N,) bool."""
        return Cells(self.segments.only(known), self.roi, self.num_regions, self._order)

    def to(self, device: torch.device | str) -> Cells:
        """Copy to a device."""
        order = None if self._order is None else (self._order[0].to(device), self._order[1].to(device))
        return Cells(self.segments.to(device), self.roi.to(device), self.num_regions, order)


@dataclass(frozen=True)
class LargePatches:
    """The K' patches of at least so many points.

    Attributes:
        place: (L,) which of them each cell lies in; K' for the cells of smaller patches and of none.
        roi: (K',) int64, ascending.
        sizes: (K',) float64.
        weights: (K',) float64: size over the size of the ROI.
        per_roi: (M,) int64: how many each ROI has.
        covered: (M,) float64: share of the points of an ROI that lie in them.
    """

    place: Tensor
    roi: Tensor
    sizes: Tensor
    weights: Tensor
    per_roi: Tensor
    covered: Tensor


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
    _large: dict[int, LargePatches] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.roi)

    def sum(self, values: Tensor) -> Tensor:
        """Sum point values (N,) or (N, R) over every patch: (K,) or (K, R), differentiable in ``values``."""
        return scatter_rows(len(self) + 1, self.cell_patch, self.cells.segments.sum(values))[:-1]

    @torch.inference_mode(False)
    def of_size(self, least: int) -> LargePatches:
        """The patches of at least ``least`` points; kept, as every score asks for them."""
        if least not in self._large:
            kept = (self.sizes >= least).nonzero()[:, 0]
            place = torch.full((len(self) + 1,), len(kept), dtype=torch.int64, device=kept.device)
            place[kept] = torch.arange(len(kept), device=kept.device)
            roi, sizes = self.roi[kept], self.sizes[kept].to(torch.float64)
            per_roi = torch.bincount(roi, minlength=self.cells.num_regions)
            weights = sizes / self.cells.roi_sizes[roi]
            covered = scatter_rows(self.cells.num_regions, roi, weights)
            self._large[least] = LargePatches(look_up(place, self.cell_patch), roi, sizes, weights, per_roi, covered)
        return self._large[least]

    @cached_property
    def offsets(self) -> Tensor:
        """(M + 1,) int64: ROI m has the patches ``offsets[m]`` to ``offsets[m + 1]``."""
        return torch.searchsorted(self.roi, torch.arange(self.cells.num_regions + 1, device=self.roi.device))

    def of(self, which: Tensor, cells: Cells, rows: Tensor) -> Patches:
        """The patches of some ROIs, whose ``cells`` are the ``rows`` of these."""
        offsets, ids, sizes, cell_patch = arrays(self.offsets, self.ids, self.sizes, self.cell_patch)
        roi_of_cell, rows, which = arrays(cells.roi, rows, which)
        starts = offsets[which]
        lengths = offsets[which + 1] - starts
        own, new = spans(starts, lengths)
        old = cell_patch[rows]
        place = old + (new[:-1] - starts)[roi_of_cell]
        place[old == len(self)] = len(own)
        roi, ids, sizes, place = tensors(labels(lengths), ids[own], sizes[own], place)
        return Patches(roi, ids, sizes, cells, place)

    def only(self, cells: Cells) -> Patches:
        """The patches that are left where some points of the cells are gone."""
        sizes = scatter_rows(len(self) + 1, self.cell_patch, cells.segments.sizes)[:-1]
        left = sizes > 0
        if left.all():
            return Patches(self.roi, self.ids, sizes, cells, self.cell_patch)
        # the cells of a patch that is gone are empty, and are counted to the next one
        cell_patch = offsets_of(left)[self.cell_patch]
        return Patches(self.roi[left], self.ids[left], sizes[left], cells, cell_patch)

    def to(self, device: torch.device | str, cells: Cells) -> Patches:
        """Copy to a device, where ``cells`` has been copied already."""
        roi, ids, sizes, cell_patch = (t.to(device) for t in (self.roi, self.ids, self.sizes, self.cell_patch))
        return Patches(roi, ids, sizes, cells, cell_patch)


def fold_cells(cells: Cells, ids: Tensor) -> Patches:
    """Patches from the patch id (L,) of every cell, -1 = none."""
    width = int(ids.max()) + 1 if len(ids) else 1
    bound = cells.num_regions * width
    if bound > 8 * len(ids) + 1024 or ids.is_cuda:
        key = torch.where(ids < 0, -1, cells.roi * width + ids)
        distinct, which = torch.unique(key, return_inverse=True)
        none = int(len(distinct) > 0 and distinct[0] < 0)
        found, cell_patch = distinct[none:], torch.where(key < 0, len(distinct) - none, which - none)
    else:
        found, cell_patch = _numbered(cells.roi.numpy(), ids.numpy(), width, bound)
    sizes = torch.zeros(len(found) + 1, dtype=torch.int64, device=ids.device)
    sizes.index_add_(0, cell_patch, cells.segments.sizes)
    return Patches(found // width, found % width, sizes[:-1], cells, cell_patch)


def _numbered(roi: np.ndarray, ids: np.ndarray, width: int, bound: int) -> tuple[Tensor, Tensor]:
    """Distinct (roi, id) as roi * width + id, ascending, and which of them each is; their number where id < 0."""
    key = roi * width  # numpy, as it takes large pages for large arrays: most of the time here goes into new memory
    key += ids
    key[ids < 0] = bound
    present = np.zeros(bound + 1, dtype=bool)
    present[key] = True
    found = np.flatnonzero(present[:-1])
    number = np.empty(bound + 1, dtype=np.int64)
    number[found] = np.arange(len(found))
    number[-1] = len(found)
    return torch.from_numpy(found), torch.from_numpy(number.take(key, out=key, mode="clip"))


def look_up(table: Tensor, index: Tensor) -> Tensor:
    """``table[index]``; on the CPU by numpy, see above."""
    return table[index] if index.is_cuda else torch.from_numpy(table.numpy().take(index.numpy()))


def plain_patches(regions: Regions, partition: Partition) -> Patches:
    """Patches from the list of members, a stretch of pairs at a time."""
    members, sizes = regions.members, regions.sizes
    roi = labels(sizes)
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
    joint = _JointCells(partitions, widths)
    found = regions._search.walk(joint, joint.degrees)  # type: ignore[union-attr]
    empty = np.zeros(0, dtype=np.int64)
    rows, cells_per_row, codes, lengths, members = (
        np.concatenate([part[i] for part in found] or [empty]) for i in range(5)
    )
    roi = torch.from_numpy(np.repeat(rows, cells_per_row))
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
    segments = Segments(offsets, torch.from_numpy(members.astype(np.int32, copy=False)), regions.num_points)
    filled, starts = cells_per_row > 0, np.cumsum(cells_per_row) - cells_per_row
    cells = Cells(segments, roi, len(regions), (torch.from_numpy(rows[filled]), torch.from_numpy(starts[filled])))
    ids = []
    for width in reversed(widths):  # a cell's code counts in steps of the widths
        codes, rest = codes // width, codes
        ids.append(torch.from_numpy(rest - codes * width - 1))
    return list(spread(fold_cells, [cells] * len(ids), reversed(ids), most=len(ids)))


@dataclass(frozen=True)
class _JointCells:
    """Work on one block: sort the members of every centre by the combination of their patch ids."""

    partitions: list[Any]
    widths: list[int]

    def __call__(self, block: Block) -> tuple[np.ndarray, ...]:
        bits = max(1, int(block.num_candidates - 1).bit_length())
        dtype: Any = np.int32 if math.prod(self.widths) < 1 << (31 - bits) else np.int64
        # the key of a pair: its code, then its place among the candidates
        key = np.zeros(len(block.place), dtype=dtype)
        for partition, width in zip(self.partitions, self.widths, strict=True):
            key *= width
            key += partition(block.frame).astype(dtype)
            key += 1
        key <<= bits
        key += block.place.astype(dtype)
        table = block.table(key, np.iinfo(dtype).max)
        table.sort(axis=1)
        key = table[block.filled]
        code = key >> bits
        starts = np.concatenate([[0], np.cumsum(block.counts)])
        new = np.empty(len(key), dtype=bool)
        np.not_equal(code[1:], code[:-1], out=new[1:])
        new[starts[:-1][block.counts > 0]] = True
        first = np.flatnonzero(new)
        cells_per_row = np.diff(np.searchsorted(first, starts))
        key &= (1 << bits) - 1
        return block.rows, cells_per_row, code[first], np.diff(first, append=len(key)), block.members(key)

    @property
    def degrees(self) -> bool:
        """Whether a partition asks for the coordinates themselves."""
        return any(getattr(partition, "frame", None) == "graticule" for partition in self.partitions)
