"""Neighbours among the members of an ROI and the Fibonacci lattice around them, the fast way.

The lattice is the same for all ROIs with equally many members, but for its size: who may neighbour whom on it is
found once.
What is left per ROI are the distances from the members, of which nearly all are dismissed by a bound; only the few
candidates left are looked at exactly. ``graphs.plain_edges`` is the same from dense distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from geobias_torch.scratch import Scratch

TIE = 1e-10  # radians (0.6 mm): distances this close are ties
LARGEST = 1.0  # radians: up to here the lattice on the sphere is close enough to the flat one
_SMALL, _TINY = 1e-5, 1e-7  # radians (60 m, 0.6 m): size classes
_ROWS = 512  # rows of a table of distances on the flat lattice that are held at once
_MAX_SLOTS = 12  # edges of a point up to which the reverse is found by comparing all with all


_ROUNDING = 1e-6  # share of the cap: float32 coordinates on the plane, and their differences


_SCRATCH = Scratch()


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
    return np.where(caps > LARGEST, 0.0, np.where(caps >= _SMALL, _SMALL, np.where(caps >= _TINY, _TINY, 0.0)))


def points(caps: np.ndarray, count: int) -> np.ndarray:
    r"""Fibonacci lattices on caps, (b, count, 3): local east, north, and up - 1 (so that small caps keep their digits).

    sin^2(theta_j / 2) = sin^2(cap / 2) (j + .5) / count, azimuth j pi (3 - sqrt 5).
    """
    azimuth = np.arange(count) * (math.pi * (3 - math.sqrt(5)))
    half_sine2 = np.sin(caps / 2)[:, None] ** 2 * ((np.arange(count) + 0.5) / max(count, 1))
    sine = 2 * np.sqrt(half_sine2 * (1 - half_sine2))
    return np.stack([sine * np.sin(azimuth), sine * np.cos(azimuth), -2 * half_sine2], axis=-1)


class _Flat(NamedTuple):
    """What is known about the lattice of so many points before any member is: lengths in units of 2 sin(cap / 2)."""

    x: np.ndarray  # (count + 1,) places on the unit disc, float32; the last, which -1 finds, is infinitely far
    y: np.ndarray
    candidates: np.ndarray  # (count, C): points that can be among the k nearest on any cap of the class, -1 = none
    reach: np.ndarray  # (count + 1,): distance of the k-th nearest
    certain: np.ndarray  # (count,) bool: exactly k candidates, so that these are the k nearest
    mutual: np.ndarray  # (count, k) bool: both ends of the edge are certain and name each other
    incoming: np.ndarray  # (count,) edges that arrive from certain points
    side: int  # the disc is cut into side x side cells
    cells: np.ndarray  # (side * side, W): points that a member in the cell can neighbour or be neighbour of, -1 = none


@lru_cache(maxsize=64)
def _flat_lattice(count: int, k: int, radius: float, smallest: float) -> _Flat:
    """A distance on a cap is that on the flat lattice times something between cos(radius / 2) and its inverse."""
    rank = (np.arange(count) + 0.5) / count
    azimuth = np.arange(count) * (math.pi * (3 - math.sqrt(5)))
    x, y = np.sqrt(rank) * np.sin(azimuth), np.sqrt(rank) * np.cos(azimuth)
    x_far, y_far = (np.append(v, np.inf).astype(np.float32) for v in (x, y))
    stretch, tie = math.cos(radius / 2) ** -2 * (1 + 1e-6), 2 * TIE / smallest + 2 * _ROUNDING
    if count <= k:  # the k-th neighbour of everybody is a member, however far
        no, everyone = np.zeros((count, k), dtype=bool), np.append(np.arange(count), -1)[None]
        reach = np.append(np.full(count, np.inf), 0.0)
        return _Flat(x_far, y_far, _others(count, k), reach, no[:, 0], no, np.zeros(count), 1, everyone)
    reach, own, other = _near_pairs(x, y, x, y, k, lambda kth: kth * stretch + tie, itself=False)
    candidates = _padded(own, other, count, k)
    certain = (candidates >= 0).sum(axis=1) == k
    named = candidates[:, :k]
    mutual = certain[:, None] & certain[named] & (named[named] == np.arange(count)[:, None, None]).any(axis=2)
    incoming = np.bincount(named[certain].ravel(), minlength=count).astype(np.float64)

    # a point of a cell is at most half a diagonal from its middle
    side = max(1, round(2 / math.sqrt(math.pi / count))) if count > 4 * k else 1
    middle = (np.arange(side) + 0.5) * (2 / side) - 1
    half = math.sqrt(2) / side
    _, own, other = _near_pairs(
        np.tile(middle, side),
        np.repeat(middle, side),
        x,
        y,
        k,
        lambda kth: stretch * np.maximum(kth + half, reach) + half + tie,
    )
    cells = _padded(own, other, side * side, 1)
    return _Flat(x_far, y_far, candidates, np.append(reach, 0.0), certain, mutual, incoming, side, cells)


def _near_pairs(
    x: np.ndarray,
    y: np.ndarray,
    x_other: np.ndarray,
    y_other: np.ndarray,
    k: int,
    edge: Callable[[np.ndarray], np.ndarray],
    itself: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distance to the k-th nearest other, and the pairs (own, other) within ``edge`` of that distance."""
    reach, own, other = [], [], []
    for start in range(0, len(x), _ROWS):
        rows = slice(start, start + _ROWS)
        distance2 = (x[rows, None] - x_other) ** 2 + (y[rows, None] - y_other) ** 2
        if not itself:
            distance2[np.arange(len(distance2)), np.arange(start, start + len(distance2))] = np.inf
        row, column = _within(distance2[None], _bound_of_kth(distance2[None], k)[..., None])
        few = _table(row, column, distance2[row, column])[2]
        kth = np.sqrt(np.partition(few, k - 1, axis=1)[:, k - 1])
        row, column = np.nonzero(distance2 <= edge(kth[:, None]) ** 2)
        reach.append(kth)
        own.append(row + start)
        other.append(column)
    return np.concatenate(reach), np.concatenate(own), np.concatenate(other)


def _others(count: int, k: int) -> np.ndarray:
    """(count, k) everybody but oneself, -1 behind."""
    own, other = np.nonzero(~np.eye(count, dtype=bool))
    return _padded(own, other, count, k)


def _padded(row: np.ndarray, column: np.ndarray, rows: int, width: int) -> np.ndarray:
    """A table of the columns found in every row (ascending rows), -1 behind; at least ``width`` wide."""
    counts = np.bincount(row, minlength=rows)
    table = np.full((rows, max(width, counts.max(initial=0))), -1)
    table[np.arange(table.shape[1]) < counts[:, None]] = column
    return table


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
    difference = a - b
    chord2 = np.einsum("...c,...c->...", difference, difference)
    return 2 * np.arcsin(np.minimum(np.sqrt(chord2) / 2, 1))


Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows, their targets, and weights or arcs


def edges(batch: Batch, count: int, k: int, radius: float, smallest: float) -> Edges:
    """Edges of ROIs with n members and ``count`` lattice points each, n + count > k.

    Caps go from ``smallest`` up to ``radius``.
    """
    b, n, _ = batch.members.shape
    total, flat = n + count, _flat_lattice(count, k, radius, smallest)
    members = np.einsum("bnc,bac->bna", batch.members, batch.axes)
    members[..., 2] = -(members[..., 0] ** 2 + members[..., 1] ** 2) / (1 + members[..., 2])
    everybody = np.concatenate([members, points(batch.caps, count)], axis=1).reshape(b * total, 3)
    plane2, near = _plane_distances(members, batch.caps, flat)

    # candidates of a member: everybody within a bound of its k-th smallest distance
    row, column = _within(plane2, _widen(_bound_of_kth(plane2, k), batch.caps[:, None])[..., None])
    place = np.where(column < n, column, n + near.reshape(b * n, -1)[row, np.maximum(column - n, 0)])
    source, target = row // n * total + row % n, row // n * total + place
    rows, targets, arcs = _table(source, target, _arc(everybody[source], everybody[target]))
    tables = [(rows, targets, shared_weights(arcs, k))]

    # lattice points that no member comes nearer than their own k-th: their edges are known
    settled = np.tile(flat.certain, (b, 1))
    reach = 2 * np.sin(batch.caps / 2)[:, None, None] * flat.reach[near]
    row, column = _within(plane2[:, :, n:], _widen(reach**2, batch.caps[:, None, None]))
    place = near.reshape(b * n, -1)[row, column]
    settled[row // n, place] = False
    if not settled.all():
        touching = row // n * total + n + place, row // n * total + row % n
        tables.append(_unsettled_edges(np.nonzero(~settled), touching, everybody, flat, n, k))
    return _collect(tables, settled, flat, n, k)


def _plane_distances(members: np.ndarray, caps: np.ndarray, flat: _Flat) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances (b, n, n + W) on the equal-area plane, float32, and the lattice points (b, n, W) of the last W.

    From each member to the members (infinite to itself) and to the lattice points around its cell. They are there to
    dismiss: two coordinates do, and half the memory is twice the speed.
    """
    b, n, _ = members.shape
    # 2 sin(d / 2) from the centre instead of sin(d): up - 1 is -2 sin(d / 2)^2
    scale = np.sqrt(1 + members[..., 2] / 2) * (2 * np.sin(caps / 2))[:, None]
    plane = np.stack([members[..., axis] / scale for axis in range(2)]).astype(np.float32)
    cell = np.clip(((plane + 1) * (flat.side / 2)).astype(np.int64), 0, flat.side - 1)
    near = flat.cells[cell[1] * flat.side + cell[0]]
    width = near.shape[2]
    distance2, more = (_SCRATCH.take(name, (b, n, n + width), np.float32) for name in ("distance2", "more"))
    for coordinate, lattice, out in zip(plane, (flat.x, flat.y), (distance2, more), strict=True):
        np.subtract(coordinate[:, :, None], coordinate[:, None, :], out=out[..., :n])
        np.subtract(coordinate[:, :, None], lattice[near], out=out[..., n:])
        np.multiply(out, out, out=out)
    distance2 += more
    distance2 *= (4 * np.sin(caps / 2) ** 2).astype(np.float32)[:, None, None]
    distance2[:, np.arange(n), np.arange(n)] = np.inf
    return distance2, near


def _unsettled_edges(
    which: tuple[np.ndarray, ...],
    touching: tuple[np.ndarray, ...],
    everybody: np.ndarray,
    flat: _Flat,
    n: int,
    k: int,
) -> Table:
    """Weights of some lattice points, (ROI, place) in order: among their fixed candidates and touching members."""
    roi, place = which
    start = roi * (len(flat.certain) + n)
    rows, fixed = start + n + place, flat.candidates[place]
    targets = np.where(fixed < 0, 0, fixed + n) + start[:, None]
    arcs = np.where(fixed < 0, np.inf, _arc(everybody[rows, None], everybody[targets]))
    order = np.argsort(touching[0], kind="stable")
    point, member = touching[0][order], touching[1][order]
    lines, others, more = _table(point, member, _arc(everybody[point], everybody[member]))
    wide, far = np.zeros((len(rows), others.shape[1]), dtype=np.int64), np.full((len(rows), others.shape[1]), np.inf)
    at = np.searchsorted(rows, lines)
    wide[at], far[at] = others, more
    weights = shared_weights(np.concatenate([arcs, far], axis=1), k)
    return rows, np.concatenate([targets, wide], axis=1), weights


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


def _collect(tables: list[Table], settled: np.ndarray, flat: _Flat, n: int, k: int) -> Edges:
    """Edges and sums from tables of (rows, targets, weights), and from the lattice points (b, count) settled."""
    b, count = settled.shape
    total = n + count
    # looked up rather than divided out for every edge: integer division is dear
    place, roi_of = np.tile(np.arange(total), b), np.repeat(np.arange(b), total)
    is_member = place < n
    source, target, weight, slot = (np.concatenate(parts) for parts in zip(*map(_lines, tables), strict=True))
    from_member, to_member = is_member[source], is_member[target]
    inner, mixed, outer = from_member & to_member, from_member ^ to_member, ~(from_member | to_member)
    end = np.where(from_member, source, target)[mixed]
    outside = np.bincount(end, weight[mixed], b * total).reshape(b, total)[:, :n]
    number = settled.sum(axis=1)
    between = np.bincount(roi_of[source[outer]], weight[outer], b) + k * number

    incoming = np.bincount(target, weight, b * total).reshape(b, total)
    roi, gone = np.nonzero(~settled & flat.certain)
    gone = flat.candidates[gone, :k] + (roi * count)[:, None]
    incoming[:, n:] += flat.incoming - np.bincount(gone.ravel(), minlength=b * count).reshape(b, count)
    s2 = ((k + incoming) ** 2).sum(axis=1)

    # an edge and its reverse count together: twice here where the reverse belongs to a settled point
    is_settled = np.concatenate([np.zeros((b, n), dtype=bool), settled], axis=1).ravel()
    reverse = _reverse(source, target, weight, slot, is_settled, flat, n, k) * (1.0 + is_settled[target])
    s1 = np.bincount(roi_of[source], weight * (weight + reverse), b) + k * number
    if count:
        named = np.where(flat.mutual, flat.candidates[:, :k], 0)
        s1 += (settled[:, named] & (flat.mutual & settled[..., None])).sum(axis=(1, 2))
    chosen = roi_of[source[inner]]
    return Edges(chosen, place[source[inner]], place[target[inner]], weight[inner], outside, between, s1, s2)


def _lines(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(source, target, weight, number among the edges of its source) of every edge of a table."""
    rows, targets, weights = table
    found = np.flatnonzero(weights > 0)
    line = found // max(weights.shape[1], 1)
    first = np.searchsorted(line, np.arange(len(rows)))
    return rows[line], targets.ravel()[found], weights.ravel()[found], np.arange(len(found)) - first[line]


def _reverse(
    source: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    slot: np.ndarray,
    is_settled: np.ndarray,
    flat: _Flat,
    n: int,
    k: int,
) -> np.ndarray:
    """Weight of the reverse of every edge, 0 where there is none; settled points have the edges of the flat lattice."""
    size, count = len(is_settled), len(flat.certain)
    b = size // (n + count)
    slots = max(slot.max(initial=-1) + 1, k)
    if slots > _MAX_SLOTS:
        # many tie: both directions of an edge have the same key, and the edge's own number rides in its low bits
        roi, place = np.nonzero(is_settled.reshape(b, -1)[:, n:])
        more = np.repeat(roi * (n + count) + n + place, k)
        to = (flat.candidates[place, :k] + n + (roi * (n + count))[:, None]).ravel()
        source, target, weight = (
            np.concatenate(x) for x in ((source, more), (target, to), (weight, np.ones(len(more))))
        )
        return _reverse_by_key(source, target, weight, size)[: len(slot)]
    targets, weights = np.full((slots, size), -1), np.zeros((slots, size))
    if count:
        start, settled = np.arange(b)[:, None] * (n + count) + n, is_settled.reshape(b, -1)[:, n:]
        for number in range(k):
            ends, ones = (table[number].reshape(b, -1)[:, n:] for table in (targets, weights))
            ends[:], ones[:] = flat.candidates[:, number] + start, settled  # of weight 0 where they are not settled
    targets[slot, source], weights[slot, source] = target, weight
    reverse = np.zeros(len(source))
    for of_slot, weight_of_slot in zip(targets, weights, strict=True):
        reverse += (of_slot.take(target) == source) * weight_of_slot.take(target)
    return reverse


def _reverse_by_key(source: np.ndarray, target: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    """The same by one sort, however many edges a point has."""
    bits = len(source).bit_length()
    key = (np.minimum(source, target) * size + np.maximum(source, target)) << bits
    key = np.sort(key | np.arange(len(source)))
    number, pair = key & ((1 << bits) - 1), key >> bits
    twice = np.flatnonzero(pair[1:] == pair[:-1])
    one, other = number[twice], number[twice + 1]
    reverse = np.zeros(len(source))
    reverse[one], reverse[other] = weight[other], weight[one]
    return reverse
