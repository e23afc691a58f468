"""Sphere2Vec by hand, and the FFN; values: test_encoders_values.py, every encoder: test_encoders_contract.py."""

import re

import pytest
import torch

from training.encoders import FFN, Sphere2Vec


def test_formula_by_hand_at_one_point():
    encoding = Sphere2Vec(scales=1, min_radius=0.5, max_radius=1.0).double()(
        lat=torch.tensor([30.0]), lon=torch.tensor([45.0])
    )
    expected = [3**0.5 / 2, 0.0, 0.5]  # f = 2: sin 60, cos 60 cos 90, cos 60 sin 90
    torch.testing.assert_close(encoding[0], torch.tensor(expected, dtype=torch.float64))


def test_angles_are_float64_and_the_result_has_the_modules_dtype():
    lat, lon = torch.tensor([51.4775], dtype=torch.float64), torch.tensor([179.123456789], dtype=torch.float64)
    encoder = Sphere2Vec(scales=4, min_radius=1e-4, max_radius=1.0)
    exact = encoder.double()(lat, lon)
    for dtype in (torch.float32, torch.bfloat16):
        encoding = encoder.to(dtype)(lat, lon)
        assert encoding.dtype == dtype
        torch.testing.assert_close(encoding, exact.to(dtype), rtol=0, atol=0)
    assert encoder.frequencies.dtype == torch.float64


def test_wavelength_is_where_a_scale_repeats():
    encoder = Sphere2Vec(scales=3, min_radius=0.02, max_radius=0.5).double()
    degrees = torch.rad2deg(encoder.wavelengths_km() / 6371.0088)
    start = torch.full((3,), 10.0, dtype=torch.float64)
    lon = torch.zeros(3, dtype=torch.float64)
    here, there = encoder(start, lon), encoder(start + degrees, lon)
    torch.testing.assert_close(here[:, :3].diagonal(), there[:, :3].diagonal())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"scales": 0}, "`scales` of at least 1, but got 0"),
        ({"min_radius": 0.0}, "0 < `min_radius` <= `max_radius`"),
        ({"min_radius": 2.0, "max_radius": 1.0}, "but got 2.0 and 1.0"),
        ({"variant": "sphereX"}, "one of ['sphereC', 'sphereC+', 'sphereM'], but got 'sphereX'"),
    ],
)
def test_refused_settings(arguments, match):
    with pytest.raises(ValueError, match=re.escape(match)):
        Sphere2Vec(**arguments)


def test_ffn_normalises_hidden_blocks_only_and_skips_where_sizes_match():
    torch.manual_seed(0)
    ffn = FFN(in_features=6, out_features=3, hidden=8, layers=2)
    x = torch.randn(5, 6)
    assert [block.skip for block in ffn.blocks] == [False, True]
    hidden = ffn.blocks(x)
    torch.testing.assert_close(hidden.mean(dim=1), torch.zeros(5), atol=1e-5, rtol=0)
    assert (ffn(x) < 0).any()
    relu = FFN(in_features=6, out_features=3, hidden=8, layers=2, final_activation="relu")
    relu.load_state_dict(ffn.state_dict())
    torch.testing.assert_close(relu(x), ffn(x).relu())


def test_a_block_by_hand():
    ffn = FFN(in_features=4, out_features=4, hidden=4, layers=1, activation="gelu")
    x = torch.randn(3, 4)
    linear, norm = ffn.blocks[0].transform[0], ffn.blocks[0].norm
    torch.testing.assert_close(ffn(x), ffn.last(norm(x + torch.nn.functional.gelu(linear(x)))))


def test_a_plain_ffn_is_linear_and_activation_in_turn():
    ffn = FFN(in_features=4, out_features=2, hidden=4, layers=2, activation="gelu", plain=True)
    x = torch.randn(3, 4)
    expected = x
    for block in ffn.blocks:
        expected = torch.nn.functional.gelu(block.transform[0](expected))
    torch.testing.assert_close(ffn(x), ffn.last(expected))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"layers": -1}, "`layers` of at least 0"),
        ({"activation": "sine"}, "but got 'sine'"),
        ({"hidden": 0}, "`hidden` of at least 1, but got 0"),
        ({"dropout": 1.0}, r"`dropout` within \[0, 1\), but got 1.0"),
    ],
)
def test_ffn_refuses(arguments, match):
    with pytest.raises(ValueError, match=match):
        FFN(in_features=2, out_features=1, **arguments)
