"""Which classes are to be expected where: learned from presences alone, and fused with what an image shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad, softplus
from torchmetrics import MeanMetric

from geobias_torch.metrics import GeoBiasScores
from training.data import Batch
from training.encoders.base import has_location
from training.tasks.classification import ClassificationTask
from training.tasks.ranking import of_true_class

__all__ = ["GeoPriorTask", "fuse", "presence_only_loss", "uniform_on_sphere"]


class GeoPriorTask(ClassificationTask):
    r"""Learn where classes (species, say) occur from places where they were seen, with or without geo-bias losses.

    The probability that class c occurs at x is :math:`s_c(x) = \sigma(w_c \cdot e(x))`, without a bias. Training
    minimises `presence_only_loss` over the random rows that have a location, against as many points drawn uniformly
    from the whole sphere by ``(seed, step)`` and the rank; geo-bias losses as in `LocationTask`.

    Where a batch has ``image``, what an image classifier predicts, the prior is fused with it (`fuse`) at the classes
    listed there; a true class that is not listed is a miss, with probability 0. Where it has none, images count as
    if they said nothing. Performance is that of the fused model: whether the true class is first, and for the losses
    its probability. A row without a location has the image alone, and is not given to the geo-bias metric.

    Logs ``val/accuracy`` and ``val/top3`` of the fused model and ``val/prior_accuracy`` of the prior alone (rows with
    a location), besides what `LocationTask` does; the prediction table is that of `ClassificationTask`, with -1 where
    an image lists nothing. Adam, learning rate times ``decay`` after every epoch.

    Args:
        encoder: position encoding with ``dim`` and ``forward(lat, lon) -> (N, dim)``.
        geobias: scores of the held-out points, per epoch.
        num_classes: C >= 2; targets are integers in 0..C-1.
        decay: of the learning rate, in (0, 1].
        seed: of the points drawn from the sphere.
        shared: all others, see `LocationTask`; not ``num_features`` and ``weight_decay``, both are 0.

    Raises:
        ValueError: if ``decay`` is outside (0, 1], or as `ClassificationTask`.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import GeoBiasScores
        >>> from training.encoders import XYZ
        >>> from training.tasks import GeoPriorTask
        >>> task = GeoPriorTask(XYZ(), GeoBiasScores(radius=0.1), num_classes=4)
        >>> task(torch.tensor([48.9, 1.3]), torch.tensor([2.4, 103.9])).sigmoid().shape
        torch.Size([2, 4])

    References:
        Mac Aodha, Cole and Perona, "Presence-Only Geographical Priors for Fine-Grained Image Classification", 2019.
    """

    takes_features = False  # those that the data may have are of the image, which speaks by its predictions

    def __init__(
        self,
        encoder: nn.Module,
        geobias: GeoBiasScores,
        num_classes: int,
        decay: float = 0.98,
        seed: int = 0,
        **shared: Any,
    ) -> None:
        super().__init__(
            encoder=encoder, geobias=geobias, num_classes=num_classes, num_features=0, weight_decay=0.0, **shared
        )
        if not 0 < decay <= 1:
            raise ValueError(f"Expected `decay` within (0, 1], but got {decay}.")
        self.network.last.register_parameter("bias", None)
        self.decay, self.seed = decay, seed
        self.prior_accuracy = MeanMetric()

    def task_term(self, output: Tensor, batch: Batch) -> Tensor:
        """Presence-only loss of the rows that have a location."""
        located = has_location(batch.lat, batch.lon)
        # of the step and the rank alone: a run that is repeated or resumed draws the same, two ranks do not
        mixed = np.random.SeedSequence([self.seed, self.global_step, self.global_rank]).generate_state(1, np.uint64)
        lat, lon = uniform_on_sphere(len(output), torch.Generator().manual_seed(int(mixed[0])))
        elsewhere = self.output(lat.to(output.device), lon.to(output.device))
        return presence_only_loss(output[located], batch.target[located], elsewhere)

    def candidates(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The prior fused with the image where the batch has it."""
        located = has_location(batch.lat, batch.lon)
        if batch.image is None:
            return fuse(torch.zeros_like(output), output, located), None
        # one more column that lists nothing: K is 0 where no row of the batch lists anything
        classes = pad(batch.image.classes, (0, 1), value=-1)
        log_image = pad(batch.image.probabilities, (0, 1)).to(output.dtype).log()  # -inf where nothing is listed
        return fuse(log_image, output.gather(1, classes.clamp(min=0)), located), classes

    def evaluate(self, output: Tensor, batch: Batch) -> None:
        """Collect held-out points by the network's results (B, C)."""
        super().evaluate(output, batch)
        located = has_location(batch.lat, batch.lon)
        self.prior_accuracy.update(of_true_class(output[located], batch.target[located]).hit(1))

    def log_task_scores(self, scores: Mapping[str, Tensor]) -> None:
        """Shares of the held-out rows."""
        super().log_task_scores(scores)
        self.log("val/prior_accuracy", self.prior_accuracy.compute())
        self.prior_accuracy.reset()

    def configure_optimizers(self) -> Any:
        """Adam, learning rate times ``decay`` after every epoch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, self.decay)]


def presence_only_loss(logits: Tensor, target: Tensor, elsewhere: Tensor) -> Tensor:
    r"""Loss of presences: the class seen is there, others are not, and none is at places drawn at random.

    .. math:: L = \frac{1}{BC} \sum_{b, c} \big[ C \, [c = y_b] (-\log s_{bc}) + [c \ne y_b] (-\log(1 - s_{bc})) \big]
              + \frac{1}{B'C} \sum_{b, c} -\log(1 - s'_{bc}), \qquad s = \sigma(\text{logit})

    computed from the logits, so that it stays finite where s rounds to 0 or 1.

    Args:
        logits: (B, C) at the places where something was seen.
        target: (B,) which class was seen, integers in 0..C-1.
        elsewhere: (B', C) logits at places drawn at random.

    Returns:
        a scalar >= 0; a sum over no rows is 0.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import torch
        >>> from training.tasks import presence_only_loss
        >>> presence_only_loss(torch.zeros(3, 2), torch.tensor([0, 1, 1]), torch.zeros(5, 2))  # 2.5 log 2
        tensor(1.7329)

    References:
        Mac Aodha et al., 2019, with the number of classes as the weight of the class seen.
    """
    if logits.ndim != 2 or target.shape != logits.shape[:1] or elsewhere.shape[1:] != logits.shape[1:]:
        raise ValueError(
            "Expected `logits` of shape (B, C), `target` of shape (B,) and `elsewhere` of shape (B', C), "
            f"but got {tuple(logits.shape)}, {tuple(target.shape)} and {tuple(elsewhere.shape)}."
        )
    classes = logits.shape[1]
    seen = logits.gather(1, target[:, None])
    present = softplus(logits).sum() + (classes * softplus(-seen) - softplus(seen)).sum()
    return present / max(logits.numel(), 1) + softplus(elsewhere).sum() / max(elsewhere.numel(), 1)


def fuse(log_image: Tensor, logit_prior: Tensor, located: Tensor) -> Tensor:
    r"""Fuse what an image shows with what is to be expected at its place, in log space.

    .. math:: \log P_\text{img}(c \mid \text{image}) + \log \sigma(\text{logit}_c(x)), \quad
              \text{or the first alone without a location}

    Args:
        log_image: (B, K) log probabilities of classes by the image; -inf for impossible, also for a whole row.
        logit_prior: (B, K) logits of the same classes by location; those of rows without one may be anything.
        located: (B,) bool, which rows have a location.

    Returns:
        (B, K) log probabilities up to a constant per row. -inf stays -inf; never NaN, nor is the gradient.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import torch
        >>> from training.tasks import fuse
        >>> image, logits = torch.tensor([[0.6, 0.4], [0.6, 0.4]]), torch.tensor([[-2.0, 2.0], [-2.0, 2.0]])
        >>> fuse(image.log(), logits, torch.tensor([True, False])).softmax(dim=1)
        tensor([[0.1687, 0.8313],
                [0.6000, 0.4000]])

    References:
        Mac Aodha et al., 2019: P(class | image, place) is proportional to the product of both.
    """
    if log_image.ndim != 2 or logit_prior.shape != log_image.shape or located.shape != log_image.shape[:1]:
        raise ValueError(
            "Expected `log_image` and `logit_prior` of shape (B, K) and `located` of shape (B,), "
            f"but got {tuple(log_image.shape)}, {tuple(logit_prior.shape)} and {tuple(located.shape)}."
        )
    known = located[:, None]
    # zeros before the logarithm too: a NaN that is masked only afterwards has a NaN gradient
    return log_image + torch.where(known, logsigmoid(torch.where(known, logit_prior, 0.0)), 0.0)


def uniform_on_sphere(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    r"""Draw points uniformly from the whole sphere.

    .. math:: \text{lon} = 360 u - 180, \quad \text{lat} = \arcsin(2 v - 1), \qquad u, v \sim U[0, 1)

    Args:
        count: number of points N.
        generator: to draw with.

    Returns:
        latitude and longitude in degrees, float64, (N,) each.

    Example:
        >>> import torch
        >>> from training.tasks import uniform_on_sphere
        >>> lat, lon = uniform_on_sphere(100_000, torch.Generator().manual_seed(0))
        >>> round((lat.abs() < 30).double().mean().item(), 2)  # half of the surface
        0.5
    """
    u, v = torch.rand(2, count, generator=generator, dtype=torch.float64)
    return torch.rad2deg(torch.asin(2 * v - 1)), 360 * u - 180
