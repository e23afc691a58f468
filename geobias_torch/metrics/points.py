"""The part that all spatial metrics share: rows in, points out, geometry found once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from geobias_torch.bounds import within_bounds
from geobias_torch.convert import to_tensor
from geobias_torch.geometry import check_coordinates, coordinate_tensor, warn_odd_coordinates
from geobias_torch.ranks import world_size
from geobias_torch.regions import Regions

_NO_INDEX = -1.0
_PATIENCE = timedelta(minutes=5)  # with ranks that are late: validation is not shared out evenly


@dataclass(frozen=True)
class Points:
    """The rows that can be scored, in an order that depends on nothing but the points themselves."""

    performance: Tensor  # (N,) float64
    lat: Tensor  # (N,) float64
    lon: Tensor  # (N,) float64
    place: Tensor  # (N,) int64: where each point stands among the rows given
    lat_given: Tensor  # (rows,) float64, NaN where missing
    lon_given: Tensor

    def within(self, bounds: tuple[float, float], where: str, way_out: str = "") -> Points:
        """The points with their performance as `within_bounds` gives it; an error names the row that was given."""
        performance = within_bounds(self.performance, bounds, where, way_out=way_out, rows=self.place)
        return replace(self, performance=performance)

    def spread(self, local: Tensor) -> Tensor:
        """Per-point results (N,) in the order of the rows given, NaN in rows that were dropped; on the CPU."""
        out = torch.full((len(self.lat_given),), torch.nan, dtype=torch.float64)
        out[self.place.cpu()] = local.to("cpu", torch.float64)
        return out


class PointMetric(Metric):
    """Base of the spatial metrics: its state is the rows themselves, so that batches, ranks and order do not matter."""

    higher_is_better = False
    is_differentiable = False
    full_state_update = False

    rows: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # (n, 4) float64: lat, lon, performance, index. One tensor: one message per rank
        self.add_state("rows", default=[], dist_reduce_fx="cat")
        self._geometry: tuple[Tensor, Tensor, Regions] | None = None
        self._warned: set[str] = set()
        self._local: Any = None

    def update(self, performance: Any, *, lat: Any, lon: Any, index: Any = None) -> None:
        """Add rows.

        Args:
            performance: (n,) real values, 1 = good; NaN = the row has none.
            lat: (n,) degrees within [-90, 90]; NaN = the row has no location.
            lon: (n,) degrees.
            index: (n,) integers >= 0, the row numbers in the data set: removes the rows that a distributed sampler
                repeats.

        Raises:
            ValueError: for shapes that differ, coordinates out of range, infinite performance, a negative index.
        """
        names = ("performance", "lat", "lon") + (("index",) if index is not None else ())
        given = (performance, lat, lon) + ((index,) if index is not None else ())
        columns = [to_tensor(name, x).detach() for name, x in zip(names, given, strict=True)]
        shape = columns[0].shape
        for name, column in zip(names, columns, strict=True):
            if column.ndim != 1 or column.shape != shape:
                raise ValueError(
                    f"Expected `performance`, `lat`, `lon` and `index` of one shape (n,), but got {tuple(shape)} and "
                    f"`{name}` of shape {tuple(column.shape)}."
                )
        if columns[0].is_complex():
            raise TypeError(f"Expected `performance` to be real, but got {columns[0].dtype}.")
        if index is not None:
            _check_numbers(columns[3])
        lat, lon = (
            coordinate_tensor(name, x).to(self.device) for name, x in zip(names[1:3], columns[1:3], strict=True)
        )
        values = columns[0].to(self.device, torch.float64)
        numbers = columns[3].to(self.device, torch.float64) if index is not None else torch.full_like(lat, _NO_INDEX)
        infinite = torch.isinf(values)
        if infinite.any():
            row = int(infinite.nonzero()[0])
            raise ValueError(f"Expected `performance` to be finite or NaN, but got {float(values[row])} at row {row}.")
        missing = lat.isnan() | lon.isnan()
        # zeros in their place, so that the row numbers of an error are the caller's
        check_coordinates(torch.where(missing, 0.0, lat), torch.where(missing, 0.0, lon))
        self.rows.append(torch.stack([lat, lon, values, numbers], dim=1))

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Gather the rows of all ranks; a rank without rows takes part with none.

        Raises:
            RuntimeError: if ranks do not take part, as where ``compute`` is called on rank 0 only: after five minutes
                with gloo, after the time limit of the process group with other backends.
        """
        wanted = kwargs.get("should_sync", True)
        if wanted and world_size() > 1 and torch.distributed.get_backend(self.process_group) == "gloo":
            try:
                torch.distributed.monitored_barrier(self.process_group, timeout=_PATIENCE, wait_all_ranks=True)
            except RuntimeError as error:
                raise RuntimeError(
                    f"Expected every rank to call `compute` of {type(self).__name__}: it gathers the rows of all, and "
                    f"some did not come within {_PATIENCE.total_seconds():g} s."
                ) from error
        if isinstance(self.rows, list) and not self.rows:
            self.rows.append(torch.zeros(0, 4, dtype=torch.float64, device=self.device))
        super().sync(*args, **kwargs)

    def reset(self) -> None:
        """Forget the rows; geometry and the last local scores stay."""
        self.rows = []  # after an error in a synced compute it is the gathered tensor, which cannot be cleared
        super().reset()

    def points(self) -> Points:
        """The rows so far without repeats and without rows that lack a location or performance."""
        parts = self.rows if isinstance(self.rows, list) else [self.rows]
        rows = torch.cat(parts) if parts else torch.zeros(0, 4, dtype=torch.float64, device=self.device)
        rows = self._without_repeats(rows)
        complete = ~rows[:, :3].isnan().any(dim=1)
        dropped = int((~complete).sum())
        if dropped:
            self._warn_once(
                "dropped", f"{dropped} of {len(rows)} rows lack a location or performance and are left out."
            )
        place = complete.nonzero()[:, 0]
        lat, lon = check_coordinates(rows[place, 0], rows[place, 1])
        performance = rows[place, 2]
        order = torch.from_numpy(np.lexsort([x.cpu().numpy() for x in (performance, lon, lat)])).to(place.device)
        return Points(performance[order], lat[order], lon[order], place[order], rows[:, 0], rows[:, 1])

    def _without_repeats(self, rows: Tensor) -> Tensor:
        numbered = rows[:, 3] != _NO_INDEX
        if not numbered.any():
            if len(rows) and self._is_distributed():
                self._warn_once(
                    "index",
                    "Rows came from several processes without `index`: those that a distributed sampler repeats count "
                    "twice.",
                )
            return rows
        if not numbered.all():
            raise ValueError("Expected `index` in every update or in none, but got it in some.")
        rows = rows[torch.argsort(rows[:, 3], stable=True)]
        first = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        first[1:] = rows[1:, 3] != rows[:-1, 3]
        # a repeat may differ in performance (dropout, rounding), but not in where it lies
        here, there = rows[1:, :2], rows[:-1, :2]
        moved = ~first[1:] & ~((here == there) | (here.isnan() & there.isnan())).all(dim=1)
        if moved.any():
            row = rows[1:][moved][0]
            raise ValueError(
                f"Expected one location for each `index`, but got {int(row[3])} with different `lat`, `lon`: "
                "two data sets?"
            )
        return rows[first]

    def _is_distributed(self) -> bool:
        return self._is_synced and world_size() > 1

    def _warn_once(self, key: str, message: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, stacklevel=3)

    def _warn_unscored(self, names: Sequence[str], points: Points) -> None:
        """Say once which scores are NaN though there are points: in a log it looks like a mistake of the model."""
        if names and len(points.performance):
            self._warn_once(
                "unscored",
                f"None of the regions of {len(points.performance)} points can be scored by {', '.join(names)}, so that "
                "the score is NaN. Regions count where performance differs and, for SRE, with at least `min_patches` "
                "patches of at least `min_patch_size` points: a larger `radius` has more points.",
            )

    def regions_of(self, points: Points, radius: float) -> Regions:
        """Every point's ROI; the same object as last time where the coordinates are the same."""
        lat, lon = points.lat.cpu(), points.lon.cpu()
        known = self._geometry
        if known is None or not (torch.equal(known[0], lat) and torch.equal(known[1], lon)):
            warn_odd_coordinates(lat, lon)
            self._geometry = known = (lat, lon, Regions.lazily(lat, lon, radius))
        regions = known[2]
        if regions.fits() and regions.lat.device != self.device:
            self._geometry = (lat, lon, regions := regions.to(self.device))
        return regions

    def local(self) -> Any:
        """Results per row of the last ``compute``, in the order of the rows given; kept through ``reset``.

        Rows follow the updates; with an ``index`` they are in its order, without repeats.

        Raises:
            RuntimeError: before the first ``compute``.
        """
        if self._local is None:
            raise RuntimeError("Expected `compute()` before `local()`: there are no local scores yet.")
        return self._local

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ()) -> torch.nn.Module:
        """Follow the module to its device, but never to a dtype that cannot hold coordinates."""
        moved = super()._apply(fn, exclude_state=(*exclude_state, "rows"))
        self.rows = [part.to(self.device) for part in self.rows]
        return moved

    def __getstate__(self) -> dict[str, Any]:
        """Geometry is left behind: it is large, and found again from the points."""
        return {**super().__getstate__(), "_geometry": None}


def _check_numbers(index: Tensor) -> None:
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise ValueError(f"Expected `index` to hold integers >= 0, but got {index.dtype}.")
    index = index.to(torch.int64)
    bad = (index < 0) | (index >= 1 << 53)  # beyond, float64 does not tell neighbours apart
    if bad.any():
        row = int(bad.nonzero()[0])
        raise ValueError(
            f"Expected `index` to hold integers >= 0 and below 2^53, but got {int(index[row])} at row {row}."
        )


def in_blocks(regions: Regions) -> Iterator[tuple[Tensor | slice, Regions]]:
    """All ROIs at once where their pairs fit into memory, else neighbourhood by neighbourhood."""
    if regions.fits():
        yield slice(None), regions
    else:
        yield from regions.neighbourhoods()
