"""Where the true class stands among the classes, all of them or those that a row lists."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from geobias_torch.performance import check_classification

__all__ = ["TrueClass", "of_true_class"]


class TrueClass(NamedTuple):
    """What a row's scores say of its true class.

    Attributes:
        probability: (B,) in [0, 1], differentiable in the scores; 0 where the class is not listed.
        ahead: (B,) how many classes are ahead of it, floating point: infinite where it is not listed.

    Example:
        >>> import torch
        >>> from training.tasks.ranking import of_true_class
        >>> found = of_true_class(torch.tensor([[0.2, 0.3, 0.5]]).log(), torch.tensor([1]))
        >>> found.probability, found.ahead, found.hit(1), found.hit(2)
        (tensor([0.3000]), tensor([1.]), tensor([0.]), tensor([1.]))
    """

    probability: Tensor
    ahead: Tensor

    def hit(self, k: int) -> Tensor:
        """Whether it is among the first ``k``, 1 or 0, shape (B,): that of `geobias_torch.performance.hit`."""
        return (self.ahead < k).to(self.probability.dtype)


def of_true_class(scores: Tensor, target: Tensor, classes: Tensor | None = None) -> TrueClass:
    r"""Probability and rank of the true class.

    .. math:: p = \exp(s_y) / \sum_c \exp(s_c), \qquad \text{ahead} = |\{c : s_c > s_y \text{ or } s_c = s_y, c < y\}|

    over the classes listed. A class whose score is -inf is not listed, and a row that lists none gives 0 to all.

    Args:
        scores: (B, C) of all classes, or (B, K) of those listed, K >= 1: unnormalised log probabilities.
        target: (B,) class numbers.
        classes: (B, K) which class each score is of, -1 = none; None where they are of all C in order.

    Raises:
        ValueError: if the shapes do not fit, a score is NaN or, where all classes are there, a target is none of them.
        TypeError: if ``target`` does not hold integers.

    Example:
        >>> import torch
        >>> from training.tasks.ranking import of_true_class
        >>> classes, scores = torch.tensor([[7, 2, -1]]), torch.tensor([[0.75, 0.25, 0.0]]).log()
        >>> of_true_class(scores, torch.tensor([2]), classes).probability
        tensor([0.2500])
        >>> of_true_class(scores, torch.tensor([3]), classes).probability
        tensor([0.])
    """
    check_classification(scores, target, "scores", every_class=classes is None)
    if classes is not None and classes.shape != scores.shape:
        raise ValueError(
            f"Expected `classes` of the shape of `scores`, {tuple(scores.shape)}, but got {tuple(classes.shape)}."
        )
    if classes is None:
        own = scores.gather(1, target[:, None])  # (B, 1)
        classes = torch.arange(scores.shape[1], device=scores.device)
    else:
        own = torch.where(classes == target[:, None], scores, -torch.inf).amax(dim=1, keepdim=True)
    ahead = ((scores > own) | ((scores == own) & (classes < target[:, None]))).sum(dim=1)
    listed = own > -torch.inf  # (B, 1)
    # zeros before the sum of exponentials too: that of nothing but -inf has a NaN gradient
    total = torch.where(listed, scores, 0.0).logsumexp(dim=1, keepdim=True)
    probability = torch.where(listed, (torch.where(listed, own, 0.0) - total).exp(), 0.0)
    return TrueClass(probability[:, 0], torch.where(listed[:, 0], ahead, torch.inf).to(scores.dtype))
