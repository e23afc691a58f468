"""Spatial relative entropy, its noise floor and its loss forms, one ROI and one patch at a time, in float64.

Written from the definitions; imports nothing of geobias_torch. Readings of what they leave open:
- `drop_constant` with soft or "probability" memberships looks at the hard bins of the same values (for "probability"
  those are < .5 and >= .5);
- graticule cells: a latitude index that reaches k by rounding is clamped, a longitude outside -k..k-1 is in no patch;
- "mean performance" of the one-sided rule is the mean of the values, not of the memberships;
- `target="fixed"` in the KL loss freezes h(N) wherever it stands: as target and as prior of q.
"""

import math

import numpy as np

from tests.reference import geometry

# --- partitions: (Frame of the members, radius) -> integer patch label per member, -1 = in no patch


def _count(radius, width):
    return math.ceil(radius / width - 1e-9)


def distance_lag(lag):
    return lambda frame, radius: np.minimum(np.floor(frame.distance / lag), _count(radius, lag) - 1).astype(int)


def direction_sector(n):
    def ids(frame, radius):
        sector = np.minimum(np.floor(frame.azimuth / (2 * np.pi / n)), n - 1).astype(int)
        return np.where(frame.distance <= geometry.ON_CENTRE, -1, sector)

    return ids


def scale_grid(scale, kind="tangent"):
    def ids(frame, radius):
        k = _count(radius, scale)
        if kind == "tangent":
            column = np.clip(np.floor(frame.x / scale), -k, k - 1).astype(int)
            row = np.clip(np.floor(frame.y / scale), -k, k - 1).astype(int)
            inside = np.ones(len(column), bool)
        else:
            column = np.floor(frame.dlon / scale).astype(int)
            row = np.clip(np.floor(frame.dlat / scale), -k, k - 1).astype(int)
            inside = (column >= -k) & (column <= k - 1)
        return np.where(inside, (row + k) * 2 * k + column + k, -1)

    return ids


def patches(lat, lon, centers, radius, partition, rois=None):
    """For every ROI: (members, list of member arrays of its non-empty patches)."""
    out = []
    lat, lon = np.asarray(lat, float), np.asarray(lon, float)
    rois = geometry.rois(lat, lon, radius, centers) if rois is None else rois
    for (center_lat, center_lon), inside in zip(centers, rois, strict=True):
        label = partition(geometry.local_frame(lat[inside], lon[inside], center_lat, center_lon), radius)
        out.append((inside, [inside[label == k] for k in sorted(set(label.tolist()) - {-1})]))
    return out


# --- histograms


def hard_bin(value, edges):
    """Bin of a value; the outer bins are open ended, a value on an inner edge is in the upper bin."""
    return sum(value >= edge for edge in edges[1:-1])


def memberships(values, bins=None, bandwidth=None):
    """(N,) -> (N, H)."""
    values = np.asarray(values, float)
    if isinstance(bins, str) and bins == "probability":
        return np.stack([1 - values, values], axis=1)
    if isinstance(bins, str) and bins == "categories":
        distinct = sorted(set(values.tolist()))
        return np.array([[float(v == c) for c in distinct] for v in values]).reshape(len(values), len(distinct))
    edges = [0.0, 0.5, 1.0] if bins is None else list(bins)
    count = len(edges) - 1
    out = np.zeros((len(values), count))
    for i, v in enumerate(values):
        for j in range(count):
            if bandwidth is None:
                out[i, j] = float(hard_bin(v, edges) == j)
            else:
                above_lower = 1.0 if j == 0 else _logistic((v - edges[j]) / bandwidth)
                above_upper = 0.0 if j == count - 1 else _logistic((v - edges[j + 1]) / bandwidth)
                out[i, j] = above_lower - above_upper
    return out


def _logistic(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _one_hard_bin(values, bins):
    if isinstance(bins, str) and bins == "categories":
        return len(set(values.tolist())) == 1
    edges = [0.0, 0.5, 1.0] if bins is None or isinstance(bins, str) else list(bins)
    return len({hard_bin(v, edges) for v in values}) == 1


# --- the score


def _blend(patch_histogram, size, roi_histogram, smoothing, prior):
    if prior > 0:
        return (size * patch_histogram + prior * roi_histogram) / (size + prior)
    return patch_histogram + smoothing


def _kl(p, q):
    pairs = [(p_j, q_j) for p_j, q_j in zip(p, q, strict=True) if p_j > 0]
    return sum(p_j * math.log(p_j / q_j) if q_j > 0 else math.inf for p_j, q_j in pairs)


def _counts(values, inside, scored, bins, prior, min_patches, min_roi_size, drop_constant):
    if len(inside) == 0 or len(inside) < min_roi_size or len(scored) < min_patches:
        return False
    return not (drop_constant and prior == 0 and _one_hard_bin(values[inside], bins))


def spatial_relative_entropy(
    values, lat, lon, centers, radius, partition, *, bins=None, bandwidth=None, smoothing=1e-8, prior=0.0,
    min_patch_size=10, min_patches=2, min_roi_size=1, drop_constant=True, rois=None,
):  # fmt: skip
    """gamma_m = sum_k (#P_k / #N_m) KL(h(N_m), q_k), (M,), NaN where the ROI does not count."""
    values = np.asarray(values, float)
    member = memberships(values, bins, bandwidth)
    scores = []
    for inside, parts in patches(lat, lon, centers, radius, partition, rois):
        scored = [p for p in parts if len(p) >= min_patch_size]
        if not _counts(values, inside, scored, bins, prior, min_patches, min_roi_size, drop_constant):
            scores.append(math.nan)
            continue
        h = member[inside].mean(axis=0)
        total = 0.0
        for part in scored:
            q = _blend(member[part].mean(axis=0), len(part), h, smoothing, prior)
            total += len(part) / len(inside) * _kl(h, q)
        scores.append(total)
    return np.array(scores)


def expected_log_q(n, c, p, smoothing, prior):
    """E log q(a) over a ~ Hypergeometric(n members, c of them in the bin, p drawn), summed term by term."""
    total = 0.0
    for a in range(max(0, p - (n - c)), min(c, p) + 1):
        # whole-number binomials: exact, and independent of anybody's log-gamma
        probability = math.comb(c, a) * math.comb(n - c, p - a) / math.comb(n, p)
        q = (a + prior * c / n) / (p + prior) if prior > 0 else a / p + smoothing
        total += probability * (math.log(q) if q > 0 else -math.inf)
    return total


def noise_floor(
    values, lat, lon, centers, radius, partition, *, bins=None, smoothing=1e-8, prior=0.0,
    min_patch_size=10, min_patches=2, min_roi_size=1, drop_constant=True, rois=None,
):  # fmt: skip
    """f_m = sum_k (#P_k / #N_m) sum_j h_j (log h_j - E log q_kj), (M,), NaN where the score is NaN."""
    values = np.asarray(values, float)
    member = memberships(values, bins)
    floors = []
    for inside, parts in patches(lat, lon, centers, radius, partition, rois):
        scored = [p for p in parts if len(p) >= min_patch_size]
        if not _counts(values, inside, scored, bins, prior, min_patches, min_roi_size, drop_constant):
            floors.append(math.nan)
            continue
        count = member[inside].sum(axis=0).round().astype(int).tolist()
        n = len(inside)
        total = 0.0
        for part in scored:
            for c in count:
                if c > 0:
                    expected = expected_log_q(n, c, len(part), smoothing, prior)
                    total += len(part) / n * c / n * (math.log(c / n) - expected)
        floors.append(total)
    return np.array(floors)


# --- the loss forms


def loss(
    values, lat, lon, centers, radius, partition, *, estimator="excess", bins="probability", bandwidth=None, prior=0.5,
    min_patch_size=5, target="fixed", one_sided=True, frozen=None, rois=None,
):  # fmt: skip
    """Mean over all ROIs of the noise-corrected or KL form. Sums over partitions are left to the caller.

    `frozen` are the values that the quantities "without gradient" are computed from; hold it at the point of
    differentiation while `values` moves, and finite differences give the gradient that the definitions ask for.
    """
    values = np.asarray(values, float)
    frozen = values if frozen is None else np.asarray(frozen, float)
    member, member_frozen = memberships(values, bins, bandwidth), memberships(frozen, bins, bandwidth)
    roi_losses = []
    for inside, parts in patches(lat, lon, centers, radius, partition, rois):
        n = len(inside)
        total = 0.0
        for part in parts:
            p = len(part)
            if p < min_patch_size:
                continue
            weight = 1.0 if frozen[part].mean() < frozen[inside].mean() else 1.0 - float(one_sided)
            if weight == 0:
                continue
            h = (member_frozen if target == "fixed" else member)[inside].mean(axis=0)
            h_patch = member[part].mean(axis=0)
            if estimator == "kl":
                total += weight * p / n * _kl(h, _blend(h_patch, p, h, 1e-8, prior))
                continue
            denominator = np.maximum(member_frozen[inside].mean(axis=0), 1e-3)
            variance = member[part].var(axis=0, ddof=1)
            total += (
                weight * p / n * 0.5 * float((((h_patch - h) ** 2 - variance * (1 / p - 1 / n)) / denominator).sum())
            )
        roi_losses.append(total)
    return float(np.mean(roi_losses)) if roi_losses else 0.0
