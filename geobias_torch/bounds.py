"""Performance that has to lie within bounds: what rounding put just outside is taken for the bound."""

from __future__ import annotations

from torch import Tensor

_ROUNDING = 1e-6  # of the width of the bounds: float32 of a probability may be 1.0000001


def within_bounds(
    performance: Tensor, bounds: tuple[float, float], where: str, *, way_out: str = "", rows: Tensor | None = None
) -> Tensor:
    """Performance with the values clipped that are outside the bounds by rounding; the gradient passes as if not.

    Args:
        performance: (N,) or (N, R).
        bounds: lowest and highest value.
        where: how an error names the bounds.
        way_out: what an error suggests.
        rows: (N,) the row numbers of the caller, for the error; by default 0..N-1.

    Raises:
        ValueError: if a value is outside by more than 1e-6 of the width of the bounds.
    """
    low, high = bounds
    values = performance.detach()
    if values.numel():
        least, most = values.aminmax()
        if low <= float(least) and float(most) <= high:
            return performance
    outside = _outside(values, bounds)
    if outside.any():
        places = outside.nonzero()
        numbers = places[:, 0] if rows is None else rows[places[:, 0]]
        first = int(numbers.argmin())
        if tuple(bounds) == (0, 1) and looks_like_percent(values):
            way_out = "these look like percent: divide by 100"
        raise ValueError(
            f"Expected `performance` within {where}, but got {float(values[tuple(places[first])]):.8g} "
            f"at row {int(numbers[first])}{way_out and ': '}{way_out}."
        )
    return performance + (values.clamp(low, high) - values)  # not clamp itself, whose gradient is 0 where it clips


def _outside(values: Tensor, bounds: tuple[float, float]) -> Tensor:
    low, high = bounds
    slack = _ROUNDING * (high - low)
    return (values < low - slack) | (values > high + slack)


def fits(values: Tensor, bounds: tuple[float, float]) -> bool:
    """Whether `within_bounds` takes all values."""
    return not _outside(values, bounds).any()


def looks_like_percent(values: Tensor) -> bool:
    """Whether values that should lie within [0, 1] seem to be percent: within [0, 100], and some above 10."""
    return bool(values.numel()) and bool(values.min() >= 0) and 10 < float(values.max()) <= 100
