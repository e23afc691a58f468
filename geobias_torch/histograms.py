"""How performance values fall into bins: hard, soft, by category, or as probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from geobias_torch.bounds import within_bounds
from geobias_torch.convert import to_tensor

Bins = Sequence[float] | Tensor | Literal["categories", "probability"] | None


def as_performance(performance: Any) -> Tensor:
    """Performance as a floating point tensor; integers, booleans and half precision become float32."""
    performance = to_tensor("performance", performance)
    if performance.is_complex():
        raise TypeError(f"Expected `performance` to be real, but got {performance.dtype}.")
    if performance.dtype not in (torch.float32, torch.float64):
        performance = performance.to(torch.float32)
    bad = ~torch.isfinite(performance)
    if bad.any():
        row = bad.nonzero()[0].tolist()
        value = float(performance[tuple(row)])
        raise ValueError(f"Expected `performance` to be finite, but got {value} at row {row[0]}.")
    return performance


def is_hard(bins: Bins, bandwidth: float | None) -> bool:
    """Whether every value lies in exactly one bin."""
    return bandwidth is None and not (isinstance(bins, str) and bins == "probability")


def memberships(performance: Tensor, bins: Bins = None, bandwidth: float | None = None) -> Tensor:
    r"""Membership of every value in every bin; they sum to 1.

    Hard: 1 in the bin :math:`[b_j, b_{j+1})` that holds the value, else 0. Soft, with a bandwidth t > 0 and the
    logistic function s:

    .. math:: m_j(v) = s((v - b_j) / t) - s((v - b_{j+1}) / t)

    Outer bins are open ended. ``bins="probability"`` takes v as the probability of the upper of two bins:
    :math:`(1 - v, v)`, differentiable without a bandwidth.

    Args:
        performance: (N, ...) real values, 1 = good everywhere.
        bins: bin edges :math:`b_0 < \dots < b_H`; ``None``: two bins, [0, .5) and [.5, 1]; ``"categories"``: a bin per
            distinct value; ``"probability"``.
        bandwidth: softness of the edges in units of performance, > 0; ``None``: hard.

    Returns:
        (N, ..., H), float32 or float64 as ``performance``.

    Raises:
        ValueError: for edges that do not ascend, fewer than two bins, a bandwidth that is not positive or does not go
            with ``bins``, and with ``bins="probability"`` values outside [0, 1].

    Example:
        >>> import torch
        >>> from geobias_torch.histograms import memberships
        >>> memberships(torch.tensor([0.0, 0.7])).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        >>> memberships(torch.tensor([0.5]), bandwidth=0.1).tolist()
        [[0.5, 0.5]]

    References:
        GeoBS, Algorithm 1 (histogram bins).
    """
    performance = as_performance(performance)
    if bandwidth is not None and not bandwidth > 0:
        raise ValueError(f"Expected `bandwidth` > 0, but got {bandwidth}.")
    if isinstance(bins, str):
        if bins not in ("categories", "probability"):
            raise ValueError(f'Expected `bins` to be edges, None, "categories" or "probability", but got {bins!r}.')
        if bandwidth is not None:
            raise ValueError(f'Expected no `bandwidth` with bins="{bins}", but got {bandwidth}.')
        return _probability(performance) if bins == "probability" else _categories(performance)
    inner = _inner_edges(bins, performance)
    if bandwidth is None:
        numbers = torch.arange(len(inner) + 1, device=performance.device)
        return (_bin_of(performance, inner)[..., None] == numbers).to(performance.dtype)
    # s at the outer edges is 1 and 0: they lie at -inf and +inf
    above = torch.sigmoid((performance[..., None] - inner) / bandwidth)
    full, none = torch.ones_like(above[..., :1]), torch.zeros_like(above[..., :1])
    return -torch.diff(torch.cat([full, above, none], dim=-1), dim=-1)


def _inner_edges(bins: Any, performance: Tensor) -> Tensor:
    edges = torch.as_tensor([0.0, 0.5, 1.0] if bins is None else bins, dtype=torch.float64, device=performance.device)
    if edges.ndim != 1 or len(edges) < 3 or not bool((edges.diff() > 0).all()):
        raise ValueError(f"Expected `bins` to be at least three strictly increasing edges, but got {edges.tolist()}.")
    return edges[1:-1].to(performance.dtype)


def _bin_of(performance: Tensor, inner: Tensor) -> Tensor:
    if len(inner) == 1:
        return (performance >= inner[0]).long()
    return torch.bucketize(performance.detach(), inner, right=True)


def _probability(performance: Tensor) -> Tensor:
    performance = within_bounds(performance, (0, 1), '[0, 1] for bins="probability"')
    return torch.stack([1 - performance, performance], dim=-1)


def _categories(performance: Tensor) -> Tensor:
    categories, which = torch.unique(performance.detach(), return_inverse=True)
    return torch.nn.functional.one_hot(which, max(2, len(categories))).to(performance.dtype)
