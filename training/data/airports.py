"""The bundled real data set: elevation of the world's airports from their location."""

from __future__ import annotations

import importlib
import math
import warnings

import torch
from torch import Tensor

from training.data.module import LocatedDataModule
from training.data.points import Points
from training.data.splits import standardised

__all__ = ["AirportsDataModule", "load_airports"]

_METRES_PER_FOOT = 0.3048


class AirportsDataModule(LocatedDataModule):
    """Elevation of the airports of PyPI's ``airportsdata`` from their coordinates; arguments: `LocatedDataModule`.

    The target is sign(z) log(1 + |z|) of the elevation z in metres, standardised by mean and standard deviation of the
    training split. 44 % of the airports lie in the USA: the sample itself is geographically biased.

    Example:
        >>> from training.data import AirportsDataModule
        >>> data = AirportsDataModule(split="block", steps=10)
        >>> data.setup("fit")
        >>> len(data.held_out_points) < len(data.train_points)
        True
    """

    def load(self) -> tuple[Points, Tensor]:
        """All airports, and which are held out."""
        lat, lon, elevation = load_airports()
        held_out = self.hold_out(lat, lon)
        target = standardised(elevation.sign() * elevation.abs().log1p(), ~held_out)
        return Points(lat, lon, target, self.radius), held_out


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


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
