"""Memory that is used again: the first touch of a page costs ten times what is computed in it."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__ = ["Scratch", "Shelf"]

_SHEET = 1 << 23  # bytes: numpy asks for large pages from 4 MB on, of which a touch costs a fraction


_KEPT = 1 << 25  # bytes of an array that a thread keeps at most


class Scratch(threading.local):
    """Arrays that a thread uses again and again; large ones, for which a touch is cheap, are given back.

    Example:
        >>> scratch = Scratch()
        >>> scratch.take("sums", (2, 3), "f8").shape, len(scratch.take("sums", (4,), "f8"))
        ((2, 3), 4)
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, str], np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array with anything in it, valid until its name is taken again."""
        size, key = math.prod(shape), (name, np.dtype(dtype).char)
        array = self._arrays.get(key)
        if array is None or len(array) < size:
            array = np.empty(size, dtype)
            if array.nbytes <= _KEPT:
                self._arrays[key] = array
        return array[:size].reshape(shape)


class Shelf(threading.local):
    """Small results that are kept, cut one after another from large sheets.

    Example:
        >>> shelf = Shelf()
        >>> one, other = shelf.take(3, "i4"), shelf.take(2, "i4")
        >>> len(one), len(other), one.base is other.base
        (3, 2, True)
    """

    def __init__(self) -> None:
        self._sheets: dict[str, tuple[np.ndarray, int]] = {}

    def take(self, size: int, dtype: Any) -> np.ndarray:
        """A vector with anything in it, nobody else's."""
        dtype = np.dtype(dtype)
        sheet, used = self._sheets.get(dtype.char, (np.empty(0, dtype), 0))
        if used + size > len(sheet):
            sheet, used = np.empty(max(size, _SHEET // dtype.itemsize), dtype), 0
        if sheet.nbytes <= _KEPT:
            self._sheets[dtype.char] = sheet, used + size
        return sheet[used : used + size]
