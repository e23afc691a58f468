"""Who neighbours whom among the members of an ROI and the background points around them (for SSI)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from geobias_torch import lattice
from geobias_torch.geometry import LocalFrame, distinct_points, frame_axes, unit_vectors
from geobias_torch.lattice import Batch, Edges
from geobias_torch.segments import Segments, labels
from geobias_torch.threads import spread

if TYPE_CHECKING:
    from geobias_torch.regions import Regions

_MAX_TIES_OF_ROI = 1 << 18  # edges between coincident members of an ROI: some 500 of them in one place
_MAX_TIES = 1 << 25  # and of all ROIs: half a GiB
_MAX_DENSE = 8192  # points of an ROI between which all distances are held
_BATCH = 1 << 22  # (member, point) pairs of the ROIs that a thread takes at once


@dataclass(frozen=True)
class Graph:
    r"""Neighbour weights of every ROI, kept as what a quadratic form of the members' values needs.

    Background points all have the same value, so that of their edges only sums are kept.

    Attributes:
        segments: the members that take part, ROI by ROI (P').
        background: (M,) int64, number of background points of every ROI.
        source, target: (E,) int32, edges between members, as positions in ``segments.members``.
        weight: (E,) float64.
        outside: (P',) float64: weight of the edges between a member and the background, both directions.
        between: (M,) float64: weight of the edges among background points.
        s0, s1, s2: (M,) float64: sums of the weights that the permutation moments need.
        which: for every ROI asked for, which of the M it is; ROIs around the same centre share one.
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
    which: Tensor

    def of(self, which: Tensor) -> Graph:
        """The graph of ROIs that are, one by one, those that this one was built for."""
        return replace(self, which=which)

    @property
    def roi(self) -> Tensor:
        """(P',) int64: the ROI of every member."""
        sizes = self.segments.sizes
        return labels(sizes)

    def to(self, device: torch.device | str) -> Graph:
        """Copy to a device."""
        tensors = {k: v.to(device) for k, v in vars(self).items() if k != "segments"}
        return Graph(self.segments.to(device), **tensors)


def check_max_members(max_members: int | None) -> None:
    """Check a number of members to keep; ``None`` keeps all."""
    if max_members is None:
        return
    if isinstance(max_members, bool) or not isinstance(max_members, (int, np.integer)) or max_members < 1:
        raise ValueError(f"Expected `max_members` to be an integer >= 1 or None, but got {max_members!r}.")


def check_graph_options(k: int, background: str, background_ratio: float, ties: str) -> None:
    """Check the arguments of ``Regions.graph``."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"Expected `k` to be an integer >= 1, but got {k!r}.")
    for name, value, choices in (
        ("background", background, ("fibonacci", "concentric")),
        ("ties", ties, ("share", "index")),
    ):
        if value not in choices:
            raise ValueError(f"Expected `{name}` to be one of {choices}, but got {value!r}.")
    if not 0 <= background_ratio < math.inf:
        raise ValueError(f"Expected `background_ratio` >= 0, but got {background_ratio}.")


def build_graph(
    regions: Regions, k: int, background: str, background_ratio: float, max_members: int | None, ties: str
) -> Graph:
    """Build the graphs of all ROIs; arguments as in ``Regions.graph``."""
    check_graph_options(k, background, background_ratio, ties)
    near, was_cut = regions.cut_to(max_members)
    near, cut = near.to("cpu"), was_cut.cpu().numpy()
    segments = near.segments
    sizes, offsets, numbers = segments.sizes.numpy(), segments.offsets.numpy(), segments.members.numpy()
    crowded = _crowded(near, k)
    members = unit_vectors(near.lat, near.lon).numpy()
    axes = torch.stack(
        [*frame_axes(near.center_lat, near.center_lon), unit_vectors(near.center_lat, near.center_lon)], 1
    )
    caps = np.full(len(near), float(near.radius))
    if cut.any():
        caps[cut] = _reach(near)[cut]
    counts = np.array(
        [background_count(n, near.radius, background, background_ratio) for n in range(sizes.max(initial=0) + 1)]
    )

    def work(rois: np.ndarray) -> tuple[np.ndarray, Edges]:
        edges = edges_of(rois)
        # a third of the memory: positions among all members, in 32 bits, instead of a place and an ROI in 64
        source, target = ((offsets[rois][edges.roi] + x).astype(np.int32) for x in (edges.source, edges.target))
        return rois, edges._replace(roi=rois[:0], source=source, target=target)

    def edges_of(rois: np.ndarray) -> Edges:
        n = sizes[rois[0]]
        batch = Batch(members[numbers[offsets[rois][:, None] + np.arange(n)]], axes.numpy()[rois], caps[rois])
        smallest = classes[rois[0]]
        if smallest and ties == "share" and background == "fibonacci":
            return lattice.edges(batch, int(counts[n]), k, min(near.radius, lattice.LARGEST), smallest)
        if background == "fibonacci":
            around = lattice.points(batch.caps, counts[n]) @ batch.axes + batch.axes[:, None, 2]
        else:
            around = _concentric(batch.axes, n, near.radius, background_ratio)
        return plain_edges(np.concatenate([batch.members, around], axis=1), n, k, ties)

    # an ROI with so few points that somebody has no k-th neighbour is not scored and has no edges
    groups, classes = [], lattice.size_classes(caps)
    for n in np.unique(sizes):
        if n + counts[n] >= max(k + 2, 4):
            # where all points coincide nobody is nearer than anybody: no pattern, no edges
            apart = (sizes == n) & (caps > lattice.TIE / 2) & ~crowded
            for size in np.unique(classes[apart]):
                groups += _split(np.flatnonzero(apart & (classes == size)), n, counts[n])
    return _assemble(segments, counts[sizes].astype(np.int64), k, spread(work, groups, most=len(groups)))


def _crowded(regions: Regions, k: int) -> np.ndarray:
    """ROIs (M,) bool with more ties than can be held: coincident members are all each other's neighbours."""
    _, place, counts = distinct_points(regions.lat, regions.lon)
    others = torch.where(counts > k + 1, counts - 1, 0)[place].to(torch.float64)
    ties = regions.segments.sum(others).numpy()
    order = np.argsort(ties, kind="stable")
    crowded = ties > _MAX_TIES_OF_ROI
    crowded[order[np.cumsum(ties[order]) > _MAX_TIES]] = True
    if crowded.any():
        warnings.warn(
            f"{crowded.sum():,} of {len(ties):,} ROIs are not scored by SSI: their coincident members make up to "
            f"{int(ties.max()):,} ties in an ROI.",
            stacklevel=2,
        )
    return crowded


def _split(rois: np.ndarray, n: int, background: int) -> list[np.ndarray]:
    step = max(1, _BATCH // max(1, (n + background) * max(n, 1)))
    return [rois[start : start + step] for start in range(0, len(rois), step)]


def _reach(regions: Regions) -> np.ndarray:
    """Distance of the farthest member of every ROI."""
    sizes = regions.sizes
    roi = labels(sizes)
    point = regions.members.long()
    frame = LocalFrame(
        regions.center_lat[roi], regions.center_lon[roi], regions.lat[point], regions.lon[point], regions.radius
    )
    return torch.zeros(len(regions), dtype=torch.float64).scatter_reduce(0, roi, frame.distance, "amax").numpy()


def _assemble(segments: Segments, background: np.ndarray, k: int, parts: Iterable[tuple[np.ndarray, Edges]]) -> Graph:
    offsets, num_members = segments.offsets.numpy(), len(segments.members)
    outside = np.zeros(num_members)
    between, s1, s2 = np.zeros((3, len(segments)))
    source, target, weight = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)], [np.zeros(0)]
    for rois, edges in parts:
        source.append(edges.source)
        target.append(edges.target)
        weight.append(edges.weight)
        outside[offsets[rois][:, None] + np.arange(edges.outside.shape[1])] = edges.outside
        between[rois], s1[rois], s2[rois] = edges.between, edges.s1, edges.s2
    background_tensor = torch.from_numpy(background)
    # no edges, no weights: the variance of the score is 0 there and it is not scored
    s0 = k * (segments.sizes + background_tensor).to(torch.float64) * torch.from_numpy(s2 > 0)
    as_tensor = torch.from_numpy
    return Graph(
        segments,
        background_tensor,
        source=as_tensor(np.concatenate(source)),
        target=as_tensor(np.concatenate(target)),
        weight=as_tensor(np.concatenate(weight)),
        outside=as_tensor(outside),
        between=as_tensor(between),
        s0=s0,
        s1=as_tensor(s1),
        s2=as_tensor(s2),
        which=torch.arange(len(segments)),
    )


# ---------------------------------------------------------------------- background points


def background_count(members: int, radius: float, background: str, ratio: float) -> int:
    """Number of background points of an ROI with so many members."""
    if background == "fibonacci" or ratio == 0 or members == 0:
        return round(ratio * members)
    return sum(math.ceil(2 * math.pi * ring) for ring in range(1, _rings(members, radius, ratio)[0] + 1))


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
        rings.append(
            np.stack([across * np.cos(turn), across * np.sin(turn), np.full(count, math.sin(latitude))], axis=1)
        )
    # the pole's x axis points south of the centre, its y axis east
    south_east_up = np.stack([-axes[:, 1], axes[:, 0], axes[:, 2]], axis=1)
    return np.concatenate(rings) @ south_east_up


# ---------------------------------------------------------------------- the plain way


def plain_edges(points: np.ndarray, n: int, k: int, ties: str) -> Edges:
    """Edges from dense distances between all points (b, T, 3) of every ROI, the first n of them members."""
    if points.shape[1] > _MAX_DENSE:
        raise ValueError(
            f"Expected ROIs of at most {_MAX_DENSE:,} members and background points together where `ties`, "
            "`background` or a radius above 1 rad ask for all distances, "
            f"but got {points.shape[1]:,}: give `max_members`."
        )
    return edges_of_dense(np.stack([dense_weights(own, k, ties) for own in points]), n)


def dense_weights(points: np.ndarray, k: int, ties: str) -> np.ndarray:
    """(T, T) weights of T unit vectors: 1 for the k nearest others, ties at the k-th distance as ``ties`` says."""
    chord2 = sum((points[:, None, axis] - points[None, :, axis]) ** 2 for axis in range(3))
    np.fill_diagonal(chord2, np.inf)
    if ties == "index":
        weights = np.zeros(chord2.shape)
        np.put_along_axis(weights, np.argsort(chord2, axis=1, kind="stable")[:, :k], 1.0, axis=1)
        return weights
    distance = 2 * np.arcsin(np.minimum(np.sqrt(chord2) / 2, 1))
    np.fill_diagonal(distance, np.inf)
    return lattice.shared_weights(distance, k)


def edges_of_dense(weights: np.ndarray, n: int) -> Edges:
    """Take (b, T, T) weights apart; the first n points of each are members."""
    roi, source, target = np.nonzero(weights[:, :n, :n])
    outside = weights[:, :n, n:].sum(axis=2) + weights[:, n:, :n].sum(axis=1)
    between = weights[:, n:, n:].sum(axis=(1, 2))
    symmetric = weights + weights.transpose(0, 2, 1)
    s1 = (symmetric**2).sum(axis=(1, 2)) / 2
    s2 = (symmetric.sum(axis=2) ** 2).sum(axis=1)
    return Edges(roi, source, target, weights[roi, source, target], outside, between, s1, s2)
