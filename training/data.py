"""The bundled real data set: elevation of the world's airports from their location."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Literal, NamedTuple

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

from geobias_torch import Regions
from training.samplers import RoiBatchSampler, RoiDraw

__all__ = ["AirportsDataModule", "Batch", "Points", "load_airports", "split_rows"]

_METRES_PER_FOOT = 0.3048
_ROWS_PER_BATCH = 4096  # of the held-out points: memory only, results do not depend on it


class Batch(NamedTuple):
    """What one step of a task sees.

    Attributes:
        lat, lon: degrees, float64, shape (B,).
        target: shape (B,).
        rows: row numbers in their split, int64, shape (B,).
        num_random: so many points are random ones, the task loss is over them; those after them are ROI samples.
        regions: the ROI samples over all B rows; None in held-out batches.

    Example:
        >>> import torch
        >>> from training.data import Points
        >>> lat, lon, target = torch.rand(3, 8, dtype=torch.float64)
        >>> batch = Points(lat, lon, target, radius=0.1)[[5, 2]]
        >>> batch.rows.tolist(), batch.num_random, batch.regions
        ([5, 2], 2, None)
    """

    lat: Tensor
    lon: Tensor
    target: Tensor
    rows: Tensor
    num_random: int
    regions: Regions | None


class Points(Dataset[Batch]):
    """The rows of one split; ``points[rows]`` is a batch of them, ``points[draw]`` the batch of a `RoiDraw`.

    Args:
        lat: (N,) degrees, float64.
        lon: (N,) degrees, float64.
        target: (N,) what is to be predicted.
        radius: of the ROI samples, in radians.

    Example:
        >>> import torch
        >>> from training.data import Points
        >>> len(Points(*torch.rand(3, 8, dtype=torch.float64), radius=0.1))
        8
    """

    def __init__(self, lat: Tensor, lon: Tensor, target: Tensor, radius: float) -> None:
        self.lat, self.lon, self.target, self.radius = lat, lon, target, radius

    def __len__(self) -> int:
        return len(self.lat)

    def __getitem__(self, rows: list[int] | RoiDraw) -> Batch:
        if not isinstance(rows, RoiDraw):
            index = torch.as_tensor(rows)
            return Batch(self.lat[index], self.lon[index], self.target[index], index, len(index), None)
        index = torch.cat([rows.random_rows, rows.member_rows])
        regions = Regions.from_members(
            lat=self.lat[index],
            lon=self.lon[index],
            center_lat=self.lat[rows.center_rows],
            center_lon=self.lon[rows.center_rows],
            radius=self.radius,
            offsets=rows.offsets,
            members=torch.arange(len(rows.random_rows), len(index)),
        )
        return Batch(
            self.lat[index], self.lon[index], self.target[index], index, len(rows.random_rows), regions
        )  # fmt: skip


class AirportsDataModule(pl.LightningDataModule):
    """Elevation of the airports of PyPI's ``airportsdata`` from their coordinates.

    The target is sign(z) log(1 + |z|) of the elevation z in metres, standardised by mean and standard deviation of the
    training split. 44 % of the airports lie in the USA: the sample itself is geographically biased.

    Args:
        split: "random" rows are held out, or "block": whole cells of equal area, with sides of about ``block`` radians
            (about ``block`` squared steradians each; bands of equal height on the axis, cut at equal longitudes).
        held_out: share of the rows held out, in (0, 1). With "block" cells are added until the share is reached.
        seed: of the split and of the batches.
        radius: of the ROI samples, in radians.
        block: side of the cells of the block split, in radians.
        steps: training steps per epoch.
        points: random points per step (task loss).
        rois: ROI samples per step (geo-bias loss).
        min_members: training rows that an ROI needs to be drawn.
        max_members: rows drawn from an ROI at most.
        num_workers: processes that build training batches.

    Example:
        >>> from training.data import AirportsDataModule
        >>> data = AirportsDataModule(split="block", steps=10)
        >>> data.setup("fit")
        >>> len(data.held_out_points) < len(data.train_points)
        True
    """

    def __init__(
        self,
        split: Literal["random", "block"] = "random",
        held_out: float = 0.25,
        seed: int = 0,
        radius: float = 0.1,
        block: float = 0.2,
        steps: int = 100,
        points: int = 1024,
        rois: int = 24,
        min_members: int = 30,
        max_members: int = 96,
        num_workers: int = 0,
    ) -> None:
        super().__init__()
        self.split, self.held_out, self.seed, self.radius, self.block = split, held_out, seed, radius, block
        self.steps, self.points, self.rois = steps, points, rois
        self.min_members, self.max_members, self.num_workers = min_members, max_members, num_workers
        self.train_points: Points | None = None
        self.held_out_points: Points | None = None
        self.sampler: RoiBatchSampler | None = None

    def setup(self, stage: str | None = None) -> None:
        """Load and split once, whatever the stage: the target's scale comes from the training split."""
        if self.train_points is not None:
            return
        lat, lon, elevation = load_airports()
        held_out = split_rows(lat, lon, split=self.split, held_out=self.held_out, seed=self.seed, block=self.block)
        target = elevation.sign() * elevation.abs().log1p()
        target = ((target - target[~held_out].mean()) / target[~held_out].std()).float()
        self.train_points = Points(lat[~held_out], lon[~held_out], target[~held_out], self.radius)
        self.held_out_points = Points(lat[held_out], lon[held_out], target[held_out], self.radius)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of random points and ROI samples."""
        assert self.train_points is not None
        if self.sampler is None:
            self.sampler = RoiBatchSampler(
                self.train_points.lat,
                self.train_points.lon,
                radius=self.radius,
                steps=self.steps,
                points=self.points,
                rois=self.rois,
                min_members=self.min_members,
                max_members=self.max_members,
                seed=self.seed,
            )
        return DataLoader(
            self.train_points,
            sampler=self.sampler,
            batch_size=None,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """The held-out points, in order."""
        assert self.held_out_points is not None
        sampler = BatchSampler(SequentialSampler(self.held_out_points), _ROWS_PER_BATCH, drop_last=False)
        return DataLoader(self.held_out_points, sampler=sampler, batch_size=None)

    def predict_dataloader(self) -> DataLoader[Batch]:
        """The held-out points, in order."""
        return self.val_dataloader()


def load_airports() -> tuple[Tensor, Tensor, Tensor]:
    """Latitude and longitude in degrees and elevation in metres of every airport that has them, float64, shape (N,).

    Rows without are dropped and counted in a warning.

    Raises:
        ImportError: if ``airportsdata`` is not installed.

    Example:
        >>> from training.data import load_airports
        >>> lat, lon, elevation = load_airports()
        >>> len(lat) > 20_000, bool(elevation.max() < 6000)
        (True, True)
    """
    try:
        airports = importlib.import_module("airportsdata").load("ICAO")
    except ImportError:
        raise ImportError("The airports come from `airportsdata`: pip install 'geobias-torch[train]'.") from None
    columns = [[_number(row.get(key)) for row in airports.values()] for key in ("lat", "lon", "elevation")]
    table = torch.tensor(columns, dtype=torch.float64)  # (3, rows)
    complete = table.isfinite().all(dim=0)
    if not complete.all():
        warnings.warn(
            f"Dropped {int((~complete).sum())} of {len(complete)} airports without location or elevation.", stacklevel=2
        )
    lat, lon, feet = table[:, complete]
    return lat, lon, feet * _METRES_PER_FOOT


def split_rows(
    lat: Tensor, lon: Tensor, *, split: Literal["random", "block"], held_out: float, seed: int, block: float
) -> Tensor:
    """Which rows are held out, shape (N,) bool; the arguments are those of `AirportsDataModule`.

    Example:
        >>> import torch
        >>> lat, lon = torch.zeros(100), torch.linspace(-180, 180, 100)
        >>> split_rows(lat, lon, split="random", held_out=0.25, seed=0, block=0.2).sum()
        tensor(25)
    """
    if split not in ("random", "block"):
        raise ValueError(f"Expected `split` to be 'random' or 'block', but got {split!r}.")
    if not 0 < held_out < 1:
        raise ValueError(f"Expected `held_out` within (0, 1), but got {held_out}.")
    generator = torch.Generator().manual_seed(seed)
    wanted = round(held_out * len(lat))
    if split == "random":
        chosen = torch.zeros(len(lat), dtype=torch.bool)
        chosen[torch.randperm(len(lat), generator=generator)[:wanted]] = True
        return chosen
    _, cell, count = equal_area_cells(lat, lon, block).unique(return_inverse=True, return_counts=True)
    order = torch.randperm(len(count), generator=generator)
    before = count[order].cumsum(0) - count[order]  # rows held out before this cell is added
    return torch.isin(cell, order[before < wanted])


def equal_area_cells(lat: Tensor, lon: Tensor, side: float) -> Tensor:
    """Number of the cell that each point lies in, shape (N,): cells of equal area, about side^2 steradians each.

    The axis is cut into bands of equal height, which on a sphere have equal area, and all bands at the same longitudes.
    Cells are as wide as high at latitude 0, and narrower and higher towards the poles.
    """
    if not 0 < side <= math.pi:
        raise ValueError(f"Expected `block` within (0, pi] radians, but got {side}.")
    bands, columns = math.ceil(2 / side), math.ceil(2 * math.pi / side)
    band = ((lat.deg2rad().sin() + 1) / 2 * bands).floor().clamp(0, bands - 1)
    column = ((lon % 360) / 360 * columns).floor().clamp(0, columns - 1)
    return (band * columns + column).long()


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
