"""Position encodings in value and gradient: against a slow reference, TorchSpatial's numbers and scipy's harmonics."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import torch

from tests.reference import encoders as reference
from training.encoders import RBF, XYZ, NeRF, Space2VecGrid, Space2VecTheory, Sphere2Vec, SphericalHarmonics

DEFAULT = Path(__file__).parents[2] / "../shared/data/torchspatial_encodings.json"
ENCODINGS = Path(os.environ.get("GEOBIAS_ENCODINGS", DEFAULT))

# the last is just west of the antimeridian, one of the anchors just east of it
POINTS = [(0.3, 0.2), (51.5074, -0.1278), (-33.8688, 151.2093), (-89.5, 10.0), (88.0, -120.0), (-16.5, 179.9)]
ANCHORS = [(51.5, -0.1), (-34.0, 151.0), (-16.0, -179.5), (0.0, 0.0), (89.0, 30.0)]
SPHERE = {"scales": 4, "min_radius": 0.02, "max_radius": 1.0}
PLANE = {"scales": 4, "min_radius": 0.7, "max_radius": 360.0}


def rbf_case(sigma, metric, periodic=False):
    return (
        RBF(ANCHORS, sigma=sigma, metric=metric, periodic=periodic),
        lambda lat, lon: reference.rbf(lat, lon, ANCHORS, sigma, metric, periodic),
    )


CASES = {
    **{
        variant: (
            Sphere2Vec(**SPHERE, variant=variant),
            lambda lat, lon, variant=variant: reference.sphere2vec(lat, lon, *SPHERE.values(), variant),
        )
        for variant in ("sphereC", "sphereC+", "sphereM")
    },
    "grid": (Space2VecGrid(**PLANE), lambda lat, lon: reference.space2vec(lat, lon, *PLANE.values(), "grid")),
    "theory": (Space2VecTheory(**PLANE), lambda lat, lon: reference.space2vec(lat, lon, *PLANE.values(), "theory")),
    "nerf": (NeRF(scales=6), lambda lat, lon: reference.nerf(lat, lon, 6, True)),
    "nerf, waves only": (NeRF(scales=3, include_input=False), lambda lat, lon: reference.nerf(lat, lon, 3, False)),
    "xyz": (XYZ(), reference.unit_vector),
    "rbf": rbf_case(0.3, "great_circle"),
    "rbf, narrow": rbf_case(0.01, "great_circle"),
    "rbf, degrees": rbf_case(20.0, "euclid_deg"),
    "rbf, degrees, periodic": rbf_case(20.0, "euclid_deg", periodic=True),
    "harmonics": (SphericalHarmonics(bandlimit=9), lambda lat, lon: reference.spherical_harmonics(lat, lon, 9)),
}


def degrees(points):
    return torch.tensor(points, dtype=torch.float64).unbind(dim=1)


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_references(name):
    encoder, slow = CASES[name]
    expected = torch.from_numpy(np.stack([slow(lat, lon) for lat, lon in POINTS]))
    encoding = encoder.double()(*degrees(POINTS))
    assert encoder.dim == expected.shape[1]
    torch.testing.assert_close(encoding, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_references(name):
    encoder, slow = CASES[name]
    lat, lon = (value.requires_grad_() for value in degrees(POINTS))
    encoding = encoder.double()(lat, lon)
    by_lat, by_lon = (
        torch.stack([torch.autograd.grad(feature.sum(), by, retain_graph=True)[0] for feature in encoding.T], dim=1)
        for by in (lat, lon)
    )  # (N, D): a row depends on its own point only
    slopes = [reference.derivatives(slow, *point, step=1e-4) for point in POINTS]
    expected_lat, expected_lon = (torch.from_numpy(np.stack(columns)) for columns in zip(*slopes, strict=True))
    torch.testing.assert_close(by_lat, expected_lat, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(by_lon, expected_lon, rtol=1e-5, atol=1e-7)


def kinds_first(theirs, scales, kinds):
    """Their columns go scale by scale; ours kind by kind, in the order of ``kinds``."""
    return theirs.unflatten(1, (scales, -1))[:, :, kinds].transpose(1, 2).flatten(1)


# name in the file: (ours, how their columns are put in our order)
TORCHSPATIAL = {
    "sphere2vec_c_S3_min0.01_max1": (
        Sphere2Vec(scales=3, min_radius=0.01),
        lambda theirs: kinds_first(theirs, 3, [0, 1, 2]),
    ),
    "sphere2vec_cplus_S3_min0.01_max1": (
        Sphere2Vec(scales=3, min_radius=0.01, variant="sphereC+"),
        lambda theirs: kinds_first(theirs, 3, [0, 4, 5, 1, 2, 3]),
    ),
    "sphere2vec_m_S3_min0.01_max1": (
        Sphere2Vec(scales=3, min_radius=0.01, variant="sphereM"),
        lambda theirs: kinds_first(theirs, 3, [0, 1, 2, 3, 4]),
    ),
    "space2vec_theory_S3_min0.1_max360": (
        Space2VecTheory(scales=3, min_radius=0.1),
        lambda theirs: kinds_first(theirs, 3, [0, 2, 4, 1, 3, 5]),
    ),
    "space2vec_grid_S3_min0.1_max360": (  # theirs: coordinate, scale, (sine, cosine)
        Space2VecGrid(scales=3, min_radius=0.1),
        lambda theirs: theirs.unflatten(1, (2, 3, 2)).movedim(3, 1).flatten(1),
    ),
    "nerf_L6": (NeRF(scales=6, include_input=False), lambda theirs: theirs),
    "xyz": (XYZ(), lambda theirs: theirs),
}


@pytest.mark.skipif(not ENCODINGS.exists(), reason=f"no {ENCODINGS}")
class TestTorchSpatial:
    published = json.loads(ENCODINGS.read_text()) if ENCODINGS.exists() else {}

    def compare(self, encoder, theirs):
        encoding = encoder.double()(*degrees(self.published["points_lat_lon_deg"]))
        torch.testing.assert_close(encoding, theirs, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("name", TORCHSPATIAL)
    def test_equal_after_the_permutation(self, name):
        encoder, in_our_order = TORCHSPATIAL[name]
        theirs = self.published["encodings"][name]
        self.compare(encoder, in_our_order(torch.tensor(theirs["values"], dtype=torch.float64)))
        if "freq_list" in theirs:
            frequencies = torch.tensor(theirs["freq_list"], dtype=torch.float64)
            torch.testing.assert_close(encoder.frequencies, frequencies)

    def test_rbf(self):
        theirs = self.published["encodings"]["rbf_sigma2deg_4anchors"]
        anchors = torch.tensor(theirs["anchors_lon_lat_deg"]).flip(1)
        encoder = RBF(anchors, sigma=2.0, metric="euclid_deg")
        self.compare(encoder, torch.tensor(theirs["values"], dtype=torch.float64))

    def test_every_entry_is_compared(self):
        assert set(self.published["encodings"]) == {*TORCHSPATIAL, "rbf_sigma2deg_4anchors"}


@pytest.mark.skipif(not hasattr(scipy.special, "sph_harm_y"), reason="scipy before 1.15")
def test_harmonics_are_scipys_up_to_the_documented_phase():
    bandlimit = 30
    lat, lon = degrees(POINTS)
    ours = SphericalHarmonics(bandlimit).double()(lat, lon).unbind(dim=1)
    polar, azimuth = np.radians(90 - lat.numpy()), np.radians(lon.numpy())
    for degree in range(bandlimit):
        for order in range(-degree, degree + 1):
            theirs = scipy.special.sph_harm_y(degree, abs(order), polar, azimuth)
            part = theirs.real if order >= 0 else theirs.imag
            expected = part * ((-1) ** order * math.sqrt(2) if order else 1)  # theirs has the Condon-Shortley phase
            np.testing.assert_allclose(ours[degree**2 + degree + order], expected, rtol=0, atol=1e-12)


def test_harmonics_are_orthonormal():
    bandlimit = 12
    # exact for products of degree below 2L: Gauss-Legendre along z, equal steps around
    z, weights = np.polynomial.legendre.leggauss(bandlimit)
    around = 2 * bandlimit
    lat = torch.from_numpy(np.degrees(np.arcsin(z))).repeat_interleave(around)
    lon = (torch.arange(around, dtype=torch.float64) * 360 / around - 180).repeat(bandlimit)
    encoding = SphericalHarmonics(bandlimit).double()(lat, lon)
    area = torch.from_numpy(weights).repeat_interleave(around) * 2 * math.pi / around
    products = encoding.T @ (encoding * area[:, None])
    torch.testing.assert_close(products, torch.eye(bandlimit**2, dtype=torch.float64), rtol=0, atol=1e-12)


def test_harmonics_of_high_degree_are_finite_and_add_up():
    """The squares of a degree's 2l + 1 harmonics sum to (2l + 1) / 4 pi everywhere."""
    bandlimit = 120
    lat, lon = degrees([*POINTS, (90.0, 0.0), (-90.0, 50.0)])
    squares = SphericalHarmonics(bandlimit).double()(lat, lon) ** 2
    for degree in range(bandlimit):
        total = squares[:, degree**2 : (degree + 1) ** 2].sum(dim=1)
        expected = torch.full_like(total, (2 * degree + 1) / (4 * math.pi))
        torch.testing.assert_close(total, expected, rtol=1e-10, atol=0)
