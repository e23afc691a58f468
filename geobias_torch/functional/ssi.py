"""Spatial self-information: how surprising the spatial pattern of an ROI is under random placement of its values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from geobias_torch.functional.sre import check_performance
from geobias_torch.graphs import Graph, check_graph_options, check_max_members
from geobias_torch.histograms import as_performance
from geobias_torch.regions import Regions
from geobias_torch.segments import scatter_rows

_MAX_VALUES = 32  # distinct values that the value scheme takes
_LOG_2PI = math.log(2 * math.pi)
_CODINGS = (None, "signed", "centred", "raw")


def spatial_self_information(
    performance: Any | None,
    regions: Regions,
    *,
    coding: Literal["signed", "centred", "raw"] | None = None,
    k: int = 4,
    background: Literal["fibonacci", "concentric"] = "fibonacci",
    background_ratio: float = 5,
    max_members: int | None = 100,
    null: Literal["permutation", "value_scheme"] = "permutation",
    surprisal: Literal["density", "two_sided"] = "density",
    floor: float | None = None,
    ties: Literal["share", "index"] = "share",
) -> Tensor:
    r"""Local SSI: the surprisal of the spatial autocorrelation among the members of an ROI and empty background points.

    .. math::
        G = \sum_{ij} w_{ij} (z_i - \bar z)(z_j - \bar z), \qquad
        \mathrm{SSI} = -\log \mathcal{N}(G; \mu, \sigma^2)

    with weights 1 for the k nearest other points and :math:`\mu, \sigma^2` the moments of G when the values are
    assigned to the points at random. Higher = more biased.

    Args:
        performance: (N,) or (N, R) real values, 1 = good; ``None``: unmarked, the pattern of the locations alone.
        regions: M ROIs over the N points.
        coding: values of the members (background is 0): ``"signed"``: -1/+1 (default for two-valued performance, of
            each column by itself); ``"centred"``: minus the members' mean (default otherwise); ``"raw"``.
        k: number of neighbours; ties at the k-th distance share what is left of k.
        background: ``"fibonacci"``: lattice on the cap; ``"concentric"``: the rings of the published code.
        background_ratio: background points per member; 0: the pure pattern of performance.
        max_members: the nearest so many members take part (ties kept), ``None``: all.
        null: ``"permutation"``: exact randomisation moments; ``"value_scheme"``: those of the published code.
        surprisal: ``"density"`` of the normal, or ``"two_sided"`` tail probability.
        floor: added to the density inside the logarithm (published: 1e-256); ``None``: no cap.
        ties: ``"share"``, or ``"index"``: by row order, as published.

    Returns:
        (M,) or (M, R) in nats, NaN where an ROI cannot be scored (too few points, no variance, all values alike).

    Raises:
        ValueError: for NaN in ``performance``, unknown names, ``coding="signed"`` with other than two values, and
            with the value scheme more than 32 distinct values or ``background_ratio`` < 3.

    Example:
        >>> import torch
        >>> from geobias_torch import Regions
        >>> from geobias_torch.functional import spatial_self_information
        >>> lon = torch.linspace(10, 11, 12)
        >>> regions = Regions.from_points(lat=torch.full((12,), 50.0), lon=lon, radius=0.02, center_index=[6])
        >>> spatial_self_information((lon > 10.5).float(), regions)
        tensor([...])

    References:
        GeoBS, Section 4.2 and Algorithm 2; Wang et al., arXiv 2405.18459; Cliff & Ord, Spatial Processes (1981),
        moments.
    """
    options = SSIOptions(coding, k, background, background_ratio, max_members, null, surprisal, floor, ties)
    local, _ = _score(performance, regions, options)
    if performance is None:
        return local[:, 0]
    performance = as_performance(performance)
    return local.to(performance.dtype) if performance.ndim == 2 else local[:, 0].to(performance.dtype)


@dataclass(frozen=True)
class SSIOptions:
    """The options of :func:`spatial_self_information`, checked."""

    coding: str | None = None
    k: int = 4
    background: Literal["fibonacci", "concentric"] = "fibonacci"
    background_ratio: float = 5
    max_members: int | None = 100
    null: str = "permutation"
    surprisal: str = "density"
    floor: float | None = None
    ties: Literal["share", "index"] = "share"

    def __post_init__(self) -> None:
        _check_choice("coding", self.coding, _CODINGS)
        _check_choice("null", self.null, ("permutation", "value_scheme"))
        _check_choice("surprisal", self.surprisal, ("density", "two_sided"))
        if self.floor is not None and not 0 <= self.floor < 1:
            raise ValueError(f"Expected `floor` within [0, 1), but got {self.floor}.")
        check_graph_options(self.k, self.background, self.background_ratio, self.ties)
        check_max_members(self.max_members)
        if self.null == "value_scheme" and not self.background_ratio >= 3:
            raise ValueError(
                f'Expected `background_ratio` >= 3 with null="value_scheme", but got {self.background_ratio}.'
            )

    def graph_of(self, regions: Regions) -> Graph:
        """The neighbours that these options ask for."""
        return regions.graph(
            k=self.k,
            background=self.background,
            background_ratio=self.background_ratio,
            max_members=self.max_members,
            ties=self.ties,
        )


def score_and_floor(performance: Tensor | None, regions: Regions, options: SSIOptions) -> tuple[Tensor, Tensor]:
    """Local SSI (M,) and its expectation where the null is true, NaN where an ROI is not scored; float64."""
    local, variance = _score(performance, regions, options)
    return local[:, 0], surprisal_floor(torch.where(local.isnan(), torch.nan, variance), options.surprisal)[:, 0]


def _score(performance: Any | None, regions: Regions, options: SSIOptions) -> tuple[Tensor, Tensor]:
    """Local SSI and the variance of G under the null, (M, R) float64."""
    marked, coding = performance is not None, options.coding
    if performance is None:
        performance, coding = torch.ones(regions.num_points), "raw"
    performance = check_performance(performance, regions)
    values = performance if performance.ndim == 2 else performance[:, None]
    pattern = Pattern.of(*_coded(values, coding), graph := options.graph_of(regions))
    permuted = options.null == "permutation"
    mean, variance = pattern.permutation_moments() if permuted else pattern.value_scheme_moments(options.k)
    # the variance is what is left of larger terms: below this share of them it is rounding noise
    scored = pattern.large_enough(options.k) & (variance > 1e-12 * (mean**2 + variance))
    if marked:
        scored = scored & pattern.differ()
    # where() on both sides of the logarithm: an ROI that is not scored must not put NaN into the gradient
    deviation = torch.where(scored, pattern.quadratic_form() - mean, 0.0)
    variance = torch.where(scored, variance, 1.0)
    local = surprisal_of(deviation, variance, options.surprisal, options.floor)
    return torch.where(scored, local, torch.nan)[graph.which], variance[graph.which]


def surprisal_of(deviation: Tensor, variance: Tensor, surprisal: str, floor: float | None = None) -> Tensor:
    """Surprisal in nats of a deviation from the mean of a normal distribution."""
    t2 = deviation**2 / variance
    if surprisal == "two_sided":
        # float64 throughout: the float32 gradient of log_ndtr is wrong in the tail
        return -math.log(2) - torch.special.log_ndtr(-t2.clamp(min=1e-300).sqrt())
    log_density = -0.5 * (t2 + variance.log() + _LOG_2PI)
    if floor:
        log_density = torch.logaddexp(log_density, log_density.new_tensor(math.log(floor)))
    return -log_density


def surprisal_floor(variance: Tensor, surprisal: str) -> Tensor:
    """Expected surprisal under the null: log sigma + (1 + log 2 pi) / 2 for the density, 1 for the two tails."""
    return torch.ones_like(variance) if surprisal == "two_sided" else 0.5 * (variance.log() + 1 + _LOG_2PI)


def _check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Expected `{name}` to be one of {choices}, but got {value!r}.")


def _coded(values: Tensor, coding: str | None) -> tuple[Tensor, Tensor]:
    """Values (N, R), -1/+1 in the columns to be signed, and which columns (R,) are to be centred.

    By default a column with two values is signed; asked of all its points, so that every ROI is coded alike.
    """
    none, every = (torch.full(values.shape[1:], answer, device=values.device) for answer in (False, True))
    if coding in ("centred", "raw") or not values.numel():
        return values, every if coding == "centred" else none
    low, high = values.amin(dim=0), values.amax(dim=0)
    two = ((values == low) | (values == high)).all(dim=0)
    if coding == "signed" and not two.all():
        raise ValueError('Expected `performance` with two values for coding="signed", but got more.')
    signed = every if coding == "signed" else two & (low < high)
    plus_minus = torch.where(values == high, 1.0, -1.0).to(values.dtype)
    # signs have no gradient: no graph where there is nothing else
    return plus_minus if signed.all() else torch.where(signed, plus_minus, values), ~signed


@dataclass(frozen=True)
class Pattern:
    """Values of the members of every ROI on their graph, R columns, float64; the background is 0."""

    z: Tensor  # (P', R)
    graph: Graph
    roi: Tensor  # (P',)
    values: Tensor  # (N, R) before centring

    @classmethod
    def of(cls, values: Tensor, centred: Tensor, graph: Graph) -> Pattern:
        """Take the members' values out of (N, R), minus their mean in the columns (R,) that are to be centred."""
        values = values.to(torch.float64)
        roi = graph.roi
        z = values[graph.segments.members.long()]
        pattern = cls(z, graph, roi, values)
        if not centred.any():
            return pattern
        mean = centred * pattern._per_roi(z) / graph.segments.sizes.clamp(min=1)[:, None]
        return cls(z - mean[roi], graph, roi, values)

    def _per_roi(self, values: Tensor) -> Tensor:
        """Sum member values (P', R) over every ROI: (M, R)."""
        return scatter_rows(len(self.graph.background), self.roi, values)

    @property
    def totals(self) -> Tensor:
        """Number of points n + B of every ROI."""
        return self.graph.segments.sizes + self.graph.background

    def large_enough(self, k: int) -> Tensor:
        """Whether every point has a k-th neighbour and the moments exist, (M, 1)."""
        return (self.totals >= max(k + 2, 4))[:, None]

    @cached_property
    def mean(self) -> Tensor:
        """Mean value (M, R) over members and background."""
        return self._per_roi(self.z) / self.totals.clamp(min=1)[:, None]

    @cached_property
    def deviation(self) -> Tensor:
        """Z minus the mean (P', R); that of the background is ``-mean``."""
        return self.z - self.mean[self.roi]

    def quadratic_form(self) -> Tensor:
        """G (M, R)."""
        graph, d = self.graph, self.deviation
        source = graph.source.long()
        pairs = graph.weight[:, None] * d[source] * d[graph.target.long()]
        inner = scatter_rows(len(d), source, pairs)
        mixed = -self.mean[self.roi] * graph.outside[:, None] * d
        return self._per_roi(inner + mixed) + graph.between[:, None] * self.mean**2

    def differ(self) -> Tensor:
        """Whether the members of an ROI have different values, (M, R)."""
        index = self.roi[:, None].expand_as(self.z)
        z = self.values.detach()[self.graph.segments.members.long()]
        low = z.new_full((len(self.graph.background), z.shape[1]), torch.inf).scatter_reduce(0, index, z, "amin")
        high = z.new_full(low.shape, -torch.inf).scatter_reduce(0, index, z, "amax")
        return high > low

    def permutation_moments(self) -> tuple[Tensor, Tensor]:
        """Exact mean and variance (M, R) of G over all assignments of the values to the points."""
        background = self.graph.background[:, None]
        n = self.totals.clamp(min=4).to(torch.float64)[:, None]
        m2 = (self._per_roi(self.deviation**2) + background * self.mean**2) / n
        m4 = (self._per_roi(self.deviation**4) + background * self.mean**4) / n
        return self.moments_of(m2, m4)

    def moments_of(self, m2: Tensor | float, m4: Tensor | float) -> tuple[Tensor, Tensor]:
        """The same for any values with these second and fourth moments about their mean."""
        n = self.totals.clamp(min=4).to(torch.float64)[:, None]
        s0, s1, s2 = (s[:, None] for s in (self.graph.s0, self.graph.s1, self.graph.s2))
        mean = -s0 * m2 / (n - 1)
        normal = n * ((n**2 - 3 * n + 3) * s1 - n * s2 + 3 * s0**2)
        heavy = (n**2 - n) * s1 - 2 * n * s2 + 6 * s0**2
        second = (m2**2 * normal - m4 * heavy) / ((n - 1) * (n - 2) * (n - 3))
        return mean, second - mean**2

    def value_scheme_moments(self, k: int) -> tuple[Tensor, Tensor]:
        """Mean and variance (M, R) of G under the value scheme of Wang et al., for few distinct values."""
        moments = [self._value_scheme_column(column, k) for column in range(self.z.shape[1])]
        return torch.stack([mean for mean, _ in moments], dim=1), torch.stack(
            [variance for _, variance in moments], dim=1
        )

    def _value_scheme_column(self, column: int, k: int) -> tuple[Tensor, Tensor]:
        values, which = torch.unique(self.values[:, column].detach(), return_inverse=True)
        values = values if len(values) else values.new_zeros(1)  # no points at all
        if len(values) + 1 > _MAX_VALUES:
            raise ValueError(
                f'Expected at most {_MAX_VALUES} distinct values with null="value_scheme", but got {len(values) + 1} '
                "with the background."
            )
        members = self.graph.segments.members.long()
        one_hot = torch.nn.functional.one_hot(which[members], len(values)).to(torch.float64)
        counts = self._per_roi(one_hot)  # (M, V)
        # what the coding took from every value of an ROI, so that c is the value as coded
        taken = self._per_roi(self.values[members] - self.z)[:, column] / self.graph.segments.sizes.clamp(min=1)
        c = torch.cat([values - taken[:, None], torch.zeros_like(taken)[:, None]], dim=1)
        counts = torch.cat([counts, self.graph.background[:, None].to(torch.float64)], dim=1)
        c, counts = _merge_background(c, counts)
        total = self.totals.clamp(min=1).to(torch.float64)[:, None]
        d = c - self.mean[:, column : column + 1]
        present = counts > 0
        mean = _pairs(d * counts).sum(dim=(1, 2)) * k / total[:, 0]
        mean = mean + (present * d**2 * (k * counts * (counts - 1) / total - 1)).sum(dim=1)
        # the most frequent value; of several the smallest
        top = counts == counts.amax(dim=1, keepdim=True)
        often = torch.where(top, c, torch.inf).argmin(dim=1, keepdim=True)
        rest = present & (torch.arange(c.shape[1], device=c.device) != often)
        d_r, c_r = d.gather(1, often), c.gather(1, often)
        bracket = d[:, :, None] * d[:, None, :] - 2 * d[:, :, None] * d_r[:, :, None] + d_r[:, :, None] ** 2
        less, more = (f(counts[:, :, None], counts[:, None, :]) for f in (torch.minimum, torch.maximum))
        share = k * more / total[:, :, None]
        both = _off_diagonal(rest[:, :, None] & rest[:, None, :])
        variance = (both * bracket**2 * less * share * (1 - share)).sum(dim=(1, 2))
        single = 2 * (counts - 1) * k * counts / total * (1 - k * (2 * counts - 1) / (3 * total))
        return mean, variance + (rest * (c - c_r) ** 4 * single).sum(dim=1)


def _merge_background(c: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Where a coded value is 0, as the background (the last column) is, count it with the background."""
    same = c[:, :-1] == 0
    counts = torch.cat([counts[:, :-1] * ~same, counts[:, -1:] + (counts[:, :-1] * same).sum(1, keepdim=True)], dim=1)
    return c, counts


def _off_diagonal(x: Tensor) -> Tensor:
    return x & ~torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)


def _pairs(x: Tensor) -> Tensor:
    """x_p x_q over ordered pairs p != q, (M, V, V)."""
    return (x[:, :, None] * x[:, None, :]) * ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
