"""Held-out rows in two processes: each row counts once, and every process has as many batches."""

import pytest
import torch

from tests.training.places import Places, metric, trainer
from training.data import module
from training.encoders import Sphere2Vec
from training.tasks import RegressionTask


class SmallBatches(Places):
    """Held-out batches of eight rows; in a process that was spawned, too."""

    def val_dataloader(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_ROWS_PER_BATCH", 8)
            return super().val_dataloader()


class Task(RegressionTask):
    """Leaves the rows that it predicted in a file."""

    def predict_step(self, batch, batch_idx):
        torch.save(batch.rows, f"{self.trainer.default_root_dir}/rows_{self.global_rank}_{batch_idx}.pt")
        return super().predict_step(batch, batch_idx)


TWO = {"devices": 2, "strategy": "ddp_spawn"}


def make_task():
    torch.manual_seed(0)
    return Task(Sphere2Vec(scales=4, min_radius=0.05), metric(), hidden=16, layers=1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("data", [SmallBatches, Places])  # eleven batches in one process, and a single one
def test_validation_is_that_of_one_process(tmp_path, data):
    (alone,) = trainer(tmp_path).validate(make_task(), data(count=324), verbose=False)  # 81 held-out rows
    (together,) = trainer(tmp_path, **TWO).validate(make_task(), data(count=324), verbose=False)
    assert together == pytest.approx(alone, rel=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, TWO])
def test_rows_are_predicted_once(tmp_path, options):
    trainer(tmp_path, **options).predict(make_task(), Places(count=324), return_predictions=False)
    rows = torch.cat([torch.load(path) for path in tmp_path.glob("rows_*.pt")])
    assert rows.sort().values.tolist() == list(range(81))
