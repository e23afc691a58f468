"""The reward of a reasoning chain by loops over its points, written from the definition."""

from __future__ import annotations

import math


def reward(points, recall, beyond, faults, weights, right_country, min_value, quantum):
    """Points are dictionaries with value, match, restated and generic; None for a point or pair that failed."""
    best_of_group = {}
    unmatched = beyond
    restated = 0
    for point in points:
        if point["restated"]:
            restated = restated + 1
            continue
        if point["value"] is None:
            continue
        value = point["value"] * (1.0 - point["generic"])
        if point["match"] is None or value < min_value:
            unmatched = unmatched + 1
            continue
        group = point["match"]
        if group not in best_of_group or value > best_of_group[group]:
            best_of_group[group] = value
    below = len(best_of_group) + unmatched + restated
    above = 0.0
    for group in best_of_group:
        above = above + best_of_group[group]
    precision = above / below if below > 0 else 0.0
    total = 2.0 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    for name in weights:
        if faults.get(name) is not None:
            total = total * (1.0 - weights[name] * faults[name])
    if right_country is not None and not right_country:
        total = total * (1.0 - 0.3)
    return quantum * math.floor(total / quantum + 0.5)
