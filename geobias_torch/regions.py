"""Regions of interest: who lies within a radius of whom, found once per set of coordinates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from geobias_torch.convert import as_index, check_index, to_tensor
from geobias_torch.geometry import check_arc, check_coordinates, distinct_points, warn_odd_coordinates
from geobias_torch.graphs import Graph, build_graph, check_max_members
from geobias_torch.members import MAX_PAIRS, list_members, nearest_listed, nearest_searched
from geobias_torch.partitions import SIZED, Partition
from geobias_torch.parts import SideBySide, Whole
from geobias_torch.patches import Cells, Patches, fast_patches, plain_patches
from geobias_torch.search import Points, Search
from geobias_torch.segments import Segments, scatter_rows

_BYTES_PER_PAIR = 32  # member number, sort keys and local coordinates while a block is worked on


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
        later: Callable[[], Segments] | None = None,
    ) -> None:
        self.lat, self.lon = points
        self.center_lat, self.center_lon = centers
        self.radius = radius
        self._search, self._segments, self._later = search, segments, later
        self._patches: dict[Any, Patches] = {}
        self._joined: dict[tuple[Any, ...], SideBySide] = {}
        self._whole: Whole | None = None
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
            search = self._search
            self._fits = search is None or search.at_most() <= MAX_PAIRS or int(search.bounds()[1].sum()) <= MAX_PAIRS
        return self._fits

    def neighbourhoods(self) -> Iterator[tuple[Tensor, Regions]]:
        """(which, ROIs) of all ROIs in compact groups, as many at a time as keep memory bounded."""
        assert self._search is not None
        tiles = self._search.center_tiles
        pairs = torch.from_numpy(self._search.bounds()[1][tiles.order])
        for start, stop in _stretches(pairs, MAX_PAIRS // 8):
            which = torch.from_numpy(tiles.order[start:stop])
            yield which, self[which]

    def check_memory(self) -> None:
        """Refuse, before anything is allocated, to list more pairs than fit into memory."""
        if self._search is None or self._search.at_most() <= MAX_PAIRS:
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
            if self._later is not None:
                self._segments, self._later = self._later(), None
            else:
                assert self._search is not None
                self._segments = list_members(self._search)
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
    @torch.inference_mode(False)
    def distinct(self) -> tuple[Regions, Tensor]:
        """The ROIs around distinct centres, and (M,) which of them each ROI is: one centre finds the same members.

        Photos taken at one place, or predictions for one city, are worked out once. ROIs that were subset or given by
        their members are taken as they are.
        """
        if self._search is not None and self._whole is None:
            first, which, _ = distinct_points(self.center_lat, self.center_lon)
            if len(first) < len(self):
                chosen, points = (self.center_lat[first], self.center_lon[first]), self._search.points
                search = Search(Points.of(*chosen), points, self.radius, self._search.point_tiles)
                fewer = Regions((self.lat, self.lon), chosen, self.radius, search=search)
                self._whole = Whole(fewer, which=which, complete=True)
        if self._whole is not None and self._whole.complete:
            assert self._whole.which is not None
            return self._whole.regions, self._whole.which
        return self, torch.arange(len(self), device=self.lat.device)

    @cached_property
    @torch.inference_mode(False)  # what is kept may be part of a graph later
    def sizes(self) -> Tensor:
        """(M,) int64: number of members of each ROI."""
        whole = self._whole
        if whole is not None and whole.which is not None and (whole.complete or "sizes" in vars(whole.regions)):
            return whole.regions.sizes[whole.which]
        for joined in map(self._known_joined, self.joined):
            if joined is not None:
                return torch.from_numpy(np.diff(joined.offsets[:, 0]))
        cells = self._some_cells()
        return self.segments.sizes if cells is None else cells.roi_sizes

    def _some_cells(self) -> Cells | None:
        """Cells that a partition made: they hold the members too, so that the list of members need not be made."""
        for patches in map(self._known, self.partitions):
            if patches is not None:
                return patches.cells
        return None

    def sum(self, values: Tensor) -> Tensor:
        """Sum point values (N,) or (N, R) over every ROI: (M,) or (M, R), differentiable in ``values``."""
        distinct, which = self.distinct
        if distinct is not self:
            return distinct.sum(values)[which]
        cells = self._some_cells()
        if cells is None:
            return self.segments.sum(values)
        return scatter_rows(len(self), cells.roi, cells.segments.sum(values))

    def constant(self, values: Tensor) -> Tensor:
        """Whether all members of an ROI have the same of the values (N,), (M,) bool."""
        fewer, of_fewer = self.distinct
        if fewer is not self:
            return fewer.constant(values)[of_fewer]
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
        near, cut = self.cut_to(max_members)
        if warn and cut.any():
            warnings.warn(
                f"{int(cut.sum())} of {len(self)} ROIs were cut to their {max_members} nearest members.", stacklevel=3
            )
        return near

    def cut_to(self, max_members: int | None) -> tuple[Regions, Tensor]:
        """The same as :meth:`nearest`, and (M,) bool: which ROIs lost members."""
        if max_members is None:
            return self, torch.zeros(len(self), dtype=torch.bool)
        check_max_members(max_members)
        segments, cut = (nearest_listed if self._search is None else nearest_searched)(self, max_members)
        return Regions((self.lat, self.lon), (self.center_lat, self.center_lon), self.radius, segments=segments), cut

    # ------------------------------------------------------------------ what is built from them

    @torch.inference_mode(False)
    def build(self, partitions: Iterable[Partition]) -> None:
        """Make the patches of several partitions, those that do not exist yet in one walk over the pairs."""
        partitions = list(partitions)
        for partition in partitions:
            if not callable(partition):
                got = type(partition).__name__
                raise TypeError(f"Expected `partition` to be a partition or a callable, but got {got}.")
        known = self.partitions
        missing = [partition for partition in dict.fromkeys(partitions) if partition not in known]
        distinct, _ = self.distinct
        if missing and distinct is not self:
            distinct.build(missing)
            return
        fast = [p for p in missing if isinstance(p, SIZED)] if self._search is not None else []
        if fast:
            self._patches.update(zip(fast, fast_patches(self, fast), strict=True))
        for partition in missing:
            if partition not in self._patches:
                self._patches[partition] = plain_patches(self, partition)

    def patches_of(self, partitions: Iterable[Partition]) -> list[Patches]:
        """The patches of several partitions; see :meth:`patches`."""
        partitions = list(partitions)
        self.build(partitions)
        found = map(self._known, partitions)
        return [patches for patches in found if patches is not None]

    @property
    def partitions(self) -> list[Partition]:
        """The partitions whose patches exist."""
        of_whole = self._whole.regions.partitions if self._whole is not None else []
        return list(dict.fromkeys([*self._patches, *of_whole]))

    def side_by_side(self, partitions: Sequence[Partition]) -> SideBySide | None:
        """The patches of several partitions in one table, kept by their values.

        None if they have no common cells, and where they are not on the CPU.
        """
        key = tuple(partitions)
        if self._known_joined(key) is None:
            parts = self.patches_of(key)
            if self.lat.is_cuda or any(part.cells is not parts[0].cells for part in parts):
                return None
            self._joined[key] = SideBySide.join(parts)
        return self._joined[key]

    def learn_from(self, part: Regions) -> None:
        """Find for all ROIs what was found for some of them, so that other parts need only take it."""
        whole, _ = self.distinct
        whole.build(partition for partition in part._patches if partition not in whole._patches)
        for key in part._joined:
            if key not in whole._joined:
                whole.side_by_side(key)

    @property
    def joined(self) -> list[tuple[Partition, ...]]:
        """The partitions whose patches exist side by side."""
        return list(dict.fromkeys([*self._joined, *(self._whole.regions.joined if self._whole is not None else [])]))

    @torch.inference_mode(False)
    def _known(self, partition: Partition) -> Patches | None:
        """Patches that exist, or that the Regions of which these are a part have."""
        if partition not in self._patches and self._whole is not None:
            theirs = self._whole.regions._known(partition)
            if theirs is not None:
                self._patches[partition] = self._whole.patches(theirs)
        return self._patches.get(partition)

    def _known_joined(self, key: tuple[Partition, ...]) -> SideBySide | None:
        """The same for patches side by side."""
        if key not in self._joined and self._whole is not None:
            theirs = self._whole.regions._known_joined(key)
            if theirs is not None:
                self._joined[key] = self._whole.joined(theirs)
        return self._joined.get(key)

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
        return self.patches_of([partition])[0]

    @torch.inference_mode(False)
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
            distinct, which = self.distinct
            self._graphs[key] = build_graph(distinct, *key).of(which).to(self.lat.device)
        return self._graphs[key]

    # ------------------------------------------------------------------ subsets and devices

    def __getitem__(self, centers: Any) -> Regions:
        """The ROIs of some centres (slice, integer, or index tensor) over the same points."""
        return self.part(as_index("centres", centers, len(self)).to(self.lat.device))

    def part(self, index: Tensor) -> Regions:
        """The same for row numbers that are right."""
        points, chosen = (self.lat, self.lon), (self.center_lat[index], self.center_lon[index])
        if self._search is not None and self._segments is None:
            search = self._search
            near = Search(Points.of(*chosen), search.points, self.radius, search.point_tiles)
            part = Regions(points, chosen, self.radius, search=near)
        else:
            part = Regions(points, chosen, self.radius, later=partial(self.segments.of, index))
        # members and patches are cut out when somebody asks for them
        distinct, which = self.distinct
        part._whole = Whole(distinct, which=which[index])
        return part

    def only(self, known: Tensor) -> Regions:
        """The same ROIs without the points that are not ``known``, (N,) bool; centres stay where they are.

        Raises:
            ValueError: if ``known`` is another vector.
        """
        if known.dtype != torch.bool or known.shape != self.lat.shape:
            raise ValueError(
                f"Expected `known` of dtype bool and shape ({self.num_points},), but got {known.dtype} and "
                f"{tuple(known.shape)}."
            )
        points, centers = (self.lat, self.lon), (self.center_lat, self.center_lon)
        fewer = Regions(points, centers, self.radius, later=partial(_members_of, self, known))
        fewer._whole = Whole(self, known=known)
        return fewer

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
        listed = self._segments is not None or self._search is None
        pairs = self.sizes.cpu() if listed else torch.from_numpy(self._search.bounds()[1])  # type: ignore[union-attr]
        for start, stop in _stretches(pairs * _BYTES_PER_PAIR, max_bytes):
            yield self[start:stop]

    def to(self, device: torch.device | str) -> Regions:
        """Copy to a device, with everything that was built; the same object where it is there already."""
        device = torch.empty(0, device=device).device  # "cuda" is a particular device by now
        if self.lat.device == device:
            return self
        points, centers = (
            (self.lat.to(device), self.lon.to(device)),
            (self.center_lat.to(device), self.center_lon.to(device)),
        )
        distinct, which = self.distinct
        if distinct is not self:
            there, which = distinct.to(device), which.to(device)
            moved = Regions(points, centers, self.radius, later=partial(_segments_of, there, which))
            moved._whole = Whole(there, which=which, complete=True)
        else:
            moved = Regions(points, centers, self.radius, segments=self.segments.to(device))
            self._take_all()
        shared = {id(p.cells): p.cells.to(device) for p in self._patches.values()}
        moved._patches = {key: p.to(device, shared[id(p.cells)]) for key, p in self._patches.items()}
        moved._graphs = {key: graph.to(device) for key, graph in self._graphs.items()}
        return moved

    def _take_all(self) -> None:
        """Take all that is known of the Regions of which these are a part."""
        for partition in self.partitions:
            self._known(partition)
        for key in self.joined:
            self._known_joined(key)

    def __getstate__(self) -> dict[str, Any]:
        """A part is pickled without the whole."""
        if self._whole is None or self._whole.complete:
            return self.__dict__
        self._take_all()
        members = {"_segments": self.segments} if self._search is None else {}
        return self.__dict__ | members | {"_whole": None, "_later": None}


def _segments_of(regions: Regions, which: Tensor) -> Segments:
    """The members of some ROIs."""
    return regions.segments.of(which)


def _members_of(regions: Regions, known: Tensor) -> Segments:
    """The members that are ``known``."""
    return regions.segments.only(known)


def _stretches(costs: Tensor, most: int) -> Iterator[tuple[int, int]]:
    """Cut a list into stretches (start, stop) that cost no more than ``most`` each, or hold a single entry."""
    reached, start = costs.cumsum(0), 0
    while start < len(costs):
        before = int(reached[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(reached, before + most, right=True)))
        yield start, stop
        start = stop
