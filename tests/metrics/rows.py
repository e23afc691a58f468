"""Rows to feed, every metric in one setting, and results to the last bit."""

import numpy as np
import pytest
import torch

from geobias_torch import search
from geobias_torch.metrics import (
    SPAD,
    DirectionSectorSRE,
    DistanceLagSRE,
    GeoBiasScores,
    MarkedSSI,
    ScaleGridSRE,
    UnmarkedSSI,
)
from tests import scenes

RADIUS = scenes.RADIUS
SIZES = {"min_patch_size": 2}
METRICS = {
    "collection": lambda **keywords: GeoBiasScores(RADIUS, 0.04, 0.03, 5, **SIZES, **keywords),
    "scale grid": lambda **keywords: ScaleGridSRE(RADIUS, 0.04, **SIZES, **keywords),
    "lag": lambda **keywords: DistanceLagSRE(RADIUS, 0.03, **SIZES, **keywords),
    "sector": lambda **keywords: DirectionSectorSRE(RADIUS, 5, **SIZES, **keywords),
    "unmarked": lambda **keywords: UnmarkedSSI(RADIUS, **keywords),
    "marked": lambda **keywords: MarkedSSI(RADIUS, **keywords),
    "spad": lambda **keywords: SPAD(partitionings=10, **keywords),
}
every_metric = pytest.mark.parametrize("metric", METRICS)


def rows_of(scene="clustered", n=60, values=scenes.hits):
    lat, lon = scenes.points(scene, n)
    return {"performance": values(scene, n), "lat": lat, "lon": lon}


def chosen(rows, index):
    return {name: column[index] for name, column in rows.items()}


def fed(metric, *batches):
    for batch in batches:
        metric.update(batch["performance"], **{name: x for name, x in batch.items() if name != "performance"})
    return metric


class Walks:
    """Counts the searches for members, which is where the time goes."""

    def __init__(self, monkeypatch):
        self.count = 0
        original = search.Search.walk

        def walk(*args, **keywords):
            self.count += 1
            return original(*args, **keywords)

        monkeypatch.setattr(search.Search, "walk", walk)

    def during(self, metric, rows):
        metric.reset()
        fed(metric, rows)
        before = self.count
        metric.compute()
        return self.count - before


def bits(values):
    """Every value to the last bit; NaN equals NaN."""
    values = values if isinstance(values, dict) else {"value": values}
    assert all(v.dtype == torch.float64 for v in values.values())
    return {name: torch.where(v.isnan(), torch.nan, v).view(torch.int64).tolist() for name, v in values.items()}


def table(metric):
    local = metric.local()
    return {name: x.numpy() for name, x in local.items()} if isinstance(local, dict) else {"local": local.numpy()}


def check_tables(actual, expected, rows=slice(None)):
    assert actual.keys() == expected.keys()
    for name, column in expected.items():
        np.testing.assert_array_equal(actual[name][rows] if column.ndim else actual[name], column, err_msg=name)
