"""The iNaturalist challenges: species from where a picture was taken and what is on it."""

from __future__ import annotations

import json
import os
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from training.data.classes import numbered
from training.data.features import FeatureFiles
from training.data.module import LocatedDataModule
from training.data.points import Points

__all__ = ["INaturalistDataModule"]

_SPLITS = ("train", "val")
_LARGEST_CATEGORY = 2**53  # float64 holds all whole numbers up to here
# what scipy raises for a file that is no sparse matrix: another archive, a dense array, a part of one, an empty one
_NOT_SPARSE = (ValueError, KeyError, OSError, BadZipFile, EOFError, TypeError, AttributeError, zlib.error)


class INaturalistDataModule(LocatedDataModule):
    """A folder as of the geo prior's data and TorchSpatial; pictures of the validation split are held out.

    Wanted are ``{train,val}{year}_locations.json``, a list of ``{"id", "lat", "lon"}`` (null where unknown), and
    ``{train,val}{year}.json`` with ``{"images": [{"id"}], "annotations": [{"image_id", "category_id"}]}``. Names are
    taken from ``categories{year}.json``, a list of ``{"id", "name"}``, if it is there. Rows are in the order of the
    images.

    Pictures without a location are kept where something else speaks for them, features or, if they are held out,
    predictions; the others are dropped. So are held-out ones of a class that no training row has. Warnings say how
    many.

    Args:
        folder: with these files.
        year: of the challenge, as in the names of the files.
        features: .npy files of shape (N, F) in the folder, with "{split}" in place of train and val, such as
            ``features_inception/inat2018_{split}_net_feats.npy``. They are never read as a whole.
        predictions: .npz file of scipy in the folder: what an image classifier predicts for the held-out pictures,
            sparse, shape (N, largest category id + 1), such as ``features_inception/inat2018_val_preds_sparse.npz``.
            It is never made dense; see `training.data.ImagePredictions`.
        max_per_class: training pictures of a class that an epoch's random points are drawn from, at most; others in
            every epoch. None = all.
        **options: see `LocatedDataModule`; ``split``, ``held_out`` and ``block`` do nothing.

    Attributes:
        class_names: names of the categories that the training split has, by category id, from ``setup`` on.

    Raises:
        ImportError: during ``setup``, if there are predictions and scipy is not installed.
        ValueError: during ``setup``, if a file is missing or has other contents than it should.

    Example:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from training.data import INaturalistDataModule
        >>> folder = Path(tempfile.mkdtemp())
        >>> for split in ("train", "val"):
        ...     places = [{"id": i, "lat": 48.8 + i, "lon": 9.2} for i in range(6)]
        ...     labels = {"images": [{"id": i} for i in range(6)],
        ...               "annotations": [{"image_id": i, "category_id": i % 3} for i in range(6)]}
        ...     _ = (folder / f"{split}2018_locations.json").write_text(json.dumps(places))
        ...     _ = (folder / f"{split}2018.json").write_text(json.dumps(labels))
        >>> data = INaturalistDataModule(folder)
        >>> data.num_classes, data.held_out_points.target
        (3, tensor([0, 1, 2, 0, 1, 2]))

    References:
        Mac Aodha et al., "Presence-Only Geographical Priors for Fine-Grained Image Classification", 2019: the files,
        and at most 100 pictures of a class in an epoch.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        year: int = 2018,
        features: str | None = None,
        predictions: str | None = None,
        max_per_class: int | None = 100,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.folder, self.year = Path(folder), year
        self.features, self.predictions, self.max_per_class = features, predictions, max_per_class

    def load(self) -> tuple[Points, Tensor]:
        """Training and held-out pictures, in this order, and which are held out."""
        tables = [_read(self.folder, f"{split}{self.year}") for split in _SPLITS]
        table = torch.cat(tables, dim=1)
        lat, lon, category = table
        sizes = [part.shape[1] for part in tables]
        held_out = torch.arange(len(lat)) >= sizes[0]
        target, names = numbered(category.long().numpy(), held_out, lambda row: self._place(row - sizes[0]))
        categories = torch.tensor([int(name) for name in names])
        self.class_names = _names(self.folder / f"categories{self.year}.json", names)
        points = Points(lat, lon, target, self.radius, self._features(sizes), self._predictions(sizes, categories))
        spoken_for = torch.full_like(held_out, self.features is not None) | (held_out & (self.predictions is not None))
        kept = spoken_for | (lat.isfinite() & lon.isfinite())
        if not kept.all():
            warnings.warn(
                f"Dropped {int((~kept).sum())} of {len(kept)} pictures in {self.folder} without a location.",
                stacklevel=3,
            )
        kept &= target >= 0
        return points.take(kept), held_out[kept]

    def setup(self, stage: str | None = None) -> None:
        """Load once, whatever the stage; training pictures have no predictions."""
        super().setup(stage)
        assert self.train_points is not None
        self.train_points.image = None

    def _place(self, row: int) -> str:
        return f"in picture {row + 1} of {self.folder / f'val{self.year}.json'}"

    def _features(self, sizes: list[int]) -> FeatureFiles | None:
        if self.features is None:
            return None
        if "{split}" not in self.features:
            raise ValueError(f"Expected '{{split}}' in `features`, in place of train and val, but got {self.features}.")
        features = FeatureFiles(*(self.folder / self.features.replace("{split}", split) for split in _SPLITS))
        for size, array, path in zip(sizes, features.arrays, features.paths, strict=True):
            if len(array) != size:
                raise ValueError(f"Expected {size} rows in {path}, as many as pictures, but got {len(array)}.")
        return features

    def _predictions(self, sizes: list[int], categories: Tensor) -> Any:
        """A row for every picture, sparse, empty for those of the training; a column for every class."""
        if self.predictions is None:
            return None
        try:
            from scipy import sparse
        except ImportError:
            raise ImportError("Sparse predictions need `scipy`: pip install 'geobias-torch[train]'.") from None
        path = self.folder / self.predictions
        if not path.is_file():
            raise ValueError(f"Expected `predictions` in the folder, but got no file {path}.")
        try:
            matrix = sparse.load_npz(path).tocsr()
        except _NOT_SPARSE as error:
            raise ValueError(f"Expected a sparse matrix as scipy saves it, but got {path}, which is none.") from error
        if matrix.ndim != 2 or matrix.shape[0] != sizes[1] or matrix.shape[1] <= int(categories.max()):
            raise ValueError(
                f"Expected predictions of shape ({sizes[1]}, {int(categories.max()) + 1} or more): pictures and "
                f"category ids, but got {matrix.shape} in {path}."
            )
        wrong = np.flatnonzero(~((matrix.data >= 0) & (matrix.data < np.inf)))
        if len(wrong):
            row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
            raise ValueError(
                f"Expected predictions that are finite and >= 0, but got {matrix.data[wrong[0]]:g} in row {row} of "
                f"{path}, counted from 0."
            )
        training = sparse.csr_matrix((sizes[0], len(categories)), dtype=np.float32)
        return sparse.vstack([training, matrix[:, categories.numpy()].astype(np.float32)], format="csr")


def _read(folder: Path, name: str) -> Tensor:
    """Latitude, longitude and category of the pictures of a split, (3, N) float64; NaN where there is no location."""
    annotations, locations = folder / f"{name}.json", folder / f"{name}_locations.json"
    labels = _json(annotations)
    places = _json(locations)
    try:
        categories = ((label["image_id"], label["category_id"]) for label in labels["annotations"])
        category_of = _by_picture(categories, "category", annotations)
        place_of = _by_picture(((place["id"], (place["lat"], place["lon"])) for place in places), "location", locations)
        pictures = [picture["id"] for picture in labels["images"]]
        twice = next((picture for picture, count in Counter(pictures).items() if count > 1), None)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"Expected images and annotations in {annotations} and a list of places in {locations}, but got neither "
            f"of them with the entry {error}."
        ) from error
    if twice is not None:
        raise ValueError(f"Expected every picture once, but got id {twice} more often in {annotations}.")
    for path, found in ((annotations, category_of), (locations, place_of)):
        missing = next((picture for picture in pictures if picture not in found), None)
        if missing is not None:
            raise ValueError(f"Expected an entry for every picture, but got none for id {missing} in {path}.")
    for picture in pictures:
        lat, lon = place_of[picture]
        for fits, expected, value, path in (
            (_is_degrees(lat, 90), "`lat` in degrees within [-90, 90]", lat, locations),
            (_is_degrees(lon, sys.float_info.max), "`lon` in degrees, finite", lon, locations),
            (_is_category(category_of[picture]), "a whole `category_id`", category_of[picture], annotations),
        ):
            if not fits:
                raise ValueError(f"Expected {expected}, but got {value!r} for id {picture} in {path}.")
    rows = [(*place_of[picture], category_of[picture]) for picture in pictures]
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)  # null becomes NaN
    return torch.from_numpy(table.T.copy())


def _by_picture(pairs: Iterable[tuple[Any, Any]], what: str, path: Path) -> dict[Any, Any]:
    """What belongs to each picture."""
    found: dict[Any, Any] = {}
    for picture, value in pairs:
        first = found.setdefault(picture, value)
        if first is not value and first != value:  # NaN differs from itself
            raise ValueError(
                f"Expected one {what} for every picture, but got {first} and {value} for id {picture} in {path}."
            )
    return found


def _is_degrees(value: Any, most: float) -> bool:
    """Whether it is null or NaN, which is unknown, or a number of this size at most."""
    return value is None or (_is_number(value) and not abs(value) > most)


def _is_category(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= _LARGEST_CATEGORY and value % 1 == 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _names(path: Path, ids: list[str]) -> list[str]:
    if not path.is_file():
        return ids
    try:
        name_of = {str(category["id"]): category["name"] for category in _json(path)}
        return [name_of[number] for number in ids]
    except (KeyError, TypeError) as error:
        raise ValueError(f"Expected id and name of every category in {path}, but got none with {error}.") from error


def _json(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"Expected `folder` with the files of iNaturalist, but got no file {path}.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"Expected JSON, but got this from {path}: {error}") from error
