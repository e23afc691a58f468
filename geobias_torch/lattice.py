"""Neighbours among the members of an ROI and the Fibonacci lattice around them, the fast way.

The lattice is the same for all ROIs with equally many members, but for its size: who may neighbour whom on it is
found once.
What is left per ROI are the distances from the members, of which nearly all are dismissed by a bound; only the few
candidates left are looked at exactly. ``graphs.plain_edges`` is the same from dense distances.
"""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

TIE = 1e-10  # radians (0.6 mm): distances this close are ties
_LARGEST = 1.0  # radians: up to here the lattice on the sphere is close enough to the flat one
_SMALL, _TINY = 1e-5, 1e-7  # radians (60 m, 0.6 m): size classes
_MAX_SLOTS = 12  # edges of a point up to which the reverse is found by comparing all with all


_ROUNDING = 1e-6  # share of the cap: float32 coordinates on the plane, and their differences


class _Scratch(threading.local):
    """Arrays that a thread uses again and again: fresh memory costs ten times what is computed in it."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, Any], np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array with anything in it, valid until its name is taken again."""
        size = math.prod(shape)
        array = self._arrays.get((name, dtype))
        if array is None or len(array) < size:
            array = self._arrays[name, dtype] = np.empty(size, dtype)
        return array[:size].reshape(shape)


_SCRATCH = _Scratch()


class Batch(NamedTuple):
    """ROIs with n members each."""

    members: np.ndarray  # (b, n, 3) unit vectors
    axes: np.ndarray  # (b, 3, 3) rows: east, north, up of the centres
    caps: np.ndarray  # (b,) radians: how far a Fibonacci background reaches


class Edges(NamedTuple):
    """What a batch contributes to a :class:`Graph`."""

    roi: np.ndarray  # (e,) place in the batch
    source: np.ndarray  # (e,) place among the members of the ROI
    target: np.ndarray
    weight: np.ndarray
    outside: np.ndarray  # (b, n)
    between: np.ndarray  # (b,)
    s1: np.ndarray
    s2: np.ndarray


def size_classes(caps: np.ndarray) -> np.ndarray:
    """The size (radians) from which on caps are of one class, for every cap; 0: not a case for :func:`edges`.

    The smaller a cap, the more distances on its lattice are near enough to tie, and the more candidates every point
    has.
    """
    return np.where(caps > _LARGEST, 0.0, np.where(caps >= _SMALL, _SMALL, np.where(caps >= _TINY, _TINY, 0.0)))


def points(caps: np.ndarray, count: int) -> np.ndarray:
    r"""Fibonacci lattices on caps, (b, count, 3): local east, north, and up - 1 (so that small caps keep their digits).

    sin^2(theta_j / 2) = sin^2(cap / 2) (j + .5) / count, azimuth j pi (3 - sqrt 5).
    """
    azimuth = np.arange(count) * (math.pi * (3 - math.sqrt(5)))
    half_sine2 = np.sin(caps / 2)[:, None] ** 2 * ((np.arange(count) + 0.5) / max(count, 1))
    sine = 2 * np.sqrt(half_sine2 * (1 - half_sine2))
    return np.stack([sine * np.sin(azimuth), sine * np.cos(azimuth), -2 * half_sine2], axis=-1)


class _Flat(NamedTuple):
    """Neighbours on the flat lattice of a number of points."""

    candidates: np.ndarray  # (count, C): points that can be among the k nearest on any cap up to a radius, -1 = none
    reach: np.ndarray  # (count,): distance of the k-th nearest, in units of 2 sin(cap / 2)
    certain: np.ndarray  # (count,) bool: exactly k candidates


@lru_cache(maxsize=1024)
def _flat_lattice(count: int, k: int, radius: float, smallest: float) -> _Flat:
    """A distance on a cap is that on the flat lattice times something between cos(radius / 2) and its inverse."""
    rank = (np.arange(count) + 0.5) / count
    azimuth = np.arange(count) * (math.pi * (3 - math.sqrt(5)))
    x, y = np.sqrt(rank) * np.sin(azimuth), np.sqrt(rank) * np.cos(azimuth)
    allowed = math.cos(radius / 2) ** -4 * (1 + 1e-6)
    tie = 2 * TIE / smallest
    kth = min(k, count - 1)
    reach, source, target = np.zeros(count), [], []
    for start in range(0, count, 512):
        rows = slice(start, min(start + 512, count))
        chord2 = (x[rows, None] - x) ** 2 + (y[rows, None] - y) ** 2
        chord2[np.arange(len(chord2)), np.arange(rows.start, rows.stop)] = np.inf
        if kth:
            bound = _bound_of_kth(chord2[None], kth)[0]
            own, other = _within(chord2[None], (np.sqrt(bound)[None, :, None] + tie) ** 2 * allowed)
            _, others, near = _table(own, other, chord2[own, other])
            reach[rows] = np.partition(near, kth - 1, axis=1)[:, kth - 1]
            own, slot = np.nonzero(near <= (np.sqrt(reach[rows, None]) + tie) ** 2 * allowed)
            source.append(own + start)
            target.append(others[own, slot])
    counts = np.bincount(np.concatenate(source), minlength=count) if kth else np.zeros(count, dtype=np.int64)
    candidates = np.full((count, max(k, counts.max(initial=0))), -1)
    if kth:
        candidates[np.arange(candidates.shape[1]) < counts[:, None]] = np.concatenate(target)
    # a point with fewer others than k has its k-th neighbour among the members, however far
    return _Flat(candidates, np.sqrt(reach) if kth == k else np.full(count, np.inf), counts == k)


def shared_weights(distance: np.ndarray, k: int) -> np.ndarray:
    """Weights (R, C) of rows of distances: 1 nearer than the k-th; those at it share what is left of k."""
    edge = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    near = distance <= edge + TIE
    if np.count_nonzero(near) == k * len(near):  # nobody ties: the usual case, and row sums are dear
        return near.astype(np.float64)
    nearer = distance < edge - TIE
    tied = near & ~nearer
    # row sums as a product: a reduction along short rows is several times slower
    one = np.ones(distance.shape[1], dtype=np.float32)
    missing, sharing = k - nearer.astype(np.float32) @ one, tied.astype(np.float32) @ one
    return nearer + tied * (missing.astype(np.float64) / sharing)[:, None]


def _arc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Arc between points (..., 3) from their differences, exact for near points."""
    return 2 * np.arcsin(np.minimum(np.sqrt(((a - b) ** 2).sum(axis=-1)) / 2, 1))


def edges(batch: Batch, count: int, k: int, radius: float, smallest: float) -> Edges:
    """Edges of ROIs with n members and ``count`` lattice points each, n + count > k.

    Caps go from ``smallest`` up to ``radius``.
    """
    b, n, _ = batch.members.shape
    total = n + count
    members = np.einsum("bnc,bac->bna", batch.members, batch.axes)
    members[..., 2] = -(members[..., 0] ** 2 + members[..., 1] ** 2) / (1 + members[..., 2])
    everybody = np.concatenate([members, points(batch.caps, count)], axis=1)  # (b, T, 3)
    plane2 = _flat_distances(members, everybody)
    flat = everybody.reshape(b * total, 3)

    # candidates of a member: everybody within a bound of its k-th smallest distance
    bound = _bound_of_kth(plane2, k)
    row, column = _within(plane2, _widen(bound, batch.caps[:, None])[..., None])
    roi, own = row // n, row % n
    source, target = roi * total + own, roi * total + column
    rows, targets, arcs = _table(source, target, _arc(flat[source], flat[target]))
    weighted = [(rows, targets, shared_weights(arcs, k))]
    if count:
        weighted += _lattice_edges(
            batch.caps, plane2[:, :, n:], everybody, k, _flat_lattice(count, k, radius, smallest)
        )
    return _collect(weighted, b, n, count, k)


def _lattice_edges(
    caps: np.ndarray, plane2: np.ndarray, everybody: np.ndarray, k: int, lattice: _Flat
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Weights (rows, targets, weights) of the lattice points: their fixed candidates, and members nearer than those."""
    b, n, count = plane2.shape
    total = n + count
    reach = 2 * np.sin(caps / 2)[:, None] * lattice.reach
    row, column = _within(plane2, _widen(reach**2, caps[:, None])[:, None])
    point, member = (row // n) * total + n + column, (row // n) * total + row % n
    settled = np.tile(lattice.certain, (b, 1))
    settled[row // n, column] = False
    ids = lattice.candidates + n
    roi, place = np.nonzero(settled)
    simple = roi * total + place + n, ids[place, :k] + (roi * total)[:, None], np.ones((len(roi), k))
    roi, place = np.nonzero(~settled)
    if not len(roi):
        return [simple]
    flat = everybody.reshape(b * total, 3)
    rows, targets = (
        roi * total + place + n,
        np.where(lattice.candidates[place] < 0, 0, ids[place]) + (roi * total)[:, None],
    )
    arcs = np.where(lattice.candidates[place] < 0, np.inf, _arc(flat[rows, None], flat[targets]))
    order = np.argsort(point, kind="stable")
    point, member = point[order], member[order]
    lines, others, more = _table(point, member, _arc(flat[point], flat[member]))
    wide, far = np.zeros((len(rows), others.shape[1]), dtype=np.int64), np.full((len(rows), others.shape[1]), np.inf)
    at = np.searchsorted(rows, lines)
    wide[at], far[at] = others, more
    weights = shared_weights(np.concatenate([arcs, far], axis=1), k)
    return [simple, (rows, np.concatenate([targets, wide], axis=1), weights)]


def _flat_distances(members: np.ndarray, everybody: np.ndarray) -> np.ndarray:
    """(b, n, T) squared distances on the equal-area plane, float32; infinite from a point to itself.

    They are there to dismiss: two coordinates do, and half the memory is twice the speed.
    """
    n = members.shape[1]
    # 2 sin(d / 2) from the centre instead of sin(d): up - 1 is -2 sin(d / 2)^2
    stretch = np.sqrt(1 + everybody[..., 2] / 2)
    plane = np.stack([everybody[..., axis] / stretch for axis in range(2)]).astype(np.float32)
    shape = (len(members), n, everybody.shape[1])
    distance2, more = (_SCRATCH.take(name, shape, np.float32) for name in ("distance2", "more"))
    for coordinate, out in zip(plane, (distance2, more), strict=True):
        np.subtract(coordinate[:, :n, None], coordinate[:, None, :], out=out)
        np.multiply(out, out, out=out)
    distance2 += more
    distance2[:, np.arange(n), np.arange(n)] = np.inf
    return distance2


def _bound_of_kth(values: np.ndarray, k: int) -> np.ndarray:
    """(b, n): nothing below the k-th smallest of each row (b, n, T), and mostly not much above it."""
    spare = 0
    while values.shape[2] >= 16 * k:
        # the k-th smallest of pairwise minima: k different elements are no larger
        half = values.shape[2] // 2
        out = _SCRATCH.take(f"minima{spare}", (*values.shape[:2], half), values.dtype)
        values = np.minimum(values[..., :half], values[..., half : 2 * half], out=out)
        spare = 1 - spare  # the last minima are still being read
    return np.partition(values, k - 1, axis=2)[..., k - 1]


def _widen(distance2: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """Squared distances on the plane that hold everybody whose arc is no longer than ``distance2`` says, or ties.

    An arc is a distance on the plane times something between cos(cap / 2) and its inverse.
    """
    reach = np.sqrt(distance2) / np.cos(caps / 2) ** 2
    return ((reach + 2 * TIE + _ROUNDING * caps) ** 2).astype(np.float32)


def _within(values: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of the values (b, n, T) up to ``edge``, rows counted through b and n, in order."""
    found = np.flatnonzero(np.less_equal(values, edge, out=_SCRATCH.take("within", values.shape, np.bool_)))
    row = found // values.shape[2]
    return row, found - row * values.shape[2]


def _table(source: np.ndarray, target: np.ndarray, arcs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, targets, arcs) with one line per distinct source (ascending), padded at infinite distance."""
    first = np.flatnonzero(np.diff(source, prepend=-1))
    rows, lengths = source[first], np.diff(first, append=len(source))
    line = np.repeat(np.arange(len(rows)), lengths)
    slot = np.arange(len(source)) - first[line]
    width = lengths.max(initial=0)
    targets, padded = np.zeros((len(rows), width), dtype=np.int64), np.full((len(rows), width), np.inf)
    targets[line, slot], padded[line, slot] = target, arcs
    return rows, targets, padded


def _collect(tables: list[tuple[np.ndarray, np.ndarray, np.ndarray]], b: int, n: int, count: int, k: int) -> Edges:
    """Edges and sums from tables of (rows, targets, weights), rows counted through the batch."""
    total = n + count
    # looked up rather than divided out for every edge: integer division is dear
    place, roi_of = np.tile(np.arange(total), b), np.repeat(np.arange(b), total)
    is_member = place < n
    source, target, weight, slot = (np.concatenate(parts) for parts in zip(*map(_lines, tables), strict=True))
    roi, from_member, to_member = roi_of[source], is_member[source], is_member[target]
    inner, mixed, outer = from_member & to_member, from_member ^ to_member, ~(from_member | to_member)
    incoming = np.bincount(target, weight, b * total).reshape(b, total)
    end = np.where(from_member, source, target)[mixed]
    outside = np.bincount(end, weight[mixed], b * total).reshape(b, total)[:, :n]
    between = np.bincount(roi[outer], weight[outer], b)
    s1 = np.bincount(roi, weight * (weight + _reverse(source, target, weight, slot, b * total)), b)
    s2 = ((k + incoming) ** 2).sum(axis=1)
    return Edges(roi[inner], place[source[inner]], place[target[inner]], weight[inner], outside, between, s1, s2)


def _lines(table: tuple[np.ndarray, np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(source, target, weight, number among the edges of its source) of every edge of a table."""
    rows, targets, weights = table
    found = np.flatnonzero(weights)
    line = found // max(weights.shape[1], 1)
    first = np.searchsorted(line, np.arange(len(rows)))
    return rows[line], targets.ravel()[found], weights.ravel()[found], np.arange(len(found)) - first[line]


def _reverse(source: np.ndarray, target: np.ndarray, weight: np.ndarray, slot: np.ndarray, size: int) -> np.ndarray:
    """Weight of the reverse of every edge, 0 where there is none."""
    slots = slot.max(initial=-1) + 1
    reverse = np.zeros(len(source))
    if slots > _MAX_SLOTS:
        # both directions of an edge have the same key; the edge's own number rides in the low bits of it
        bits = len(source).bit_length()
        key = (np.minimum(source, target) * size + np.maximum(source, target)) << bits
        key = np.sort(key | np.arange(len(source)))
        number, pair = key & ((1 << bits) - 1), key >> bits
        twice = np.flatnonzero(pair[1:] == pair[:-1])
        one, other = number[twice], number[twice + 1]
        reverse[one], reverse[other] = weight[other], weight[one]
        return reverse
    targets, weights = np.full((slots, size), -1), np.zeros((slots, size))
    targets[slot, source], weights[slot, source] = target, weight
    for of_slot, weight_of_slot in zip(targets, weights, strict=True):
        reverse += (of_slot[target] == source) * weight_of_slot[target]
    return reverse
