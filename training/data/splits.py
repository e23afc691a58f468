"""Which rows are held out: random ones, or whole places."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from training.encoders.base import has_location

__all__ = ["split_rows", "standardised"]


def split_rows(
    lat: Tensor, lon: Tensor, *, split: Literal["random", "block"], held_out: float, seed: int, block: float
) -> Tensor:
    """Which rows are held out, shape (N,) bool; the arguments are those of `LocatedDataModule`.

    In the block split, rows without a location lie in no block: the same share of them is held out at random.

    Raises:
        ValueError: if ``split``, ``held_out`` or ``block`` is out of its range, or no row would be held out, or all.

    Example:
        >>> import torch
        >>> lat, lon = torch.zeros(100), torch.linspace(-180, 180, 100)
        >>> split_rows(lat, lon, split="random", held_out=0.25, seed=0, block=0.2).sum()
        tensor(25)
    """
    if split not in ("random", "block"):
        raise ValueError(f"Expected `split` to be 'random' or 'block', but got {split!r}.")
    if not 0 < held_out < 1:
        raise ValueError(f"Expected `held_out` within (0, 1), but got {held_out}.")
    generator = torch.Generator().manual_seed(seed)
    if split == "random":
        return check_both_splits(_random_share(len(lat), held_out, generator))
    located = has_location(lat, lon)
    cells = equal_area_cells(lat[located], lon[located], block)
    _, cell, count = cells.unique(return_inverse=True, return_counts=True)
    order = torch.randperm(len(count), generator=generator)
    before = count[order].cumsum(0) - count[order]  # rows held out before this cell is added
    chosen = torch.zeros(len(lat), dtype=torch.bool)
    chosen[located] = torch.isin(cell, order[before < round(held_out * len(cell))])
    chosen[~located] = _random_share(len(lat) - len(cell), held_out, generator)
    return check_both_splits(chosen)


def check_both_splits(held_out: Tensor) -> Tensor:
    """Which rows are held out, (N,) bool, as given; an error if those are none or all."""
    count = int(held_out.sum())
    if not 0 < count < len(held_out):
        raise ValueError(
            f"Expected rows to train with and held-out ones, but got {len(held_out) - count} and {count}: a smaller "
            "`block` or another `held_out` or split may help."
        )
    return held_out


def _random_share(count: int, share: float, generator: torch.Generator) -> Tensor:
    """A share of the rows, shape (count,) bool."""
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[torch.randperm(count, generator=generator)[: round(share * count)]] = True
    return chosen


def equal_area_cells(lat: Tensor, lon: Tensor, side: float) -> Tensor:
    """Number of the cell that each point lies in, shape (N,): cells of equal area, about side^2 steradians each.

    Points without a location are in cell -1.

    The axis is cut into bands of equal height, which on a sphere have equal area, and all bands at the same longitudes.
    Cells are as wide as high at latitude 0, and narrower and higher towards the poles.
    """
    if not 0 < side <= math.pi:
        raise ValueError(f"Expected `block` within (0, pi] radians, but got {side}.")
    bands, columns = math.ceil(2 / side), math.ceil(2 * math.pi / side)
    band = ((lat.deg2rad().sin() + 1) / 2 * bands).floor().clamp(0, bands - 1)
    column = ((lon % 360) / 360 * columns).floor().clamp(0, columns - 1)
    return torch.where(has_location(lat, lon), band * columns + column, -1).long()


def standardised(target: Tensor, train: Tensor) -> Tensor:
    """The target (N,) less the mean of the rows ``train``, (N,) bool, over their standard deviation (n - 1), float32.

    Raises:
        ValueError: if fewer than two of the rows ``train`` have different targets, so that there is nothing to learn,
            or the numbers are so large that the result is not finite or has another spread than 1.

    Example:
        >>> import torch
        >>> standardised(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([True, True, False]))
        tensor([-0.7071,  0.7071,  5.6569])
    """
    known = target[train]
    if len(known.unique()) < 2:
        raise ValueError(
            f"Expected a target that differs between the training rows, but got {len(known)} rows with "
            f"{known.unique().tolist()}."
        )
    result = ((target - known.mean()) / known.std()).float()
    if not result.isfinite().all() or not 0.99 < result[train].std() < 1.01:
        raise ValueError(
            f"Expected a target that can be standardised, but got numbers from {target.min():g} to {target.max():g}."
        )
    return result
