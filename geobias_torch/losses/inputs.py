"""What every loss over ROIs asks of its arguments."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from geobias_torch.regions import Regions


def check_performance(performance: object, points: int | None = None, of: str = "") -> None:
    """Refuse performance that is not a finite vector, of so many points where that is known."""
    if not isinstance(performance, Tensor):
        raise TypeError(f"Expected `performance` to be a tensor with a gradient, but got {type(performance).__name__}.")
    if performance.ndim != 1 or points not in (None, len(performance)):
        size = "" if points is None else f" with N = {points}{of}"
        raise ValueError(f"Expected `performance` of shape (N,){size}, but got {tuple(performance.shape)}.")
    if performance.is_complex():
        raise TypeError(f"Expected `performance` to be real, but got {performance.dtype}.")
    performance = performance.detach()
    if math.isfinite(performance.sum(dtype=torch.float64)):  # one number is looked at before all are
        return
    wrong = ~performance.isfinite()
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(f"Expected `performance` to be finite, but got {performance[row].item()} at row {row}.")


def check_call(performance: object, regions: object) -> None:
    """Refuse regions that are none, and performance that is not that of their points."""
    if not isinstance(regions, Regions):
        raise TypeError(f"Expected `regions` to be Regions, but got {type(regions).__name__}.")
    check_performance(performance, regions.num_points, ", the points of `regions`,")


def result_dtype(performance: Tensor) -> torch.dtype:
    """That of the performance, float32 for half precision: sums are taken in float64 and rounded once."""
    return torch.promote_types(performance.dtype, torch.float32)


def settings(**given: object) -> str:
    """What a module was made with, as ``print`` shows it."""
    return ", ".join(f"{name}={value!r}" for name, value in given.items())
