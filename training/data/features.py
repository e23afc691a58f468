"""Features of the rows of a data set in .npy files that may be larger than the memory."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

__all__ = ["FeatureFiles"]


class FeatureFiles:
    """The rows of one or more .npy files (N, F), one file after the other; only rows that are asked for are read.

    What is pickled, for worker processes say, are the paths.

    Args:
        *paths: the files.

    Raises:
        ValueError: if a file is missing, is none of numbers of shape (N, F), or the files differ in F.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "features.npy"
        >>> np.save(path, np.arange(6.0).reshape(3, 2))
        >>> features = FeatureFiles(path, path)
        >>> features.shape, features[np.array([1, 3])].tolist()
        ((6, 2), [[2.0, 3.0], [0.0, 1.0]])
    """

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        self.paths = paths
        self.arrays = [_mapped(path) for path in paths]
        self.ends = np.cumsum([len(array) for array in self.arrays])
        widths = [array.shape[1] for array in self.arrays]
        if len(set(widths)) > 1:
            raise ValueError(f"Expected as many features in every file, but got {widths} in {[*map(str, paths)]}.")
        self.shape = (int(self.ends[-1]), widths[0])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Features of some rows by number, shape (B, F)."""
        outside = rows[(rows < 0) | (rows >= len(self))]
        if len(outside):
            raise ValueError(f"Expected rows within [0, {len(self)}), but got {outside[0]}.")
        chosen = np.empty((len(rows), self.shape[1]), dtype=np.result_type(*self.arrays))
        which = np.searchsorted(self.ends, rows, side="right")
        for number, array in enumerate(self.arrays):
            inside = which == number
            chosen[inside] = array[rows[inside] - (self.ends[number] - len(array))]
        return chosen

    def place(self, row: int) -> str:
        """Say where a row is: in which one of which file."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return f"row {row - (self.ends[number] - len(self.arrays[number]))} of {os.fspath(self.paths[number])}"

    def __reduce__(self) -> tuple[type[FeatureFiles], tuple[str | os.PathLike[str], ...]]:
        return FeatureFiles, self.paths


def _mapped(path: str | os.PathLike[str]) -> np.ndarray:
    if not Path(path).is_file():
        raise ValueError(f"Expected features, but got no file {path}.")
    try:
        array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"Expected an .npy file of numbers, but got {path}, which is none.") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"Expected an .npy file of numbers, but got {path}, which is an .npz file.")
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"Expected numbers of shape (N, F), but got {array.dtype} of shape {array.shape} in {path}.")
    return array
