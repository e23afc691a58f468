"""SPAD: how much the mean performance of boxes differs from the overall mean, over many random grids."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from geobias_torch.bounds import within_bounds
from geobias_torch.geometry import check_coordinates
from geobias_torch.histograms import as_performance


class SPADScore(NamedTuple):
    """SPAD and the standard error of its sampling of grids."""

    score: Tensor
    standard_error: Tensor


def spad(
    performance: Any,
    *,
    lat: Any,
    lon: Any,
    partitionings: int = 100,
    max_rows: int = 100,
    max_cols: int = 100,
    value_range: tuple[float, float] = (0, 1),
    exhaustive: bool = False,
    seed: int = 0,
) -> SPADScore:
    r"""SPace-As-Distribution score over grids of rows x columns equal boxes on the bounding box of the points.

    .. math::
        \mathrm{SPAD} = \frac{100}{S} \sum_s \frac{1}{|B_s|} \sum_{b \in B_s} |\bar\pi_b - \bar\pi|

    with :math:`B_s` the non-empty boxes of grid s. Higher = more biased; a large part of it is noise of sparse boxes.

    Args:
        performance: (N,) or (N, R) real values within ``value_range``, 1 = good; differentiable.
        lat: (N,) degrees.
        lon: (N,) degrees; the box takes the shortest arc that holds the data.
        partitionings: number of grids S, rows and columns uniform in 1 .. max_rows, 1 .. max_cols.
        max_rows: largest number of rows.
        max_cols: largest number of columns.
        value_range: what performance can be; it is rescaled to [0, 1]. Values outside by no more than 1e-6 of its width
            are rounding, and taken for the bound.
        exhaustive: instead of a sample take every third number of rows and of columns: 1, 4, ..., 100.
        seed: of the sample; the same for all models that are compared.

    Returns:
        ``(score, standard_error)``, 0-dim or (R,); the standard error is 0 for ``exhaustive``. NaN without points.

    Raises:
        ValueError: for NaN, values outside ``value_range``, shapes that differ, numbers below 1.

    Example:
        >>> import torch
        >>> from geobias_torch.functional import spad
        >>> lat, lon = torch.tensor([40.0, 41.0, 50.0, 51.0]), torch.tensor([0.0, 1.0, 8.0, 9.0])
        >>> score, error = spad(torch.tensor([1.0, 1.0, 0.0, 0.0]), lat=lat, lon=lon)
        >>> round(float(score), 1)
        50.0

    References:
        Xie et al., Fairness by "Where", AAAI 2022; baseline in GeoBS.
    """
    for name, number in (("partitionings", partitionings), ("max_rows", max_rows), ("max_cols", max_cols)):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
            raise ValueError(f"Expected `{name}` to be an integer >= 1, but got {number!r}.")
    performance = as_performance(performance)
    lat, lon = check_coordinates(lat, lon)
    if performance.ndim not in (1, 2) or len(performance) != len(lat):
        raise ValueError(
            f"Expected `performance` of shape ({len(lat)},) or ({len(lat)}, R), but got {tuple(performance.shape)}."
        )
    values = _rescale(performance if performance.ndim == 2 else performance[:, None], value_range)
    grids = _grids(partitionings, max_rows, max_cols, exhaustive, seed)
    deviations = 100 * grid_deviations(values, lat.to(values.device), lon.to(values.device), grids)
    score = deviations.mean(dim=0)
    sampled = not exhaustive and len(grids) > 1
    error = deviations.std(dim=0) / len(grids) ** 0.5 if sampled else torch.zeros_like(score)
    score, error = score.to(performance.dtype), error.detach().to(performance.dtype)
    return SPADScore(score, error) if performance.ndim == 2 else SPADScore(score[0], error[0])


def _rescale(values: Tensor, value_range: tuple[float, float]) -> Tensor:
    low, high = check_value_range(value_range)
    where, way_out = said_of(value_range)
    values = within_bounds(values.to(torch.float64), (low, high), where, way_out=way_out)
    return (values - low) / (high - low)


def check_value_range(value_range: tuple[float, float]) -> tuple[float, float]:
    """The range as two finite numbers that ascend."""
    try:
        low, high = (float(bound) for bound in value_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"Expected `value_range` as (low, high), but got {value_range}.")
    return low, high


def said_of(value_range: tuple[float, float]) -> tuple[str, str]:
    """How `within_bounds` names the range, and the way out, where performance is outside."""
    low, high = value_range
    return f"`value_range` = ({low:g}, {high:g})", "give the range of your performance as `value_range`"


def _grids(partitionings: int, max_rows: int, max_cols: int, exhaustive: bool, seed: int) -> list[tuple[int, int]]:
    if exhaustive:
        return [(rows, cols) for rows in range(1, max_rows + 1, 3) for cols in range(1, max_cols + 1, 3)]
    sample = np.random.default_rng(seed)
    rows, cols = (sample.integers(1, most, partitionings, endpoint=True) for most in (max_rows, max_cols))
    return list(zip(rows.tolist(), cols.tolist(), strict=True))


def grid_deviations(
    values: Tensor,
    lat: Tensor,
    lon: Tensor,
    grids: list[tuple[int, int]],
    cost: Callable[[Tensor], Tensor] = torch.abs,
    fixed: bool = False,
) -> Tensor:
    """Mean absolute deviation of the boxes' means from the overall mean, (S, R) float64, for every grid.

    Or the mean of another ``cost`` of the deviation, 0 for none; with ``fixed`` the overall mean has no gradient.
    """
    if not len(values):
        return values.new_full((len(grids), values.shape[1]), torch.nan)
    up, across = (_unit_interval(x) for x in (lat - lat.min(), _from_widest_gap(lon)))
    overall = (values.detach() if fixed else values).mean(dim=0)
    # the deviations are summed, not the values: a sum over all points keeps more digits
    values = values - overall
    one = torch.ones(len(values), dtype=values.dtype, device=values.device)
    deviations = []
    for rows, cols in grids:
        box = (up * rows).long().clamp(max=rows - 1) * cols + (across * cols).long().clamp(max=cols - 1)
        counts = one.new_zeros(rows * cols).index_add_(0, box, one)
        means = values.new_zeros(rows * cols, values.shape[1]).index_add(0, box, values) / counts.clamp(min=1)[:, None]
        deviations.append(cost(means).sum(dim=0) / (counts > 0).sum())
    return torch.stack(deviations)


def _unit_interval(offset: Tensor) -> Tensor:
    """Offsets from the lower edge as shares of the extent; 0 where there is no extent."""
    extent = offset.max()
    return offset / extent if extent > 0 else torch.zeros_like(offset)


def _from_widest_gap(lon: Tensor) -> Tensor:
    """Degrees east of the western end of the shortest arc that holds all longitudes."""
    around = torch.unique(lon)
    gaps = torch.cat([around[1:] - around[:-1], around[:1] + 360 - around[-1:]])
    start = around[(gaps.argmax() + 1) % len(around)]
    return torch.where(lon >= start, lon - start, lon - start + 360)
