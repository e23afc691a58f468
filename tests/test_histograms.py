"""Memberships against tests/reference."""

import numpy as np
import pytest
import torch

from geobias_torch.histograms import memberships
from tests.reference import sre

EDGES = (-1.0, 0.1, 0.5, 2.0)
VALUES = np.array([-3.0, -1.0, 0.0, 0.1, 0.3, 0.5, 0.7, 2.0, 9.0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("bandwidth", [None, 0.01, 0.3, 10.0])
@pytest.mark.parametrize("bins", [None, EDGES])
def test_bins_equal_the_reference(bins, bandwidth, dtype):
    actual = memberships(torch.tensor(VALUES, dtype=dtype), bins, bandwidth)
    assert actual.dtype == dtype
    np.testing.assert_allclose(actual.numpy(), sre.memberships(VALUES, bins, bandwidth), atol=1e-6)
    np.testing.assert_allclose(actual.sum(dim=1).numpy(), 1, atol=1e-6)


def test_special_bins_equal_the_reference():
    values = np.array([0.0, 0.25, 0.5, 1.0, 0.25])
    for bins in ("probability", "categories"):
        np.testing.assert_allclose(memberships(torch.tensor(values), bins).numpy(), sre.memberships(values, bins))
    # 0/1 values: the same as the default bins
    hits = torch.tensor([0.0, 1.0, 1.0])
    assert torch.equal(memberships(hits, "probability"), memberships(hits))


def test_a_small_bandwidth_is_hard():
    values = torch.tensor([-0.3, 0.2, 0.45, 0.55, 1.4], dtype=torch.float64)
    torch.testing.assert_close(memberships(values, EDGES, 1e-4), memberships(values, EDGES))


def test_far_from_an_edge_the_gradient_is_a_number():
    values = torch.tensor([-1e6, 0.5, 1e6], requires_grad=True)
    memberships(values, None, 0.01)[:, 1].sum().backward()
    assert values.grad.tolist() == [0.0, pytest.approx(25.0), 0.0]


def test_gradcheck_and_columns():
    values = torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    for bins, bandwidth in ((None, 0.3), (EDGES, 0.5), ("probability", None)):
        assert torch.autograd.gradcheck(lambda v, b=bins, t=bandwidth: memberships(v, b, t), values)
        columns = memberships(values, bins, bandwidth)
        assert columns.shape[:2] == (4, 3)
        assert torch.equal(columns[:, 1], memberships(values[:, 1], bins, bandwidth))


@pytest.mark.parametrize(
    "performance", [torch.tensor([True, False]), torch.tensor([1, 0]), torch.tensor([1.0, 0.0]).half()]
)
def test_other_dtypes_become_float32(performance):
    assert torch.equal(memberships(performance), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"bins": [0.0, 1.0]}, r"Expected `bins` to be at least three strictly increasing edges, but got \[0.0, 1.0\]"),
        ({"bins": [0.0, 0.7, 0.3]}, r"strictly increasing edges"),
        ({"bins": [0.0, np.nan, 1.0]}, r"strictly increasing edges"),
        ({"bins": "deciles"}, r'Expected `bins` to be edges, None, "categories" or "probability", but got .deciles.'),
        ({"bandwidth": 0}, r"Expected `bandwidth` > 0, but got 0"),
        ({"bandwidth": np.nan}, r"Expected `bandwidth` > 0, but got nan"),
        ({"bandwidth": 0.1, "bins": "categories"}, r'Expected no `bandwidth` with bins="categories", but got 0.1'),
        (
            {"performance": torch.tensor([0.5, -0.1]), "bins": "probability"},
            r"within \[0, 1\] .* but got -0.1 at row 1",
        ),
        ({"performance": torch.tensor([0.5, np.nan])}, r"Expected `performance` to be finite, but got nan at row 1"),
    ],
)
def test_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        memberships(**{"performance": torch.tensor([0.0, 1.0]), **keywords})


def test_refuses_complex_numbers():
    with pytest.raises(TypeError, match=r"Expected `performance` to be real, but got torch.complex64"):
        memberships(torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize("values", [[], [0.0, 0.0]])
def test_categories_of_one_value_or_none_are_still_a_histogram(values):
    rows = memberships(torch.tensor(values), "categories")
    assert rows.shape == (len(values), 2)
    assert torch.equal(rows.sum(dim=-1), torch.ones(len(values)))
