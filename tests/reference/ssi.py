"""Spatial self-information, one ROI at a time, in float64.

Written from the definitions; imports nothing of geobias_torch. Readings of what they leave open:
- the cap shrinks to the farthest kept member only in an ROI that `max_members` really cuts;
- "two-valued" (default coding) is asked of the whole performance vector; the smaller value becomes -1, the larger +1;
- sigma^2 > 0 "relative 1e-12" is relative to E[G^2] = mu^2 + sigma^2;
- `ties="index"`: exact float order of the chords, then the index; nodes are numbered members first (ascending rows),
  then the background in its own order.
"""

import math

import numpy as np
from scipy.special import log_ndtr

from tests.reference import geometry

TIE = geometry.TIE

# --- background points, as unit vectors


def fibonacci(center_lat, center_lon, cap_radius, count):
    """Lattice on the cap: sin^2(theta_j / 2) = sin^2(r / 2) (j + .5) / B, azimuth j pi (3 - sqrt 5)."""
    lat, lon = math.radians(center_lat), math.radians(center_lon)
    up = np.array([math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)])
    east = np.array([-math.sin(lon), math.cos(lon), 0.0])
    north = np.array([-math.sin(lat) * math.cos(lon), -math.sin(lat) * math.sin(lon), math.cos(lat)])
    points = []
    for j in range(count):
        theta = 2 * math.asin(math.sin(cap_radius / 2) * math.sqrt((j + 0.5) / count))
        azimuth = j * math.pi * (3 - math.sqrt(5))
        direction = math.sin(azimuth) * east + math.cos(azimuth) * north
        points.append(math.cos(theta) * up + math.sin(theta) * direction)
    return np.array(points).reshape(-1, 3)


def concentric(center_lat, center_lon, radius, members, ratio=5):
    """The published rings: ring i = 1..ceil(r / s) at distance i s, ceil(2 pi i) points from longitude -pi."""
    density = math.ceil(ratio * members / (math.pi * radius**2))
    spacing = 1 / math.sqrt(density)
    points = []
    for ring in range(1, math.ceil(radius / spacing) + 1):
        count = math.ceil(2 * math.pi * ring)
        for j in range(count):
            turn = -math.pi + 2 * math.pi * j / count
            # through the latitude: point 0 of ring 1 is equally far from the centre and from point 0 of ring 2, the
            # published order of the two is rounding noise, and this way of writing it reproduces most of that noise
            latitude = math.pi / 2 - ring * spacing
            across = math.cos(latitude)
            points.append([across * math.cos(turn), across * math.sin(turn), math.sin(latitude)])
    tilt, lon = math.pi / 2 - math.radians(center_lat), math.radians(center_lon)
    about_y = np.array([[math.cos(tilt), 0, math.sin(tilt)], [0, 1, 0], [-math.sin(tilt), 0, math.cos(tilt)]])
    about_z = np.array([[math.cos(lon), -math.sin(lon), 0], [math.sin(lon), math.cos(lon), 0], [0, 0, 1]])
    return np.array(points) @ (about_z @ about_y).T


# --- graph


def knn_weights(points, k, ties="share"):
    """(M, M) weights over the k nearest other points.

    "share": distances within TIE of the k-th share what the nearer ones leave, so that rows sum to k and row order
    cannot matter. "index": float64 order of the squared chords without a tolerance, the lower
    index where they are equal.
    """
    count = len(points)
    weights = np.zeros((count, count))
    for i in range(count):
        others = [j for j in range(count) if j != i]
        if ties == "index":
            chord2 = ((points - points[i]) ** 2).sum(axis=1)
            # sorted is stable: of equal chords the lower index comes first
            weights[i, sorted(others, key=lambda j: chord2[j])[:k]] = 1.0
            continue
        distance = geometry.arc_distance(points, points[i])
        cut = np.sort(distance[others])[k - 1]
        nearer = [j for j in others if distance[j] < cut - TIE]
        at_cut = [j for j in others if abs(distance[j] - cut) <= TIE]
        weights[i, nearer] = 1.0
        weights[i, at_cut] = (k - len(nearer)) / len(at_cut)
    return weights


# --- moments of G = sum_ij w_ij (z_i - zbar)(z_j - zbar)


def permutation_moments(weights, z):
    """(mu, sigma^2) of G when the values are assigned at random (Cliff & Ord)."""
    m = len(z)
    s0 = weights.sum()
    s1 = 0.5 * ((weights + weights.T) ** 2).sum()
    s2 = ((weights.sum(axis=0) + weights.sum(axis=1)) ** 2).sum()
    deviation = z - z.mean()
    m2, m4 = (deviation**2).mean(), (deviation**4).mean()
    if m2 == 0:
        return 0.0, 0.0
    b2 = m4 / m2**2
    mean_i = -1 / (m - 1)
    a = m * ((m**2 - 3 * m + 3) * s1 - m * s2 + 3 * s0**2)
    b = b2 * ((m**2 - m) * s1 - 2 * m * s2 + 6 * s0**2)
    second = (a - b) / ((m - 1) * (m - 2) * (m - 3) * s0**2)
    scale = s0 * m2  # G = I S0 m2
    return mean_i * scale, (second - mean_i**2) * scale**2


def value_scheme_moments(z, k):
    """(mu, sigma^2) of the value-scheme null, term by term as in the definitions."""
    m, zbar = len(z), z.mean()
    values = sorted(set(z.tolist()))
    counts = {c: int((z == c).sum()) for c in values}
    r = max(values, key=lambda c: (counts[c], -c))  # the most frequent; of several the smallest
    mu = variance = 0.0
    for p in values:
        n_p = counts[p]
        mu += (p - zbar) ** 2 * (k * n_p * (n_p - 1) / m - 1)
        if p != r:
            variance += (p - r) ** 4 * 2 * (n_p - 1) * k * n_p / m * (1 - k * (2 * n_p - 1) / (3 * m))
        for q in values:
            if p == q:
                continue
            n_q = counts[q]
            mu += (p - zbar) * (q - zbar) * k * n_p * n_q / m
            if r not in (p, q):
                bracket = (p - zbar) * (q - zbar) - 2 * (p - zbar) * (r - zbar) + (r - zbar) ** 2
                most = k * max(n_p, n_q) / m
                variance += bracket**2 * min(n_p, n_q) * most * (1 - most)
    return mu, variance


# --- surprisal


def surprisal_of(g, mu, variance, surprisal="density", floor=None):
    t = (g - mu) / math.sqrt(variance)
    if surprisal == "two_sided":
        return -math.log(2) - float(log_ndtr(-abs(t)))
    log_density = -0.5 * t * t - 0.5 * math.log(2 * math.pi * variance)
    return -log_density if floor is None else -math.log(math.exp(log_density) + floor)


def coded(values, inside, coding, everything):
    """Member values z: unmarked 1, or coded performance."""
    if values is None:
        return np.ones(len(inside))
    distinct = sorted(set(np.asarray(everything).tolist()))
    if coding is None:
        coding = "signed" if len(distinct) == 2 else "centred"
    own = values[inside]
    if coding == "signed":
        return np.where(own == distinct[-1], 1.0, -1.0)
    return own - own.mean() if coding == "centred" else own


def spatial_self_information(
    values, lat, lon, centers, radius, *, coding=None, k=4, background="fibonacci", background_ratio=5, max_members=100,
    null="permutation", surprisal="density", floor=None, ties="share", rois=None, graph=knn_weights,
):  # fmt: skip
    """Surprisal of every ROI's pattern, (M,), NaN where it is not scored; `values` None = unmarked."""
    lat, lon = np.asarray(lat, float), np.asarray(lon, float)
    values = None if values is None else np.asarray(values, float)
    scores = []
    for m, (center_lat, center_lon) in enumerate(centers):
        in_radius = geometry.members(lat, lon, center_lat, center_lon, radius) if rois is None else rois[m]
        inside = in_radius
        cap = radius
        if max_members is not None and len(in_radius) > max_members:
            distance = geometry.local_frame(lat[in_radius], lon[in_radius], center_lat, center_lon).distance
            cut = np.sort(distance)[max_members - 1]
            inside = in_radius[distance <= cut + TIE]
            if len(inside) < len(in_radius):
                cap = distance[distance <= cut + TIE].max()
        n = len(inside)
        count = round(background_ratio * n)
        if count == 0:
            around = np.zeros((0, 3))
        elif background == "fibonacci":
            around = fibonacci(center_lat, center_lon, cap, count)
        else:
            around = concentric(center_lat, center_lon, radius, n, background_ratio)
        points = np.concatenate([geometry.unit_vectors(lat[inside], lon[inside]).reshape(-1, 3), around])
        if len(points) < k + 2 or len(points) < 4:
            scores.append(math.nan)
            continue
        z_members = coded(values, inside, coding, values)
        z = np.concatenate([z_members, np.zeros(len(around))])
        weights = graph(points, k, ties)
        deviation = z - z.mean()
        g = float(deviation @ weights @ deviation)
        mu, variance = permutation_moments(weights, z) if null == "permutation" else value_scheme_moments(z, k)
        constant = values is not None and len(set(z_members.tolist())) < 2
        if constant or not variance > 1e-12 * (mu**2 + variance):
            scores.append(math.nan)
        else:
            scores.append(surprisal_of(g, mu, variance, surprisal, floor))
    return np.array(scores)


def loss(values, lat, lon, centers, radius, *, k=4, background_ratio=0, value_floor=0.01, coding="centred",
         max_members=100, rois=None):  # fmt: skip
    """Mean of the two-sided surprisal of t = (G - mu) / sqrt(sigma^2 + sigma_0^2) over the ROIs with enough points.

    Reading: sigma_0^2 is the variance that G would have if half of the values were +value_floor, half -value_floor.
    """
    lat, lon, values = (np.asarray(x, float) for x in (lat, lon, values))
    local = []
    for m, (center_lat, center_lon) in enumerate(centers):
        inside = geometry.members(lat, lon, center_lat, center_lon, radius) if rois is None else rois[m]
        cap = radius
        if max_members is not None and len(inside) > max_members:
            distance = geometry.local_frame(lat[inside], lon[inside], center_lat, center_lon).distance
            near = distance <= np.sort(distance)[max_members - 1] + TIE
            cap = distance[near].max() if not near.all() else radius
            inside = inside[near]
        around = fibonacci(center_lat, center_lon, cap, round(background_ratio * len(inside)))
        points = np.concatenate([geometry.unit_vectors(lat[inside], lon[inside]).reshape(-1, 3), around])
        m_points = len(points)
        if m_points < max(k + 2, 4) or all(geometry.arc_distance(points, points[0]) <= TIE):
            continue
        z = np.concatenate([coded(values, inside, coding, values), np.zeros(len(around))])
        weights = knn_weights(points, k)
        deviation = z - z.mean()
        mu, variance = permutation_moments(weights, z)
        signs = np.where(np.arange(m_points) % 2, 1.0, -1.0) * value_floor
        if m_points % 2:  # no half and half: the moments of half and half all the same
            m2, m4 = value_floor**2, value_floor**4
            s0 = weights.sum()
            s1 = 0.5 * ((weights + weights.T) ** 2).sum()
            s2 = ((weights.sum(axis=0) + weights.sum(axis=1)) ** 2).sum()
            n = m_points
            a = n * ((n**2 - 3 * n + 3) * s1 - n * s2 + 3 * s0**2) * m2**2
            b = ((n**2 - n) * s1 - 2 * n * s2 + 6 * s0**2) * m4
            floor = (a - b) / ((n - 1) * (n - 2) * (n - 3)) - (s0 * m2 / (n - 1)) ** 2
        else:
            floor = permutation_moments(weights, signs)[1]
        g = float(deviation @ weights @ deviation)
        local.append(surprisal_of(g, mu, max(variance, 0.0) + floor, "two_sided"))
    return float(np.mean(local)) if local else 0.0
