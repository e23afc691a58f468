"""The MOSAIKS tasks: population, elevation and the like from features of satellite images and the location."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from training.data.table import TableDataModule

__all__ = ["MosaiksDataModule"]


class MosaiksDataModule(TableDataModule):
    r"""A folder with ``Y_{task}.csv`` (columns lon, lat, task and split) and ``X_{task}.npy``, as TorchSpatial has it.

    Row i of the features belongs to row i of the table.

    Args:
        folder: with both files.
        task: such as "population", "elevation", "forest_cover" or "nightlights".
        standardise: see `TableDataModule`.
        held_out_split: rows that are held out, "val" or "test".
        **options: see `LocatedDataModule`; the split is that of the file.

    Raises:
        ValueError: during ``setup``, if a file is missing, or as `TableDataModule`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from training.data import MosaiksDataModule
        >>> folder = Path(tempfile.mkdtemp())
        >>> rows = "lon,lat,elevation,split\n9.2,48.8,245,train\n9.1,48.9,250,train\n9,49,190,val\n"
        >>> _ = (folder / "Y_elevation.csv").write_text(rows)
        >>> np.save(folder / "X_elevation.npy", np.eye(3))
        >>> data = MosaiksDataModule(folder, "elevation", standardise=False)
        >>> data.setup()
        >>> data.held_out_points[[0]].features, data.held_out_points.target
        (tensor([[0., 0., 1.]]), tensor([190.]))

    References:
        Rolf et al., "A generalizable and accessible approach to machine learning with global satellite imagery", 2021.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        task: str,
        standardise: bool = True,
        held_out_split: Literal["val", "test"] = "val",
        **options: Any,
    ) -> None:
        super().__init__(
            path=Path(folder) / f"Y_{task}.csv",
            target=task,
            lat="lat",
            lon="lon",
            split_column="split",
            held_out_split=held_out_split,
            features=Path(folder) / f"X_{task}.npy",
            standardise=standardise,
            **options,
        )
