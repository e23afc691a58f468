"""Performance functions: what "good" means for one prediction, each with the smooth twin that a loss can follow.

Every score and loss of the library takes a performance per point, 1 = good everywhere. ``hit`` and ``within`` say yes
or no; their gradient is zero. Their smooth twins are ``true_class_probability`` and ``within(..., bandwidth=)``.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["hit", "log_odds", "true_class_probability", "within"]


def hit(logits: Tensor, target: Tensor, k: int = 1) -> Tensor:
    """Whether the true class is among the ``k`` classes with the largest logits.

    Classes with equal logits rank by their number, lowest first, so a model that cannot tell the classes apart is not
    given every hit. Has no gradient: losses use `true_class_probability`.

    Args:
        logits: scores of the classes, shape (N, C); any strictly increasing function of them gives the same hits.
        target: true class of every row, shape (N,), integers in 0..C-1.
        k: how many classes may be named, 1 <= k <= C.

    Returns:
        shape (N,), dtype of the logits: 1 for a hit, else 0.

    Raises:
        ValueError: if the shapes do not fit, a target is no class, a logit is NaN or k is outside 1..C.
        TypeError: if one of them is no tensor, or ``target`` does not hold integers.

    Example:
        >>> import torch
        >>> from geobias_torch.performance import hit
        >>> logits = torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]])
        >>> hit(logits, torch.tensor([0, 1]))
        tensor([1., 0.])
        >>> hit(logits, torch.tensor([0, 1]), k=2)
        tensor([1., 1.])
    """
    check_classification(logits, target)
    classes = logits.shape[1]
    if not 1 <= k <= classes:
        raise ValueError(f"Expected `k` within [1, {classes}], the number of classes, but got {k}.")
    of_target = logits.gather(1, target[:, None])  # (N, 1)
    lower_number = torch.arange(classes, device=logits.device) < target[:, None]  # (N, C)
    rank = ((logits > of_target) | ((logits == of_target) & lower_number)).sum(
        dim=1
    )  # (N,) classes ahead of the true one
    return (rank < k).to(logits.dtype)


def true_class_probability(logits: Tensor, target: Tensor) -> Tensor:
    r"""Probability that the model gives to the true class: the smooth twin of `hit`.

    .. math:: p_i = \exp(l_{i y_i}) / \sum_c \exp(l_{ic})

    Args:
        logits: unnormalised log probabilities, shape (N, C).
        target: true class of every row, shape (N,), integers in 0..C-1.

    Returns:
        shape (N,) in [0, 1], differentiable in the logits.

    Raises:
        ValueError: if the shapes do not fit, a target is no class or a logit is NaN.
        TypeError: if one of them is no tensor, or ``target`` does not hold integers.

    Example:
        >>> import torch
        >>> from geobias_torch.performance import true_class_probability
        >>> true_class_probability(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor([0.2500, 0.2500])
    """
    check_classification(logits, target)
    return logits.log_softmax(dim=1).gather(1, target[:, None])[:, 0].exp()


def log_odds(logits: Tensor, target: Tensor) -> Tensor:
    r"""Log odds of the true class: smooth, and not squeezed where the model is sure.

    .. math:: \log p_i / (1 - p_i) = l_{i y_i} - \log \sum_{c \ne y_i} \exp(l_{ic})

    Computed from the logits, so a probability that rounds to 1 still has finite log odds.

    Args:
        logits: unnormalised log probabilities, shape (N, C), C >= 2.
        target: true class of every row, shape (N,), integers in 0..C-1.

    Returns:
        shape (N,), any real number, differentiable in the logits; 0 = as likely right as wrong.

    Raises:
        ValueError: if the shapes do not fit, there is one class only, a target is no class or a logit is NaN.
        TypeError: if one of them is no tensor, or ``target`` does not hold integers.

    Example:
        >>> import torch
        >>> from geobias_torch.performance import log_odds
        >>> log_odds(torch.tensor([[50.0, 0.0]]), torch.tensor([0]))
        tensor([50.])
    """
    check_classification(logits, target)
    if logits.shape[1] < 2:
        raise ValueError("Expected `logits` of shape (N, C) with C >= 2: one class alone has no odds, but got C = 1.")
    of_target = logits.gather(1, target[:, None])[:, 0]
    others = logits.scatter(1, target[:, None], -torch.inf)  # (N, C)
    return of_target - others.logsumexp(dim=1)


def within(
    pred: Tensor, target: Tensor, tolerance: float | Literal["std"], *, bandwidth: float | None = None
) -> Tensor:
    r"""Whether a regression's error is below a tolerance, or how clearly so.

    .. math:: [\,|e_i| < \tau\,] \quad\text{or, with a bandwidth } t,\quad
              1 / (1 + \exp(-(\tau - |e_i|) / t)), \qquad e_i = \text{pred}_i - \text{target}_i

    The first is for scores and has no gradient, the second is its smooth twin for losses (t -> 0 is the first).

    Args:
        pred: predictions, any shape.
        target: true values, the same shape and unit.
        tolerance: the largest error that is still good, > 0, in the unit of ``pred``; or ``"std"``, the standard
            deviation of the errors given (n in the denominator, without gradient). With "std" a uniformly worse model
            scores the same: compare models at a number.
        bandwidth: t > 0 in the unit of ``pred`` for the smooth twin; None for the hard one.

    Returns:
        shape of ``pred``: 0 or 1, or in (0, 1) with a bandwidth.

    Raises:
        ValueError: if the shapes differ, a value is NaN, or tolerance or bandwidth are not positive.
        TypeError: if one of them is no tensor.

    Example:
        >>> import torch
        >>> from geobias_torch.performance import within
        >>> pred, target = torch.tensor([1.0, 2.0]), torch.tensor([1.2, 3.0])
        >>> within(pred, target, 0.5)
        tensor([1., 0.])
        >>> within(pred, target, 0.5, bandwidth=0.1)
        tensor([0.9526, 0.0067])
    """
    _check_tensors(pred=pred, target=target)
    if pred.shape != target.shape:
        raise ValueError(
            f"Expected `pred` and `target` of the same shape, but got {tuple(pred.shape)} and {tuple(target.shape)}."
        )
    error = (pred - target).abs()
    if error.isnan().any():
        raise ValueError("Expected `pred` and `target` without NaN, but got NaN in their difference.")
    if isinstance(tolerance, str):
        if tolerance != "std":
            raise ValueError(f"Expected `tolerance` to be a number or 'std', but got {tolerance!r}.")
        limit: Tensor | float = (pred - target).detach().std(correction=0)
    else:
        if not tolerance > 0:
            raise ValueError(f"Expected `tolerance` > 0, but got {tolerance}.")
        limit = tolerance
    if bandwidth is None:
        return (error < limit).to(error.dtype)
    if not bandwidth > 0:
        raise ValueError(f"Expected `bandwidth` > 0, but got {bandwidth}.")
    return torch.sigmoid((limit - error) / bandwidth)


def _check_tensors(**given: object) -> None:
    for name, values in given.items():
        if not isinstance(values, Tensor):
            raise TypeError(
                f"Expected `{name}` to be a tensor, but got {type(values).__name__}: torch.as_tensor makes one."
            )


def check_classification(logits: Tensor, target: Tensor, name: str = "logits", every_class: bool = True) -> None:
    """Refuse scores (N, C) with NaN, and targets (N,) that are no class numbers (of the C, with ``every_class``)."""
    _check_tensors(**{name: logits, "target": target})
    if logits.ndim != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            f"Expected `{name}` of shape (N, C) and `target` of shape (N,), "
            f"but got {tuple(logits.shape)} and {tuple(target.shape)}."
        )
    if target.is_floating_point() or target.dtype == torch.bool:
        raise TypeError(f"Expected `target` to hold class numbers (integers), but got {target.dtype}.")
    outside = (target < 0) | (target >= logits.shape[1])
    if every_class and outside.any():
        row = int(outside.nonzero()[0])
        raise ValueError(
            f"Expected `target` within [0, {logits.shape[1] - 1}], but got {int(target[row])} at row {row}."
        )
    not_a_number = logits.isnan().any(dim=1)
    if not_a_number.any():
        raise ValueError(f"Expected `{name}` without NaN, but got NaN at row {int(not_a_number.nonzero()[0])}.")
