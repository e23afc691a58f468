"""What all tasks share: encoder and network, the geo-bias term and its schedule, scoring and logging."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from geobias_torch import Regions
from geobias_torch.losses import PerformanceBank, SPADLoss
from geobias_torch.metrics import GeoBiasScores
from training.data import Batch
from training.encoders import FFN
from training.encoders.base import has_location
from training.jitter import jittered

__all__ = ["LocationTask"]

_BANK = "performance_bank"  # where a checkpoint keeps it


class LocationTask(pl.LightningModule, ABC):
    r"""Predict something at located points, with or without geo-bias losses; a subclass brings the task.

    The network sees the position encoding of a point and, with ``num_features`` > 0, its features (an image's, say)
    beside it; a row without a location has an encoding of zeros. Training minimises

    .. math:: \text{loss} = \text{task loss over the random rows}
              + w(\text{step}) \sum_t \text{share}_t \cdot \text{geobias\_loss}_t(\text{soft performance}, \text{ROIs})

    with w = 0 for ``burn_in`` steps, then rising linearly to ``weight`` within ``ramp`` steps. The ROIs are the batch's
    ROI samples or, with a ``bank``, whole ROIs over all training points of which the random rows carry the gradient.
    AdamW, learning rate down to 0 along a cosine over the whole run; it stays in one without an end.

    Per epoch it logs ``train/loss``, ``train/task_loss``, ``train/geobias_loss`` (before the weight; with several
    losses also each as ``train/geobias_loss/<name>``) and ``val/geobias/<key>`` for every key of the metric, among them
    ``performance_worst_decile``.

    Args:
        encoder: position encoding with ``dim`` and ``forward(lat, lon) -> (N, dim)``.
        geobias: scores of the held-out points that have a location, per epoch.
        outputs: size of the network's result.
        num_features: size F of a row's features; 0 = what the batch has is not looked at.
        geobias_loss: called with (performance, regions), such as `geobias_torch.losses.SRELoss`, or a
            `geobias_torch.losses.SPADLoss`, which gets the random rows; several as a dictionary of names; None = none.
        shares: of the losses in their sum, by name, each >= 0; those not named count 1.
        bank: makes a `geobias_torch.losses.PerformanceBank` of ``lat=`` and ``lon=``, the trainer's data module's
            training points; None = the batch's ROI samples are used.
        weight: of the geo-bias losses, >= 0.
        burn_in: steps before they count, >= 0.
        ramp: steps within which their weight rises from 0, >= 0.
        jitter: how far, in radians (standard deviation north and east), points are moved at random before the geo-bias
            losses see their performance, >= 0: ROI samples, or with a ``bank`` the random rows, in a second pass. The
            task loss sees points where they are. Without it the losses can be lowered by memorising training points,
            which helps no others. The median distance to the nearest neighbour is one to start from.
        hidden: width of the network.
        layers: blocks of the network.
        dropout: in the network.
        activation: of the network, "relu" or "gelu".
        plain: a network without skips and LayerNorm, see `FFN`.
        lr: learning rate at the start.
        weight_decay: of AdamW.

    Attributes:
        bank: the bank, from ``setup("fit")`` on, where there is one. Checkpoints hold it: a run that goes on from one
            equals a run that never stopped.

    Raises:
        ValueError: if ``num_features``, ``weight``, ``burn_in``, ``ramp``, ``jitter``, ``lr``, ``weight_decay`` or a
            share is negative, the network's settings are out of range (`FFN`), a share is that of no loss, features
            are missing or of another size, or there are neither ROI samples nor a bank for the losses.

    Example:
        >>> import torch
        >>> from geobias_torch.metrics import GeoBiasScores
        >>> from training.encoders import XYZ
        >>> from training.tasks import LocationTask
        >>> class Slope(LocationTask):
        ...     def task_term(self, output, batch):
        ...         return (output[:, 0] - batch.target).square().mean()
        ...     def soft_performance(self, output, batch):
        ...         return torch.exp(-(output[:, 0] - batch.target).square())
        ...     def validation_step(self, batch, batch_idx):
        ...         self.score(self.soft_performance(self.output_of(batch), batch), batch)
        >>> task = Slope(XYZ(), GeoBiasScores(radius=0.1), outputs=1, num_features=2)
        >>> task.output(lat=torch.zeros(5), lon=torch.zeros(5), features=torch.zeros(5, 2)).shape
        torch.Size([5, 1])
    """

    bank: PerformanceBank | None
    takes_features = True

    def __init__(
        self,
        encoder: nn.Module,
        geobias: GeoBiasScores,
        outputs: int,
        num_features: int = 0,
        geobias_loss: nn.Module | dict[str, nn.Module] | None = None,
        shares: dict[str, float] | None = None,
        bank: Callable[[Any, Any], PerformanceBank] | None = None,
        weight: float = 1.0,
        burn_in: int = 0,
        ramp: int = 0,
        jitter: float = 0.0,
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
        if not 0 <= jitter < math.pi:
            raise ValueError(f"Expected `jitter` within [0, pi) radians, but got {jitter}.")
        if not 0 <= lr < math.inf:
            raise ValueError(f"Expected `lr` >= 0, but got {lr}.")
        if not 0 <= weight_decay < math.inf:
            raise ValueError(f"Expected `weight_decay` >= 0, but got {weight_decay}.")
        if geobias.prefix:
            raise ValueError(f"Expected `geobias` without a prefix, which the task gives, but got {geobias.prefix!r}.")
        if geobias_loss == {}:
            geobias_loss = None
        if num_features < 0:
            raise ValueError(f"Expected `num_features` >= 0, but got {num_features}.")
        names = tuple(geobias_loss) if isinstance(geobias_loss, dict) else ()
        for name, share in (shares or {}).items():
            if name not in names:
                raise ValueError(f"Expected `shares` of the losses {names}, but got one of {name!r}.")
            if not share >= 0:
                raise ValueError(f"Expected `shares` >= 0, but got {share} for {name!r}.")
        self.encoder = encoder
        dim: Any = encoder.dim
        self.network = FFN(
            dim + num_features,
            outputs,
            hidden=hidden,
            layers=layers,
            dropout=dropout,
            activation=activation,
            plain=plain,
        )
        self.geobias = geobias
        self.geobias_loss = nn.ModuleDict(geobias_loss) if isinstance(geobias_loss, dict) else geobias_loss
        self.num_features, self.shares = num_features, shares or {}
        self.weight, self.burn_in, self.ramp, self.jitter = weight, burn_in, ramp, jitter
        self.lr, self.weight_decay = lr, weight_decay
        self._make_bank, self._bank_state = bank, None
        self._steps: float = 1  # of the run, from its start on
        # not a child: DDP would overwrite every rank's bank with the first one's in every step
        self.__dict__["bank"] = None

    @abstractmethod
    def task_term(self, output: Tensor, batch: Batch) -> Tensor:
        """Task loss of rows, a scalar, from the network's results (B, outputs) of theirs."""

    @abstractmethod
    def soft_performance(self, output: Tensor, batch: Batch) -> Tensor:
        """Performance of rows, (B,), finite and with a gradient, from the network's results (B, outputs) of theirs."""

    def output(self, lat: Tensor, lon: Tensor, features: Tensor | None = None) -> Tensor:
        """The network's results, shape (N, outputs); float32 also where it computes in half precision.

        Args:
            lat: (N,) degrees.
            lon: (N,) degrees.
            features: (N, num_features).
        """
        encoding = self.encoder(lat, lon)
        if self.num_features:
            shape = None if features is None else tuple(features.shape)
            if features is None or shape != (len(lat), self.num_features):
                raise ValueError(
                    f"Expected `features` of shape {(len(lat), self.num_features)} (`num_features`), but got {shape}."
                )
            encoding = torch.cat([encoding, features.to(encoding.dtype)], dim=1)
        result = self.network(encoding)
        return result.to(torch.promote_types(result.dtype, torch.float32))

    def output_of(self, batch: Batch) -> Tensor:
        """The network's results for the rows of a batch."""
        return self.output(batch.lat, batch.lon, batch.features)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Task loss over the random rows, geo-bias losses over the ROI samples or the bank."""
        random = _random_rows(batch)
        # nobody else asks for the ROI samples
        seen = random if self.geobias_loss is None or self.bank is not None else batch
        if not self.jitter or self.geobias_loss is None:
            output = judged = self.output_of(seen)
        elif seen is batch:
            output = judged = self.output_of(self._moved(batch, start=batch.num_random))
        else:
            output, judged = self.output_of(random), self.output_of(self._moved(random, start=0))
        task_loss = self.task_term(output[: batch.num_random], random)
        loss = task_loss
        if self.geobias_loss is not None:
            geobias_loss = self._geobias_term(self.soft_performance(judged, seen), seen)
            loss = task_loss + self.weight_at(self.global_step) * geobias_loss
        self._log_training("task_loss", task_loss, batch)
        self._log_training("loss", loss, batch)
        return loss

    def _moved(self, batch: Batch, start: int) -> Batch:
        """The batch with its rows from ``start`` on moved a little."""
        # of the step alone: a run that is resumed draws the same
        generator = torch.Generator().manual_seed(self.global_step)
        lat, lon = jittered(batch.lat[start:], batch.lon[start:], self.jitter, generator)
        return batch._replace(lat=torch.cat([batch.lat[:start], lat]), lon=torch.cat([batch.lon[:start], lon]))

    def _geobias_term(self, performance: Tensor, batch: Batch) -> Tensor:
        """The sum of the geo-bias losses, each by its share."""
        several = isinstance(self.geobias_loss, nn.ModuleDict)
        losses: Any = self.geobias_loss.items() if several else [("", self.geobias_loss)]  # type: ignore[union-attr, operator]
        over_rois: tuple[Tensor, Regions] | None = None
        terms = {}
        for name, loss in losses:
            if isinstance(loss, SPADLoss):
                located = has_location(batch.lat, batch.lon)[: batch.num_random]
                lat, lon = batch.lat[: batch.num_random][located], batch.lon[: batch.num_random][located]
                terms[name] = loss(performance[: batch.num_random][located], lat=lat, lon=lon)
            else:
                over_rois = over_rois or self._over_rois(performance, batch)
                terms[name] = loss(*over_rois)
            if several:
                self._log_training(f"geobias_loss/{name}", terms[name], batch)
        total = torch.stack([self.shares.get(name, 1.0) * term for name, term in terms.items()]).sum()
        self._log_training("geobias_loss", total, batch)
        return total

    def _over_rois(self, performance: Tensor, batch: Batch) -> tuple[Tensor, Regions]:
        """Performance and regions of the ROI samples, or of the bank."""
        if self.bank is not None:
            index = self._bank_rows[batch.rows]
            located = index >= 0
            if not located.all():
                performance, index = performance[located], index[located]
            return self.bank(performance, index)
        if batch.regions is None:
            raise ValueError(
                "Expected ROI samples (`rois` of the data module) or a `bank` for `geobias_loss`, but got none."
            )
        return performance, batch.regions

    def weight_at(self, step: int) -> float:
        """Weight of the geo-bias losses in a step, counted from 0."""
        risen = 1.0 if step >= self.burn_in + self.ramp else max(step - self.burn_in, 0) / max(self.ramp, 1)
        return self.weight * risen

    def score(self, performance: Tensor, batch: Batch) -> None:
        """Give the metric the held-out rows of a batch that have a location."""
        located = has_location(batch.lat, batch.lon)
        lat, lon, rows = batch.lat[located], batch.lon[located], batch.rows[located]
        self.geobias.update(performance[located], lat=lat, lon=lon, index=rows)

    def on_validation_epoch_end(self) -> None:
        """Log the scores. The metric keeps its geometry while the coordinates stay the same."""
        scores = self.geobias.compute()
        self.log_dict({f"val/geobias/{key}": value.float() for key, value in scores.items()})
        self.log_task_scores(scores)
        self.geobias.reset()

    def log_task_scores(self, scores: Mapping[str, Tensor]) -> None:
        """Log what is the task's own, after a validation; ``scores`` are those of the metric."""

    def configure_optimizers(self) -> Any:
        """AdamW and a cosine to 0 over all steps."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        scheduler = LambdaLR(optimizer, self._cosine)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _cosine(self, step: int) -> float:
        """Share of the learning rate, of the length of this run: one that goes on for more epochs rises again."""
        return 0.5 * (1 + math.cos(math.pi * min(step / self._steps, 1)))

    def setup(self, stage: str) -> None:
        """Make the bank of the training points that have a location."""
        if self.trainer.precision in ("16-true", "bf16-true"):
            raise ValueError(
                "Expected `precision` of 32 bits or mixed ('bf16-mixed'), as coordinates are rounded in true half "
                f"precision, but got {self.trainer.precision!r}."
            )
        points = getattr(getattr(self.trainer, "datamodule", None), "train_points", None)
        features = getattr(points, "features", None)
        if features is not None and not self.num_features and self.takes_features:
            raise ValueError(
                f"Expected `num_features` of {features.shape[1]}, as the data have features, but got 0: set it, or "
                "leave `features` out of the data."
            )
        if stage != "fit" or self._make_bank is None or self.geobias_loss is None:
            return
        if points is None:
            raise ValueError("Expected a data module with `train_points` for `bank`, but got none.")
        located = has_location(points.lat, points.lon)
        self._bank_rows = torch.where(located, located.cumsum(0) - 1, -1)  # (N,) row -> point of the bank, -1 = none
        bank = self._make_bank(lat=points.lat[located], lon=points.lon[located])  # type: ignore[call-arg]
        self.__dict__["bank"] = bank

    def on_train_start(self) -> None:
        """Find the length of the run; bring the bank to its device and its state: all are settled only now.

        Asking for the length earlier makes Lightning build the loader before it reads the checkpoint, and a run resumed
        within an epoch would see that epoch's first batches again.
        """
        self._steps = max(self.trainer.estimated_stepping_batches, 1)
        if self.bank is not None:
            self.bank.to(self.device)
            self._bank_rows = self._bank_rows.to(self.device)
            if self._bank_state is not None:
                self.bank.load_state(self._bank_state)
        self._bank_state = None

    def on_train_epoch_end(self) -> None:
        """Exchange what the ranks of a distributed run have seen."""
        if self.bank is not None:
            self.bank.sync()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the bank."""
        if self.bank is not None:
            checkpoint[_BANK] = self.bank.state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the bank's state for when there is a bank."""
        self._bank_state = checkpoint.get(_BANK)

    def _log_training(self, name: str, value: Tensor, batch: Batch) -> None:
        self.log(f"train/{name}", value.detach(), on_step=False, on_epoch=True, batch_size=batch.num_random)


def _random_rows(batch: Batch) -> Batch:
    """The batch without its ROI samples."""
    return apply_to_collection(batch._replace(regions=None), Tensor, lambda column: column[: batch.num_random])
