"""Precision, recall and F1 of reasoning chains, pair by pair, in plain Python.

Written from the definitions; imports nothing of judges. `support(statement, context)` is a number in [0, 1], or NaN
where it failed. Readings of what the definitions leave open:
- references with several chains: a candidate's point sees the distinct points of all of them;
- recall is that of the reference covered best, of those that could be scored;
- a share of failed pairs of exactly 25 % is still scored.
"""

import math

MOST_FAILED = 0.25


def direction(values, weights):
    """Weighted mean of the values that did not fail."""
    if len(values) == 0 or sum(math.isnan(value) for value in values) / len(values) > MOST_FAILED:
        return math.nan
    top = bottom = 0.0
    for value, weight in zip(values, weights, strict=True):
        if not math.isnan(value):
            top += weight * value
            bottom += weight
    return top / bottom if bottom else math.nan


def f1(precision, recall):
    if precision == 0 and recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def distinct(points):
    found = []
    for point in points:
        if point not in found:
            found.append(point)
    return tuple(found)


def one_to_all(candidate, references, support):
    """(P, R, F1) of lists of points, restated ones left out already."""
    references = [reference for reference in references if reference]
    if not references:
        return math.nan, math.nan, math.nan
    if not candidate:
        return 0.0, 0.0, 0.0
    union = distinct([point for reference in references for point in reference])
    precision = direction([support(point, union) for point in candidate], [1.0] * len(candidate))
    recalls = []
    for reference in references:
        values = [support(point, distinct(candidate)) for point in reference]
        recalls.append(direction(values, [1.0] * len(reference)))
    recalls = [recall for recall in recalls if not math.isnan(recall)]
    recall = max(recalls) if recalls else math.nan
    return precision, recall, f1(precision, recall)


def key_points(candidate, references, support):
    """(P, R, F1) of chains whose points are lists of clauses."""

    def weighted(points, context):
        values, weights = [], []
        for clauses in points:
            for clause in clauses:
                values.append(support(clause, context))
                weights.append(1 / (len(clauses) * len(points)))
        return direction(values, weights)

    union = distinct([clause for reference in references for point in reference for clause in point])
    own = distinct([clause for point in candidate for clause in point])
    precision = weighted(candidate, union)
    recalls = [weighted(reference, own) for reference in references]
    recalls = [recall for recall in recalls if not math.isnan(recall)]
    recall = max(recalls) if recalls else math.nan
    return precision, recall, f1(precision, recall)


def bootstrap_mean(values, locations, draws):
    """Mean of the values of the drawn locations, for each draw (a list of locations)."""
    means = []
    for draw in draws:
        drawn = [value for place in draw for value, at in zip(values, locations, strict=True) if at == place]
        means.append(sum(drawn) / len(drawn))
    return means
