"""Performance functions: hand-computed values, smooth twins, gradients, refusals."""

import math

import pytest
import torch

from geobias_torch.performance import hit, log_odds, true_class_probability, within

LOGITS = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 1.0], [1.0, 1.0, 1.0]])


def test_hit_counts_the_classes_ahead():
    assert hit(LOGITS, torch.tensor([2, 1, 0])).tolist() == [0, 1, 1]
    assert hit(LOGITS, torch.tensor([2, 0, 2]), k=2).tolist() == [1, 0, 0]
    assert hit(LOGITS, torch.tensor([1, 0, 2]), k=3).tolist() == [1, 1, 1]


def test_equal_logits_hit_as_often_as_guessing():
    targets = torch.arange(10)
    for k in (1, 3, 10):
        assert hit(torch.zeros(10, 10), targets, k=k).sum() == k


def test_hit_is_the_hard_form_of_the_probability():
    torch.manual_seed(0)
    logits, target = torch.randn(200, 2), torch.randint(0, 2, (200,))
    assert torch.equal(hit(logits, target), (true_class_probability(logits, target) > 0.5).float())


def test_log_odds_equal_their_definition_and_stay_finite_where_the_probability_rounds_to_one():
    torch.manual_seed(0)
    logits, target = torch.randn(50, 7, dtype=torch.float64), torch.randint(0, 7, (50,))
    probability = true_class_probability(logits, target)
    torch.testing.assert_close(log_odds(logits, target), torch.log(probability / (1 - probability)))
    sure = torch.tensor([[200.0, 0.0, 0.0]])
    assert log_odds(sure, torch.tensor([0])).item() == pytest.approx(200 - math.log(2))


@pytest.mark.parametrize("smooth", [true_class_probability, log_odds])
def test_smooth_classification_gradients(smooth):
    torch.manual_seed(0)
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: smooth(x, torch.tensor([0, 1, 2, 3, 0, 1])), (logits,))


def test_within_is_strict_and_its_twin_crosses_one_half_at_the_tolerance():
    pred, target = torch.tensor([0.0, 0.5, -0.25, 2.0]), torch.zeros(4)
    assert within(pred, target, 0.5).tolist() == [1, 0, 1, 0]
    soft = within(pred, target, 0.5, bandwidth=0.1)
    assert soft[1] == 0.5
    assert ((soft > 0.5) == (within(pred, target, 0.5) > 0.5)).all()
    torch.testing.assert_close(within(pred[[0, 2, 3]], target[:3], 0.5, bandwidth=1e-3), torch.tensor([1.0, 1.0, 0.0]))


def test_within_std_uses_the_spread_of_the_errors_without_gradient():
    error = torch.tensor([1.0, -1.0, 3.0, -3.0], dtype=torch.float64)  # standard deviation sqrt(5)
    assert within(error, torch.zeros_like(error), "std").tolist() == [1, 1, 0, 0]
    pred = error.clone().requires_grad_()
    (by_name,) = torch.autograd.grad(within(pred, torch.zeros_like(error), "std", bandwidth=0.5).sum(), pred)
    (by_number,) = torch.autograd.grad(within(pred, torch.zeros_like(error), 5**0.5, bandwidth=0.5).sum(), pred)
    torch.testing.assert_close(by_name, by_number)


def test_within_gradient():
    pred = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64, requires_grad=True)
    target = torch.zeros(3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: within(x, target, 0.5, bandwidth=0.2), (pred,))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: hit(LOGITS, torch.tensor([0, 1])), ValueError, r"`logits` of shape \(N, C\).*\(3, 3\) and \(2,\)"),
        (lambda: hit(LOGITS, torch.tensor([0, 1, 3])), ValueError, r"within \[0, 2\], but got 3 at row 2"),
        (lambda: hit(LOGITS, torch.tensor([0, -1, 1])), ValueError, "but got -1 at row 1"),
        (lambda: hit(LOGITS, torch.tensor([0.0, 1.0, 2.0])), TypeError, "class numbers"),
        (lambda: hit(LOGITS, torch.tensor([0, 1, 2]), k=4), ValueError, r"`k` within \[1, 3\].*got 4"),
        (lambda: hit(LOGITS.log().sqrt() * math.nan, torch.tensor([0, 1, 2])), ValueError, "NaN at row 0"),
        (lambda: log_odds(torch.zeros(1, 1), torch.tensor([0])), ValueError, "C >= 2"),
        (lambda: within(torch.zeros(3, 1), torch.zeros(3), 0.5), ValueError, "same shape"),
        (lambda: within(torch.tensor([math.nan]), torch.zeros(1), 0.5), ValueError, "without NaN"),
        (lambda: within(torch.zeros(1), torch.zeros(1), 0.0), ValueError, "`tolerance` > 0"),
        (lambda: within(torch.zeros(1), torch.zeros(1), "sd"), ValueError, "a number or 'std', but got 'sd'"),
        (lambda: within(torch.zeros(1), torch.zeros(1), 1.0, bandwidth=-1.0), ValueError, "`bandwidth` > 0"),
    ],
)
def test_refusals(call, error, match):
    with pytest.raises(error, match=match):
        call()
