"""Callbacks for any LightningModule: log its geo-bias per epoch, write what it predicts as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pyarrow as pa
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from pyarrow import csv, parquet

from geobias_torch.files import replacing
from geobias_torch.maps import MAP_SUFFIXES, draw_map, require_matplotlib
from geobias_torch.metrics import GeoBiasScores

__all__ = ["GeoBiasLogger", "GeoBiasMap", "PredictionWriter"]


class GeoBiasLogger(pl.Callback):
    """Log the geo-bias of the held-out points after every validation epoch, of any LightningModule.

    The module's ``validation_step`` returns a dictionary with ``performance``, ``lat``, ``lon`` and, for distributed
    runs, ``index`` (the row number in the data set, with which rows that a sampler repeats count once), each (B,); or
    it sets attributes of these names. Other keys are left alone. Under several devices every rank computes, and all
    log the same.

    Args:
        metric: what is computed. Its ``prefix``, or "val/geobias/" where it has none, stands before every key.

    Raises:
        ValueError: during validation, if one of the three is neither returned nor set.

    Example:
        >>> from geobias_torch import km
        >>> from geobias_torch.metrics import GeoBiasScores
        >>> from training.callbacks import GeoBiasLogger
        >>> logger = GeoBiasLogger(GeoBiasScores(radius=km(318)))
        >>> logger.metric.radius == km(318)
        True
    """

    def __init__(self, metric: GeoBiasScores) -> None:
        self.metric = metric

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget the last epoch's points; its geometry stays."""
        self.metric.to(pl_module.device).reset()

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Collect the points of a batch."""
        if trainer.sanity_checking:
            return
        returned = outputs if isinstance(outputs, Mapping) else {}
        found = {name: returned.get(name, getattr(pl_module, name, None)) for name in ("performance", "lat", "lon")}
        missing = [f"`{name}`" for name, value in found.items() if value is None]
        if missing:
            raise ValueError(
                f"Expected `validation_step` of {type(pl_module).__name__} to return a dictionary with `performance`, "
                f"`lat` and `lon` (or the module to hold them), but got no {', '.join(missing)}."
            )
        index = returned.get("index", getattr(pl_module, "index", None))
        self.metric.update(found["performance"], lat=found["lat"], lon=found["lon"], index=index)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score and log them."""
        if trainer.sanity_checking:
            return
        prefix = "" if self.metric.prefix else "val/geobias/"
        # the metric has gathered all ranks: every rank logs the same, and nothing is to be averaged
        pl_module.log_dict({f"{prefix}{key}": value.float() for key, value in self.metric.compute().items()})


class GeoBiasMap(pl.Callback):
    """Draw one of the scores that a `GeoBiasLogger` of the same trainer has computed, after every validation.

    The file is replaced each time, so that it shows the last epoch. Needs matplotlib.

    Args:
        path: ``.png``, ``.pdf`` or ``.svg``; folders are made.
        score: such as "sg_sre"; one that the logger's metric computes.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if the path ends otherwise, or, at the start, if the trainer has no `GeoBiasLogger` with this score.

    Example:
        >>> from training.callbacks import GeoBiasMap
        >>> GeoBiasMap("runs/map.png").path.suffix
        '.png'
    """

    def __init__(self, path: str | Path, score: str = "sg_sre") -> None:
        require_matplotlib()
        self.path, self.score = Path(path), score
        if self.path.suffix not in MAP_SUFFIXES:
            raise ValueError(f"Expected `path` to end in {' or '.join(MAP_SUFFIXES)}, but got {str(path)!r}.")

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Find whose scores are to be drawn."""
        metrics = [callback.metric for callback in trainer.callbacks if isinstance(callback, GeoBiasLogger)]  # type: ignore[attr-defined]
        drawn = (metric for metric in metrics if self.score in metric.scores and self.score != "spad")  # a map of one
        self._metric = next(drawn, None)
        if self._metric is None:
            raise ValueError(
                f"Expected a GeoBiasLogger with the score {self.score!r} among the callbacks, but got none."
            )

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Draw it."""
        if trainer.sanity_checking or not trainer.is_global_zero or self._metric is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draw_map(self._metric.local(), self.path, score=self.score, title=f"epoch {trainer.current_epoch}")


class PredictionWriter(BasePredictionWriter):
    """After ``predict``, write the columns that the task's ``predict_step`` returns, one row a point.

    The file appears when it is complete; a run that fails leaves none.

    Args:
        path: ``.csv`` or ``.parquet``; folders are made.

    Raises:
        ValueError: if the path ends otherwise.

    Example:
        >>> from training.callbacks import PredictionWriter
        >>> PredictionWriter("demo/airports.csv").path.suffix
        '.csv'
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(write_interval="epoch")
        self.path = Path(path)
        if self.path.suffix not in (".csv", ".parquet"):
            raise ValueError(f"Expected `path` to end in .csv or .parquet, but got {str(path)!r}.")

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse several devices: each would write its own share over the others'."""
        super().setup(trainer, pl_module, stage)
        if stage == "predict" and trainer.world_size > 1:
            raise ValueError(f"Expected `predict` on one device, but got {trainer.world_size}.")

    def write_on_epoch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        predictions: Sequence[Any],
        batch_indices: Sequence[Any],
    ) -> None:
        """Join the batches and write them."""
        for batch in predictions:
            shapes = [getattr(x, "shape", ()) for x in batch.values()] if isinstance(batch, Mapping) else []
            if not shapes or any(len(shape) != 1 or shape != shapes[0] for shape in shapes):
                got = {name: _kind(x) for name, x in batch.items()} if isinstance(batch, Mapping) else _kind(batch)
                raise ValueError(
                    f"Expected `predict_step` of {type(pl_module).__name__} to return a dictionary of columns, tensors "
                    f"of one shape (B,), but got {got}."
                )
        columns = {name: torch.cat([_numbers(batch[name]) for batch in predictions]) for name in predictions[0]}
        table = pa.table({name: column.numpy() for name, column in columns.items()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary:
            write = csv.write_csv if self.path.suffix == ".csv" else parquet.write_table
            write(table, temporary)
        print(f"{table.num_rows:,} predictions written to {self.path}")


def _kind(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__


def _numbers(column: torch.Tensor) -> torch.Tensor:
    """On the CPU, in a type that tables know."""
    return column.cpu().float() if column.dtype == torch.bfloat16 else column.cpu()
