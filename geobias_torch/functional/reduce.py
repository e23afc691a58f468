"""From local scores to a global one."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from geobias_torch.convert import to_tensor
from geobias_torch.regions import Regions


class GlobalScore(NamedTuple):
    """A global score and how many ROIs are behind it.

    Attributes:
        value: weighted mean of the local scores, NaN where none counts.
        rois_counted: number of ROIs with a score.
        rois_total: number of ROIs.

    Example:
        >>> import torch
        >>> from geobias_torch.functional import reduce_scores
        >>> reduce_scores(torch.tensor([0.5, float("nan")])).rois_counted
        1
    """

    value: Tensor
    rois_counted: int | Tensor
    rois_total: int


def reduce_scores(local: Any, regions: Regions | None = None, weights: Any = None) -> GlobalScore:
    r"""Weighted mean of the local scores that are not NaN.

    .. math:: \Gamma = \sum_m w_m \gamma_m / \sum_m w_m

    Args:
        local: (M,) or (M, R) local scores, NaN = not scored.
        regions: the ROIs; their sizes are the default weights, :math:`w_m = \#N_m`.
        weights: (M,) weights >= 0, for example area or population; without both every ROI weighs the same.

    Returns:
        ``GlobalScore(value, rois_counted, rois_total)``: ``value`` 0-dim (or (R,), with ``rois_counted`` (R,)), NaN
        where no ROI counts; differentiable.

    Raises:
        ValueError: if the lengths differ, or a weight is negative or not finite.

    Example:
        >>> import torch
        >>> from geobias_torch.functional import reduce_scores
        >>> score = reduce_scores(torch.tensor([1.0, float("nan"), 3.0]), weights=[1, 1, 3])
        >>> float(score.value), score.rois_counted, score.rois_total
        (2.5, 2, 3)

    References:
        GeoBS, Definition 3.7 and Section 4.4.
    """
    local = to_tensor("local", local)
    if not local.is_floating_point() or local.ndim not in (1, 2):
        raise ValueError(
            f"Expected `local` of shape (M,) or (M, R), floating, but got {local.dtype}, {tuple(local.shape)}."
        )
    if weights is None:
        weights = torch.ones(len(local)) if regions is None else regions.sizes
    weights = to_tensor("weights", weights).to(device=local.device, dtype=local.dtype)
    if weights.shape != local.shape[:1]:
        raise ValueError(f"Expected one weight for each of {len(local)} ROIs, but got shape {tuple(weights.shape)}.")
    bad = ~((weights >= 0) & torch.isfinite(weights))
    if bad.any():
        roi = int(bad.nonzero()[0])
        raise ValueError(f"Expected `weights` >= 0 and finite, but got {float(weights[roi])} at ROI {roi}.")
    columns = local if local.ndim == 2 else local[:, None]
    counted = ~torch.isnan(columns)
    weighted = torch.where(counted, weights[:, None], 0)
    # where() first: a NaN times 0 would poison the sum and the gradient
    value = (weighted * torch.where(counted, columns, 0)).sum(0) / weighted.sum(0)
    if local.ndim == 2:
        return GlobalScore(value, counted.sum(0), len(local))
    return GlobalScore(value[0], int(counted.sum()), len(local))
