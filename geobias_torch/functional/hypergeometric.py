"""Exact expectations over the hypergeometric distribution, for many (population, marked, drawn) at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from geobias_torch.threads import spread

_CHUNK = 1 << 17  # probabilities held at once by a thread
_TAIL = 9.0  # standard deviations beyond which the probability is below 1e-16 ...
_SKEWED = 60  # ... plus so many draws for small means, whose upper tail is longer than a normal one

Value = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def hypergeometric_mean(population: np.ndarray, marked: np.ndarray, drawn: np.ndarray, value: Value) -> np.ndarray:
    r"""E[value(a)] for a ~ Hypergeometric(population, marked, drawn), case by case.

    .. math:: P(a) = \binom{C}{a} \binom{N - C}{n - a} / \binom{N}{n}

    The sum runs over every a whose probability does not vanish in float64.

    Args:
        population: (Q,) int64, N.
        marked: (Q,) int64, C.
        drawn: (Q,) int64, n.
        value: takes (a, population, marked, drawn), float64 arrays that broadcast, and returns values of the shape of
            a.

    Returns:
        (Q,) float64.
    """
    if not len(population):
        return np.zeros(0)
    log_factorial = torch.lgamma(torch.arange(int(population.max()) + 1, dtype=torch.float64) + 1).numpy()
    share = marked / population
    mean = drawn * share
    variance = mean * (1 - share) * (population - drawn) / np.maximum(population - 1, 1)
    reach = _TAIL * np.sqrt(variance) + _SKEWED
    low = np.maximum(np.maximum(drawn + marked - population, 0), np.floor(mean - reach).astype(np.int64))
    high = np.minimum(np.minimum(drawn, marked), np.ceil(mean + reach).astype(np.int64))
    # cases of like length share a rectangular table
    order = np.argsort(high - low, kind="stable")
    result = np.empty(len(population))

    def work(cases: np.ndarray) -> None:
        a = low[cases, None] + np.arange(int((high - low)[cases[-1]]) + 1)
        beyond = a > high[cases, None]
        a = np.minimum(a, high[cases, None])
        n, c, d = population[cases], marked[cases], drawn[cases]
        f = log_factorial
        constant = f[c] + f[n - c] + f[d] + f[n - d] - f[n]
        log_p = constant[:, None] - np.take(f, a) - np.take(f, c[:, None] - a)
        log_p -= np.take(f, d[:, None] - a) + np.take(f, (n - c - d)[:, None] + a)
        p = np.exp(log_p, out=log_p)
        p[beyond] = 0
        values = value(a.astype(np.float64), *(x[:, None].astype(np.float64) for x in (n, c, d)))
        result[cases] = np.einsum("ij,ij->i", p, values)

    lengths = (high - low + 1)[order]
    chunks, start = [], 0
    while start < len(order):
        # rows are as wide as the last and longest of the chunk
        stop = start + max(1, min(_CHUNK // int(lengths[start]), len(order) - start))
        while stop - start > 1 and (stop - start) * int(lengths[stop - 1]) > 2 * _CHUNK:
            stop = start + max(1, (stop - start) // 2)
        chunks.append(order[start:stop])
        start = stop
    list(spread(work, chunks, most=len(chunks)))
    return result
