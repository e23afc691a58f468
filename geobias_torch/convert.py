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
