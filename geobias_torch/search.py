"""Find who lies within a radius of whom: a tree of compact tiles, walked tile by tile.

Neighbouring centres share nearly all of their neighbours. So points are sorted into compact tiles, the members of a
tile of
centres share one list of candidates, and a whole tile x candidates block is handled by one matrix product and a few
operations on arrays that fit into the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch

from geobias_torch.geometry import LocalFrame, frame_axes, unit_vectors
from geobias_torch.scratch import Scratch, Shelf
from geobias_torch.threads import spread

_TILE = 24  # centres that share a list of candidates
_GROUP = 32  # neighbouring tiles that share a list of tiles
_BLOCK = 1 << 18  # elements of a tile x candidates block
_NEAR = 1.0  # radians: below, the far side of the sphere cannot come in and arcsin of the sine is accurate
_SLACK = 1e-14  # of a cosine: its rounding, so that what it dismisses is surely out
_EDGE = 1e-12  # radians: a point on the edge of an ROI is in it however its distance was rounded

T = TypeVar("T")


@dataclass(frozen=True)
class Points:
    """Points on the sphere as numpy arrays: degrees, and unit vectors."""

    lat: np.ndarray
    lon: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, lat: torch.Tensor, lon: torch.Tensor) -> Points:
        """Take coordinates in degrees."""
        lat, lon = lat.cpu(), lon.cpu()
        return cls(lat.numpy(), lon.numpy(), unit_vectors(lat, lon).numpy())


class Tiles:
    """A balanced k-d order of points, cut into tiles; tile t is ``order[starts[t]:starts[t + 1]]``."""

    def __init__(self, vectors: np.ndarray, size: int = _TILE) -> None:
        n = len(vectors)
        depth = max(0, math.ceil(math.log2(max(n, 1) / size)))
        order = np.arange(n)
        for level in range(depth):
            starts = (n * np.arange(2**level + 1)) >> level
            lengths = np.diff(starts)
            sorted_vectors = vectors[order]
            low = np.minimum.reduceat(sorted_vectors, starts[:-1])
            high = np.maximum.reduceat(sorted_vectors, starts[:-1])
            axis = np.repeat(np.argmax(high - low, axis=1), lengths)
            # one sort for all segments: coordinates lie within [-1, 1], segments are 4 apart
            key = np.repeat(4.0 * np.arange(2**level), lengths) + sorted_vectors[np.arange(n), axis]
            order = order[np.argsort(key, kind="stable")]
        self.order = order
        self.starts = (n * np.arange(2**depth + 1)) >> depth if n else np.zeros(1, dtype=np.int64)
        self.centers, self.radii = self._balls(vectors[order], self.starts)
        self.group_starts = np.append(np.arange(0, len(self), _GROUP), len(self))
        if n:
            self.group_centers, self.group_radii = self._balls(vectors[order], self.starts[self.group_starts])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @staticmethod
    def _balls(vectors: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A ball, centre (T, 3) and radius in radians (T,), around each run of points."""
        if len(starts) < 2:
            return np.zeros((0, 3)), np.zeros(0)
        lengths = np.diff(starts)
        centers = np.add.reduceat(vectors, starts[:-1])
        norm = np.linalg.norm(centers, axis=1, keepdims=True)
        # points all around the sphere have no mean direction: take the first of them
        centers = np.where(norm > 1e-6, centers / np.maximum(norm, 1e-6), vectors[starts[:-1]])
        chord = np.linalg.norm(vectors - np.repeat(centers, lengths, axis=0), axis=1)
        return centers, _arc(np.maximum.reduceat(chord, starts[:-1])) + 1e-9


def _arc(chord: np.ndarray) -> np.ndarray:
    return 2 * np.arcsin(np.minimum(chord / 2, 1))


def _with_nan(vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([vectors, np.full((1, 3), np.nan)])


def _cosine(arc: np.ndarray | float) -> np.ndarray:
    return np.cos(np.minimum(arc, math.pi))


_SCRATCH, _SHELF = Scratch(), Shelf()


def _products(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products, (B, T, C), of (B, T, 3) and (B, 3, C).

    Their last bits may depend on the shape of the block. The frame rounds them to what coordinates are worth, and
    boundaries have a tolerance far above that, so that patches do not. Too small for a BLAS to start threads.
    """
    return np.matmul(a, b, out=_SCRATCH.take(name, (*a.shape[:2], b.shape[2]), np.float64))


@dataclass(frozen=True)
class Block:
    """Some centres with their members: P pairs, centre by centre.

    Attributes:
        rows: (T,) numbers of the centres.
        counts: (T,) how many members each has.
        candidates: int32 numbers of points; all members of a centre are among ``num_candidates`` of them.
        first: (T,) where those of a centre begin.
        num_candidates: C.
        place: (P,) which of its C candidates the member of a pair is, ascending for each centre.
        frame: the local frame of the pairs, (P,) numpy float64.
    """

    rows: np.ndarray
    counts: np.ndarray
    candidates: np.ndarray
    first: np.ndarray
    num_candidates: int
    place: np.ndarray
    frame: LocalFrame

    def members(self, place: np.ndarray | None = None) -> np.ndarray:
        """(P,) int32 numbers of the members, or of other candidates of the pairs' centres."""
        place = self.place if place is None else place
        rows = np.repeat(self.first, self.counts)
        rows += place
        return np.take(self.candidates, rows, out=_SHELF.take(len(rows), np.int32), mode="clip")

    @cached_property
    def filled(self) -> np.ndarray:
        """(T, W) bool: where :meth:`table` holds pairs."""
        return np.arange(self.counts.max(initial=0)) < self.counts[:, None]

    def table(self, values: np.ndarray, fill: Any) -> np.ndarray:
        """The values (P,) of the pairs as a row per centre, (T, W), with something behind the last of each.

        Valid until the next table of this thread.
        """
        table = _SCRATCH.take("table", self.filled.shape, values.dtype)
        table.fill(fill)
        table[self.filled] = values
        return table


class Search:
    """Exact radius search on the sphere.

    Args:
        centers: the M centres.
        points: the N points.
        radius: radians.
        point_tiles: the points' tiles where they exist already.
    """

    def __init__(self, centers: Points, points: Points, radius: float, point_tiles: Tiles | None = None) -> None:
        self.centers, self.points, self.radius = centers, points, radius
        self.point_tiles = point_tiles or Tiles(points.vectors)
        self.center_tiles = self.point_tiles if centers is points else Tiles(centers.vectors)
        east, north = frame_axes(torch.as_tensor(centers.lat), torch.as_tensor(centers.lon))
        # a row of NaN behind the last point, for numbers that are -1
        self._east, self._north, self._up = (_with_nan(v) for v in (east.numpy(), north.numpy(), centers.vectors))
        self._axes = np.ascontiguousarray(_with_nan(points.vectors).T)

    def _near_tiles(self, group: int) -> Iterator[tuple[int, np.ndarray]]:
        """(tile of centres, tiles of points that may hold members) of a group of tiles."""
        near, _ = self._hit(self.center_tiles.group_centers[group], self.center_tiles.group_radii[group])
        for tile in range(self.center_tiles.group_starts[group], self.center_tiles.group_starts[group + 1]):
            hit, _ = self._hit(self.center_tiles.centers[tile], self.center_tiles.radii[tile], near)
            yield tile, hit

    def _hit(self, center: np.ndarray, extent: float, tiles: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Of some tiles of points: those that may hold members of centres in a ball, and whether nobody else."""
        cosine = self.point_tiles.centers[tiles] @ center
        spread = extent + self.point_tiles.radii[tiles]
        hit = np.flatnonzero(cosine >= _cosine(self.radius + spread) - _SLACK)
        inner = self.radius - spread[hit]
        surely = (inner > 0) & (cosine[hit] >= _cosine(inner) + _SLACK)
        return (hit if isinstance(tiles, slice) else tiles[hit]), surely

    def at_most(self) -> int:
        """How many pairs there are at most, by the groups of tiles alone: a fraction of the work of :meth:`bounds`."""
        tiles, sizes = self.center_tiles, np.diff(self.point_tiles.starts)
        total = 0
        for group, (first, last) in enumerate(pairwise(tiles.group_starts.tolist())):
            near, _ = self._hit(tiles.group_centers[group], tiles.group_radii[group])
            total += int(tiles.starts[last] - tiles.starts[first]) * int(sizes[near].sum())
        return total

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(M,) int64: how many members every centre has at least and at most, without looking at any of them."""
        tiles, sizes = self.center_tiles, np.diff(self.point_tiles.starts)
        low, high = np.zeros((2, len(self.centers.lat)), dtype=np.int64)

        def group_bounds(group: int) -> None:
            first, last = tiles.group_starts[group], tiles.group_starts[group + 1]
            near, surely = self._hit(tiles.group_centers[group], tiles.group_radii[group])
            common, open_tiles = sizes[near[surely]].sum(), near[~surely]
            for tile in range(first, last) if len(open_tiles) else ():
                rows = tiles.order[tiles.starts[tile] : tiles.starts[tile + 1]]
                hit, certain = self._hit(tiles.centers[tile], tiles.radii[tile], open_tiles)
                low[rows], high[rows] = sizes[hit[certain]].sum(), sizes[hit].sum()
            rows = tiles.order[tiles.starts[first] : tiles.starts[last]]
            low[rows] += common
            high[rows] += common

        self._in_threads(group_bounds)
        return low, high

    def walk(self, work: Callable[[Block], T], degrees: bool = False) -> list[T]:
        """Hand every block of centres to ``work`` and collect what it returns, in the order of the tiles.

        Args:
            work: called with one :class:`Block` at a time, from several threads.
            degrees: whether the frames hold the coordinates too.
        """
        tiles = self.center_tiles

        def group_work(group: int) -> list[T]:
            parts = []
            for tile, hit in self._near_tiles(group):
                rows = tiles.order[tiles.starts[tile] : tiles.starts[tile + 1]]
                found = self._candidates(tile, hit)
                step = max(1, _BLOCK // max(1, len(found)))
                for start in range(0, len(rows), step):
                    parts.append((rows[start : start + step], found, self.radius + 2 * tiles.radii[tile]))
            parts.sort(key=lambda part: len(part[1]))  # alike go together: a block is as wide as its widest
            results: list[T] = []
            batch: list[tuple[np.ndarray, np.ndarray, float]] = []
            for part in parts:
                if (len(batch) + 1) * _TILE * len(part[1]) > _BLOCK and batch:
                    results.append(work(self._block(batch, degrees)))
                    batch = []
                batch.append(part)
            return [*results, *([work(self._block(batch, degrees))] if batch else [])]

        return [result for results in self._in_threads(group_work) for result in results]

    def _candidates(self, tile: int, hit: np.ndarray) -> np.ndarray:
        """Numbers, ascending, of the points in some tiles that may be members of a centre in ``tile``."""
        points = self.point_tiles
        found = np.concatenate([points.order[points.starts[t] : points.starts[t + 1]] for t in hit] or [hit])
        cosine = self.points.vectors[found] @ self.center_tiles.centers[tile]
        return np.sort(found[cosine >= _cosine(self.radius + self.center_tiles.radii[tile]) - _SLACK])

    def _in_threads(self, work: Callable[[int], T]) -> list[T]:
        groups = range(len(self.center_tiles.group_starts) - 1) if len(self.centers.lat) else range(0)
        return list(spread(work, groups, most=len(groups)))

    def _block(self, parts: list[tuple[np.ndarray, np.ndarray, float]], degrees: bool) -> Block:
        """All pairs of several tiles: (centres, candidates, bound of their distances) each."""
        centers, points = self.centers, self.points
        height, width = max(len(own) for own, _, _ in parts), max(len(found) for _, found, _ in parts)
        rows = np.full((len(parts), height), -1)
        candidates = np.full((len(parts), width), -1, dtype=np.int32)
        for i, (own, found, _) in enumerate(parts):
            rows[i, : len(own)], candidates[i, : len(found)] = own, found
        # number -1 is the last row, NaN: products with it are inside of nothing
        vectors = np.stack([axis.take(candidates) for axis in self._axes], axis=1)  # (B, 3, C)
        east = _products("east", self._east[rows], vectors)
        north = _products("north", self._north[rows], vectors)
        sine2 = np.multiply(east, east, out=_SCRATCH.take("sine2", east.shape, np.float64))
        sine2 += np.multiply(north, north, out=_SCRATCH.take("term", east.shape, np.float64))
        near = self.radius < _NEAR
        # within a quarter turn the sine alone tells the distance
        cosine = None
        if not near or max(part[2] for part in parts) >= math.pi / 2:
            cosine = _products("cosine", self._up[rows], vectors)
        if near:
            edge = math.sin(self.radius + _EDGE) ** 2
            inside = np.less_equal(sine2, edge, out=_SCRATCH.take("inside", sine2.shape, np.bool_))
            if cosine is not None:
                inside &= cosine > 0
        else:
            inside = np.arctan2(np.sqrt(sine2), cosine) <= self.radius + _EDGE  # type: ignore[arg-type]
        pairs = np.flatnonzero(inside)
        real = rows.ravel() >= 0
        begins = np.arange(rows.size + 1) * width
        counts = np.diff(np.searchsorted(pairs, begins))[real]
        rows, begins = rows.ravel()[real], begins[:-1][real]
        place = pairs - np.repeat(begins, counts)
        products: Any = tuple(p if p is None else p.ravel().take(pairs) for p in (east, north, cosine))
        first = np.repeat(np.arange(len(parts)) * width, height)[real]
        frame = LocalFrame(*4 * (None,), self.radius, products)
        block = Block(rows, counts, candidates.ravel(), first, width, place, frame)
        if not degrees:
            return block
        members = block.members()
        frame = LocalFrame(
            np.repeat(centers.lat[rows], counts), np.repeat(centers.lon[rows], counts),
            points.lat[members], points.lon[members], self.radius, products,
        )  # fmt: skip
        return replace(block, frame=frame)
