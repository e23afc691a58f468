"""SIREN: by hand, and the spread that its start is made for."""

import math

import pytest
import torch

from training.encoders import SIREN, LocationEmbedding, SphericalHarmonics


def test_by_hand():
    network = SIREN(in_features=3, out_features=2, hidden=4, layers=2, first_omega=5.0, omega=7.0)
    x = torch.randn(6, 3)
    first, second = network.layers
    expected = torch.sin(5 * (x @ first.weight.T + first.bias))
    expected = torch.sin(7 * (expected @ second.weight.T + second.bias))
    torch.testing.assert_close(network(x), expected @ network.last.weight.T + network.last.bias)


@pytest.mark.parametrize("omega", [1.0, 30.0])
def test_depth_keeps_the_spread(omega):
    """What goes into a sine: standard deviation 1 from the second layer on, however deep."""
    torch.manual_seed(0)
    network = SIREN(in_features=2, out_features=4, hidden=512, layers=6, omega=omega)
    x = 2 * torch.rand(2000, 2) - 1
    assert network.layers[0].weight.abs().max() <= 1 / 2
    for i, layer in enumerate(network.layers):
        before = (omega if i else 30.0) * (x @ layer.weight.detach().T)
        x = torch.sin(before)
        if i:
            assert float(before.std()) == pytest.approx(1, abs=0.15)
            assert layer.weight.abs().max() <= math.sqrt(6 / 512) / omega
    assert network.last.weight.abs().max() <= math.sqrt(6 / 512) / omega


def test_embedding_is_the_network_after_the_encoding():
    torch.manual_seed(0)
    position, network = SphericalHarmonics(bandlimit=3), SIREN(in_features=9, out_features=4)
    encoder = LocationEmbedding(position, network)
    lat, lon = torch.tensor([10.0, 20.0]), torch.tensor([30.0, 40.0])
    encoding = encoder(lat, lon)
    assert torch.equal(encoding, network(position(lat, lon)))
    assert encoder.dim == 4
    half = encoder.to(torch.bfloat16)
    assert half(lat, lon).dtype == torch.bfloat16
    assert half.position.rise.dtype == torch.float64
