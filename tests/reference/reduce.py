"""Global scores: weighted means that skip NaN. Written from the definitions."""

import math

import numpy as np


def reduce_scores(local, weights=None):
    """(value, ROIs counted, ROIs in all); weights default to 1. NaN where none counts."""
    local = np.asarray(local, float)
    weights = np.ones(len(local)) if weights is None else np.asarray(weights, float)
    top, bottom, counted = 0.0, 0.0, 0
    for score, weight in zip(local, weights, strict=True):
        if not math.isnan(score):
            top, bottom, counted = top + weight * score, bottom + weight, counted + 1
    return (top / bottom if bottom > 0 else math.nan), counted, len(local)
