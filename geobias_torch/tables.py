"""Prediction tables: lengths and predictions read, and the points of two tables put side by side."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geobias_torch.columns import place, read_columns
from geobias_torch.geometry import km


def parse_length(text: str) -> float:
    """Read a length: radians as a bare number, kilometres with the suffix ``km``.

    Args:
        text: such as ``0.05`` or ``318km``.

    Returns:
        The arc length in radians.

    Raises:
        ValueError: if it is not a positive number, has another unit, or is a bare number above 1.

    Example:
        >>> parse_length("0.05"), round(parse_length("318 km"), 4)
        (0.05, 0.0499)
    """
    match = re.fullmatch(r"\s*([-+.\deE]+)\s*(km)?\s*", text)
    try:
        number = float(match[1]) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or math.isnan(number):
        raise ValueError(f"Expected a length in radians (0.05) or in kilometres (318km), but got {text!r}.")
    if not 0 < number < math.inf:
        raise ValueError(f"Expected a length above 0, but got {text!r}.")
    if match[2]:
        return km(number)
    if number > 1:
        raise ValueError(f"Expected a length in radians, but got {text!r}: did you mean {number:g}km?")
    return number


@dataclass(frozen=True)
class PredictionTable:
    """Predictions as read, one entry a row of the file.

    Attributes:
        path: the file.
        columns: the names taken for "lat", "lon" and "value".
        lat: (R,) degrees; NaN where the file has none.
        lon: (R,) degrees; NaN where the file has none.
        performance: (R,) 1 = good; NaN where the file has none.
        signed: whether hits of -1 and +1 were turned into 0 and 1.

    Example:
        >>> columns = {"lat": "y", "lon": "x", "value": "hit"}
        >>> lat, lon, hit = np.array([[48.8, np.nan], [9.2, 9.1], [1.0, 0.0]])
        >>> PredictionTable(Path("predictions.csv"), columns, lat, lon, hit, signed=False).kept
        array([ True, False])
    """

    path: Path
    columns: dict[str, str]
    lat: np.ndarray
    lon: np.ndarray
    performance: np.ndarray
    signed: bool

    @property
    def located(self) -> np.ndarray:
        """(R,) bool: rows with a latitude and a longitude."""
        return ~(np.isnan(self.lat) | np.isnan(self.lon))

    @property
    def kept(self) -> np.ndarray:
        """(R,) bool: rows with a location and a performance, the ones that are scored."""
        return self.located & ~np.isnan(self.performance)


def read_predictions(
    path: str | os.PathLike[str], *, value: str | None = None, lat: str | None = None, lon: str | None = None
) -> PredictionTable:
    r"""Read a prediction table from CSV (comma, semicolon, tab, bar; also .gz) or Parquet.

    Rows without a location or a performance stay in the table as NaN, so that results can be put beside the rows of
    the file. Hits of -1 and +1 become 0 and 1.

    Args:
        path: the file.
        value: column of the performance; by default the first of `geobias_torch.columns.VALUE_NAMES` that is there.
        lat: column of the latitude in degrees; by default by `geobias_torch.columns.LOCATION_NAMES`.
        lon: column of the longitude in degrees; by default by `geobias_torch.columns.LOCATION_NAMES`.

    Returns:
        The table.

    Raises:
        ValueError: if the file cannot be read as such a table, a latitude is outside [-90, 90], or fewer than two rows
            have a location and a performance.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "predictions.csv"
        >>> _ = path.write_text("latitude,longitude,hit@1\n48.8,9.2,1\n,,-1\n48.9,9.1,-1\n")
        >>> table = read_predictions(path)
        >>> table.columns["value"], table.signed
        ('hit@1', True)
        >>> table.performance, table.kept
        (array([1., 0., 0.]), array([ True, False,  True]))
    """
    columns, values = read_columns(path, value=value, lat=lat, lon=lon)
    performance = values["value"]
    outside = np.flatnonzero(np.abs(values["lat"]) > 90)
    if len(outside):
        row = int(outside[0])
        # one of many may be a slip of the pen
        swapped = len(outside) >= max(2, 0.01 * len(performance)) and bool(np.nanmax(np.abs(values["lon"])) <= 90)
        raise ValueError(
            f"Expected `{columns['lat']}` in degrees within [-90, 90], but got {values['lat'][row]:g} "
            f"{place(path, row)}{': are latitude and longitude swapped?' if swapped else '.'}"
        )
    known = performance[~np.isnan(performance)]
    signed = bool(np.isin(known, (-1.0, 1.0)).all() and (known == -1).any())
    if signed:
        performance = np.maximum(performance, 0.0)  # NaN stays NaN
    table = PredictionTable(Path(path), columns, values["lat"], values["lon"], performance, signed)
    count = int(table.kept.sum())
    if count < 2:
        raise ValueError(f"Expected at least 2 rows with a location and a performance, but got {count} in {path}.")
    return table


def same_points(first: PredictionTable, other: PredictionTable) -> np.ndarray:
    """Put the performance of another model at the same points beside the rows of the first.

    Points that coincide are taken in the order of their file. Coordinates may differ by 1e-5 degrees (1 m: other digits
    were printed) where the rows are in one order; where they are not, by nothing. A row without a performance may be
    missing in the other table.

    Args:
        first: the table whose order counts.
        other: a table of another model.

    Returns:
        (R,) performance of the other for the R rows of the first; NaN where one of them has no performance.

    Raises:
        ValueError: if they are not the same points.
    """
    performance = np.full(len(first.kept), np.nan)
    points, other_points = _points(first), _points(other)
    for mine, theirs in ((first.located, other.located), (first.kept, other.kept)):
        if mine.sum() == theirs.sum():
            apart = np.abs(points[mine] - other_points[theirs])
            apart[:, 1] = np.minimum(apart[:, 1], 360 - apart[:, 1])
            if (apart <= 1e-5).all():
                performance[mine] = other.performance[theirs]
                return np.where(first.kept, performance, np.nan)
    rows, other_rows = np.flatnonzero(first.located), np.flatnonzero(other.located)
    places, place_of = np.unique(np.concatenate([points[rows], other_points[other_rows]]), axis=0, return_inverse=True)
    place_of, other_place_of = np.split(place_of.reshape(-1), [len(rows)])

    def counts(*which: Any) -> list[np.ndarray]:
        both = zip((place_of, other_place_of), which, strict=True)
        return [np.bincount(of[rows], minlength=len(places)) for of, rows in both]

    # where one table has more rows, those without a performance may be what it has more
    unequal = np.not_equal(*counts(slice(None), slice(None)))
    keep, other_keep = first.kept[rows] | ~unequal[place_of], other.kept[other_rows] | ~unequal[other_place_of]
    count, other_count = counts(keep, other_keep)
    if (count != other_count).any():
        table, more, at, theirs = (
            (first, count > other_count, place_of, rows)
            if (count > other_count).any()
            else (other, other_count > count, other_place_of, other_rows)
        )
        row = int(theirs[np.flatnonzero(more[at] & table.kept[theirs])[0]])
        raise ValueError(
            f"Expected the same points in {first.path} and {other.path}, but got ({table.lat[row]:.9g}, "
            f"{table.lon[row]:.9g}) more often in one than in the other, {place(table.path, row)}."
        )
    rows, other_rows = rows[keep], other_rows[other_keep]
    # stable: points that coincide keep the order of their file
    order, other_order = (np.argsort(of, kind="stable") for of in (place_of[keep], other_place_of[other_keep]))
    performance[rows[order]] = other.performance[other_rows[other_order]]
    return np.where(first.kept, performance, np.nan)


def _points(table: PredictionTable) -> np.ndarray:
    """(R, 2) latitude and longitude within [-180, 180)."""
    lon = np.where((table.lon >= -180) & (table.lon < 180), table.lon, np.mod(table.lon + 180, 360) - 180)
    return np.stack([table.lat, lon], axis=1).round(9)  # a whole turn costs the last digits
