"""Who neighbours whom among the members of an ROI and the background points around them (for SSI)."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from geobias_torch.geometry import LocalFrame, frame_axes, unit_vectors
from geobias_torch.segments import Segments

if TYPE_CHECKING:
    from geobias_torch.regions import Regions

TIE = 1e-10  # radians (0.6 mm): distances this close are ties
_BATCH = 1 << 19  # distances held at once by a thread


@dataclass(frozen=True)
class Graph:
    r"""Neighbour weights of every ROI, kept as what a quadratic form of the members' values needs.

    Background points all have the same value, so that of their edges only sums are kept.

    Attributes:
        segments: the members that take part, ROI by ROI (P').
        background: (M,) int64, number of background points of every ROI.
        source, target: (E,) int64, edges between members, as positions in ``segments.members``.
        weight: (E,) float64.
        outside: (P',) float64: weight of the edges between a member and the background, both directions.
        between: (M,) float64: weight of the edges among background points.
        s0, s1, s2: (M,) float64: sums of the weights that the permutation moments need.
    """

    segments: Segments
    background: Tensor
    source: Tensor
    target: Tensor
    weight: Tensor
    outside: Tensor
    between: Tensor
    s0: Tensor
    s1: Tensor
    s2: Tensor

    @property
    def roi(self) -> Tensor:
        """(P',) int64: the ROI of every member."""
        sizes = self.segments.sizes
        return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)

    def to(self, device: torch.device | str) -> Graph:
        """Copy to a device."""
        tensors = {k: v.to(device) for k, v in vars(self).items() if k != "segments"}
        return Graph(self.segments.to(device), **tensors)


class Batch(NamedTuple):
    """ROIs with n members each, and so with B background points each."""

    rois: np.ndarray  # (b,)
    members: np.ndarray  # (b, n, 3) unit vectors
    axes: np.ndarray  # (b, 3, 3) rows: east, north, up of the centres
    caps: np.ndarray  # (b,) radians: how far the background reaches
    background: int


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


def build_graph(
    regions: Regions, k: int, background: str, background_ratio: float, max_members: int | None, ties: str
) -> Graph:
    """Build the graphs of all ROIs; arguments as in ``Regions.graph``, checked there."""
    near = regions.nearest(max_members).to("cpu")
    segments = near.segments
    sizes = segments.sizes.numpy()
    members = unit_vectors(near.lat, near.lon).numpy()
    axes = torch.stack([*frame_axes(near.center_lat, near.center_lon), unit_vectors(near.center_lat, near.center_lon)], 1)
    caps = np.full(len(near), near.radius)
    cut = sizes < regions.sizes.cpu().numpy()
    if background == "fibonacci" and cut.any():
        caps[cut] = _reach(near)[cut]
    counts = [background_count(n, near.radius, background, background_ratio) for n in range(int(sizes.max(initial=0)) + 1)]
    work = _plain_edges
    offsets, numbers = segments.offsets.numpy(), segments.members.numpy()

    def one(rois: np.ndarray) -> tuple[np.ndarray, Edges]:
        n = sizes[rois[0]]
        own = members[numbers[offsets[rois][:, None] + np.arange(n)]]
        batch = Batch(rois, own, axes.numpy()[rois], caps[rois], counts[n])
        return rois, work(batch, k, near.radius, background, ties)

    # an ROI with so few points that somebody has no k-th neighbour is not scored and has no edges
    groups = [g for n in np.unique(sizes) if n + counts[n] >= k + 2 for g in _split(np.flatnonzero(sizes == n), n, counts[n])]
    threads = min(torch.get_num_threads(), len(groups))
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(one, groups))
    else:
        parts = [one(group) for group in groups]
    return _assemble(segments, np.array([counts[n] for n in sizes], dtype=np.int64), k, parts)


def _split(rois: np.ndarray, n: int, background: int) -> list[np.ndarray]:
    step = max(1, _BATCH // max(1, (n + background) * max(n, 1)))
    return [rois[start : start + step] for start in range(0, len(rois), step)]


def _reach(regions: Regions) -> np.ndarray:
    """Distance of the farthest member of every ROI."""
    sizes = regions.sizes
    roi = torch.repeat_interleave(torch.arange(len(regions)), sizes)
    point = regions.members.long()
    frame = LocalFrame(
        regions.center_lat[roi], regions.center_lon[roi], regions.lat[point], regions.lon[point], regions.radius
    )
    return torch.zeros(len(regions), dtype=torch.float64).scatter_reduce(0, roi, frame.distance, "amax").numpy()


def _assemble(segments: Segments, background: np.ndarray, k: int, parts: list[tuple[np.ndarray, Edges]]) -> Graph:
    offsets, num_members = segments.offsets.numpy(), len(segments.members)
    outside = np.zeros(num_members)
    between, s1, s2 = np.zeros((3, len(segments)))
    source, target, weight = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for rois, edges in parts:
        start = offsets[rois]
        source.append(start[edges.roi] + edges.source)
        target.append(start[edges.roi] + edges.target)
        weight.append(edges.weight)
        outside[start[:, None] + np.arange(edges.outside.shape[1])] = edges.outside
        between[rois], s1[rois], s2[rois] = edges.between, edges.s1, edges.s2
    background_tensor = torch.from_numpy(background)
    s0 = k * (segments.sizes + background_tensor).to(torch.float64)
    arrays = [np.concatenate(x) for x in (source, target, weight)] + [outside, between]
    return Graph(segments, background_tensor, *map(torch.from_numpy, arrays), s0, *map(torch.from_numpy, (s1, s2)))


# ---------------------------------------------------------------------- background points


def background_count(members: int, radius: float, background: str, ratio: float) -> int:
    """Number of background points of an ROI with so many members."""
    if background == "fibonacci" or ratio == 0 or members == 0:
        return round(ratio * members)
    return sum(math.ceil(2 * math.pi * ring) for ring in range(1, _rings(members, radius, ratio)[0] + 1))


def fibonacci_lattice(caps: np.ndarray, count: int) -> np.ndarray:
    r"""Fibonacci lattices on caps, (b, count, 3): local east, north, and up - 1 (so that small caps keep their digits).

    sin^2(theta_j / 2) = sin^2(cap / 2) (j + .5) / count, azimuth j pi (3 - sqrt 5).
    """
    azimuth = np.arange(count) * (math.pi * (3 - math.sqrt(5)))
    half_sine2 = np.sin(caps / 2)[:, None] ** 2 * ((np.arange(count) + 0.5) / max(count, 1))
    sine = 2 * np.sqrt(half_sine2 * (1 - half_sine2))
    return np.stack([sine * np.sin(azimuth), sine * np.cos(azimuth), -2 * half_sine2], axis=-1)


def _rings(members: int, radius: float, ratio: float) -> tuple[int, float]:
    """(number, spacing) of the published background rings."""
    spacing = 1 / math.sqrt(math.ceil(ratio * members / (math.pi * radius**2)))
    return math.ceil(radius / spacing), spacing


def _concentric(axes: np.ndarray, members: int, radius: float, ratio: float) -> np.ndarray:
    """The published rings around centres, (b, B, 3) unit vectors."""
    number, spacing = _rings(members, radius, ratio)
    rings = []
    for ring in range(1, number + 1):
        count = math.ceil(2 * math.pi * ring)
        turn = -math.pi + 2 * math.pi * np.arange(count) / count
        # by way of the latitude: the first points of rings 1 and 2 tie with the centre, and the published order of ties
        # is the rounding noise of this very expression
        latitude = math.pi / 2 - ring * spacing
        across = math.cos(latitude)
        rings.append(np.stack([across * np.cos(turn), across * np.sin(turn), np.full(count, math.sin(latitude))], axis=1))
    # the pole's x axis points south of the centre, its y axis east
    south_east_up = np.stack([-axes[:, 1], axes[:, 0], axes[:, 2]], axis=1)
    return np.concatenate(rings) @ south_east_up


# ---------------------------------------------------------------------- the plain way


def _plain_edges(batch: Batch, k: int, radius: float, background: str, ties: str) -> Edges:
    """Dense distances between all points of every ROI."""
    b, n, _ = batch.members.shape
    parts = [batch.members]
    if batch.background and background == "fibonacci":
        local = fibonacci_lattice(batch.caps, batch.background)
        parts.append(local @ batch.axes + batch.axes[:, None, 2])
    elif batch.background:
        parts.append(_concentric(batch.axes, n, radius, 5))
    points = np.concatenate(parts, axis=1)
    weights = np.stack([dense_weights(own, k, ties) for own in points])
    return edges_of_dense(weights, n)


def dense_weights(points: np.ndarray, k: int, ties: str) -> np.ndarray:
    """(T, T) neighbour weights of T unit vectors: 1 for the k nearest others, ties at the k-th distance as ``ties`` says."""
    chord2 = sum((points[:, None, axis] - points[None, :, axis]) ** 2 for axis in range(3))
    np.fill_diagonal(chord2, np.inf)
    if ties == "index":
        weights = np.zeros(chord2.shape)
        np.put_along_axis(weights, np.argsort(chord2, axis=1, kind="stable")[:, :k], 1.0, axis=1)
        return weights
    distance = 2 * np.arcsin(np.minimum(np.sqrt(chord2) / 2, 1))
    np.fill_diagonal(distance, np.inf)
    return shared_weights(distance, k)


def shared_weights(distance: np.ndarray, k: int) -> np.ndarray:
    """Weights (R, C) of rows of distances: 1 nearer than the k-th, those at it share what is left, so that rows sum to k."""
    edge = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    nearer = distance < edge - TIE
    tied = (distance <= edge + TIE) & ~nearer
    return nearer + tied * ((k - nearer.sum(axis=1)) / tied.sum(axis=1))[:, None]


def edges_of_dense(weights: np.ndarray, n: int) -> Edges:
    """Take (b, T, T) weights apart; the first n points of each are members."""
    roi, source, target = np.nonzero(weights[:, :n, :n])
    outside = weights[:, :n, n:].sum(axis=2) + weights[:, n:, :n].sum(axis=1)
    between = weights[:, n:, n:].sum(axis=(1, 2))
    symmetric = weights + weights.transpose(0, 2, 1)
    s1 = (symmetric**2).sum(axis=(1, 2)) / 2
    s2 = (symmetric.sum(axis=2) ** 2).sum(axis=1)
    return Edges(roi, source, target, weights[roi, source, target], outside, between, s1, s2)


EdgeBuilder = Callable[[Batch, int, float, str, str], Edges]
