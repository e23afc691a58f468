"""Spatial relative entropy: how much the patches of an ROI differ from the ROI, and how much of that is noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from geobias_torch.functional.hypergeometric import hypergeometric_mean
from geobias_torch.histograms import Bins, as_performance, is_hard, memberships
from geobias_torch.partitions import Partition
from geobias_torch.patches import Cells, LargePatches
from geobias_torch.regions import Regions
from geobias_torch.segments import scatter_rows

_TINY = 1e-300  # stands for an empty bin inside a logarithm that is multiplied by 0


@dataclass(frozen=True)
class SREOptions:
    """What decides which patches and ROIs are scored, and how their histograms are smoothed."""

    smoothing: float = 1e-8
    prior: float = 0.0
    min_patch_size: int = 10
    min_patches: int = 2
    min_roi_size: int = 1
    drop_constant: bool = True

    def __post_init__(self) -> None:
        for name in ("smoothing", "prior"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ValueError(f"Expected `{name}` >= 0, but got {value}.")
        if self.smoothing == 0 and self.prior == 0:
            raise ValueError("Expected `smoothing` > 0 without a `prior`, as a patch may lack a bin, but got 0.")
        for name in ("min_patch_size", "min_patches", "min_roi_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value < 1 << 62:
                raise ValueError(f"Expected `{name}` to be an integer >= 1, but got {value!r}.")

    @property
    def drops_constant(self) -> bool:
        """Whether ROIs with all members in one hard bin are left out."""
        return self.drop_constant and self.prior == 0


@dataclass(frozen=True)
class Histograms:
    """Counts per bin of ROIs and of the patches that are large enough, for R performance vectors and H bins."""

    roi_counts: Tensor  # (M, R, H) float64
    roi_sizes: Tensor  # (M,) float64
    patch_counts: Tensor  # (K', R, H) float64
    patches: LargePatches
    constant: Tensor  # (M, R) bool: all members in one hard bin

    @classmethod
    def of(
        cls,
        rois: tuple[Tensor, Tensor],
        patches: tuple[Tensor, LargePatches],
        shape: tuple[int, ...],
        constant: Tensor | None = None,
    ) -> Histograms:
        """Complete the counts of the upper bins (rows, R * (H - 1)) to tables (rows, R, H)."""

        def complete(upper: Tensor, sizes: Tensor) -> Tensor:
            upper = upper.unflatten(1, (shape[0], shape[1] - 1)).to(torch.float64)
            return torch.cat([sizes[:, None, None] - _over_bins(upper)[..., None], upper], dim=-1)

        roi_sizes = rois[1].to(torch.float64)
        roi_counts = complete(rois[0], roi_sizes)
        if constant is None:
            constant = (roi_counts == roi_sizes[:, None, None]).any(dim=-1)
        return cls(roi_counts, roi_sizes, complete(patches[0], patches[1].sizes), patches[1], constant)

    @property
    def roi_shares(self) -> Tensor:
        """h(N), (M, R, H); an ROI without members has zeros."""
        return self.roi_counts / self.roi_sizes.clamp(min=1)[:, None, None]

    def over_patches(self, values: Tensor) -> Tensor:
        """Sum of patch values (K', R), weighted by #P_k / #N_m, over the patches of every ROI: (M, R)."""
        return scatter_rows(len(self.roi_sizes), self.patches.roi, values * self.patches.weights[:, None])


def check_performance(performance: Any, regions: Regions) -> Tensor:
    """Performance (N,) or (N, R) of the points of ``regions``, on their device."""
    performance = as_performance(performance)
    if performance.ndim not in (1, 2) or len(performance) != regions.num_points:
        raise ValueError(
            f"Expected `performance` of shape ({regions.num_points},) or ({regions.num_points}, R), "
            f"but got shape {tuple(performance.shape)}."
        )
    return performance.to(regions.lat.device)


def count(
    performance: Tensor,
    regions: Regions,
    partitions: Sequence[Partition],
    options: SREOptions,
    bins: Bins = None,
    bandwidth: float | None = None,
) -> list[Histograms]:
    """Histograms under one or several partitions; what they have in common is counted once."""
    values = performance if performance.ndim == 2 else performance[:, None]
    columns = memberships(values, bins, bandwidth)
    patches = regions.patches_of(partitions)
    cells = {id(p.cells): p.cells for p in patches}
    hard = is_hard(bins, bandwidth)
    sums = {key: _upper_bins(columns, c, exact=hard) for key, c in cells.items()}
    shared = sums[id(patches[0].cells)][1], regions.sizes
    constant = (
        None if hard or not options.drops_constant else _constant(_hard_twin(values, bins), patches[0].cells, regions)
    )
    return [
        Histograms.of(
            shared, _patch_sums(sums[id(p.cells)][0], p.of_size(options.min_patch_size)), columns.shape[1:], constant
        )
        for p in patches
    ]


def _upper_bins(columns: Tensor, cells: Cells, exact: bool) -> tuple[Tensor, Tensor]:
    """Sums (rows, R * (H - 1)) over cells and ROIs, without the lowest bin: it is what is left of the size."""
    upper = columns[..., 1:].flatten(1)
    # hard memberships are counted: whole numbers are added in half the time
    return cells.sums(upper.to(torch.int32 if exact else torch.float64))


def _patch_sums(sums: Tensor, patches: LargePatches) -> tuple[Tensor, LargePatches]:
    return scatter_rows(len(patches.roi) + 1, patches.place, sums)[:-1], patches


def _hard_twin(values: Tensor, bins: Bins) -> Tensor:
    """The hard memberships that belong to soft ones."""
    return memberships(values.detach(), None if isinstance(bins, str) else bins)


def _constant(columns: Tensor, cells: Cells, regions: Regions) -> Tensor:
    """Which ROIs (M, R) have all their members in one bin."""
    upper = _upper_bins(columns, cells, exact=True)[1].unflatten(1, (columns.shape[1], columns.shape[2] - 1))
    return (upper == regions.sizes[:, None, None]).any(dim=-1) | (upper == 0).all(dim=-1)


def _over_bins(values: Tensor) -> Tensor:
    """Sum over the last dimension; few bins are added up one by one, as a reduction along short rows is slow."""
    if values.shape[-1] > 8:
        return values.sum(dim=-1)
    total, *others = values.unbind(-1)
    for other in others:
        total = total + other
    return total


def patch_distribution(tables: Histograms, options: SREOptions) -> Tensor:
    """q_k (K', R, H): the smoothed histogram of every patch."""
    sizes = tables.patches.sizes[:, None, None]
    if options.prior > 0:
        return (tables.patch_counts + options.prior * tables.roi_shares[tables.patches.roi]) / (sizes + options.prior)
    return (tables.patch_counts / sizes).add_(options.smoothing)


def relative_entropy(tables: Histograms, options: SREOptions) -> Tensor:
    """Gamma (M, R): the KL divergences of the patches from their ROI, weighted by their share of the members."""
    shares, patches = tables.roi_shares, tables.patches
    own = _over_bins(shares * shares.clamp(min=_TINY).log())
    # The ROI's shares are the same for all its patches: only the logarithms are added up over these. In place, as most
    # of the time goes into new memory; with smoothing no bin is empty.
    logs = patch_distribution(tables, options)
    logs = (logs.clamp_(min=_TINY) if options.prior > 0 else logs).log_().mul_(patches.weights[:, None, None])
    per_bin = [scatter_rows(len(own), patches.roi, of_bin) for of_bin in logs.unbind(-1)]
    return patches.covered[:, None] * own - _over_bins(shares * torch.stack(per_bin, dim=-1))


def scorable(tables: Histograms, options: SREOptions) -> Tensor:
    """Which ROIs count, (M, R): large enough, with enough patches, and not all in one bin."""
    enough = (tables.roi_sizes >= options.min_roi_size) & (tables.patches.per_roi >= options.min_patches)
    enough = enough[:, None]
    return enough & ~tables.constant if options.drops_constant else enough.expand(tables.constant.shape)


def score_tables(tables: Histograms, options: SREOptions) -> Tensor:
    """Local scores (M, R), NaN where an ROI does not count."""
    gamma = relative_entropy(tables, options)
    return torch.where(scorable(tables, options), gamma, torch.nan)


def spatial_relative_entropy(
    performance: Any,
    regions: Regions,
    partition: Partition,
    *,
    bins: Bins = None,
    bandwidth: float | None = None,
    smoothing: float = 1e-8,
    prior: float = 0.0,
    min_patch_size: int = 10,
    min_patches: int = 2,
    min_roi_size: int = 1,
    drop_constant: bool = True,
) -> Tensor:
    r"""Local SRE: how far the performance in the patches of an ROI is from the performance in the whole ROI.

    .. math::
        \gamma_m = \sum_k \frac{\#P_k}{\#N_m} \sum_j h_j(N_m) \log \frac{h_j(N_m)}{q_{kj}}, \qquad
        q_k = h(P_k) + \mathrm{smoothing}

    over the patches with at least ``min_patch_size`` members; with ``prior`` > 0 instead
    :math:`q_k = (\#P_k h(P_k) + \mathrm{prior}\, h(N_m)) / (\#P_k + \mathrm{prior})`. Higher = more biased.

    Args:
        performance: (N,) or (N, R) real values, 1 = good; differentiable with a ``bandwidth`` or
            ``bins="probability"``.
        regions: M ROIs over the N points.
        partition: how an ROI is cut: ``DistanceLag``, ``DirectionSector``, ``ScaleGrid`` or a callable.
        bins: see :func:`~geobias_torch.histograms.memberships`.
        bandwidth: see :func:`~geobias_torch.histograms.memberships`.
        smoothing: added to every share of a patch, not renormalised.
        prior: pseudo-counts that shrink a patch to its ROI; replaces ``smoothing``.
        min_patch_size: smaller patches are left out; weights are not renormalised.
        min_patches: an ROI with fewer such patches is not scored.
        min_roi_size: an ROI with fewer members is not scored.
        drop_constant: an ROI whose members are all in one hard bin is not scored (ignored with a ``prior``; soft
            memberships are judged by the hard bins of the same edges).

    Returns:
        (M,) or (M, R) in nats, NaN where an ROI is not scored; float32 or float64 as ``performance``.

    Raises:
        ValueError: for NaN in ``performance``, shapes that differ, a partition wider than the radius, options out of
            range.

    Example:
        >>> import torch
        >>> from geobias_torch import DirectionSector, Regions
        >>> from geobias_torch.functional import spatial_relative_entropy
        >>> lon = torch.linspace(9, 11, 41)
        >>> regions = Regions.from_points(lat=torch.zeros(41), lon=lon, radius=0.02, center_index=[20])
        >>> spatial_relative_entropy((lon > 10.3).float(), regions, DirectionSector(2))
        tensor([2.8881])

    References:
        GeoBS, Definitions 4.1-4.3 and Algorithm 1.
    """
    options = SREOptions(smoothing, prior, min_patch_size, min_patches, min_roi_size, drop_constant)
    performance = check_performance(performance, regions)
    distinct, which = regions.distinct
    (tables,) = count(performance, distinct, [partition], options, bins, bandwidth)
    local = score_tables(tables, options).to(performance.dtype)[which]
    return local if performance.ndim == 2 else local[:, 0]


def noise_floor(
    performance: Any,
    regions: Regions,
    partition: Partition,
    *,
    bins: Bins = None,
    bandwidth: float | None = None,
    smoothing: float = 1e-8,
    prior: float = 0.0,
    min_patch_size: int = 10,
    min_patches: int = 2,
    min_roi_size: int = 1,
    drop_constant: bool = True,
) -> Tensor:
    r"""The local SRE that a model without geo-bias would score: its exact mean when values are shuffled within the ROI.

    .. math::
        f_m = \sum_k \frac{\#P_k}{\#N_m} \sum_{j: h_j > 0} h_j (\log h_j - \mathrm{E} \log q_{kj}(a)), \qquad
        a \sim \mathrm{Hypergeometric}(\#N_m, \#N_m h_j, \#P_k)

    Score minus floor is the excess, what the noise of small patches does not explain.

    Args:
        performance: as for :func:`spatial_relative_entropy`.
        regions: as there.
        partition: as there.
        bins: as there; hard histograms only.
        bandwidth: must be ``None``.
        smoothing: as there.
        prior: as there.
        min_patch_size: as there.
        min_patches: as there.
        min_roi_size: as there.
        drop_constant: as there.

    Returns:
        (M,) or (M, R) in nats, >= 0 up to the smoothing, NaN where the score is NaN; no gradient.

    Raises:
        ValueError: for soft memberships, and as :func:`spatial_relative_entropy`.

    Example:
        >>> import torch
        >>> from geobias_torch import DirectionSector, Regions
        >>> from geobias_torch.functional import noise_floor
        >>> lon = torch.linspace(9, 11, 41)
        >>> regions = Regions.from_points(lat=torch.zeros(41), lon=lon, radius=0.02, center_index=[20])
        >>> noise_floor((lon > 10.3).float(), regions, DirectionSector(2), prior=0.5)
        tensor([...])

    References:
        This library; see docs/definitions.md.
    """
    if not is_hard(bins, bandwidth):
        raise ValueError(
            "Expected hard histograms for the noise floor, but got soft memberships (`bandwidth` or `bins`)."
        )
    options = SREOptions(smoothing, prior, min_patch_size, min_patches, min_roi_size, drop_constant)
    performance = check_performance(performance, regions).detach()
    distinct, which = regions.distinct
    (tables,) = count(performance, distinct, [partition], options, bins)
    floor = floor_tables(tables, options).to(performance.dtype)[which]
    return floor if performance.ndim == 2 else floor[:, 0]


def floor_tables(tables: Histograms, options: SREOptions) -> Tensor:
    """Expected local scores (M, R) under shuffling within the ROI, NaN where an ROI does not count."""
    shares = tables.roi_shares
    own = _over_bins(shares * shares.clamp(min=_TINY).log())
    roi = tables.patches.roi
    floor = tables.over_patches(own[roi] - _over_bins(shares[roi] * _expected_log_share(tables, options)))
    return torch.where(scorable(tables, options), floor, torch.nan)


def _expected_log_share(tables: Histograms, options: SREOptions) -> Tensor:
    """E log q_kj (K', R, H) when the members of the ROI are dealt out to its patches at random."""
    roi = tables.patches.roi
    marked = tables.roi_counts[roi]
    population = tables.roi_sizes[roi][:, None, None].expand_as(marked)
    drawn = tables.patches.sizes[:, None, None].expand_as(marked)
    # an empty bin of the ROI has weight 0; so has an ROI that is not scored
    needed = (marked > 0) & scorable(tables, options)[roi][..., None]
    # counts are exact integers: equal cases, of which there are many, are worked out once
    cases = torch.stack([t[needed] for t in (population, marked, drawn)]).to("cpu", torch.int64)
    distinct, which = _distinct_cases(cases)

    def log_share(a: np.ndarray, population: np.ndarray, marked: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        if options.prior > 0:
            return np.log((a + options.prior * (marked / population)) / (drawn + options.prior))
        return np.log(np.maximum(a / drawn + options.smoothing, _TINY))

    population, marked_, drawn = distinct.numpy()
    means = hypergeometric_mean(population, marked_, drawn, log_share)
    expected = torch.zeros_like(marked)
    expected[needed] = torch.from_numpy(means)[which].to(marked.device)
    return expected


def _distinct_cases(cases: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct columns of (3, Q) and the position of every column among them."""
    if cases.numel() and int(cases.max()) >= 1 << 21:
        return torch.unique(cases, dim=1, return_inverse=True)
    key = (cases[0] << 42) + (cases[1] << 21) + cases[2]
    key, which = torch.unique(key, return_inverse=True)
    return torch.stack([key >> 42, (key >> 21) & ((1 << 21) - 1), key & ((1 << 21) - 1)]), which
