"""Classify from features, a location, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torchmetrics import MeanMetric

from geobias_torch.metrics import GeoBiasScores
from training.data import Batch, LocatedDataModule
from training.tasks.base import LocationTask
from training.tasks.ranking import TrueClass, of_true_class

__all__ = ["ClassificationTask"]


class ClassificationTask(LocationTask):
    r"""Classify points by location, features (an image's, say) or both, with or without geo-bias losses.

    .. math:: \text{loss} = \text{cross-entropy over the random rows}
              + w(\text{step}) \cdot \text{geobias\_loss}(\text{probability of the true class}, \text{ROIs})

    A prediction is good where the true class has the largest logit, of equal ones the lowest number (see
    `geobias_torch.performance.hit`); for the losses by `geobias_torch.performance.true_class_probability`. With the
    encoder `NoLocation` the features decide alone. A row without a location is predicted from its features, or as a
    row that nothing is known of; it counts in the accuracy, not in the geo-bias.

    Logs ``val/accuracy`` and ``val/top3`` besides what `LocationTask` does. The prediction table has ``lat``, ``lon``,
    ``target``, ``prediction``, ``true_class_prob``, ``reciprocal_rank``, ``hit@1`` and ``hit@3``: ``geobias score``
    reads it.

    Args:
        encoder: position encoding with ``dim`` and ``forward(lat, lon) -> (N, dim)``.
        geobias: scores of the held-out points, per epoch.
        num_classes: C >= 2; targets are integers in 0..C-1.
        shared: all others, ``num_features`` among them: see `LocationTask`.

    Raises:
        ValueError: if ``num_classes`` is below 2 or not that of the data module, or as `LocationTask`.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import GeoBiasScores
        >>> from training.encoders import XYZ
        >>> from training.tasks import ClassificationTask
        >>> task = ClassificationTask(XYZ(), GeoBiasScores(radius=0.1), num_classes=4, num_features=2)
        >>> task(torch.tensor([48.9, 1.3]), torch.tensor([2.4, 103.9]), torch.zeros(2, 2)).shape
        torch.Size([2, 4])

    References:
        Tang et al., "Improving Image Classification with Location Context", 2015: location features beside those of
        the image.
    """

    def __init__(self, encoder: nn.Module, geobias: GeoBiasScores, num_classes: int, **shared: Any) -> None:
        if num_classes < 2:
            raise ValueError(f"Expected `num_classes` of at least 2, but got {num_classes}.")
        super().__init__(encoder=encoder, geobias=geobias, outputs=num_classes, **shared)
        self.num_classes = num_classes
        # means of hits: they rank as the performance does, and know of classes that are not listed
        self.accuracy, self.top3 = MeanMetric(), MeanMetric()

    def forward(self, lat: Tensor, lon: Tensor, features: Tensor | None = None) -> Tensor:
        """Logits for points in degrees, shape (N, C)."""
        return self.output(lat, lon, features)

    def setup(self, stage: str) -> None:
        """Compare the classes with those of the data, and make the bank."""
        data = getattr(self.trainer, "datamodule", None)
        names = getattr(data, "class_names", None)
        if names is None and isinstance(data, LocatedDataModule):
            raise ValueError("Expected data with classes, but got a number as the target.")
        if names is not None and len(names) != self.num_classes:
            raise ValueError(
                f"Expected `num_classes` of {len(names)}, as many as the data have, but got {self.num_classes}."
            )
        super().setup(stage)

    def candidates(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Scores to rank by, (B, C) or (B, K), and which classes these are, (B, K); None = all of them in order."""
        return output, None

    def true_class(self, output: Tensor, batch: Batch) -> TrueClass:
        """Probability and rank of the true class, from the network's results (B, C)."""
        scores, classes = self.candidates(output, batch)
        return of_true_class(scores, batch.target, classes)

    def task_term(self, output: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy."""
        return nn.functional.cross_entropy(output, batch.target)

    def soft_performance(self, output: Tensor, batch: Batch) -> Tensor:
        """Probability of the true class."""
        return self.true_class(output, batch).probability

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Collect the held-out points."""
        self.evaluate(self.output_of(batch), batch)

    def evaluate(self, output: Tensor, batch: Batch) -> None:
        """Collect held-out points by the network's results (B, C)."""
        found = self.true_class(output, batch)
        self.accuracy.update(found.hit(1))
        self.top3.update(found.hit(3))
        self.score(found.hit(1), batch)

    def log_task_scores(self, scores: Mapping[str, Tensor]) -> None:
        """Shares of all held-out rows."""
        for name, metric in (("accuracy", self.accuracy), ("top3", self.top3)):
            self.log(f"val/{name}", metric.compute(), prog_bar=True)
            metric.reset()

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        """Columns of the prediction table."""
        output = self.output_of(batch)
        scores, classes = self.candidates(output, batch)
        found = of_true_class(scores, batch.target, classes)
        first = scores.argmax(dim=1)
        return {
            "lat": batch.lat,
            "lon": batch.lon,
            "target": batch.target,
            "prediction": first if classes is None else classes.gather(1, first[:, None])[:, 0],
            "true_class_prob": found.probability,
            "reciprocal_rank": 1 / (1 + found.ahead),
            "hit@1": found.hit(1),
            "hit@3": found.hit(3),
        }
