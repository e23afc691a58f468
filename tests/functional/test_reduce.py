"""Global scores from local ones."""

import numpy as np
import pytest
import torch

from geobias_torch import Regions
from geobias_torch.functional import GlobalScore, reduce_scores
from tests.reference.reduce import reduce_scores as reference


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_value_equals_the_reference(dtype):
    rng = np.random.default_rng(0)
    local, weights = rng.normal(size=50), rng.random(50)
    local[rng.random(50) < 0.3] = np.nan
    for w in (None, weights):
        score = reduce_scores(torch.tensor(local, dtype=dtype), weights=w)
        expected = reference(local, w)
        assert float(score.value) == pytest.approx(expected[0], rel=1e-12 if dtype == torch.float64 else 1e-5)
        assert (score.rois_counted, score.rois_total) == expected[1:]
        assert score.value.dtype == dtype


def test_regions_weigh_by_their_members():
    regions = Regions.from_points(lat=[40.0, 40.1, 60.0], lon=[10.0, 10.0, 10.0], radius=0.01)
    assert float(reduce_scores(torch.tensor([1.0, 2.0, 6.0]), regions).value) == pytest.approx((2 + 4 + 6) / 5)
    # weights win over regions
    assert float(reduce_scores(torch.tensor([1.0, 2.0, 6.0]), regions, weights=[1, 1, 2]).value) == pytest.approx(
        15 / 4
    )


def test_nothing_counts():
    for local in (torch.zeros(0), torch.full((3,), torch.nan)):
        score = reduce_scores(local)
        assert isinstance(score, GlobalScore)
        assert torch.isnan(score.value)
        assert (score.rois_counted, score.rois_total) == (0, len(local))


def test_columns():
    local = torch.tensor([[1.0, torch.nan], [3.0, torch.nan], [torch.nan, 5.0]])
    score = reduce_scores(local, weights=[1.0, 3.0, 2.0])
    assert score.value.tolist() == [2.5, 5.0]
    assert torch.as_tensor(score.rois_counted).tolist() == [2, 1]
    assert score.rois_total == 3


def test_gradient_goes_to_the_scores_that_count():
    local = torch.tensor([1.0, torch.nan, 4.0], dtype=torch.float64, requires_grad=True)
    reduce_scores(local, weights=[1.0, 5.0, 3.0]).value.backward()
    assert local.grad.tolist() == [0.25, 0.0, 0.75]


@pytest.mark.parametrize(
    ("local", "keywords", "message"),
    [
        (torch.ones(2, 2, 2), {}, r"Expected `local` of shape \(M,\) or \(M, R\), floating, but got .*\(2, 2, 2\)"),
        (torch.ones(2, dtype=torch.int64), {}, r"Expected `local` of shape .*, floating, but got torch.int64"),
        (torch.ones(2), {"weights": [1.0]}, r"Expected one weight for each of 2 ROIs, but got shape \(1,\)"),
        (torch.ones(2), {"weights": [1.0, -2.0]}, r"Expected `weights` >= 0 and finite, but got -2.0 at ROI 1"),
        (torch.ones(2), {"weights": [np.nan, 2.0]}, r"Expected `weights` >= 0 and finite, but got nan at ROI 0"),
        (torch.ones(2), {"weights": [1.0, np.inf]}, r"Expected `weights` >= 0 and finite, but got inf at ROI 1"),
    ],
)
def test_refused(local, keywords, message):
    with pytest.raises(ValueError, match=message):
        reduce_scores(local, **keywords)
