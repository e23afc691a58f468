"""Location encoders, one point and one feature at a time, in float64. From the formulas; imports nothing of ours.

Points are (lat, lon) in degrees; each function gives the features of one point in the order that the library documents.
"""

import math

import numpy as np


def radii(scales, low, high):
    return [low * (high / low) ** (i / (scales - 1)) if scales > 1 else low for i in range(scales)]


def sphere2vec(lat, lon, scales, low, high, variant):
    phi, theta = math.radians(lat), math.radians(lon)
    kinds = {
        "sphereC": ["sin", "cos cos", "cos sin"],
        "sphereC+": ["sin", "cos cos", "cos sin", "cos", "sin lon", "cos lon"],
        "sphereM": ["sin", "cos fine, cos", "cos, cos fine", "cos fine, sin", "cos, sin fine"],
    }[variant]
    features = []
    for kind in kinds:
        for r in radii(scales, low, high):
            features.append(
                {
                    "sin": math.sin(phi / r),
                    "cos cos": math.cos(phi / r) * math.cos(theta / r),
                    "cos sin": math.cos(phi / r) * math.sin(theta / r),
                    "cos": math.cos(phi / r),
                    "sin lon": math.sin(theta / r),
                    "cos lon": math.cos(theta / r),
                    "cos fine, cos": math.cos(phi / r) * math.cos(theta),
                    "cos, cos fine": math.cos(phi) * math.cos(theta / r),
                    "cos fine, sin": math.cos(phi / r) * math.sin(theta),
                    "cos, sin fine": math.cos(phi) * math.sin(theta / r),
                }[kind]
            )
    return np.array(features)


def space2vec(lat, lon, scales, low, high, variant):
    """Grid: along longitude, along latitude. Theory: at 0, 120, 240 degrees."""
    angles = {"grid": [0, 90], "theory": [0, 120, 240]}[variant]
    features = []
    for wave in (math.sin, math.cos):
        for angle in angles:
            for r in radii(scales, low, high):
                along = math.cos(math.radians(angle)) * lon + math.sin(math.radians(angle)) * lat
                features.append(wave(along / r))
    return np.array(features)


def unit_vector(lat, lon):
    phi, theta = math.radians(lat), math.radians(lon)
    return np.array([math.cos(phi) * math.cos(theta), math.cos(phi) * math.sin(theta), math.sin(phi)])


def nerf(lat, lon, scales, include_input):
    features = []
    for wave in (math.sin, math.cos):
        for v in unit_vector(lat, lon):
            for k in range(scales):
                features.append(wave(2**k * math.pi * v))
    return np.array([*features, *(unit_vector(lat, lon) if include_input else [])])


def rbf(lat, lon, anchors, sigma, metric, periodic):
    features = []
    for anchor_lat, anchor_lon in anchors:
        if metric == "great_circle":
            u, v = unit_vector(lat, lon), unit_vector(anchor_lat, anchor_lon)
            distance = math.atan2(np.linalg.norm(np.cross(u, v)), u @ v)
        else:
            turns = (-720, -360, 0, 360, 720) if periodic else (0,)
            distance = min(math.hypot(lat - anchor_lat, lon - anchor_lon + turn) for turn in turns)
        features.append(math.exp(-(distance**2) / (2 * sigma**2)))
    return np.array(features)


def spherical_harmonics(lat, lon, bandlimit):
    """Real, orthonormal, without the Condon-Shortley phase; Legendre functions by derivatives of the polynomials."""
    z, theta = math.sin(math.radians(lat)), math.radians(lon)
    features = []
    for degree in range(bandlimit):
        # P_l(z) = 2^-l sum_k (-1)^k C(l, k) C(2l - 2k, l) z^(l - 2k)
        coefficients = np.zeros(degree + 1)
        for k in range(degree // 2 + 1):
            coefficients[degree - 2 * k] = (-1) ** k * math.comb(degree, k) * math.comb(2 * degree - 2 * k, degree)
        legendre = np.polynomial.Polynomial(coefficients / 2**degree)
        for order in range(-degree, degree + 1):
            m = abs(order)
            associated = (1 - z * z) ** (m / 2) * legendre.deriv(m)(z) if m else legendre(z)
            norm = math.sqrt((2 * degree + 1) / (4 * math.pi) * math.factorial(degree - m) / math.factorial(degree + m))
            wave = 1.0 if m == 0 else math.sqrt(2) * (math.cos if order > 0 else math.sin)(m * theta)
            features.append(norm * associated * wave)
    return np.array(features)


def derivatives(encode, lat, lon, step):
    """Central differences with respect to latitude and longitude, per degree: (features, features)."""
    by_lat = (encode(lat + step, lon) - encode(lat - step, lon)) / (2 * step)
    by_lon = (encode(lat, lon + step) - encode(lat, lon - step)) / (2 * step)
    return by_lat, by_lon
