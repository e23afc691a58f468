"""Numbers from users: tensors, arrays, lists, table columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def to_tensor(name: str, values: Any) -> Tensor:
    """Take numbers as a tensor, without a copy where they are one already.

    Raises:
        TypeError: if ``values`` holds anything but numbers.
    """
    if isinstance(values, Tensor):
        return values
    array = np.array(values)  # a copy: columns of tables are often read-only
    if (array.dtype == object and array.size == 0) or array.dtype.kind == "u":
        array = array.astype(np.int64)
    if array.dtype.kind not in "bif":
        raise TypeError(f"Expected `{name}` to hold numbers, but got {array.dtype} ({str(values)[:40]}).")
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def check_index(name: str, index: Any, bound: int, negative: bool = False) -> Tensor:
    """Check a vector of row numbers; negative ones count from the end where ``negative``."""
    index = to_tensor(name, index)
    whole = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
    if index.numel() and not (whole and index.ndim == 1):
        raise ValueError(f"Expected `{name}` to be a vector of integers, but got {index.dtype}, {tuple(index.shape)}.")
    index = index.reshape(-1).to(torch.int64)
    if index.numel():
        least, most = index.aminmax()
        if int(least) >= 0 and int(most) < bound:
            return index
    low = -bound if negative else 0
    outside = (index < low) | (index >= bound)
    if outside.any():
        position = int(outside.nonzero()[0])
        raise ValueError(
            f"Expected `{name}` within [{low}, {bound - 1}], but got {int(index[position])} at position {position}."
        )
    return torch.where(index < 0, index + bound, index)


def as_index(name: str, which: Any, length: int) -> Tensor:
    """Row numbers (K,) of what a slice, an integer, an index vector or a mask picks out of so many rows."""
    if isinstance(which, slice):
        return torch.arange(length)[which]
    index = to_tensor(name, which)
    if index.dtype == torch.bool and index.shape == (length,):
        index = index.nonzero()[:, 0]
    return check_index(name, index[None] if index.ndim == 0 else index, length, negative=True)
