"""Spatial relative entropy as a loss term: what is there beyond sampling noise, and only where places do badly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from geobias_torch.bounds import within_bounds
from geobias_torch.histograms import memberships
from geobias_torch.losses.inputs import check_call, result_dtype, settings
from geobias_torch.partitions import Partition
from geobias_torch.parts import SideBySide
from geobias_torch.patches import Patches
from geobias_torch.regions import Regions
from geobias_torch.segments import Segments, add_runs, offsets_of, scatter_rows

__all__ = ["SRELoss"]

# Below this share a bin's weight in the chi-square form stops growing, so that one hit among misses cannot dominate.
_SMALLEST_SHARE = 1e-3
_SMALL_STEP = 1 << 19  # (ROI, member) pairs
_WHERE = '[0, 1] for bins="probability"'


class SRELoss(nn.Module):
    r"""Mean over ROIs of how far the performance of their bad patches lies from their own.

    With :math:`h_m` the histogram of ROI :math:`m`, :math:`h_k` that of its patch :math:`k`, :math:`n_k` and
    :math:`n_m` their sizes, the sum running over the patches with at least ``min_patch_size`` members:

    .. math::
        L_m = \sum_k a_k \frac{n_k}{n_m} \cdot \frac12 \sum_j
        \frac{(h_{kj} - h_{mj})^2 - s_{kj}^2 (1/n_k - 1/n_m)}{\max(h_{mj}, 10^{-3})}
        \qquad \text{(estimator="excess")}

    .. math::
        L_m = \sum_k a_k \frac{n_k}{n_m} \, \mathrm{KL}\Big(h_m \,\Big\|\,
        \frac{n_k h_k + \text{prior} \cdot h_m}{n_k + \text{prior}}\Big) \qquad \text{(estimator="kl")}

    where :math:`s_{kj}^2` is the variance (n - 1) of the memberships of bin j within the patch and :math:`a_k` is 1 for
    patches that do worse than their ROI, 1 - ``one_sided`` for the others. The loss is the sum
    over the partitions of the unweighted mean of :math:`L_m` over all ROIs given; a ROI without such a patch adds 0.

    The KL of a sample is never 0, even where nothing is wrong: it contains its own sampling noise, and minimising that
    flattens performance instead of removing bias. ``"excess"`` takes the noise out (two-sided, its mean over shuffles
    of the performance within a ROI is exactly 0), so it may be negative. By default only patches that do worse than
    their ROI count, and the ROI's own histogram is a fixed target: bad places are pulled up, good ones left alone.

    Args:
        partition: how a ROI is cut into patches (`ScaleGrid`, `DistanceLag`, `DirectionSector` or any callable), or
            several of them, whose losses are summed.
        estimator: "excess", half the chi-square divergence without its sampling noise, or "kl".
        bins: "probability" (performance in [0, 1] is the probability of the upper of two bins), or bin edges as in
            `spatial_relative_entropy`, which need a ``bandwidth``.
        bandwidth: softness t > 0 of the bin edges, in the unit of the performance.
        prior: pseudo-count > 0 with which small patches shrink to their ROI; used by "kl" only.
        min_patch_size: smaller patches are left out; at least 2.
        target: "fixed": no gradient through the ROI's histogram where a patch is compared with it; "roi": with it.
            The denominators of "excess" never carry a gradient.
        one_sided: True (1): only patches whose mean performance is strictly below their ROI's. False (0): all alike.
            Between: the others count by 1 - ``one_sided``; it levels down a little, and takes more of the score
            away. This chooses by outcome, so the one-sided loss is not 0 on the mean where there is no bias (about
            -.014 at accuracy .95, 8 patches of 12).

    Shape:
        performance (N,), higher = better, without NaN; regions: M ROIs over the same N points; result: a scalar of the
        performance's dtype (float32 for half precision; the sums are taken in float64), 0 without ROIs.

    Raises:
        ValueError: on an option outside its range, performance of the wrong shape, with NaN or infinite, or outside
            [0, 1] with ``bins="probability"`` by more than rounding (1e-6), which is clipped but keeps its gradient.
        TypeError: if a partition is not callable, regions are not `Regions` or performance is no tensor.

    Example:
        >>> import torch
        >>> from geobias_torch import DirectionSector, Regions
        >>> from geobias_torch.losses import SRELoss
        >>> lat, lon = torch.tensor([1.0, 2, 3, -1, -2, -3]), torch.zeros(6)
        >>> north_and_south = Regions.from_points(lat=lat, lon=lon, radius=0.1, center_lat=[0.0], center_lon=[0.0])
        >>> performance = torch.tensor([0.9, 0.8, 0.9, 0.3, 0.2, 0.3], requires_grad=True)
        >>> loss = SRELoss(DirectionSector(2), min_patch_size=3)(performance, north_and_south)
        >>> loss.backward()  # lowering the loss raises the performance of the south, nothing else
        >>> performance.grad > -1e-9
        tensor([ True,  True,  True, False, False, False])

    References:
        GeoBS, Definitions 4.1-4.4 (the score); the noise-corrected form is this library's.
    """

    def __init__(
        self,
        partition: Sequence[Partition] | Partition,
        *,
        estimator: Literal["excess", "kl"] = "excess",
        bins: Sequence[float] | Literal["probability"] | None = "probability",
        bandwidth: float | None = None,
        prior: float = 0.5,
        min_patch_size: int = 5,
        target: Literal["fixed", "roi"] = "fixed",
        one_sided: bool | float = True,
    ) -> None:
        super().__init__()
        partitions = tuple(partition) if isinstance(partition, Sequence) else (partition,)
        if not partitions:
            raise ValueError("Expected `partition` to be one partition or several, but got an empty sequence.")
        for part in partitions:
            if not callable(part):
                raise TypeError(
                    "Expected `partition` to hold partitions such as DistanceLag(0.01), "
                    f"but got {part!r} of type {type(part).__name__}."
                )
        if estimator not in ("excess", "kl"):
            raise ValueError(f"Expected `estimator` to be 'excess' or 'kl', but got {estimator!r}.")
        if target not in ("fixed", "roi"):
            raise ValueError(f"Expected `target` to be 'fixed' or 'roi', but got {target!r}.")
        if not min_patch_size >= 2 or int(min_patch_size) != min_patch_size:
            raise ValueError(
                f"Expected `min_patch_size` of at least 2, whole: one has no variance, but got {min_patch_size}."
            )
        if not 0 <= one_sided <= 1:
            raise ValueError(f"Expected `one_sided` to be True, False or within [0, 1], but got {one_sided}.")
        if not 0 < prior < torch.inf:
            raise ValueError(
                f"Expected `prior` > 0 and finite: without it an all-wrong patch costs infinity, but got {prior}."
            )
        if bins == "probability" and bandwidth is not None:
            raise ValueError(f"Expected no `bandwidth` with bins='probability', but got {bandwidth}.")
        if bins != "probability" and (bandwidth is None or isinstance(bins, str)):
            raise ValueError(
                "Expected bins='probability', or bin edges with a `bandwidth`: hard bins have no gradient, "
                f"but got bins={bins!r}, bandwidth={bandwidth}."
            )
        memberships(torch.zeros(1), bins=bins, bandwidth=bandwidth)  # refuses edges that are none
        self.partitions = partitions
        self.estimator = estimator
        self.bins = bins
        self.bandwidth = bandwidth
        self.prior = prior
        self.min_patch_size = min_patch_size
        self.target = target
        self.one_sided = one_sided

    def extra_repr(self) -> str:
        """What the loss was made with, for ``print``."""
        return settings(
            partition=list(self.partitions), estimator=self.estimator, bins=self.bins, bandwidth=self.bandwidth,
            prior=self.prior, min_patch_size=self.min_patch_size, target=self.target, one_sided=self.one_sided,
        )  # fmt: skip

    def forward(self, performance: Tensor, regions: Regions) -> Tensor:
        """The loss of one performance vector over the ROIs given; see the class."""
        check_call(performance, regions)
        dtype = result_dtype(performance)
        if len(regions) == 0:
            return performance.to(dtype).sum() * 0.0
        # Differences of means below are small against the means: float64 keeps them, also under autocast.
        values = performance.to(torch.float64)
        patches = self._of_small_step(values, regions)
        if patches is None:
            return self._by_autograd(values, regions).to(dtype)
        values = within_bounds(values, (0, 1), _WHERE)
        loss: Tensor = _ClosedForm.apply(values, self, regions, patches)
        return loss.to(dtype)

    def _of_small_step(self, values: Tensor, regions: Regions) -> SideBySide | None:
        """The patches of a training step, for which the gradient is written down: autograd costs more than the sums."""
        if self.bins != "probability" or self.target != "fixed" or values.is_cuda:
            return None
        small = int(regions.sizes.sum()) <= _SMALL_STEP
        return regions.side_by_side(self.partitions) if small else None

    def _by_autograd(self, values: Tensor, regions: Regions) -> Tensor:
        parts = regions.patches_of(self.partitions)
        cells = {id(part.cells): part.cells for part in parts}  # partitions that were cut together share theirs
        sums = self._summed(values)
        return self._of_sums(parts, {key: sums(own.segments) for key, own in cells.items()})

    def _summed(self, values: Tensor) -> Callable[[Segments], Tensor]:
        """What sums over cells: H bins, their squares, and the performance; of a probability's bins the upper alone."""
        if self.bins == "probability":
            values = within_bounds(values, (0, 1), _WHERE)
            return lambda cells: cells.moments(values)
        member = memberships(values, bins=self.bins, bandwidth=self.bandwidth)  # (N, H)
        columns = torch.cat([member, member.square(), values.detach()[:, None]], dim=1)
        return lambda cells: cells.sum(columns)

    def _of_sums(self, parts: list[Patches], of_cell: dict[int, Tensor]) -> Tensor:
        """The loss from the sums (L, C) over the cells of each partition."""
        cells, sums = parts[0].cells, of_cell[id(parts[0].cells)]
        roi_size = cells.roi_sizes.to(sums)[:, None].clamp_min(1)  # (M, 1)
        of_roi = scatter_rows(cells.num_regions, cells.roi, sums.detach() if self.target == "fixed" else sums)

        # The K patches of all partitions at once; each brings a row more, for what lies in none of its patches.
        starts = [0, *accumulate(len(part) + 1 for part in parts)]
        place = torch.cat([part.cell_patch + start for part, start in zip(parts, starts, strict=False)])
        sums = scatter_rows(starts[-1], place, torch.cat([of_cell[id(part.cells)] for part in parts]))
        roi = torch.cat([pad(part.roi, (0, 1)) for part in parts])
        size = torch.cat([pad(part.sizes, (0, 1)) for part in parts])[:, None]
        n_patch, n_roi = size.to(sums).clamp_min(2), roi_size[roi]  # (K, 1); patches below 2 get no weight
        patch, whole = sums / n_patch, (of_roi / roi_size)[roi]  # (K, C)

        bins, squares = slice(sums.shape[1] // 2), slice(sums.shape[1] // 2, 2 * (sums.shape[1] // 2))
        performance = slice(0, 1) if self.bins == "probability" else slice(-1, None)
        no_worse = (patch[:, performance] >= whole[:, performance]).to(sums)
        # A patch is counted by its share of its ROI, and every ROI, scored or not, counts the same.
        share = torch.where(size >= self.min_patch_size, n_patch / n_roi, 0.0) / len(roi_size)
        weight = (1 - float(self.one_sided) * no_worse) * share
        h_patch, h_roi = self._all_bins(patch[:, bins]), self._all_bins(whole[:, bins])
        if self.estimator == "excess":
            # of two bins one has the variance of the other
            variance = (patch[:, squares] - patch[:, bins].square()) * (n_patch / (n_patch - 1))
            real = (h_patch - h_roi).square() - variance * (1 / n_patch - 1 / n_roi)
            return (weight * 0.5 * real / h_roi.detach().clamp_min(_SMALLEST_SHARE)).sum()
        blended = (n_patch * h_patch + self.prior * h_roi) / (n_patch + self.prior)
        # An empty bin of the ROI is empty in the patch too: both logs are clamped alike and 0 * 0 is left, not NaN.
        tiny = torch.finfo(blended.dtype).tiny
        return (weight * h_roi * (h_roi.clamp_min(tiny).log() - blended.clamp_min(tiny).log())).sum()

    def _all_bins(self, histogram: Tensor) -> Tensor:
        """Shares of all bins, (K, H); of a probability's two the upper one alone is summed."""
        return torch.cat([1 - histogram, histogram], dim=1) if self.bins == "probability" else histogram


class _ClosedForm(torch.autograd.Function):
    """The loss with its gradient written down, for a performance that is a probability and a fixed target.

    A step of a training loop sums over some ten thousand pairs, which takes less time than autograd's bookkeeping. Who
    differentiates twice gets the second derivatives by autograd.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, loss: SRELoss, regions: Regions, patches: SideBySide) -> Tensor:
        ctx.save_for_backward(values)
        ctx.loss, ctx.regions = loss, regions
        value, ctx.slopes = _closed_form(values.detach().resolve_neg().numpy(), loss, patches)
        return torch.tensor(value, dtype=values.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes = ctx.slopes
        if torch.is_grad_enabled():
            (values,) = ctx.saved_tensors
            (slopes,) = torch.autograd.grad(ctx.loss._by_autograd(values, ctx.regions), values, create_graph=True)
        return grad * slopes, None, None, None


def _closed_form(values: np.ndarray, loss: SRELoss, patches: SideBySide) -> tuple[float, Tensor]:
    """The loss and its derivative by the values (N,); see `SRELoss._of_sums` for the same by autograd."""
    members = patches.members.astype(np.intp)  # numpy would do so each time
    cells = patches.cells.astype(np.intp)
    lengths, numbers = cells[0], cells[1:]
    roi_sizes, _, per_roi = np.diff(patches.offsets, axis=0).T
    of_member = values.take(members)
    of_cell, of_roi = np.zeros(len(lengths)), np.zeros(len(patches))
    add_runs(of_member, offsets_of(lengths), of_cell)
    add_runs(of_cell, patches.offsets[:, 1], of_roi)
    flat, number = numbers.ravel(), int(patches.offsets[-1, 2])
    size, first = (np.bincount(flat, np.tile(x, len(numbers)), number) for x in (lengths, of_cell))
    size[patches.offsets[:-1, 2]] = 0  # what lies in no patch
    # the ROI's size and mean, patch by patch; patches below 2 get no weight
    n_roi, p = np.repeat(np.stack([np.maximum(roi_sizes, 1), of_roi]), per_roi, axis=1)
    n, p = np.maximum(size, 2), p / n_roi
    h = first / n
    weight = np.where(size >= loss.min_patch_size, n / n_roi, 0.0) / len(patches)
    weight *= 1 - float(loss.one_sided) * (h >= p)

    by_sum = np.zeros((len(size), 2))  # the loss is linear in a patch's sum of squares, and 2 times its slope in them
    if loss.estimator == "excess":
        weight *= 0.5 * (1 / np.maximum(p, _SMALLEST_SHARE) + 1 / np.maximum(1 - p, _SMALLEST_SHARE))
        noise = (1 / n - 1 / n_roi) / (n - 1)  # times the sum of squared deviations
        value = weight * ((h - p) ** 2 + noise * first * h)
        by_sum[:, 0], by_sum[:, 1] = weight * 2 * ((h - p) / n + noise * h), -weight * noise
    else:
        tiny = np.finfo(np.float64).tiny
        shrunk = loss.prior / (n + loss.prior)
        value = 0.0
        for share, reference, sign in ((h, p, 1), (1 - h, 1 - p, -1)):
            blended = np.maximum((1 - shrunk) * share + shrunk * reference, tiny)
            value = value + weight * reference * np.log(np.maximum(reference, tiny) / blended)
            by_sum[:, 0] -= sign * weight * (1 - shrunk) / n * reference / blended
    by_cell = by_sum.take(numbers, axis=0).sum(axis=0)
    by_first, by_second = np.repeat(by_cell, lengths, axis=0).T
    slopes = by_second * of_member
    squares = float(slopes @ of_member)
    slopes *= 2
    slopes += by_first
    return float(value.sum()) + squares, torch.from_numpy(np.bincount(members, slopes, len(values)))
