"""SPADLoss against the reference in value and gradient, and what its definition promises."""

import copy
import pickle

import numpy as np
import pytest
import torch

from geobias_torch.losses import SPADLoss
from tests.losses.test_sre import points
from tests.reference import gradient
from tests.reference import spad as reference


def grid(loss):
    """Rows and columns of the next call."""
    sample = np.random.default_rng([loss.seed, loss.calls])
    return int(sample.integers(1, loss.max_rows, endpoint=True)), int(sample.integers(1, loss.max_cols, endpoint=True))


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize(("lat", "lon"), [(40.0, 10.0), (89.5, 0.0), (0.0, 179.9)])
def test_value_and_gradient_equal_the_reference(lat, lon, one_sided):
    lat, lon, performance = points(lat, lon)
    loss = SPADLoss(max_rows=6, max_cols=6, one_sided=one_sided, seed=3)
    for _ in range(4):
        values = torch.tensor(performance, requires_grad=True)
        rows, cols = grid(loss)
        result = loss(values, lat=lat, lon=lon)
        result.backward()
        target = performance.mean() if one_sided else None

        def slow(v, rows=rows, cols=cols, target=target):
            return reference.loss(v, lat, lon, rows, cols, one_sided=one_sided, target=target)

        assert result.item() == pytest.approx(slow(performance), rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(values.grad, gradient.numerical_gradient(slow, performance), rtol=1e-5, atol=1e-8)
    assert values.grad.abs().max() > 1e-4


def test_gradcheck():
    lat, lon, performance = points(count=20)
    values = torch.tensor(performance, requires_grad=True)

    def fresh(v):
        return SPADLoss(max_rows=5, max_cols=5, one_sided=False, seed=1)(v, lat=lat, lon=lon)

    assert torch.autograd.gradcheck(fresh, values)


def test_one_sided_lifts_and_never_lowers():
    lat, lon, performance = points()
    loss, total = SPADLoss(max_rows=8, max_cols=8), torch.zeros(60, dtype=torch.float64)
    for _ in range(20):
        values = torch.tensor(performance, requires_grad=True)
        loss(values, lat=lat, lon=lon).backward()
        assert (values.grad <= 0).all()
        total += values.grad
    assert (total < 0).any()


def test_the_n_th_call_draws_the_same_grid_again_and_state_goes_on():
    lat, lon, performance = points()
    values = torch.tensor(performance)
    first, second = (SPADLoss(max_rows=6, max_cols=6, seed=5) for _ in range(2))
    drawn = [first(values, lat=lat, lon=lon) for _ in range(6)]
    assert len(set(map(float, drawn))) > 3
    for expected in drawn[:3]:
        assert torch.equal(second(values, lat=lat, lon=lon), expected)
    resumed = SPADLoss(max_rows=6, max_cols=6, seed=5)
    resumed.load_state_dict(second.state_dict())
    for other in (resumed, copy.deepcopy(second), pickle.loads(pickle.dumps(second))):
        assert torch.equal(other(values, lat=lat, lon=lon), drawn[3])


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_points_and_constant_performance(count):
    performance = torch.full((count,), 0.5, requires_grad=True)
    loss = SPADLoss()(performance, lat=torch.full((count,), 10.0), lon=torch.arange(float(count)))
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert performance.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_the_input_is_rounded_in_lower_precision(dtype):
    lat, lon, performance = points()
    values = torch.tensor(performance).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = SPADLoss()(values, lat=lat, lon=lon)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), SPADLoss()(values.double(), lat=lat, lon=lon), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("options", [{"max_rows": 0}, {"max_cols": 2.5}, {"max_rows": True}])
def test_refused_options(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"`{name}` to be an integer >= 1"):
        SPADLoss(**options)


def test_refused_arguments():
    with pytest.raises(ValueError, match="finite, but got nan at row 0"):
        SPADLoss()(torch.tensor([float("nan")]), lat=[0.0], lon=[0.0])
    with pytest.raises(ValueError, match="N = 1 as `lat`, but got 2"):
        SPADLoss()(torch.rand(2), lat=[0.0], lon=[0.0])
    with pytest.raises(TypeError, match="tensor with a gradient, but got list"):
        SPADLoss()([0.5], lat=[0.0], lon=[0.0])


def test_print_shows_the_settings():
    assert str(SPADLoss(max_rows=7)) == "SPADLoss(max_rows=7, max_cols=100, one_sided=True, seed=0)"
