"""SPAD as a loss term: the boxes of a random grid that do worse than the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from geobias_torch.functional.spad import grid_deviations
from geobias_torch.geometry import check_coordinates
from geobias_torch.losses.inputs import check_performance, result_dtype, settings

__all__ = ["SPADLoss"]

_ROUND = 0.01  # below such a deviation the absolute value is a parabola: its kink would jump between -1 and 1


class SPADLoss(nn.Module):
    r"""Mean over the boxes of one random grid of how far their mean performance lies from the mean of all points.

    Each call draws the number of rows and columns, each uniform in 1..max, and cuts the points' bounding box
    (the shortest arc of longitudes) into so many equal boxes. With :math:`\bar v_b` the mean performance in box b of
    the B boxes that hold points, and :math:`\bar v` that of all:

    .. math::
        \text{loss} = \frac1B \sum_b \Big(\sqrt{(\bar v_b - \bar v)^2 + .01^2} - .01\Big)

    a smooth absolute value. With ``one_sided`` only boxes below :math:`\bar v` count, and :math:`\bar v` is a fixed
    target: bad places are pulled up, good ones left alone. This is the one loss without ROIs: it needs the
    coordinates, and a batch that covers the map.

    Args:
        max_rows: rows at most, at least 1.
        max_cols: columns at most, at least 1.
        one_sided: only boxes that do worse than the whole.
        seed: of the grids; the n-th call of two losses with one seed draws the same.

    Attributes:
        calls: how many grids were drawn; kept in the state dict, so that a run that is resumed goes on with the next.

    Shape:
        performance (N,), in [0, 1] or another range of about 1, without NaN; lat, lon (N,) degrees; result: a scalar
        >= 0 of the performance's dtype (float32 for half precision; computed in float64); 0 with a graph without
        points.

    Raises:
        ValueError: on an option below 1, performance of the wrong shape, with NaN or infinite, or bad coordinates.
        TypeError: if performance is no tensor.

    Example:
        >>> import torch
        >>> from geobias_torch.losses import SPADLoss
        >>> lat, lon = torch.tensor([40.0, 41.0, 50.0, 51.0]), torch.tensor([0.0, 1.0, 8.0, 9.0])
        >>> performance = torch.tensor([0.9, 0.9, 0.1, 0.1], requires_grad=True)
        >>> SPADLoss(seed=1)(performance, lat=lat, lon=lon).backward()
        >>> performance.grad.sign().tolist()
        [0.0, 0.0, -1.0, -1.0]

    References:
        Xie et al., Fairness by "Where", AAAI 2022; the smooth and one-sided form is this library's.
    """

    def __init__(self, max_rows: int = 100, max_cols: int = 100, one_sided: bool = True, seed: int = 0) -> None:
        super().__init__()
        for name, number in (("max_rows", max_rows), ("max_cols", max_cols)):
            if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
                raise ValueError(f"Expected `{name}` to be an integer >= 1, but got {number!r}.")
        self.max_rows, self.max_cols, self.one_sided, self.seed = max_rows, max_cols, one_sided, seed
        self.calls = 0

    def extra_repr(self) -> str:
        """What the loss was made with, for ``print``."""
        return settings(max_rows=self.max_rows, max_cols=self.max_cols, one_sided=self.one_sided, seed=self.seed)

    def forward(self, performance: Tensor, *, lat: Any, lon: Any) -> Tensor:
        """The loss over the next grid; see the class."""
        check_performance(performance)
        lat, lon = check_coordinates(lat, lon)
        if len(lat) != len(performance):
            raise ValueError(
                f"Expected `performance` of shape (N,) with N = {len(lat)} as `lat`, but got {len(performance)}."
            )
        sample = np.random.default_rng([self.seed, self.calls])
        rows, cols = (int(sample.integers(1, most, endpoint=True)) for most in (self.max_rows, self.max_cols))
        self.calls += 1
        dtype = result_dtype(performance)
        if not len(performance):
            return performance.to(dtype).sum() * 0.0
        values = performance.to(torch.float64)[:, None]
        lat, lon = (degrees.to(performance.device) for degrees in (lat, lon))
        return grid_deviations(values, lat, lon, [(rows, cols)], self._cost, fixed=self.one_sided)[0, 0].to(dtype)

    def _cost(self, deviation: Tensor) -> Tensor:
        if self.one_sided:
            deviation = deviation.clamp_max(0)
        return (deviation.square() + _ROUND**2).sqrt() - _ROUND

    def get_extra_state(self) -> int:
        """The grids drawn so far."""
        return self.calls

    def set_extra_state(self, state: int) -> None:
        """Go on with the grid after them."""
        self.calls = int(state)
