"""Rows of a CSV or Parquet file, with features in an .npy file if wanted."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from geobias_torch import columns
from geobias_torch.columns import place
from training.data.classes import numbered
from training.data.features import FeatureFiles
from training.data.module import LocatedDataModule
from training.data.points import Points
from training.data.splits import check_both_splits, standardised

__all__ = ["TableDataModule"]


class TableDataModule(LocatedDataModule):
    r"""Rows of a table: CSV (comma, semicolon, tab or bar; also .gz) or Parquet.

    Rows without a target are dropped; those without a location too, unless there are features that can speak for them.
    A warning says how many.

    Args:
        path: the table.
        target: column of what is to be predicted: numbers, or labels of classes.
        lat: column of the latitude in degrees; by default the first of the usual names that is there.
        lon: column of the longitude in degrees; by default likewise.
        split_column: column that says "train", "val" or "test"; in place of ``split``, ``held_out`` and ``block``.
        held_out_split: which of its rows are held out; those of the third kind are left out.
        features: .npy file of shape (N, F) with a row for every row of the table, in its order. It is never read as a
            whole.
        task: "regression", or "classification" with the classes that the training rows have, in order. Any text is a
            label ("NA" too); held-out rows with another label are dropped, and counted in a warning.
        standardise: subtract the mean of the training rows and divide by their standard deviation; in regression only.
        **options: see `LocatedDataModule`.

    Attributes:
        class_names: labels of the classes, from ``setup`` on; None for regression.

    Raises:
        ValueError: during ``setup``, if a file or a column is missing or has other contents than it should, the
            features have another number of rows, or the training rows have fewer than two different targets.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from training.data import TableDataModule
        >>> path = Path(tempfile.mkdtemp()) / "birds.csv"
        >>> _ = path.write_text("lat;lon;bird;split\n48.8;9.2;wren;train\n48.9;9.1;kite;train\n49;9;wren;val\n")
        >>> data = TableDataModule(path, "bird", task="classification", split_column="split")
        >>> data.setup()
        >>> data.class_names, data.train_points.target, data.held_out_points.target
        (['kite', 'wren'], tensor([1, 0]), tensor([1]))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        lat: str | None = None,
        lon: str | None = None,
        split_column: str | None = None,
        held_out_split: Literal["val", "test"] = "val",
        features: str | os.PathLike[str] | None = None,
        task: Literal["regression", "classification"] = "regression",
        standardise: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.path, self.target, self.lat, self.lon = Path(path), target, lat, lon
        self.split_column, self.held_out_split = split_column, held_out_split
        self.features, self.task, self.standardise = features, task, standardise

    def load(self) -> tuple[Points, Tensor]:
        """The rows that are kept, and which are held out."""
        if self.task not in ("regression", "classification"):
            raise ValueError(f"Expected `task` to be 'regression' or 'classification', but got {self.task!r}.")
        if not self.path.is_file():
            raise ValueError(f"Expected `path` to be a CSV or Parquet file, but got no file {self.path}.")
        asked = {"lat": self.lat, "lon": self.lon, "value": self.target}
        text = {"split", "value"} if self.task == "classification" else {"split"}
        asked |= {"split": self.split_column} if self.split_column else {}
        names, read = columns.read(self.path, asked, what="target", text=text)
        outside = np.flatnonzero(np.abs(read["lat"]) > 90)
        if outside.size:
            first = int(outside[0])
            raise ValueError(
                f"Expected `{names['lat']}` in degrees within [-90, 90], but got {read['lat'][first]:g} "
                f"{place(self.path, first)}."
            )
        lat, lon = (torch.from_numpy(read[role]) for role in ("lat", "lon"))
        features = None if self.features is None else FeatureFiles(self.features)
        if features is not None and len(features) != len(lat):
            raise ValueError(
                f"Expected {len(lat)} rows in {self.features}, as in {self.path}, but got {len(features)}."
            )
        splits = self._checked(read["split"]) if self.split_column else None
        rows = self._kept(read, splits)
        lat, lon, values = lat[rows], lon[rows], read["value"][rows]
        if splits is None:
            held_out = self.hold_out(lat, lon)
        else:
            held_out = check_both_splits(torch.from_numpy(splits[rows] == self.held_out_split))
        kept = torch.ones(len(rows), dtype=torch.bool)
        if self.task == "classification":
            target, self.class_names = numbered(values, held_out, lambda row: place(self.path, int(rows[row])))
            kept = target >= 0
        else:
            target = torch.from_numpy(values)
            target = standardised(target, ~held_out) if self.standardise else target.float()
            too_large = (~target.isfinite()).nonzero()[:, 0].tolist()
            if too_large:
                raise ValueError(
                    f"Expected a target that float32 holds, but got {values[too_large[0]]:g} "
                    f"{place(self.path, int(rows[too_large[0]]))}."
                )
        points = Points(lat, lon, target, self.radius, features, feature_rows=torch.from_numpy(rows))
        return points.take(kept), held_out[kept]

    def _checked(self, splits: np.ndarray) -> np.ndarray:
        """The split that the file names for each row, (R,)."""
        wrong = np.flatnonzero(~np.isin(splits, ("train", "val", "test")))
        if len(wrong):
            raise ValueError(
                f"Expected 'train', 'val' or 'test' in the column `{self.split_column}`, but got "
                f"{splits[wrong[0]]!r} {place(self.path, int(wrong[0]))}."
            )
        return splits

    def _kept(self, read: dict[str, np.ndarray], splits: np.ndarray | None) -> np.ndarray:
        """Numbers of the rows that can be used, (N,)."""
        value, lacking = read["value"], "a target"
        usable = value != "" if value.dtype == object else ~np.isnan(value)
        if self.features is None:
            lacking = "a location or a target"
            usable &= ~np.isnan(read["lat"]) & ~np.isnan(read["lon"])
        if not usable.all():
            warnings.warn(
                f"Dropped {int((~usable).sum())} of {len(usable)} rows of {self.path} without {lacking}.", stacklevel=4
            )
        if splits is not None:
            usable &= np.isin(splits, ("train", self.held_out_split))
        return np.flatnonzero(usable)
