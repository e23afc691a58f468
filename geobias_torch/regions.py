"""Regions of interest: who lies within a radius of whom, found once per set of coordinates."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from geobias_torch.convert import to_tensor
from geobias_torch.geometry import LocalFrame, check_arc, check_coordinates, warn_odd_coordinates
from geobias_torch.graphs import Graph, build_graph, check_max_members
from geobias_torch.partitions import SIZED, Partition
from geobias_torch.patches import Cells, Patches, fast_patches, plain_patches
from geobias_torch.search import Block, Points, Search
from geobias_torch.segments import Segments, scatter_rows

MAX_PAIRS = 1 << 29
"""(ROI, member) pairs that are listed at most: 2 GiB of member numbers."""

_BYTES_PER_PAIR = 32  # member number, sort keys and local coordinates while a block is worked on
_TIE = 1e-10  # radians (0.6 mm): distances this close are ties


class Regions:
    r"""Regions of interest over N points: for each of M centres the points within a radius.

    .. math:: N_m = \{ i : d(i, c_m) \le r \}

    with d the arc distance on the sphere. Members, patches and graphs depend on the coordinates only: they are found on
    first use and kept, so that the score of another performance vector touches no trigonometry.

    Use :meth:`from_points`, or :meth:`from_members` for ROIs that are known already.

    Attributes:
        lat, lon: (N,) float64, degrees, longitudes within [-180, 180).
        center_lat, center_lon: (M,) float64, degrees.
        radius: radians.

    Example:
        >>> from geobias_torch import Regions, km
        >>> regions = Regions.from_points(lat=[0.0, 0.0, 60.0], lon=[179.9, -179.9, 20.0], radius=km(100))
        >>> len(regions), regions.sizes.tolist(), regions.members.tolist()
        (3, [2, 2, 1], [0, 1, 0, 1, 2])

    References:
        GeoBS, Definition 3.5 (region of interest).
    """

    def __init__(
        self,
        points: tuple[Tensor, Tensor],
        centers: tuple[Tensor, Tensor],
        radius: float,
        *,
        search: Search | None = None,
        segments: Segments | None = None,
    ) -> None:
        self.lat, self.lon = points
        self.center_lat, self.center_lon = centers
        self.radius = radius
        self._search, self._segments = search, segments
        self._patches: dict[Any, Patches] = {}
        self._graphs: dict[Any, Graph] = {}
        self._fits: bool | None = None

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_points(
        cls,
        *,
        lat: Any,
        lon: Any,
        radius: float,
        center_index: Any = None,
        center_lat: Any = None,
        center_lon: Any = None,
        max_members: int | None = None,
    ) -> Regions:
        """Find the members of every ROI: exact radius search on the sphere.

        Args:
            lat: (N,) degrees within [-90, 90].
            lon: (N,) degrees; 190 and -170 are the same.
            radius: radians, in (0, pi]; :func:`~geobias_torch.km` converts. A bare number above 1 is refused.
            center_index: (M,) integers: points that are centres. Default: every point is one.
            center_lat: (M,) degrees: centres that need not be points; together with ``center_lon``.
            center_lon: (M,) degrees.
            max_members: keep only the nearest so many members of each ROI (ties at the cut are kept). Off by default.

        Returns:
            Regions with M centres over N points.

        Raises:
            ValueError: for coordinates that are not finite or out of range, shapes that differ, a radius out of range,
                centres given twice, and where the list of members would not fit into memory.

        Example:
            >>> from geobias_torch import Regions
            >>> Regions.from_points(lat=[0.0, 1.0], lon=[0.0, 0.0], radius=0.1, center_index=[1]).sizes.tolist()
            [2]
        """
        points = check_coordinates(lat, lon)
        warn_odd_coordinates(*points)
        regions = cls._of(
            points, cls._centers(points, center_index, center_lat, center_lon), check_arc("radius", radius)
        )
        if max_members is not None:
            return regions.nearest(max_members, warn=True)
        regions.check_memory()
        return regions.to(points[0].device)

    @staticmethod
    def _centers(points: tuple[Tensor, Tensor], index: Any, lat: Any, lon: Any) -> tuple[Tensor, Tensor]:
        if (lat is None) != (lon is None):
            raise ValueError("Expected `center_lat` and `center_lon` together, but got only one of them.")
        if index is not None and lat is not None:
            raise ValueError("Expected either `center_index` or `center_lat` and `center_lon`, but got both.")
        if lat is not None:
            return check_coordinates(lat, lon, ("center_lat", "center_lon"))
        if index is None:
            return points
        index = check_index("center_index", index, len(points[0])).to(points[0].device)
        return points[0][index], points[1][index]

    @classmethod
    def _of(cls, points: tuple[Tensor, Tensor], centers: tuple[Tensor, Tensor], radius: float) -> Regions:
        """Regions that search their members when somebody asks for them; on the CPU."""
        points, centers = ((p[0].cpu(), p[1].cpu()) for p in (points, centers))
        own = Points.of(*points)
        same = all(torch.equal(p, c) for p, c in zip(points, centers, strict=True))
        return cls(points, centers, radius, search=Search(own if same else Points.of(*centers), own, radius))

    @classmethod
    def from_members(
        cls, *, lat: Any, lon: Any, center_lat: Any, center_lon: Any, radius: float, offsets: Any, members: Any
    ) -> Regions:
        """Regions whose members are known, for example the ROIs sampled into a training batch.

        Args:
            lat: (N,) degrees.
            lon: (N,) degrees.
            center_lat: (M,) degrees.
            center_lon: (M,) degrees.
            radius: radians; members further away are put into the outermost ring, square or box.
            offsets: (M + 1,) integers: ROI m holds ``members[offsets[m]:offsets[m + 1]]``.
            members: (P,) integers: row numbers of points.

        Returns:
            Regions with M centres over N points, on the device of ``lat``.

        Raises:
            ValueError: if the shapes, the offsets or the row numbers do not fit together.

        Example:
            >>> from geobias_torch import Regions
            >>> Regions.from_members(lat=[0.0, 1.0, 2.0], lon=[0.0, 0.0, 0.0], center_lat=[0.0], center_lon=[0.0],
            ...                      radius=0.1, offsets=[0, 2], members=[0, 2]).sizes.tolist()
            [2]
        """
        points, centers = (
            check_coordinates(lat, lon),
            check_coordinates(center_lat, center_lon, ("center_lat", "center_lon")),
        )
        device = points[0].device
        offsets = to_tensor("offsets", offsets).to(device, torch.int64)
        members = check_index("members", members, len(points[0])).to(device=device, dtype=torch.int32)
        if offsets.shape != (len(centers[0]) + 1,):
            expected = len(centers[0]) + 1
            raise ValueError(f"Expected `offsets` of shape ({expected},), but got shape {tuple(offsets.shape)}.")
        if int(offsets[0]) != 0 or int(offsets[-1]) != len(members) or bool((offsets.diff() < 0).any()):
            raise ValueError(f"Expected `offsets` to ascend from 0 to the number of members, {len(members)}.")
        segments = Segments(offsets, members, len(points[0]))
        centers = (centers[0].to(device), centers[1].to(device))
        return cls(points, centers, check_arc("radius", radius), segments=segments)

    @classmethod
    def lazily(cls, lat: Tensor, lon: Tensor, radius: float) -> Regions:
        """Every point's ROI, of checked coordinates, however many pairs that are: see :meth:`fits`."""
        return cls._of((lat, lon), (lat, lon), radius)

    def fits(self) -> bool:
        """Whether all pairs can be held at once; if not, take :meth:`neighbourhoods`."""
        if self._fits is None:
            self._fits = self._search is None or int(self._search.bounds()[1].sum()) <= MAX_PAIRS
        return self._fits

    def neighbourhoods(self) -> Iterator[tuple[Tensor, Regions]]:
        """(which, ROIs) of all ROIs in compact groups, as many at a time as keep memory bounded."""
        assert self._search is not None
        tiles = self._search.center_tiles
        pairs = torch.from_numpy(self._search.bounds()[1][tiles.order]).cumsum(0)
        start = 0
        while start < len(self):
            before = int(pairs[start - 1]) if start else 0
            stop = max(start + 1, int(torch.searchsorted(pairs, before + MAX_PAIRS // 8, right=True)))
            which = torch.from_numpy(tiles.order[start:stop])
            yield which, self[which]
            start = stop

    def check_memory(self) -> None:
        """Refuse, before anything is allocated, to list more pairs than fit into memory."""
        if self._search is None:
            return
        low, high = (int(bound.sum()) for bound in self._search.bounds())
        if low <= MAX_PAIRS < high:
            low = int(sum(self._search.walk(lambda block: len(block.place))))
        if low > MAX_PAIRS:
            raise ValueError(
                f"Expected ROIs of at most {MAX_PAIRS:,} (ROI, member) pairs in all, but {len(self):,} ROIs of radius "
                f"{self.radius:g} rad hold at least {low:,}: take a smaller `radius`, keep the nearest with "
                "`max_members`, or score fewer centres with `center_index`."
            )

    # ------------------------------------------------------------------ members

    def __len__(self) -> int:
        return len(self.center_lat)

    def __repr__(self) -> str:
        return f"Regions({len(self)} ROIs of radius {self.radius:.6g} rad over {self.num_points} points)"

    @property
    def num_points(self) -> int:
        """Number of points, N."""
        return len(self.lat)

    @property
    def segments(self) -> Segments:
        """The members, ROI by ROI."""
        if self._segments is None:
            assert self._search is not None
            parts = self._search.walk(_list_block)
            self._segments = _assemble(parts, len(self), self.num_points)
        return self._segments

    @property
    def offsets(self) -> Tensor:
        """(M + 1,) int64: ROI m holds ``members[offsets[m]:offsets[m + 1]]``."""
        return self.segments.offsets

    @property
    def members(self) -> Tensor:
        """(P,) int32: row numbers of the members, ROI by ROI; ascending within an ROI found by search."""
        return self.segments.members

    @cached_property
    def sizes(self) -> Tensor:
        """(M,) int64: number of members of each ROI."""
        cells = self._some_cells()
        if cells is None:
            return self.segments.sizes
        return cells.roi_sizes

    def _some_cells(self) -> Cells | None:
        """Cells that a partition made: they hold the members too, so that the list of members need not be made."""
        if not self._patches:
            return None
        return next(iter(self._patches.values())).cells

    def sum(self, values: Tensor) -> Tensor:
        """Sum point values (N,) or (N, R) over every ROI: (M,) or (M, R), differentiable in ``values``."""
        cells = self._some_cells()
        if cells is None:
            return self.segments.sum(values)
        return scatter_rows(len(self), cells.roi, cells.segments.sum(values))

    def constant(self, values: Tensor) -> Tensor:
        """Whether all members of an ROI have the same of the values (N,), (M,) bool."""
        distinct, which = torch.unique(values, return_inverse=True)
        if len(distinct) <= 2:
            upper = self.sum(which.to(torch.float32))
            return (upper == 0) | (upper == self.sizes)
        low, high = self.segments.extremes(which.to(torch.float64))
        return low >= high

    def nearest(self, max_members: int | None, warn: bool = False) -> Regions:
        """The same centres with only the nearest ``max_members`` members of each; ties at the cut are kept.

        Args:
            max_members: at least 1; ``None`` keeps everybody.
            warn: warn with the number of ROIs that were cut.

        Returns:
            Regions with listed members.

        Raises:
            ValueError: if ``max_members`` is below 1, or ties alone exceed the memory.
        """
        if max_members is None:
            return self
        check_max_members(max_members)
        if self._search is None:
            segments, cut = self._nearest_listed(max_members)
        else:
            self._check_ties(max_members)
            segments, cut = self._nearest_searched(max_members)
        if warn and cut:
            warnings.warn(f"{cut} of {len(self)} ROIs were cut to their {max_members} nearest members.", stacklevel=3)
        return Regions((self.lat, self.lon), (self.center_lat, self.center_lon), self.radius, segments=segments)

    def _check_ties(self, max_members: int) -> None:
        """Refuse to list more coincident members than fit into memory; they tie, so that no cut parts them."""
        where, counts = torch.unique(torch.stack([self.lat, self.lon]), dim=1, return_counts=True)
        crowded = counts > max_members
        if not crowded.any() or int(counts[crowded].max()) * len(self) <= MAX_PAIRS:
            return
        crowd = dict(zip(map(tuple, where[:, crowded].T.tolist()), counts[crowded].tolist(), strict=True))
        centers = zip(self.center_lat.tolist(), self.center_lon.tolist(), strict=True)
        self._refuse_ties(sum(crowd.get(center, 0) for center in centers), max_members)

    def _refuse_ties(self, listed: int, max_members: int) -> None:
        if listed > MAX_PAIRS:
            raise ValueError(
                f"Expected ROIs of at most {MAX_PAIRS:,} (ROI, member) pairs in all, but points at equal distances, "
                f"which `max_members` = {max_members} does not part, make at least {listed:,}: take a smaller "
                "`radius`, score fewer centres with `center_index`, or merge coincident points."
            )

    def _nearest_searched(self, max_members: int) -> tuple[Segments, int]:
        listed = 0

        def work(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
            nonlocal listed
            cut = block.counts > max_members
            counts, members = block.counts, block.members()
            if cut.any():
                distance = block.frame.distance
                edge = np.full(len(counts), np.inf)
                table = block.table(distance, np.inf)[cut]
                edge[cut] = np.partition(table, max_members - 1, axis=1)[:, max_members - 1] + _TIE
                keep = distance <= np.repeat(edge, counts)
                starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
                counts = np.where(counts > 0, np.add.reduceat(keep, np.minimum(starts, len(keep) - 1)), 0)
                members = members[keep]
            listed += len(members)
            self._refuse_ties(listed, max_members)
            return block.rows, counts, members, int((counts < block.counts).sum())

        parts = self._search.walk(work)  # type: ignore[union-attr]
        return _assemble([part[:3] for part in parts], len(self), self.num_points), sum(part[3] for part in parts)

    def _nearest_listed(self, max_members: int) -> tuple[Segments, int]:
        offsets, sizes = self.segments.offsets, self.segments.sizes
        roi = torch.repeat_interleave(torch.arange(len(self), device=sizes.device), sizes)
        point = self.members.long()
        center_lat, center_lon = self.center_lat[roi], self.center_lon[roi]
        distance = LocalFrame(center_lat, center_lon, self.lat[point], self.lon[point], self.radius).distance
        order = torch.argsort(distance, stable=True)
        order = order[torch.argsort(roi[order], stable=True)]
        last = offsets[:-1] + sizes.clamp(min=1, max=max_members) - 1
        edge = distance[order[last.clamp(max=max(len(order) - 1, 0))]] if len(order) else distance.new_zeros(len(self))
        keep = distance <= edge[roi] + _TIE
        counts = torch.zeros_like(sizes).index_add_(0, roi[keep], torch.ones_like(roi[keep]))
        kept = Segments(torch.nn.functional.pad(counts.cumsum(0), (1, 0)), self.members[keep], self.num_points)
        return kept, int((counts < sizes).sum())

    # ------------------------------------------------------------------ what is built from them

    def build(self, partitions: Iterable[Partition]) -> list[Patches]:
        """Patches of several partitions; those that do not exist yet are made in one walk over the pairs."""
        partitions = list(partitions)
        for partition in partitions:
            if not callable(partition):
                got = type(partition).__name__
                raise TypeError(f"Expected `partition` to be a partition or a callable, but got {got}.")
        missing = [p for p in dict.fromkeys(partitions) if p not in self._patches]
        fast = [p for p in missing if isinstance(p, SIZED)] if self._search is not None else []
        if fast:
            self._patches.update(zip(fast, fast_patches(self, fast), strict=True))
        for partition in missing:
            if partition not in self._patches:
                self._patches[partition] = plain_patches(self, partition)
        return [self._patches[p] for p in partitions]

    def patches(self, partition: Partition) -> Patches:
        """The non-empty patches of every ROI; made on first use and kept by the value of ``partition``.

        Args:
            partition: :class:`DistanceLag`, :class:`DirectionSector`, :class:`ScaleGrid`, or a callable that takes a
                :class:`~geobias_torch.geometry.LocalFrame` of pairs and returns integer patch ids >= -1 (-1: in no
                patch).

        Returns:
            Patches of all ROIs.

        Raises:
            TypeError: if ``partition`` is not callable.
            ValueError: if its width is above the radius, or it returns something else than patch ids.

        Example:
            >>> from geobias_torch import DirectionSector, Regions
            >>> regions = Regions.from_points(lat=[0.0, 1.0, -1.0], lon=[0.0, 0.0, 0.0], radius=0.02)
            >>> regions.patches(DirectionSector(4)).ids.tolist()
            [0, 2, 2, 0]
        """
        return self.build([partition])[0]

    def graph(
        self,
        *,
        k: int = 4,
        background: Literal["fibonacci", "concentric"] = "fibonacci",
        background_ratio: float = 5,
        max_members: int | None = 100,
        ties: Literal["share", "index"] = "share",
    ) -> Graph:
        """The neighbour graph of every ROI's members and background points; made on first use and kept by value.

        See :func:`~geobias_torch.functional.spatial_self_information` for the arguments.
        """
        key = (k, background, background_ratio, max_members, ties)
        if key not in self._graphs:
            distinct, which = self._distinct()
            self._graphs[key] = build_graph(distinct, *key).of(which).to(self.lat.device)
        return self._graphs[key]

    def _distinct(self) -> tuple[Regions, Tensor]:
        """The ROIs around distinct centres, and (M,) which of them each ROI is: one centre finds the same members."""
        if self._search is not None:
            centers = torch.stack([self.center_lat, self.center_lon])
            where, which = torch.unique(centers, dim=1, return_inverse=True)
            if where.shape[1] < len(self):
                chosen, points = (where[0].contiguous(), where[1].contiguous()), self._search.points
                search = Search(Points.of(*chosen), points, self.radius, self._search.point_tiles)
                return Regions((self.lat, self.lon), chosen, self.radius, search=search), which
        return self, torch.arange(len(self), device=self.lat.device)

    # ------------------------------------------------------------------ subsets and devices

    def __getitem__(self, centers: Any) -> Regions:
        """The ROIs of some centres (slice, integer, or index tensor) over the same points."""
        if isinstance(centers, slice):
            index = torch.arange(len(self))[centers]
        else:
            index = to_tensor("centres", centers)
            if index.dtype == torch.bool and index.shape == (len(self),):
                index = index.nonzero()[:, 0]
            if index.ndim == 0:
                index = index[None]
            index = check_index("centres", index, len(self), negative=True)
        index = index.to(self.lat.device)
        points, chosen = (self.lat, self.lon), (self.center_lat[index], self.center_lon[index])
        if self._segments is None:
            search = self._search
            assert search is not None
            return Regions(
                points,
                chosen,
                self.radius,
                search=Search(Points.of(*chosen), search.points, self.radius, search.point_tiles),
            )
        sizes = self.sizes[index]
        starts = self.offsets[:-1][index]
        offsets = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
        pairs = torch.arange(int(offsets[-1]), device=index.device) + (starts - offsets[:-1]).repeat_interleave(sizes)
        return Regions(points, chosen, self.radius, segments=Segments(offsets, self.members[pairs], self.num_points))

    def blocks(self, max_bytes: int) -> Iterator[Regions]:
        """The ROIs in order, as many at a time as keep the memory of their pairs within ``max_bytes`` (at least one).

        Args:
            max_bytes: bytes for the members, patches and intermediate tables of a block.

        Yields:
            Regions over the same points.

        Raises:
            ValueError: if ``max_bytes`` is not positive.

        Example:
            >>> import torch
            >>> from geobias_torch import Regions
            >>> regions = Regions.from_points(lat=torch.linspace(0, 1, 100), lon=torch.zeros(100), radius=0.01)
            >>> [len(block) for block in regions.blocks(max_bytes=100_000)]
            [...]
        """
        if max_bytes <= 0:
            raise ValueError(f"Expected `max_bytes` > 0, but got {max_bytes}.")
        pairs = self.sizes.cpu() if self._segments is not None else torch.from_numpy(self._search.bounds()[1])  # type: ignore[union-attr]
        reached = (pairs * _BYTES_PER_PAIR).cumsum(0)
        start = 0
        while start < len(self):
            before = int(reached[start - 1]) if start else 0
            stop = max(start + 1, int(torch.searchsorted(reached, before + max_bytes, right=True)))
            yield self[start:stop]
            start = stop

    def to(self, device: torch.device | str) -> Regions:
        """Copy to a device, with everything that was built; the same object where it is there already."""
        device = torch.empty(0, device=device).device  # "cuda" is a particular device by now
        if self.lat.device == device:
            return self
        moved = Regions(
            (self.lat.to(device), self.lon.to(device)),
            (self.center_lat.to(device), self.center_lon.to(device)),
            self.radius,
            segments=self.segments.to(device),
        )
        shared = {id(p.cells): p.cells.to(device) for p in self._patches.values()}
        moved._patches = {key: p.to(device, shared[id(p.cells)]) for key, p in self._patches.items()}
        moved._graphs = {key: graph.to(device) for key, graph in self._graphs.items()}
        return moved


def check_index(name: str, index: Any, bound: int, negative: bool = False) -> Tensor:
    """Check a vector of row numbers; negative ones count from the end where ``negative``."""
    index = to_tensor(name, index)
    whole = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
    if index.numel() and not (whole and index.ndim == 1):
        raise ValueError(f"Expected `{name}` to be a vector of integers, but got {index.dtype}, {tuple(index.shape)}.")
    index = index.reshape(-1).to(torch.int64)
    low = -bound if negative else 0
    outside = (index < low) | (index >= bound)
    if outside.any():
        position = int(outside.nonzero()[0])
        raise ValueError(
            f"Expected `{name}` within [{low}, {bound - 1}], but got {int(index[position])} at position {position}."
        )
    return torch.where(index < 0, index + bound, index)


def _list_block(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return block.rows, block.counts, block.members()


def _assemble(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], num_regions: int, num_points: int) -> Segments:
    """Put the members found tile by tile into the order of the centres."""
    sizes = np.zeros(num_regions, dtype=np.int64)
    for rows, counts, _ in parts:
        sizes[rows] = counts
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    members = np.empty(offsets[-1], dtype=np.int32)
    for rows, counts, found in parts:
        start = 0
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            members[offsets[row] : offsets[row] + count] = found[start : start + count]
            start += count
    return Segments(torch.from_numpy(offsets), torch.from_numpy(members), num_points)
