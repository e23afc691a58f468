"""Spatial self-information as a loss term: errors that lie together cost, wherever they lie."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from geobias_torch.functional.ssi import Pattern, SSIOptions, surprisal_of
from geobias_torch.losses.inputs import check_call, result_dtype, settings
from geobias_torch.regions import Regions

__all__ = ["SSILoss"]


class SSILoss(nn.Module):
    r"""Mean over ROIs of how surprising the arrangement of their members' performance is, on both sides.

    With :math:`G` the spatial autocorrelation of an ROI and :math:`\mu, \sigma^2` its exact moments when the values
    are assigned to the points at random, as in
    :func:`~geobias_torch.functional.spatial_self_information`:

    .. math::
        t = \frac{G - \mu}{\sqrt{\sigma^2 + \sigma_0^2}}, \qquad
        \text{loss} = \frac1M \sum_m -\log\big(2 \Phi(-|t_m|)\big)

    It is 0 where nothing is arranged, and grows both where like lies beside like and where it avoids it.
    :math:`\sigma_0^2` is the variance that G would have if the values were :math:`\pm` ``value_floor``: differences
    below it do not count, and without it the gradient would grow like 1 / spread. By default no background takes part:
    where the points lie is not the model's doing.

    Args:
        k: neighbours of a point; ties at the k-th distance share what is left of k.
        background_ratio: background points (value 0) per member.
        value_floor: spread of the performance, > 0, below which differences do not count.
        coding: "centred" (performance minus the members' mean) or "raw"; the same without a background.
        max_members: the nearest so many members take part (ties are kept); None: all.

    Shape:
        performance (N,), any real numbers without NaN; regions: M ROIs over the same N points; result: a scalar >= 0 of
        the performance's dtype (float32 for half precision; computed in float64). The mean is over the ROIs with more
        than k + 1 points, of which not all coincide; 0 with a graph without any.

    Raises:
        ValueError: on an option outside its range, performance of the wrong shape, with NaN or infinite.
        TypeError: if regions are not `Regions` or performance is no tensor.

    Example:
        >>> import torch
        >>> from geobias_torch import Regions
        >>> from geobias_torch.losses import SSILoss
        >>> lon = torch.linspace(10, 11, 20)
        >>> regions = Regions.from_points(lat=torch.full((20,), 50.0), lon=lon, radius=0.03, center_index=[10])
        >>> clustered, mixed = (lon > 10.5).float(), (torch.arange(20) * 7 % 20 > 9).float()
        >>> bool(SSILoss()(clustered, regions) > 5), bool(SSILoss()(mixed, regions) < 2)
        (True, True)

    References:
        GeoBS, Section 4.2 and Algorithm 2; the two-sided form with a floor is this library's.
    """

    def __init__(
        self,
        *,
        k: int = 4,
        background_ratio: float = 0,
        value_floor: float = 0.01,
        coding: Literal["centred", "raw"] = "centred",
        max_members: int | None = 100,
    ) -> None:
        super().__init__()
        if coding not in ("centred", "raw"):
            raise ValueError(f"Expected `coding` to be 'centred' or 'raw', but got {coding!r}.")
        if not 0 < value_floor < math.inf:
            raise ValueError(f"Expected `value_floor` > 0, but got {value_floor}.")
        self.options = SSIOptions(coding=coding, k=k, background_ratio=background_ratio, max_members=max_members)
        self.value_floor = value_floor

    def extra_repr(self) -> str:
        """What the loss was made with, for ``print``."""
        own = self.options
        return settings(
            k=own.k, background_ratio=own.background_ratio, value_floor=self.value_floor, coding=own.coding,
            max_members=own.max_members,
        )  # fmt: skip

    def forward(self, performance: Tensor, regions: Regions) -> Tensor:
        """The loss of one performance vector over the ROIs given; see the class."""
        check_call(performance, regions)
        dtype = result_dtype(performance)
        if len(regions) == 0:
            return performance.to(dtype).sum() * 0.0
        graph = self.options.graph_of(regions)
        centred = torch.tensor([self.options.coding == "centred"], device=performance.device)
        pattern = Pattern.of(performance[:, None], centred, graph)
        mean, variance = pattern.permutation_moments()
        floor_mean, floor = pattern.moments_of(self.value_floor**2, self.value_floor**4)
        # where all points coincide no arrangement differs from another, and the variance is rounding noise
        scored = pattern.large_enough(self.options.k) & (floor > 1e-12 * (floor_mean**2 + floor))
        # where() before the quotient: an ROI that is not scored must not put NaN into the gradient; a variance may be
        # below 0 by rounding
        spread = torch.where(scored, variance.clamp_min(0) + floor, 1.0)
        deviation = torch.where(scored, pattern.quadratic_form() - mean, 0.0)
        local = surprisal_of(deviation, spread, "two_sided")[graph.which]
        return (local.sum() / scored[graph.which].sum().clamp_min(1)).to(dtype)
