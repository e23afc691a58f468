"""Sums over runs of points: the one sparse operator that all spatial scores are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from geobias_torch.scratch import Scratch
from geobias_torch.threads import spread

_CHUNK = 1 << 19  # pairs handled at once by a thread
_SCRATCH = Scratch()

T = TypeVar("T")


def scatter_rows(count: int, index: Tensor, values: Tensor) -> Tensor:
    """Add the rows of ``values``, (L,) or (L, R), to ``count`` rows of zeros at ``index`` (L,); differentiable."""
    if values.ndim == 2 and values.shape[1] == 1:  # a vector is added in a quarter of the time of a narrow table
        return scatter_rows(count, index, values[:, 0])[:, None]
    if values.ndim == 1:
        return values.new_zeros(count).scatter_add(0, index, values)
    return values.new_zeros(count, values.shape[1]).index_add(0, index, values)


def spans(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Positions in several runs of a list, one run after the other, and the offsets of the runs in the result."""
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    shift = (starts - offsets[:-1]).repeat_interleave(lengths)
    return torch.arange(len(shift), device=shift.device) + shift, offsets


class Segments:
    """Runs of point numbers: segment s holds ``members[offsets[s]:offsets[s + 1]]``.

    Args:
        offsets: (S + 1,) int64, ascending from 0.
        members: (P,) int32, values in 0 .. num_points - 1.
        num_points: N.
    """

    def __init__(self, offsets: Tensor, members: Tensor, num_points: int) -> None:
        self.offsets, self.members, self.num_points = offsets, members, num_points
        self.sizes = offsets.diff()

    def __len__(self) -> int:
        return len(self.sizes)

    def to(self, device: torch.device | str) -> Segments:
        """Copy to a device."""
        return Segments(self.offsets.to(device), self.members.to(device), self.num_points)

    def sum(self, values: Tensor) -> Tensor:
        """Sum point values (N,) or (N, R) over every segment: (S,) or (S, R), differentiable in ``values``.

        Integers are added modulo the width of their type; counts are fastest as int32.
        """
        if values.shape[0] != self.num_points:
            raise ValueError(f"Expected `values` for {self.num_points} points, but got shape {tuple(values.shape)}.")
        columns = values if values.ndim == 2 else values[:, None]
        sums: Tensor = _SegmentSum.apply(columns, self)
        return sums if values.ndim == 2 else sums[:, 0]

    def extremes(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Smallest and largest of the values (N,) in every segment, (S,) each; +inf and -inf where it is empty."""
        if values.is_cuda:
            gathered = values[self.members]
            return tuple(torch.segment_reduce(gathered, f, offsets=self.offsets) for f in ("min", "max"))  # type: ignore[return-value]
        source, offsets = values.numpy(), self.offsets.numpy()
        members, sizes = self.members.numpy(), self.sizes.numpy()
        low, high = np.full(len(self), np.inf), np.full(len(self), -np.inf)

        def work(first: int, last: int) -> None:
            gathered = source[members[offsets[first] : offsets[last]]]
            full = first + np.flatnonzero(sizes[first:last])
            if len(full):
                starts = offsets[full] - offsets[first]
                low[full], high[full] = np.minimum.reduceat(gathered, starts), np.maximum.reduceat(gathered, starts)

        for _ in self._map(work):
            pass
        return torch.from_numpy(low), torch.from_numpy(high)

    def _chunks(self) -> list[tuple[int, int]]:
        """Ranges of segments of about ``_CHUNK`` pairs each, small enough to keep two threads busy."""
        total = int(self.offsets[-1])
        cuts = torch.arange(0, total, min(_CHUNK, max(1, total // (4 * torch.get_num_threads()) + 1)))
        edges = torch.unique(torch.cat([torch.searchsorted(self.offsets, cuts), torch.tensor([0, len(self)])]))
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    def _map(self, work: Callable[[int, int], T]) -> Iterator[T]:
        """Run ``work`` over the chunks, in threads where that pays, and yield the results in order."""
        chunks = self._chunks()
        firsts, lasts = ([chunk[end] for chunk in chunks] for end in (0, 1))
        return spread(work, firsts, lasts, most=len(chunks) if len(self.members) >= 1 << 16 else 1)

    def _gather_sum(self, columns: Tensor) -> Tensor:
        if columns.is_cuda:
            gathered = columns[self.members].to(torch.promote_types(columns.dtype, torch.float32))
            return torch.segment_reduce(gathered, "sum", offsets=self.offsets, axis=0).to(columns.dtype)
        # numpy: several times faster here than torch's index or embedding_bag on narrow tables
        source = np.ascontiguousarray(columns.numpy())
        out = target = np.zeros((len(self), source.shape[1]), dtype=source.dtype)
        if source.shape[1] == 1:
            source, target = source[:, 0], target[:, 0]
        offsets, members = self.offsets.numpy(), self.members.numpy()
        add = _add_whole_runs if np.issubdtype(source.dtype, np.integer) else _add_runs

        def work(first: int, last: int) -> None:
            chosen = members[offsets[first] : offsets[last]]
            # take wants numbers of pointer size and would make them in new memory; none is out of range, and another
            # mode than "clip" would buffer
            rows = _SCRATCH.take("rows", chosen.shape, np.intp)
            np.copyto(rows, chosen)
            gathered = _SCRATCH.take("gathered", (len(rows), *source.shape[1:]), source.dtype)
            np.take(source, rows, axis=0, out=gathered, mode="clip")
            add(gathered, offsets[first : last + 1] - offsets[first], target[first:last])

        for _ in self._map(work):
            pass
        return torch.from_numpy(out)

    def _scatter_back(self, grad: Tensor) -> Tensor:
        """The transpose of :meth:`_gather_sum`: every point gets the sum over the segments that hold it."""
        if grad.is_cuda:
            out = grad.new_zeros(self.num_points, grad.shape[1])
            return out.index_add_(0, self.members, grad.repeat_interleave(self.sizes, dim=0))
        offsets, members, sizes = self.offsets.numpy(), self.members.numpy(), self.sizes.numpy()
        source = grad.numpy()

        def work(first: int, last: int) -> np.ndarray:
            rows = members[offsets[first] : offsets[last]]
            spread = np.repeat(source[first:last], sizes[first:last], axis=0)
            return np.stack([np.bincount(rows, column, self.num_points) for column in spread.T], axis=1)

        total = np.zeros((self.num_points, source.shape[1]))
        for part in self._map(work):
            total += part
        return torch.from_numpy(total).to(grad.dtype)


def _add_runs(values: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Sum runs of rows into ``out``, which is zero."""
    full = np.flatnonzero(np.diff(offsets))  # reduceat would repeat an element for an empty run: those keep their zero
    if len(full) == len(out):
        np.add.reduceat(values, offsets[:-1], axis=0, out=out)
    elif len(full):
        out[full] = np.add.reduceat(values, offsets[full], axis=0)


def _add_whole_runs(values: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """The same for integers, whose running total is exact: its differences are the sums, and cost half."""
    total = _SCRATCH.take("total", (len(values) + 1, *values.shape[1:]), values.dtype)
    total[0] = 0
    np.cumsum(values, axis=0, out=total[1:])
    edges = total.take(offsets, axis=0)
    np.subtract(edges[1:], edges[:-1], out=out)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, segments: Segments) -> Tensor:
        ctx.segments = segments
        return segments._gather_sum(columns.detach())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Scatter.apply(grad, ctx.segments), None


class _Scatter(torch.autograd.Function):
    """The backward pass as a function of its own, so that second derivatives exist."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, segments: Segments) -> Tensor:
        ctx.segments = segments
        return segments._scatter_back(grad.detach())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _SegmentSum.apply(grad, ctx.segments), None
