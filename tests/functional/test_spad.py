"""SPAD against tests/reference, and what must not change it."""

import numpy as np
import pytest
import torch

from geobias_torch.functional import spad
from tests import scenes
from tests.reference import spad as reference
from tests.reference.gradient import numerical_gradient

LATTICE = [(rows, cols) for rows in (1, 4, 7, 10) for cols in (1, 4, 7)]
EXHAUSTIVE = {"exhaustive": True, "max_rows": 10, "max_cols": 7}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_value_equals_the_reference(scene, dtype):
    lat, lon = scenes.points(scene)
    for values in (scenes.hits(scene), scenes.probabilities(scene)):
        expected, _ = reference.spad(values, lat, lon, LATTICE)
        score, error = spad(torch.tensor(values, dtype=dtype), lat=lat, lon=lon, **EXHAUSTIVE)
        assert score.dtype == error.dtype == dtype
        assert float(score) == pytest.approx(expected, rel=1e-10 if dtype == torch.float64 else 1e-6)
        assert float(error) == 0
        # another range: the same performance, as it is written by a -1/+1 table
        score, _ = spad(2 * torch.tensor(values, dtype=dtype) - 1, lat=lat, lon=lon, value_range=(-1, 1), **EXHAUSTIVE)
        assert float(score) == pytest.approx(expected, rel=1e-10 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_gradient_equals_the_reference(scene, dtype):
    lat, lon = scenes.points(scene, 40)
    values = scenes.probabilities(scene, 40)
    expected = numerical_gradient(lambda v: reference.spad(v, lat, lon, LATTICE)[0], values)
    performance = torch.tensor(values, dtype=dtype, requires_grad=True)
    spad(performance, lat=lat, lon=lon, **EXHAUSTIVE).score.backward()
    tolerance = 1e-6 if dtype == torch.float64 else 1e-5
    np.testing.assert_allclose(performance.grad.numpy(), expected, rtol=tolerance, atol=tolerance)


def test_gradcheck():
    lat, lon = scenes.points("clustered", 20)
    performance = torch.tensor(scenes.probabilities("clustered", 20), requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: spad(v, lat=lat, lon=lon, partitionings=5).score, performance)


def test_a_sample_of_two_grids_and_its_standard_error():
    """Only 1 x 1, which scores 0, and 2 x 1 can be drawn: the score tells how often."""
    lat, lon = scenes.points("uniform")
    hits = scenes.hits("uniform")
    one, _ = reference.spad(hits, lat, lon, [(2, 1)])
    score, error = spad(torch.from_numpy(hits), lat=lat, lon=lon, partitionings=50, max_rows=2, max_cols=1)
    drawn = float(score) / one * 50
    assert 10 < drawn < 40
    assert drawn == pytest.approx(round(drawn), abs=1e-9)
    grids = [(2, 1)] * round(drawn) + [(1, 1)] * (50 - round(drawn))
    assert (float(score), float(error)) == pytest.approx(reference.spad(hits, lat, lon, grids), rel=1e-10)


def test_a_seed_is_a_sample():
    lat, lon = scenes.points("clustered")
    hits = torch.from_numpy(scenes.hits("clustered"))
    first, again, other = (spad(hits, lat=lat, lon=lon, seed=s) for s in (3, 3, 4))
    assert torch.equal(first.score, again.score)
    assert float(other.score) != float(first.score)
    assert abs(float(other.score) - float(first.score)) < 5 * float(first.standard_error + other.standard_error)
    # the same grids whatever the model
    both = spad(torch.stack([1 - hits, hits], dim=1), lat=lat, lon=lon, seed=3)
    assert both.score.shape == both.standard_error.shape == (2,)
    torch.testing.assert_close(both.score[1], first.score)
    torch.testing.assert_close(both.standard_error[1], first.standard_error)


@pytest.mark.parametrize("scene", scenes.NAMES)
def test_nothing_changes_with_the_way_that_coordinates_are_written(scene):
    lat, lon = scenes.points(scene)
    hits = torch.from_numpy(scenes.hits(scene))
    plain = spad(hits, lat=lat, lon=lon, partitionings=20).score
    torch.testing.assert_close(spad(hits, lat=lat, lon=lon + 360, partitionings=20).score, plain)
    order = np.random.default_rng(0).permutation(len(lat))
    torch.testing.assert_close(spad(hits[order], lat=lat[order], lon=lon[order], partitionings=20).score, plain)
    # a shift by a power of two keeps every bit of the differences, so that no point crosses an edge of a box
    lat, lon = np.round(lat * 2**20) / 2**20, np.round(lon * 2**20) / 2**20
    plain = spad(hits, lat=lat, lon=lon, partitionings=20).score
    torch.testing.assert_close(spad(hits, lat=lat, lon=lon + 64.0, partitionings=20).score, plain)


def test_few_points():
    assert torch.isnan(spad(torch.zeros(0), lat=[], lon=[]).score)
    for values, expected in (([1.0], 0.0), ([0.0, 0.0], 0.0), ([1.0, 0.0], 0.0)):
        score, error = spad(torch.tensor(values), lat=[10.0] * len(values), lon=[20.0] * len(values))
        assert float(score) == expected
        assert float(error) == 0
    # two points in two boxes: each of them .5 from the mean
    assert (
        float(spad([1.0, 0.0], lat=[10.0, 11.0], lon=[20.0, 21.0], exhaustive=True, max_cols=1, max_rows=4).score) == 25
    )
    assert spad(torch.zeros(0, 2), lat=[], lon=[]).score.shape == (2,)
    assert float(spad([1.0, 0.0], lat=[0.0, 50.0], lon=[0.0, 50.0], partitionings=1).standard_error) == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("value_range", [(0, 1), (-50, 150)])
def test_values_rounded_beyond_the_range_are_its_bounds_and_keep_their_gradient(dtype, value_range):
    lat, lon = scenes.points("clustered", 40)
    low, high = value_range
    plain = low + (high - low) * torch.tensor(scenes.hits("clustered", 40), dtype=dtype)
    rounded = torch.where(plain == high, plain + 4e-7 * (high - low), plain - 4e-7 * (high - low))
    assert ((rounded > high) | (rounded < low)).all()
    scores, gradients = [], []
    for values in (plain, rounded):
        performance = values.clone().requires_grad_()
        score = spad(performance, lat=lat, lon=lon, value_range=value_range, partitionings=10).score
        score.backward()
        scores.append(score.detach())
        gradients.append(performance.grad)
    torch.testing.assert_close(scores[1], scores[0], rtol=0, atol=0)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)
    assert gradients[1].abs().max() > 0


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"partitionings": 0}, r"Expected `partitionings` to be an integer >= 1, but got 0"),
        ({"max_rows": 1.5}, r"Expected `max_rows` to be an integer >= 1, but got 1.5"),
        ({"max_cols": True}, r"Expected `max_cols` to be an integer >= 1, but got True"),
        ({"value_range": (0, np.inf)}, r"Expected `value_range` as \(low, high\), but got \(0, inf\)"),
        ({"value_range": 1}, r"Expected `value_range` as \(low, high\), but got 1"),
        (
            {"performance": [1.0, 1.00001]},
            r"within `value_range` = \(0, 1\), but got 1.0000\d* at row 1: give",
        ),
        ({"performance": [0.0, 87.5]}, r"but got 87.5 at row 1: these look like percent: divide by 100\."),
        ({"performance": [-1.0, 87.5]}, r"but got -1 at row 0: give the range of your performance as `value_range`\."),
        ({"performance": ["a", "b"]}, r"Expected `performance` to hold numbers, but got <U1"),
        ({"value_range": (1, 1)}, r"Expected `value_range` as \(low, high\), but got \(1, 1\)"),
        ({"performance": [0.0, 1.5]}, r"within `value_range` = \(0, 1\), but got 1.5 at row 1: give the range"),
        ({"performance": [0.0, np.nan]}, r"Expected `performance` to be finite, but got nan at row 1"),
        ({"performance": [0.0]}, r"Expected `performance` of shape \(2,\) or \(2, R\), but got \(1,\)"),
        ({"lat": [0.0, 91.2]}, r"Expected `lat` of shape \(N,\) in degrees within \[-90, 90\], but got 91.2 at row 1"),
        ({"lon": [0.0]}, r"Expected `lat` and `lon` of one length, but got 2 and 1"),
    ],
)
def test_refused(keywords, message):
    keywords = {"performance": [0.0, 1.0], "lat": [40.0, 41.0], "lon": [0.0, 1.0], **keywords}
    with pytest.raises((ValueError, TypeError), match=message):
        spad(keywords.pop("performance"), **keywords)
