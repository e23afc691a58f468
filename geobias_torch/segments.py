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
_SMALL = 1 << 16  # pairs below which a second thread does not pay
_SCRATCH = Scratch()

T = TypeVar("T")


def scatter_rows(count: int, index: Tensor, values: Tensor) -> Tensor:
    """Add the rows of ``values``, (L,) or (L, R), to ``count`` rows of zeros at ``index`` (L,); differentiable."""
    if values.ndim == 2 and values.shape[1] == 1:  # a vector is added in a quarter of the time of a narrow table
        return scatter_rows(count, index, values[:, 0])[:, None]
    if values.ndim == 1:
        return values.new_zeros(count).scatter_add(0, index, values)
    return values.new_zeros(count, values.shape[1]).index_add(0, index, values)


def arrays(*tensors: Tensor) -> tuple[Any, ...]:
    """Numpy views of tensors on the CPU, the tensors themselves elsewhere.

    A numpy operation on a short array costs a fifth of torch's, and cutting a few ROIs out of many takes a hundred.
    """
    return tensors if tensors[0].is_cuda else tuple(tensor.numpy() for tensor in tensors)


def tensors(*found: Any) -> tuple[Tensor, ...]:
    """The way back."""
    return tuple(torch.as_tensor(array) for array in found)


def offsets_of(lengths: Any) -> Any:
    """Where each of several runs begins when one follows the other, and where the last one ends."""
    if isinstance(lengths, Tensor):
        return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def spans(starts: Any, lengths: Any) -> tuple[Any, Any]:
    """Positions in several runs of a list, one run after the other, and the offsets of the runs in the result."""
    offsets = offsets_of(lengths)
    positions = repeat(starts - offsets[:-1], lengths)
    positions += _count(positions)
    return positions, offsets


def take_runs(values: Any, starts: Any, lengths: Any) -> Any:
    """Several runs of a list, or of every row of a table, one after the other.

    For long runs that are few: no table of positions is made.
    """
    if isinstance(values, Tensor):
        return values[..., spans(starts, lengths)[0]]
    stops = (starts + lengths).tolist()
    runs = [values[..., start:stop] for start, stop in zip(starts.tolist(), stops, strict=True)]
    return np.concatenate([values[..., :0], *runs], axis=-1)


def repeat(values: Any, times: Any) -> Any:
    """Each of the values (S,) so many times, one after the other."""
    return values.repeat_interleave(times) if isinstance(values, Tensor) else np.repeat(values, times)


def labels(sizes: Any) -> Any:
    """Which of several runs each element lies in: 0 for the first ``sizes[0]``, then 1, and so on."""
    return repeat(_count(sizes), sizes)


def _count(like: Any) -> Any:
    """0, 1, ... for each of these."""
    return torch.arange(len(like), device=like.device) if isinstance(like, Tensor) else np.arange(len(like))


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

    def moments(self, values: Tensor) -> Tensor:
        """Sums (S, 2) of point values (N,) and of their squares over every segment, differentiable in ``values``."""
        sums: Tensor = _Moments.apply(values, self)
        return sums

    def of(self, which: Tensor) -> Segments:
        """Some of the segments."""
        offsets, sizes, members, which = arrays(self.offsets, self.sizes, self.members, which)
        starts, sizes = offsets[which], sizes[which]
        offsets, members = tensors(offsets_of(sizes), take_runs(members, starts, sizes))
        return Segments(offsets, members, self.num_points)

    def only(self, known: Tensor) -> Segments:
        """The same segments without the points that are not ``known``, (N,) bool."""
        known, offsets, members = arrays(known, self.offsets, self.members)
        kept = known[members]
        offsets, members = tensors(offsets_of(kept)[offsets], members[kept])
        return Segments(offsets, members, self.num_points)

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
        total = len(self.members)
        if total < _SMALL:
            return [(0, len(self))]
        cuts = torch.arange(0, total, min(_CHUNK, max(1, total // (4 * torch.get_num_threads()) + 1)))
        edges = torch.unique(torch.cat([torch.searchsorted(self.offsets, cuts), torch.tensor([0, len(self)])]))
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    def _map(self, work: Callable[[int, int], T]) -> Iterator[T]:
        """Run ``work`` over the chunks, in threads where that pays, and yield the results in order."""
        chunks = self._chunks()
        firsts, lasts = ([chunk[end] for chunk in chunks] for end in (0, 1))
        return spread(work, firsts, lasts, most=len(chunks))

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
        add = add_whole_runs if np.issubdtype(source.dtype, np.integer) else add_runs

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


def add_runs(values: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Sum runs of rows into ``out``, which is zero."""
    full = np.flatnonzero(np.diff(offsets))  # reduceat would repeat an element for an empty run: those keep their zero
    if len(full) == len(out):
        np.add.reduceat(values, offsets[:-1], axis=0, out=out)
    elif len(full):
        out[full] = np.add.reduceat(values, offsets[full], axis=0)


def add_whole_runs(values: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
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


class _Moments(torch.autograd.Function):
    """Half the work of summing the columns (v, v^2): these are never part of the graph."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, segments: Segments) -> Tensor:
        ctx.segments = segments
        ctx.save_for_backward(values)
        values = values.detach()
        return segments._gather_sum(torch.stack([values, values.square()], dim=1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        first, second = _Scatter.apply(grad, ctx.segments).unbind(dim=1)
        return first + 2 * values * second, None
