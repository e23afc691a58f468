"""What is trained: location encoder, network, task loss and, if wanted, a geo-bias term."""

from __future__ import annotations

from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torchmetrics import R2Score

from geobias_torch.metrics import GeoBiasScores
from geobias_torch.performance import within
from training.data import Batch
from training.encoders import FFN
from training.encoders.base import has_location

__all__ = ["RegressionTask"]


class RegressionTask(pl.LightningModule):
    r"""Regress a number from a location, with or without a geo-bias loss.

    .. math:: \text{loss} = \text{smooth-L1 over the random rows}
              + w(\text{step}) \cdot \text{geobias\_loss}(\text{soft performance}, \text{ROI samples})

    with w = 0 for ``burn_in`` steps, then rising linearly to ``weight`` within ``ramp`` steps.

    A prediction is good where its absolute error is below ``tolerance``: hard for the metrics, and for the loss
    sigmoid((tolerance - |error|) / bandwidth). AdamW, learning rate down to 0 along a cosine over the whole run.

    Per epoch it logs ``train/loss``, ``train/task_loss``, ``train/geobias_loss``, ``val/r2``, ``val/hit_rate`` and
    ``val/geobias/<key>`` for every key of the metric.

    Args:
        encoder: position encoding with ``dim`` and ``forward(lat, lon) -> (N, dim)``.
        geobias: scores of the held-out points, per epoch.
        geobias_loss: called with (performance, regions), such as `geobias_torch.losses.SRELoss`; None = none.
        weight: of the geo-bias term, >= 0.
        burn_in: steps before the geo-bias term counts, >= 0.
        ramp: steps within which its weight rises from 0, >= 0.
        tolerance: largest error that is good, in the unit of the target.
        bandwidth: softness of that limit in the loss, in the unit of the target.
        hidden: width of the network.
        layers: blocks of the network.
        dropout: in the network.
        activation: of the network, "relu" or "gelu".
        plain: a network without skips and LayerNorm, see `FFN`.
        lr: learning rate at the start.
        weight_decay: of AdamW.

    Raises:
        ValueError: if ``weight``, ``burn_in`` or ``ramp`` is negative.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import GeoBiasScores
        >>> from training.encoders import Sphere2Vec
        >>> from training.tasks import RegressionTask
        >>> task = RegressionTask(Sphere2Vec(scales=8, min_radius=0.1, max_radius=1.0), GeoBiasScores(radius=0.1))
        >>> task(torch.tensor([48.9, 1.3]), torch.tensor([2.4, 103.9])).shape
        torch.Size([2])
    """

    def __init__(
        self,
        encoder: nn.Module,
        geobias: GeoBiasScores,
        geobias_loss: nn.Module | None = None,
        weight: float = 1.0,
        burn_in: int = 0,
        ramp: int = 0,
        tolerance: float = 0.5,
        bandwidth: float = 0.1,
        hidden: int = 256,
        layers: int = 3,
        dropout: float = 0.0,
        activation: Literal["relu", "gelu"] = "relu",
        plain: bool = False,
        lr: float = 1e-3,
        weight_decay: float = 1e-3,
    ) -> None:
        super().__init__()
        if not weight >= 0:
            raise ValueError(f"Expected `weight` >= 0: a negative one would teach geo-bias, but got {weight}.")
        for name, steps in (("burn_in", burn_in), ("ramp", ramp)):
            if steps < 0:
                raise ValueError(f"Expected `{name}` >= 0 steps, but got {steps}.")
        self.encoder = encoder
        dim: Any = encoder.dim
        self.network = FFN(dim, 1, hidden=hidden, layers=layers, dropout=dropout, activation=activation, plain=plain)
        self.geobias = geobias
        self.geobias_loss = geobias_loss
        self.r2 = R2Score()
        self.weight, self.burn_in, self.ramp = weight, burn_in, ramp
        self.tolerance, self.bandwidth = tolerance, bandwidth
        self.lr, self.weight_decay = lr, weight_decay

    def forward(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Prediction for points in degrees, shape (N,); NaN where a point has no location."""
        return torch.where(has_location(lat, lon), self.network(self.encoder(lat, lon))[:, 0], torch.nan)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Task loss over the random rows, geo-bias term over the ROI samples."""
        random = slice(batch.num_random)
        used = random if self.geobias_loss is None else slice(None)  # nobody asks for the ROI samples then
        prediction = self(batch.lat[used], batch.lon[used])
        task_loss = nn.functional.smooth_l1_loss(prediction[random], batch.target[random])
        loss = task_loss
        if self.geobias_loss is not None:
            performance = within(prediction, batch.target, self.tolerance, bandwidth=self.bandwidth)
            geobias_loss = self.geobias_loss(performance, batch.regions)
            loss = task_loss + self.weight_at(self.global_step) * geobias_loss
            self._log_training("geobias_loss", geobias_loss, batch)
        self._log_training("task_loss", task_loss, batch)
        self._log_training("loss", loss, batch)
        return loss

    def weight_at(self, step: int) -> float:
        """Weight of the geo-bias term in a step, counted from 0."""
        risen = 1.0 if step >= self.burn_in + self.ramp else max(step - self.burn_in, 0) / max(self.ramp, 1)
        return self.weight * risen

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Collect the held-out points."""
        prediction = self(batch.lat, batch.lon)
        self.r2.update(prediction, batch.target)
        self.geobias.update(
            within(prediction, batch.target, self.tolerance), lat=batch.lat, lon=batch.lon, index=batch.rows
        )

    def on_validation_epoch_end(self) -> None:
        """Score them. The metric keeps its geometry while the coordinates stay the same."""
        scores = self.geobias.compute()
        self.log("val/r2", self.r2.compute(), prog_bar=True)
        self.log("val/hit_rate", scores["performance"].float(), prog_bar=True)
        self.log_dict({f"val/geobias/{key}": value.float() for key, value in scores.items()})
        self.r2.reset()
        self.geobias.reset()

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        """Columns of the prediction table."""
        prediction = self(batch.lat, batch.lon)
        return {
            "lat": batch.lat,
            "lon": batch.lon,
            "target": batch.target,
            "prediction": prediction,
            "error": prediction - batch.target,
            "hit": within(prediction, batch.target, self.tolerance),
        }

    def configure_optimizers(self) -> Any:
        """AdamW and a cosine to 0 over all steps."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        steps = int(self.trainer.estimated_stepping_batches)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _log_training(self, name: str, value: Tensor, batch: Batch) -> None:
        self.log(f"train/{name}", value.detach(), on_step=False, on_epoch=True, batch_size=batch.num_random)
