"""Regress a number from a location and, where there are any, features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torchmetrics import R2Score
from torchmetrics.utilities.distributed import gather_all_tensors

from geobias_torch.metrics import GeoBiasScores
from geobias_torch.performance import within
from geobias_torch.ranks import world_size
from training.data import Batch
from training.encoders.base import has_location
from training.tasks.base import LocationTask

__all__ = ["RegressionTask"]

_TASK_LOSSES = {"smooth_l1": nn.functional.smooth_l1_loss, "mse": nn.functional.mse_loss}


class RegressionTask(LocationTask):
    r"""Regress a number from a location, with or without features and geo-bias losses.

    .. math:: \text{loss} = \text{smooth-L1 (or squared error) over the random rows}
              + w(\text{step}) \cdot \text{geobias\_loss}(\text{soft performance}, \text{ROIs})

    A prediction is good where its absolute error is below ``tolerance``: hard for the metrics, and for the loss
    sigmoid((tolerance - |error|) / bandwidth). With "std" the tolerance is the standard deviation of the errors, of all
    held-out rows or, in a training step, of its random rows; a uniformly worse model then scores the same.

    Logs ``val/r2`` and ``val/hit_rate`` besides what `LocationTask` does. Without features a row without a location is
    predicted NaN and left out of everything; with them it is predicted and counts in ``val/r2``.

    Args:
        encoder: position encoding with ``dim`` and ``forward(lat, lon) -> (N, dim)``.
        geobias: scores of the held-out points, per epoch.
        tolerance: largest error that is good, in the unit of the target, or "std".
        bandwidth: softness of that limit in the loss, in the unit of the target.
        task_loss: "smooth_l1" or "mse".
        shared: all others, see `LocationTask`.

    Raises:
        ValueError: if ``task_loss``, ``tolerance`` or ``bandwidth`` is none of those, or as `LocationTask`; when it
            predicts hits by "std" before it was validated.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import GeoBiasScores
        >>> from training.encoders import Sphere2Vec
        >>> from training.tasks import RegressionTask
        >>> task = RegressionTask(Sphere2Vec(scales=8, min_radius=0.1, max_radius=1.0), GeoBiasScores(radius=0.1))
        >>> task(torch.tensor([48.9, 1.3]), torch.tensor([2.4, 103.9])).shape
        torch.Size([2])

    References:
        Rolf et al., "A generalizable and accessible approach to machine learning with global satellite imagery", 2021:
        features and location beside each other. |error| < std(error) is the performance of the geo-bias score paper
        (Wu et al., "TorchSpatial", 2024).
    """

    error_std: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        geobias: GeoBiasScores,
        tolerance: float | Literal["std"] = 0.5,
        bandwidth: float = 0.1,
        task_loss: Literal["smooth_l1", "mse"] = "smooth_l1",
        **shared: Any,
    ) -> None:
        super().__init__(encoder=encoder, geobias=geobias, outputs=1, **shared)
        if task_loss not in _TASK_LOSSES:
            raise ValueError(f"Expected `task_loss` to be one of {sorted(_TASK_LOSSES)}, but got {task_loss!r}.")
        if tolerance != "std" and (isinstance(tolerance, str) or not tolerance > 0):
            raise ValueError(f"Expected `tolerance` > 0 or 'std', but got {tolerance!r}.")
        if not bandwidth > 0:
            raise ValueError(f"Expected `bandwidth` > 0, but got {bandwidth}.")
        self.tolerance, self.bandwidth, self.task_loss = tolerance, bandwidth, task_loss
        self.r2 = R2Score()
        self._predicted: list[tuple[Tensor, Batch]] = []  # since the epoch began: "std" is known only when all are
        if tolerance == "std":
            self.register_buffer("error_std", torch.tensor(torch.nan, dtype=torch.float64))  # of the last validation

    def setup(self, stage: str) -> None:
        """Refuse classes, and make the bank."""
        names = getattr(getattr(self.trainer, "datamodule", None), "class_names", None)
        if names is not None:
            raise ValueError(f"Expected data with a number as the target, but got {len(names)} classes.")
        super().setup(stage)

    def forward(self, lat: Tensor, lon: Tensor, features: Tensor | None = None) -> Tensor:
        """Prediction for points in degrees, shape (N,); NaN where a point has neither location nor features."""
        return torch.where(self._known(lat, lon), self.output(lat, lon, features)[:, 0], torch.nan)

    def _known(self, lat: Tensor, lon: Tensor) -> Tensor:
        return has_location(lat, lon) | (self.num_features > 0)

    def task_term(self, output: Tensor, batch: Batch) -> Tensor:
        """Mean loss of the rows that have a location or features."""
        known = self._known(batch.lat, batch.lon)
        if not known.any():
            return output.sum() * 0.0  # the mean over none would be NaN
        return _TASK_LOSSES[self.task_loss](output[known, 0], batch.target[known])

    def soft_performance(self, output: Tensor, batch: Batch) -> Tensor:
        """How clearly the errors are within the tolerance."""
        limit = self.tolerance
        if limit == "std":
            random = slice(batch.num_random)  # as in every batch: the ROI samples are of some places only
            spread = (output[random, 0] - batch.target[random]).detach().std(correction=0)
            limit = max(float(spread), torch.finfo(spread.dtype).tiny)
        return within(output[:, 0], batch.target, limit, bandwidth=self.bandwidth)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Collect the held-out points."""
        prediction = self(batch.lat, batch.lon, batch.features)
        known = ~prediction.isnan()
        self.r2.update(prediction[known], batch.target[known])
        if self.tolerance == "std":
            self._predicted.append((prediction, batch._replace(features=None)))  # they may be large
        else:
            self.score(self._hits(prediction, batch.target, self.tolerance), batch)

    def on_validation_epoch_end(self) -> None:
        """Score them."""
        if self.tolerance == "std":
            self.error_std = self._std_of_all_ranks()
            for prediction, batch in self._predicted:
                self.score(self._hits(prediction, batch.target, float(self.error_std)), batch)
            self._predicted.clear()
        super().on_validation_epoch_end()

    def _std_of_all_ranks(self) -> Tensor:
        """Of the errors since the epoch began, each row once: a distributed sampler repeats some."""
        errors = torch.cat([(prediction - batch.target).double() for prediction, batch in self._predicted])
        rows = torch.cat([batch.rows for _, batch in self._predicted])
        if world_size() > 1:
            errors, rows = torch.cat(gather_all_tensors(errors)), torch.cat(gather_all_tensors(rows))
        rows, errors = rows[~errors.isnan()], errors[~errors.isnan()]
        different, place = torch.unique(rows, return_inverse=True)
        return errors.new_zeros(len(different)).scatter(0, place, errors).std(correction=0)

    def log_task_scores(self, scores: Mapping[str, Tensor]) -> None:
        """R2 of all rows, hit rate of the located ones."""
        enough = int(self.r2.total) > 1  # one row has no variance to explain
        self.log("val/r2", self.r2.compute() if enough else torch.tensor(torch.nan), prog_bar=True)
        self.log("val/hit_rate", scores["performance"].float(), prog_bar=True)
        self.r2.reset()

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        """Columns of the prediction table."""
        prediction = self(batch.lat, batch.lon, batch.features)
        limit = float(self.error_std) if self.tolerance == "std" else self.tolerance
        if limit != limit:
            raise ValueError("Expected a model that was validated: a hit by `tolerance` 'std' needs its errors.")
        return {
            "lat": batch.lat,
            "lon": batch.lon,
            "target": batch.target,
            "prediction": prediction,
            "error": prediction - batch.target,
            "hit": self._hits(prediction, batch.target, limit),
        }

    @staticmethod
    def _hits(prediction: Tensor, target: Tensor, limit: float) -> Tensor:
        """1 within the limit, 0 beyond, NaN where nothing is predicted."""
        known = ~prediction.isnan()
        hits = torch.full_like(prediction, torch.nan)
        hits[known] = within(prediction[known], target[known], limit).to(hits.dtype)
        return hits
