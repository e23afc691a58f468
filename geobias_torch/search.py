"""Find who lies within a radius of whom: a tree of compact tiles, walked tile by tile.

Neighbouring centres share nearly all of their neighbours. So points are sorted into compact tiles, the members of a
tile of
centres share one list of candidates, and a whole tile x candidates block is handled by one matrix product and a few
operations on arrays that fit into the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from geobias_torch.geometry import LocalFrame, frame_axes, unit_vectors

_TILE = 48  # centres that share a list of candidates
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


def _cosine(arc: np.ndarray | float) -> np.ndarray:
    return np.cos(np.minimum(arc, math.pi))


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(T, C) inner products of (T, D) and (D, C)."""
    total = a[:, :1] * b[0]
    more = np.empty_like(total)
    for axis in range(1, len(b)):
        total += np.multiply(a[:, axis, None], b[axis], out=more)
    return total


@dataclass(frozen=True)
class Block:
    """Some centres against the candidates that they share.

    Attributes:
        rows: (T,) numbers of the centres.
        candidates: (C,) numbers of the points, ascending.
        frame: the local frame of all T x C pairs, numpy float64.
        inside: (T, C) bool, whether the point is a member of the ROI.
        sine2: (T, C) squared sine of the distance.
    """

    rows: np.ndarray
    candidates: np.ndarray
    frame: LocalFrame
    inside: np.ndarray
    sine2: np.ndarray


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
        self._east, self._north = east.numpy(), north.numpy()

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

    def walk(self, work: Callable[[Block], T]) -> list[T]:
        """Hand every block of centres to ``work`` and collect what it returns, in the order of the tiles."""
        tiles, points = self.center_tiles, self.point_tiles

        def group_work(group: int) -> list[T]:
            results = []
            for tile, hit in self._near_tiles(group):
                rows = tiles.order[tiles.starts[tile] : tiles.starts[tile + 1]]
                found = np.concatenate([points.order[points.starts[t] : points.starts[t + 1]] for t in hit] or [hit])
                cosine = self.points.vectors[found] @ tiles.centers[tile]
                found = np.sort(found[cosine >= _cosine(self.radius + tiles.radii[tile]) - _SLACK])
                step = max(1, _BLOCK // max(1, len(found)))
                for start in range(0, len(rows), step):
                    block = self._block(rows[start : start + step], found, self.radius + 2 * tiles.radii[tile])
                    results.append(work(block))
            return results

        return [result for results in self._in_threads(group_work) for result in results]

    def _in_threads(self, work: Callable[[int], T]) -> list[T]:
        groups = range(len(self.center_tiles.group_starts) - 1) if len(self.centers.lat) else range(0)
        threads = min(torch.get_num_threads(), len(groups))
        if threads < 2:
            return [work(group) for group in groups]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, groups))

    def _block(self, rows: np.ndarray, candidates: np.ndarray, reach: float) -> Block:
        centers, points = self.centers, self.points
        vectors = np.ascontiguousarray(points.vectors[candidates].T)
        # products by elements, not by a matrix product: their rounding must not depend on the shape of the block, and
        # a BLAS would start threads of its own within ours
        east, north = _products(self._east[rows, :2], vectors[:2]), _products(self._north[rows], vectors)
        sine2 = east * east
        sine2 += north * north
        near = self.radius < _NEAR
        # within a quarter turn, which `reach` bounds, the sine alone tells the distance
        cosine = None if near and reach < math.pi / 2 else _products(centers.vectors[rows], vectors)
        if near:
            inside = sine2 <= math.sin(self.radius + _EDGE) ** 2
            if cosine is not None:
                inside &= cosine > 0
        else:
            inside = np.arctan2(np.sqrt(sine2), cosine) <= self.radius + _EDGE  # type: ignore[arg-type]
        frame = LocalFrame(
            centers.lat[rows, None], centers.lon[rows, None], points.lat[candidates], points.lon[candidates],
            self.radius, products=(east, north, cosine),
        )  # fmt: skip
        return Block(rows, candidates, frame, inside, sine2)
