"""Write what a model predicts as the table that ``geobias score`` and ``geobias compare`` read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pyarrow as pa
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from pyarrow import csv, parquet

from geobias_torch.files import replacing

__all__ = ["PredictionTable"]


class PredictionTable(BasePredictionWriter):
    """After ``predict``, write the columns that the task's ``predict_step`` returns, one row a point.

    The file appears when it is complete; a run that fails leaves none.

    Args:
        path: ``.csv`` or ``.parquet``; folders are made.

    Raises:
        ValueError: if the path ends otherwise.

    Example:
        >>> from training.callbacks import PredictionTable
        >>> PredictionTable("demo/airports.csv").path.suffix
        '.csv'
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(write_interval="epoch")
        self.path = Path(path)
        if self.path.suffix not in (".csv", ".parquet"):
            raise ValueError(f"Expected `path` to end in .csv or .parquet, but got {str(path)!r}.")

    def write_on_epoch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        predictions: Sequence[Any],
        batch_indices: Sequence[Any],
    ) -> None:
        """Join the batches and write them."""
        columns = {name: torch.cat([batch[name].cpu() for batch in predictions]).numpy() for name in predictions[0]}
        table = pa.table(columns)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary:
            write = csv.write_csv if self.path.suffix == ".csv" else parquet.write_table
            write(table, temporary)
        print(f"{table.num_rows:,} predictions written to {self.path}")
