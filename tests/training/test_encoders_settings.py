"""Anchors of the RBF encoder; settings that are refused or warned about."""

import math

import pytest
import torch

from geobias_torch import km
from training.data import AirportsDataModule
from training.encoders import (
    RBF,
    SIREN,
    XYZ,
    LocationEmbedding,
    NeRF,
    Space2VecGrid,
    Space2VecTheory,
    Sphere2Vec,
    SphericalHarmonics,
)

ANCHORS = [(10.0, 20.0), (-40.0, -175.0), (85.0, 100.0)]


def test_an_anchor_is_flat_and_its_antipode_is_finite():
    lat = torch.tensor([10.0, -10.0], dtype=torch.float64, requires_grad=True)
    lon = torch.tensor([20.0, -160.0], dtype=torch.float64, requires_grad=True)
    encoding = RBF([(10.0, 20.0)], sigma=km(1.5 * 6371.0088)).double()(lat, lon)
    torch.testing.assert_close(encoding[:, 0], torch.tensor([1.0, math.exp(-((math.pi / 1.5) ** 2) / 2)]).double())
    for slope in torch.autograd.grad(encoding.sum(), [lat, lon]):
        assert slope.tolist() == [0, 0]


def test_anchors_are_drawn_from_the_points_that_have_a_location():
    lat, lon = torch.linspace(-80, 80, 30), torch.linspace(-170, 170, 30)
    lat[::3] = float("nan")
    encoder = RBF.from_points(lat, lon, sigma=0.1, num_anchors=20)
    points = {(float(a), float(b)) for a, b in zip(lat, lon, strict=True) if a.isfinite()}
    assert {tuple(row) for row in encoder.anchors.tolist()} == points
    fewer = [RBF.from_points(lat, lon, sigma=0.1, num_anchors=5, seed=seed).anchors for seed in (0, 0, 1)]
    assert torch.equal(fewer[0], fewer[1])
    assert not torch.equal(fewer[0], fewer[2])
    with pytest.raises(ValueError, match=r"Expected `num_anchors` within \[1, 20\], the points, but got 21"):
        RBF.from_points(lat, lon, sigma=0.1, num_anchors=21)


def test_anchors_of_a_data_module_are_training_points():
    data = AirportsDataModule()
    encoder = RBF.from_data(data, sigma=2.0, num_anchors=7, metric="euclid_deg", periodic=True)
    points = torch.stack([data.train_points.lat, data.train_points.lon], dim=1)
    assert all((points == anchor).all(dim=1).any() for anchor in encoder.anchors)
    assert (encoder.metric, encoder.periodic, float(encoder.sigma)) == ("euclid_deg", True, 2.0)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: RBF([[0.0, 0.0, 0.0]], 0.1), r"`anchors` of shape \(M, 2\), M >= 1, but got shape \(1, 3\)"),
        (lambda: RBF(torch.empty(0, 2), 0.1), r"but got shape \(0, 2\)"),
        (lambda: RBF([(0.0, 0.0), (91.0, 0.0)], 0.1), r"within \[-90, 90\], but got 91 at row 1"),
        (lambda: RBF([(0.0, float("nan"))], 0.1), "finite, but got nan at row 0"),
        (lambda: RBF(ANCHORS, 2.0), r"`sigma` in radians, but got 2: did you mean km\(2\)"),
        (lambda: RBF(ANCHORS, 0.0), r"`sigma` in radians within \(0, pi\], but got 0"),
        (lambda: RBF(ANCHORS, -2.0, metric="euclid_deg"), "`sigma` in degrees to be finite and > 0, but got -2.0"),
        (lambda: RBF(ANCHORS, 0.1, metric="plane"), "'great_circle' or 'euclid_deg', but got 'plane'"),
        (lambda: NeRF(0), "`scales` of at least 1, but got 0"),
        (lambda: Space2VecGrid(0), "`scales` of at least 1, but got 0"),
        (lambda: Space2VecTheory(min_radius=400.0), "0 < `min_radius` <= `max_radius`, but got 400.0 and 360.0"),
        (lambda: SphericalHarmonics(0), "`bandlimit` of at least 1, but got 0"),
        (lambda: Sphere2Vec(2.5), "whole number as `scales` of at least 1, but got 2.5"),
        (lambda: NeRF(2.5), "whole number as `scales` of at least 1, but got 2.5"),
        (lambda: Space2VecGrid(2.5), "whole number as `scales` of at least 1, but got 2.5"),
        (lambda: SphericalHarmonics(2.5), "whole number as `bandlimit` of at least 1, but got 2.5"),
        (lambda: SIREN(0, 1), "`in_features` of at least 1, but got 0"),
        (lambda: SIREN(2, 1, layers=0), "`layers` of at least 1, but got 0"),
        (lambda: SIREN(2, 1, omega=-1.0), "`first_omega` and `omega` finite and > 0, but got 30.0 and -1.0"),
        (lambda: LocationEmbedding(XYZ(), SIREN(4, 5)), "`network` with 3 in_features, the encoding's, but got 4"),
    ],
)
def test_refused_settings(build, match):
    with pytest.raises(ValueError, match=match):
        build()


def test_octaves_below_the_rounding_are_warned_about(recwarn):
    NeRF(23)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="k > 22, which are rounding noise where coordinates come as float32: use 23"):
        NeRF(24)
    with pytest.warns(UserWarning, match="k > 52, which are rounding noise in float64 too: use 53 scales at most"):
        NeRF(54)
