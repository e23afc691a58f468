"""SPAD over given partitionings, box by box. Written from the definitions.

Readings of what they leave open:
- the bounding box in longitude is the complement of the widest empty gap between neighbouring longitudes;
- a point on the upper edge of the box belongs to the last row or column; a box without extent has one row (column);
- with `value_range=(a, b)` performance is rescaled to (v - a) / (b - a).
"""

import numpy as np


def shortest_arc(lon):
    """(start, width) in degrees of the shortest arc that holds all longitudes."""
    lon = np.unique(np.mod(np.asarray(lon, float), 360.0))
    if len(lon) == 1:
        return float(lon[0]), 0.0
    gaps = np.append(np.diff(lon), lon[0] + 360.0 - lon[-1])
    widest = int(np.argmax(gaps))
    return float(lon[(widest + 1) % len(lon)]), 360.0 - float(gaps[widest])


def spad(values, lat, lon, partitionings, value_range=(0, 1)):
    """(100 * mean over the (rows, cols) given of the mean absolute deviation of the box means, its standard error)."""
    values, lat = np.asarray(values, float), np.asarray(lat, float)
    values = (values - value_range[0]) / (value_range[1] - value_range[0])
    start, width = shortest_arc(lon)
    across = np.mod(np.asarray(lon, float) - start, 360.0)
    up, height = lat - lat.min(), lat.max() - lat.min()
    deviations = []
    for rows, cols in partitionings:
        boxes = {}
        for value, y, x in zip(values, up, across, strict=True):
            row = min(int(y / height * rows), rows - 1) if height > 0 else 0
            col = min(int(x / width * cols), cols - 1) if width > 0 else 0
            boxes.setdefault((row, col), []).append(value)
        deviations.append(np.mean([abs(np.mean(b) - values.mean()) for b in boxes.values()]))
    deviations = 100 * np.array(deviations)
    error = deviations.std(ddof=1) / np.sqrt(len(deviations)) if len(deviations) > 1 else 0.0
    return float(deviations.mean()), float(error)


def loss(values, lat, lon, rows, cols, *, one_sided=True, target=None):
    """Mean over the boxes of one grid of sqrt(d^2 + .01^2) - .01, d = box mean - overall mean (or the one given)."""
    values, lat = np.asarray(values, float), np.asarray(lat, float)
    target = values.mean() if target is None else target
    start, width = shortest_arc(lon)
    across, up = np.mod(np.asarray(lon, float) - start, 360.0), lat - lat.min()
    boxes = {}
    for value, y, x in zip(values, up, across, strict=True):
        row = min(int(y / up.max() * rows), rows - 1) if up.max() > 0 else 0
        col = min(int(x / width * cols), cols - 1) if width > 0 else 0
        boxes.setdefault((row, col), []).append(value)
    deviations = [np.mean(box) - target for box in boxes.values()]
    if one_sided:
        deviations = [min(d, 0.0) for d in deviations]
    return float(np.mean([np.sqrt(d**2 + 1e-4) - 0.01 for d in deviations]))
