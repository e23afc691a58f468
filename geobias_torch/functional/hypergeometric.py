"""Exact expectations over the hypergeometric distribution, for many (population, marked, drawn) at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_CHUNK = 1 << 22  # probabilities held at once
_TAIL = 9.0  # standard deviations beyond which the probability is below 1e-16


def hypergeometric_mean(
    population: Tensor, marked: Tensor, drawn: Tensor, value: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    r"""E[value(a, case)] for a ~ Hypergeometric(population, marked, drawn), case by case.

    .. math:: P(a) = \binom{C}{a} \binom{N - C}{n - a} / \binom{N}{n}

    Equal cases are worked out once. Terms whose probability vanishes in float64 are left out.

    Args:
        population: (Q,) int64, N.
        marked: (Q,) int64, C.
        drawn: (Q,) int64, n.
        value: takes numbers of marked draws a (any shape) and the positions of their cases, returns values.

    Returns:
        (Q,) float64.
    """
    log_factorial = (
        torch.lgamma(torch.arange(int(population.max()) + 2, dtype=torch.float64) + 1) if len(population) else None
    )
    low = (drawn + marked - population).clamp(min=0)
    high = torch.minimum(drawn, marked)
    share = marked / population
    mean = drawn * share
    variance = mean * (1 - share) * (population - drawn) / (population - 1).clamp(min=1)
    # + 60 covers the skewed cases of small means, whose tails are longer than normal ones
    reach = _TAIL * variance.sqrt() + 60
    low = torch.maximum(low, (mean - reach).floor().long())
    high = torch.minimum(high, (mean + reach).ceil().long())
    lengths = high - low + 1
    result = torch.zeros(len(population), dtype=torch.float64)
    order = torch.argsort(lengths)
    ends = lengths[order].cumsum(0)
    start = 0
    while start < len(order):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(ends, before + _CHUNK, right=True)))
        case = order[start:stop].repeat_interleave(lengths[order[start:stop]])
        first = ends[start:stop] - lengths[order[start:stop]] - before
        a = torch.arange(len(case)) - first.repeat_interleave(lengths[order[start:stop]]) + low[case]
        n, c, d = population[case], marked[case], drawn[case]
        f = log_factorial
        assert f is not None
        log_probability = (f[c] - f[a] - f[c - a]) + (f[n - c] - f[d - a] - f[n - c - d + a]) - (f[n] - f[d] - f[n - d])
        result.index_add_(0, case, log_probability.exp() * value(a, case))
        start = stop
    return result
