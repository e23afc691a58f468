"""Neighbours among the members of an ROI and the Fibonacci lattice around them, the fast way.

The lattice is the same for all ROIs with equally many members, but for its size: who may neighbour whom on it is found once.
What is left per ROI are the distances from the members, of which nearly all are dismissed by a bound; only the few
candidates left are looked at exactly. ``graphs.plain_edges`` is the same from dense distances.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

TIE = 1e-10  # radians (0.6 mm): distances this close are ties
_LARGEST = 1.0  # radians: up to here the lattice on the sphere is close enough to the flat one
_SMALLEST = 1e-6  # radians (6 m): below, points of the lattice would tie
_LANES = 32  # columns whose minima bound the k-th smallest of a row
_MAX_SLOTS = 12  # neighbours per point up to which mutual edges are found by comparing all with all


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


def takes(caps: np.ndarray) -> np.ndarray:
    """Whether :func:`edges` is made for caps of these sizes."""
    return (caps >= _SMALLEST) & (caps <= _LARGEST)


def points(caps: np.ndarray, count: int) -> np.ndarray:
    r"""Fibonacci lattices on caps, (b, count, 3): local east, north, and up - 1 (so that small caps keep their digits).

    sin^2(theta_j / 2) = sin^2(cap / 2) (j + .5) / count, azimuth j pi (3 - sqrt 5).
    """
    azimuth = np.arange(count) * (math.pi * (3 - math.sqrt(5)))
    half_sine2 = np.sin(caps / 2)[:, None] ** 2 * ((np.arange(count) + 0.5) / max(count, 1))
    sine = 2 * np.sqrt(half_sine2 * (1 - half_sine2))
    return np.stack([sine * np.sin(azimuth), sine * np.cos(azimuth), -2 * half_sine2], axis=-1)


@lru_cache(maxsize=256)
def _flat_candidates(count: int, k: int, radius: float) -> np.ndarray:
    """(count, C): points that can be among the k nearest of each lattice point on any cap up to ``radius``, -1 = none.

    A distance on the cap is that on the flat lattice times something between cos(radius / 2) and its inverse.
    """
    flat = points(np.array([1e-6]), count)[0, :, :2]
    allowed = math.cos(radius / 2) ** -4 * (1 + 1e-6)
    rows = []
    for start in range(0, count, 512):
        chord2 = ((flat[start : start + 512, None] - flat) ** 2).sum(axis=2)
        chord2[np.arange(len(chord2)), np.arange(start, start + len(chord2))] = np.inf
        reach = np.partition(chord2, min(k, count - 1) - 1, axis=1)[:, min(k, count - 1) - 1] if count > 1 else np.zeros(1)
        rows += [np.flatnonzero(row <= edge * allowed) for row, edge in zip(chord2, reach, strict=True)]
    table = np.full((count, max(k, max((len(row) for row in rows), default=0))), -1)
    for own, row in zip(table, rows, strict=True):
        row = row[row != -1]
        own[: len(row)] = row
    return table


def shared_weights(distance: np.ndarray, k: int) -> np.ndarray:
    """Weights (R, C) of rows of distances: 1 nearer than the k-th, those at it share what is left, so that rows sum to k."""
    edge = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    nearer = distance < edge - TIE
    tied = (distance <= edge + TIE) & ~nearer
    return nearer + tied * ((k - nearer.sum(axis=1)) / tied.sum(axis=1))[:, None]


def _arc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Arc between points (..., 3) from their differences, exact for near points."""
    return 2 * np.arcsin(np.minimum(np.sqrt(((a - b) ** 2).sum(axis=-1)) / 2, 1))


def edges(batch: Batch, count: int, k: int, radius: float) -> Edges:
    """Edges of ROIs with n members and ``count`` lattice points each, n + count > k."""
    b, n, _ = batch.members.shape
    total = n + count
    members = np.einsum("bnc,bac->bna", batch.members, batch.axes)
    members[..., 2] = -(members[..., 0] ** 2 + members[..., 1] ** 2) / (1 + members[..., 2])
    everybody = np.concatenate([members, points(batch.caps, count)], axis=1)  # (b, T, 3)
    approximate = _squared_distances(members, everybody)
    flat = everybody.reshape(b * total, 3)

    # members: everybody within a bound of the k-th smallest distance
    bound = _bound_of_kth(approximate, k)
    row, column = _within(approximate, _widen(bound, radius)[..., None])
    roi, own = row // n, row % n
    source, target = roi * total + own, roi * total + column
    tables = [_table(source, target, _arc(flat[source], flat[target]))]

    # lattice points: their fixed candidates, and the members that are nearer than the k-th of those
    if count:
        fixed = _flat_candidates(count, k, radius)
        arcs = np.where(fixed >= 0, _arc(everybody[:, n:, None], everybody[:, n:][:, fixed]), np.inf)
        reach = np.partition(arcs, k - 1, axis=2)[..., k - 1]
        ids = np.where(fixed >= 0, fixed + n, 0) + (np.arange(b) * total)[:, None, None]
        row, column = _within(approximate[:, :, n:], _widen(reach**2, radius)[:, None])
        roi, own = row // n, row % n
        touched = np.zeros((b, count), dtype=bool)
        touched[roi, column] = True
        tables += _lattice_tables(arcs, ids, touched, n, total, roi * count + column, roi * total + own, flat)
    weighted = [(rows, targets, shared_weights(arcs, k)) for rows, targets, arcs in tables if len(rows)]
    return _collect(weighted, b, n, count, k)


def _squared_distances(members: np.ndarray, everybody: np.ndarray) -> np.ndarray:
    """(b, n, T) squared chords, up to rounding, by one matrix product; infinite from a point to itself."""
    n = members.shape[1]
    ones = np.ones((*members.shape[:2], 1))
    left = np.concatenate([members, (members**2).sum(axis=2, keepdims=True), ones], axis=2)
    right = np.concatenate([-2 * everybody, np.ones((*everybody.shape[:2], 1)), (everybody**2).sum(axis=2, keepdims=True)], axis=2)
    chord2 = left @ right.transpose(0, 2, 1)
    chord2[:, np.arange(n), np.arange(n)] = np.inf
    return chord2


def _bound_of_kth(values: np.ndarray, k: int) -> np.ndarray:
    """(b, n): nothing below the k-th smallest of each row (b, n, T), and mostly not much above it."""
    columns = values.shape[2] // _LANES * _LANES
    if columns < 4 * _LANES or k >= _LANES:
        return np.partition(values, k - 1, axis=2)[..., k - 1]
    # the k-th smallest of the minima of 32 interleaved parts: k different elements are no larger
    minima = values[..., :columns].reshape(*values.shape[:2], -1, _LANES).min(axis=2)
    return np.partition(minima, k - 1, axis=2)[..., k - 1]


def _widen(chord2: np.ndarray, radius: float) -> np.ndarray:
    """Squared distances, enlarged by a tie and by the rounding of :func:`_squared_distances`."""
    return (np.sqrt(np.maximum(chord2, 0)) + 2 * TIE) ** 2 + 1e-14 * radius**2


def _within(values: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of the values (b, n, T) up to ``edge``, rows counted through b and n, in order."""
    found = np.flatnonzero(values <= edge)
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


def _lattice_tables(
    arcs: np.ndarray,
    ids: np.ndarray,
    touched: np.ndarray,
    n: int,
    total: int,
    point: np.ndarray,
    member: np.ndarray,
    flat: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Tables of the lattice points that no member touches, and of those that have members among their candidates."""
    b, count, width = arcs.shape
    rows = (np.arange(b)[:, None] * total + n + np.arange(count)).ravel()
    arcs, ids, touched = arcs.reshape(-1, width), ids.reshape(-1, width), touched.ravel()
    free = ~touched
    tables = [(rows[free], ids[free], arcs[free])]
    if len(point):
        order = np.argsort(point, kind="stable")
        point, member = point[order], member[order]
        lines, targets, more = _table(point, member, _arc(flat[rows[point]], flat[member]))
        tables.append((rows[lines], np.concatenate([ids[lines], targets], 1), np.concatenate([arcs[lines], more], 1)))
    return tables


def _collect(tables: list[tuple[np.ndarray, np.ndarray, np.ndarray]], b: int, n: int, count: int, k: int) -> Edges:
    """Edges and sums from tables of (rows, targets, weights), rows counted through the batch."""
    total = n + count
    kept = [weights > 0 for _, _, weights in tables]
    source = np.concatenate([np.repeat(rows, keep.sum(axis=1)) for (rows, _, _), keep in zip(tables, kept, strict=True)])
    target = np.concatenate([targets[keep] for (_, targets, _), keep in zip(tables, kept, strict=True)])
    weight = np.concatenate([weights[keep] for (_, _, weights), keep in zip(tables, kept, strict=True)])
    roi = source // total
    from_member, to_member = source % total < n, target % total < n
    inner, mixed = from_member & to_member, from_member ^ to_member
    incoming = np.bincount(target, weight, b * total).reshape(b, total)
    end = np.where(from_member, source, target)[mixed]
    outside = np.bincount(end, weight[mixed], b * total).reshape(b, total)[:, :n]
    outer = ~(from_member | to_member)
    between = np.bincount(roi[outer], weight[outer], b)
    mutual = _mutual(source, target, weight, b * total)
    s1 = np.bincount(roi, weight**2 + weight * mutual, b)
    s2 = ((k + incoming) ** 2).sum(axis=1)
    return Edges(roi[inner], source[inner] % total, target[inner] % total, weight[inner], outside, between, s1, s2)


def _mutual(source: np.ndarray, target: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    """Weight of the reverse of every edge, 0 where there is none."""
    lengths = np.bincount(source, minlength=size)
    slots = lengths.max(initial=0)
    if slots > _MAX_SLOTS:
        key = source * size + target
        order = np.argsort(key)
        reverse = target * size + source
        place = np.minimum(np.searchsorted(key[order], reverse), len(key) - 1)
        found = order[place]
        return np.where(key[found] == reverse, weight[found], 0.0)
    order = np.argsort(source, kind="stable")
    starts = np.concatenate([[0], np.cumsum(lengths)])
    slot = np.arange(len(source)) - starts[source[order]]
    targets, weights = np.full((size, slots), -1), np.zeros((size, slots))
    targets[source[order], slot], weights[source[order], slot] = target[order], weight[order]
    return ((targets[target] == source[:, None]) * weights[target]).sum(axis=1)
