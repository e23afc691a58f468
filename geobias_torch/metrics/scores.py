"""Local scores of all kinds on one geometry, ROI block by ROI block, and the global ones made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from geobias_torch.functional.reduce import GlobalScore, reduce_scores
from geobias_torch.functional.spad import spad
from geobias_torch.functional.sre import SREOptions, count, floor_tables, score_tables
from geobias_torch.functional.ssi import SSIOptions, score_and_floor
from geobias_torch.histograms import Bins
from geobias_torch.metrics.points import Points, in_blocks
from geobias_torch.partitions import Partition
from geobias_torch.regions import Regions

_SPAD_SHUFFLES = 20
_CELLS_OF_SPAD = 1 << 26  # values of shuffled columns held at once


@dataclass(frozen=True)
class LocalPlan:
    """What to compute for every ROI.

    Attributes:
        partitions: SRE scores by name.
        sre: options of the SRE scores.
        bins: their bins.
        ssi: SSI scores by name: whether marked, and options.
    """

    partitions: Mapping[str, Partition] = field(default_factory=dict)
    sre: SREOptions = field(default_factory=SREOptions)
    bins: Bins = None
    ssi: Mapping[str, tuple[bool, SSIOptions]] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalScores:
    """Per-ROI results, (M,) float64 each: ``members``, ``performance``, ``constant``, scores and their ``_floor``."""

    columns: dict[str, Tensor]

    def reduce(self, name: str, plan: LocalPlan, weights: Tensor | None) -> tuple[GlobalScore, Tensor]:
        """Global score of ``name`` and its noise floor over the same ROIs."""
        local = self.columns[name]
        if name in plan.ssi:
            # the published global value: unweighted, over ROIs whose performance differs
            local = torch.where(self.columns["constant"] > 0, torch.nan, local)
            weights = torch.ones_like(local)
        elif weights is None:
            weights = self.columns["members"]
        floor = torch.where(local.isnan(), torch.nan, self.columns[f"{name}_floor"])
        return reduce_scores(local, weights=weights), reduce_scores(floor, weights=weights).value


def local_scores(
    points: Points, regions: Regions, plan: LocalPlan, progress: Callable[[float], None] | None = None
) -> LocalScores:
    """Compute everything that ``plan`` names for every ROI; ``progress`` is told the share that is done."""
    performance = points.performance
    regions, which = regions.distinct
    names = ["members", "performance", "constant"]
    names += [f"{name}{suffix}" for name in (*plan.partitions, *plan.ssi) for suffix in ("", "_floor")]
    columns = {name: torch.full((len(regions),), torch.nan, dtype=torch.float64) for name in names}

    def put(name: str, rows: Tensor | slice, values: Tensor) -> None:
        columns[name][rows] = values.detach().to("cpu", torch.float64)

    done = 0
    for rows, block in in_blocks(regions):
        values = performance.to(block.lat.device)
        if plan.partitions:
            tables = count(values, block, list(plan.partitions.values()), plan.sre, plan.bins)
            for name, table in zip(plan.partitions, tables, strict=True):
                put(name, rows, score_tables(table, plan.sre)[:, 0])
                put(f"{name}_floor", rows, floor_tables(table, plan.sre)[:, 0])
        put("members", rows, block.sizes)
        mean = block.sum(values) / block.sizes.clamp(min=1)
        put("performance", rows, torch.where(block.sizes > 0, mean, torch.nan))
        put("constant", rows, block.constant(values))
        for name, (marked, options) in plan.ssi.items():
            score, floor = score_and_floor(values if marked else None, block, options)
            put(name, rows, score)
            put(f"{name}_floor", rows, floor)
        done += len(block)
        if progress is not None:
            progress(done / len(regions))
    return LocalScores({name: column[which.cpu()] for name, column in columns.items()})


def worst_decile(means: Tensor, sizes: Tensor, min_roi_size: int) -> Tensor:
    """Mean of the lowest tenth (at least one) of the ROI means, over ROIs with at least ``min_roi_size`` members."""
    means = means[(sizes >= max(min_roi_size, 1))]
    if not len(means):
        return torch.tensor(torch.nan, dtype=torch.float64)
    return means.sort().values[: max(1, len(means) // 10)].mean()


def spad_scores(points: Points) -> dict[str, Tensor]:
    """SPAD, its noise floor (the mean over seeded permutations), and its standard error."""
    performance, lat, lon = points.performance.cpu(), points.lat.cpu(), points.lon.cpu()
    generator = torch.Generator().manual_seed(0)
    shuffles = [torch.randperm(len(performance), generator=generator) for _ in range(_SPAD_SHUFFLES)]
    step = max(1, _CELLS_OF_SPAD // max(1, len(performance)))
    score, error = spad(performance, lat=lat, lon=lon)
    floors = [
        spad(torch.stack([performance[s] for s in shuffles[i : i + step]], dim=1), lat=lat, lon=lon).score
        for i in range(0, _SPAD_SHUFFLES, step)
    ]
    return {"spad": score, "spad_floor": torch.cat(floors).mean(), "spad_se": error}


def excess(scores: Mapping[str, Any]) -> dict[str, Any]:
    r"""What the noise floor does not explain of every score: compare models by this.

    .. math:: \mathrm{excess} = \mathrm{score} - \mathrm{floor}

    Args:
        scores: what ``compute()`` or ``local()`` of :class:`~geobias_torch.metrics.GeoBiasScores` returns; any mapping
            with numbers, arrays or tensors ``<score>`` and ``<score>_floor``.

    Returns:
        ``<score>_excess`` for every score with a floor. Higher = more biased; NaN where a score is NaN.

    Example:
        >>> from geobias_torch.metrics import excess
        >>> excess({"val/spad": 19.0, "val/spad_floor": 17.0, "val/spad_se": 0.1})
        {'val/spad_excess': 2.0}
    """
    names = [key.removesuffix("_floor") for key in scores if key.endswith("_floor")]
    return {f"{name}_excess": scores[name] - scores[f"{name}_floor"] for name in names}


def check_weights(weights: Tensor | None, points: Points) -> Tensor | None:
    """Weights given per row, brought into the order of the points."""
    if weights is None:
        return None
    if weights.shape != points.lat_given.shape:
        raise ValueError(
            f"Expected `weights` with one weight for each of {len(points.lat_given)} rows, "
            f"but got {tuple(weights.shape)}."
        )
    bad = ~((weights >= 0) & torch.isfinite(weights))
    if bad.any():
        row = int(bad.nonzero()[0])
        raise ValueError(f"Expected `weights` >= 0 and finite, but got {float(weights[row])} at row {row}.")
    return weights.to(torch.float64)[points.place.cpu()]


def select(names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Check the names of scores."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"Expected `scores` out of {tuple(known)}, but got {unknown[0]!r}.")
    return tuple(names)
