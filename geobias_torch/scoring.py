"""Score prediction tables, and write what came out."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from geobias_torch.bounds import fits, looks_like_percent
from geobias_torch.files import replacing
from geobias_torch.geometry import unit_vectors
from geobias_torch.metrics import GeoBiasScores, excess
from geobias_torch.tables import PredictionTable, same_points

LOCAL_SCORES = ("sg_sre", "dl_sre", "ds_sre", "u_ssi", "m_ssi")
"""Scores that every ROI has; the sixth score, ``spad``, is one of all points together."""

SSI_MAX_MEMBERS = 100
"""The nearest so many members of an ROI take part in SSI."""

LOCAL_SUFFIXES = (".parquet", ".csv")
"""Endings of the files that a per-ROI table is written to."""


@dataclass(frozen=True)
class ScoredTable:
    r"""A prediction table with its geo-bias scores.

    Attributes:
        table: the predictions.
        kept: (R,) bool: which rows were scored, those with a performance in every table that was scored together.
        settings: lengths (radians) and thresholds that the scores were computed with.
        scores: what `GeoBiasScores.compute` returns as plain numbers, each score also with ``_excess`` (score - floor).
        local: what `GeoBiasScores.local` returns, each (R,) for the R rows of the file, NaN in rows that were dropped.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from geobias_torch.tables import read_predictions
        >>> path = Path(tempfile.mkdtemp()) / "predictions.csv"
        >>> _ = path.write_text("lat,lon,hit\n48.8,9.2,1\n48.9,9.2,0\n")
        >>> [scored] = score_tables([read_predictions(path)], radius=0.01)
        >>> scored.local["members"]
        array([2., 2.])
    """

    table: PredictionTable
    kept: np.ndarray
    settings: dict[str, float]
    scores: dict[str, float]
    local: dict[str, np.ndarray]

    def worst(self, score: str, count: int = 5) -> list[int]:
        r"""Rows of the regions with the largest excess of a score over its noise floor, worst first.

        No centre lies in a region that is listed before it: neighbours of the worst region would say the same again.

        Args:
            score: one of `LOCAL_SCORES`.
            count: how many rows at most.

        Returns:
            Row numbers, from 0; fewer than `count` where no more regions have a score.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from geobias_torch.tables import read_predictions
            >>> path = Path(tempfile.mkdtemp()) / "predictions.csv"
            >>> rows = [f"{i % 7},{i // 7},{int(i % 7 < 2)}" for i in range(49)]
            >>> _ = path.write_text("\n".join(["lat,lon,hit", *rows]))
            >>> [scored] = score_tables([read_predictions(path)], radius=0.1)
            >>> len(scored.worst("ds_sre", count=1))
            1
        """
        local = excess(self.local)[f"{score}_excess"]
        candidates = np.flatnonzero(~np.isnan(local))
        candidates = candidates[np.argsort(-local[candidates], kind="stable")]
        vectors = unit_vectors(*(torch.as_tensor(self.local[name][candidates]) for name in ("lat", "lon"))).numpy()
        chord = 2 * math.sin(self.settings["radius"] / 2)
        rows: list[int] = []
        while len(candidates) and len(rows) < count:
            rows.append(int(candidates[0]))
            outside = np.linalg.norm(vectors - vectors[0], axis=1) > chord
            outside[0] = False
            candidates, vectors = candidates[outside], vectors[outside]
        return rows

    def as_json(self) -> dict[str, Any]:
        """Everything but the per-ROI table, ready for JSON: a score that could not be computed is None."""
        table = self.table
        return {
            "file": os.fspath(table.path),
            "columns": table.columns,
            "rows": len(table.lat),
            "rows_without_location": int((~table.located).sum()),
            "rows_without_performance": int((table.located & ~table.kept).sum()),
            "rows_scored": int(self.kept.sum()),
            "settings": self.settings,
            "scores": {name: None if math.isnan(score) else score for name, score in self.scores.items()},
        }


def score_tables(
    tables: Sequence[PredictionTable],
    *,
    radius: float,
    scale: float | None = None,
    lag: float | None = None,
    sectors: int = 8,
    min_patch_size: int = 10,
    min_roi_size: int = 1,
    progress: Callable[[str, float], None] = lambda stage, done: None,
) -> list[ScoredTable]:
    r"""Score one table, or several models at the same points with one geometry.

    Every row with a location and a performance in every table is the centre of a region (ROI). There are no ``spad``
    scores where a performance lies outside [0, 1]; a performance that looks like percent is warned about.

    Args:
        tables: what `read_predictions` returned.
        radius: radius of the regions, radians.
        scale: side of the squares of the scale-grid score, radians; by default half the radius.
        lag: width of the rings of the distance-lag score, radians; by default a fifth of the radius.
        sectors: number of the sectors of the direction-sector score.
        min_patch_size: fewest members of a patch that is looked at.
        min_roi_size: fewest members of a region that is scored.
        progress: called with a few words before every stage, and again with the share of it that is done (0 to 1).

    Returns:
        One result a table; the rows of all are those of the first.

    Raises:
        ValueError: if the tables have not the same points, fewer than two of them have a performance in every table, or
            a setting is out of its range.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from geobias_torch.tables import read_predictions
        >>> path = Path(tempfile.mkdtemp()) / "predictions.csv"
        >>> _ = path.write_text("\n".join(["lat,lon,hit", *(f"{i % 7},{i // 7},{int(i % 7 < 2)}" for i in range(49))]))
        >>> [scored] = score_tables([read_predictions(path)], radius=0.1)
        >>> round(scored.scores["performance"], 4)
        0.2857
        >>> scored.local["ds_sre"].shape
        (49,)
    """
    first = tables[0]
    performances = np.stack([first.performance, *(same_points(first, other) for other in tables[1:])])
    kept = first.kept & ~np.isnan(performances).any(axis=0)
    if kept.sum() < 2:
        raise ValueError(
            f"Expected at least 2 points with a performance in every table, but got {int(kept.sum())} in "
            f"{', '.join(str(table.path) for table in tables)}."
        )
    performances = performances[:, kept]
    for table, performance in zip(tables, performances, strict=True):
        if looks_like_percent(torch.from_numpy(performance)):
            warnings.warn(
                f"`{table.columns['value']}` of {table.path} is expected within [0, 1], but goes up to "
                f"{performance.max():g}: these look like percent: divide by 100.",
                stacklevel=2,
            )
    bounded = fits(torch.from_numpy(performances), (0, 1))
    names = (*LOCAL_SCORES, "spad") if bounded else LOCAL_SCORES
    metric = GeoBiasScores(
        radius=radius,
        scale=scale,
        lag=lag,
        sectors=sectors,
        min_patch_size=min_patch_size,
        min_roi_size=min_roi_size,
        ssi_max_members=SSI_MAX_MEMBERS,
        scores=names,
    )
    lat, lon = torch.as_tensor(first.lat[kept]), torch.as_tensor(first.lon[kept])
    results = []
    for table, performance in zip(tables, performances, strict=True):
        stage = f"scoring {table.path.name}"
        progress(stage, 0.0)
        metric.progress = partial(progress, stage)
        metric.reset()  # forgets the performance; the geometry of the same points is used again
        metric.update(torch.as_tensor(performance), lat=lat, lon=lon)
        scores: dict[str, float] = {name: score.item() for name, score in metric.compute().items()}
        scores |= {f"{name}_rois": int(scores[f"{name}_rois"]) for name in LOCAL_SCORES}
        scores |= excess(scores)
        local = {}
        for name, column in metric.local().items():
            local[name] = np.full(len(kept), np.nan)
            local[name][kept] = column.numpy()
        settings = {
            "radius": float(metric.radius),
            "scale": float(metric.scale),
            "lag": float(metric.lag),
            "sectors": sectors,
            "min_patch_size": min_patch_size,
            "min_roi_size": min_roi_size,
            "ssi_max_members": SSI_MAX_MEMBERS,
        }
        results.append(ScoredTable(table, kept, settings, scores, local))
    return results


def write_local(local: dict[str, np.ndarray], path: str | os.PathLike[str]) -> None:
    """Write a per-ROI table, one row for every row of the predictions; empty (null) = could not be scored.

    Args:
        local: the columns, each (R,).
        path: a file ending in .parquet or .csv; it is replaced as a whole or not at all.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "local.csv"
        >>> write_local({"members": np.array([3.0, np.nan]), "ds_sre": np.array([0.5, np.nan])}, path)
        >>> print(path.read_text())
        "members","ds_sre"
        3,0.5
        ,
        <BLANKLINE>
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    columns = {name: pa.array(column, from_pandas=True) for name, column in local.items()}  # NaN -> null
    if "members" in columns:
        columns["members"] = columns["members"].cast(pa.int64())
    table = pa.table(columns)
    with replacing(path) as temporary:
        if os.fspath(path).lower().endswith(".csv"):
            csv.write_csv(table, temporary)
        else:
            parquet.write_table(table, temporary)


def write_json(content: Any, path: str | os.PathLike[str]) -> None:
    """Write JSON; the file is replaced as a whole or not at all.

    Args:
        content: what `ScoredTable.as_json` returns, or a list of it.
        path: the file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "scores.json"
        >>> write_json({"spad": None}, path)
        >>> json.loads(path.read_text())
        {'spad': None}
    """
    with replacing(path) as temporary:
        temporary.write_text(
            json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
        )
