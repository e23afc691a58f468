"""Tasks in two processes: scored as in one, whatever the sampler repeats, and a bank that does not stall."""

from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader

from geobias_torch import DirectionSector
from geobias_torch.losses import PerformanceBank, SRELoss
from tests.training.places import Places, make_points, metric, trainer
from training.encoders import Sphere2Vec
from training.tasks import RegressionTask

BANK = partial(PerformanceBank, radius=0.1, centers_per_step=4, min_members=10, min_coverage=0.2)
TWO = {"devices": 2, "strategy": "ddp_spawn"}


def make_task(**options):
    torch.manual_seed(0)
    return RegressionTask(
        Sphere2Vec(scales=4, min_radius=0.05), metric(), hidden=16, layers=1, tolerance="std", **options
    )


@pytest.mark.filterwarnings("ignore")
def test_std_of_the_errors_is_that_of_all_processes(tmp_path):
    points, task = make_points(), make_task()
    points.target[:70] *= 3  # large errors: they would count twice
    rows = [list(range(70)), list(range(70, 90)), list(range(90, 160))]  # of three batches the first is repeated
    loader = DataLoader(points, sampler=rows, batch_size=None)
    (alone,) = trainer(tmp_path).validate(task, loader, verbose=False)
    (together,) = trainer(tmp_path, **TWO).validate(task, loader, verbose=False)
    assert together["val/hit_rate"] == alone["val/hit_rate"]
    assert together["val/geobias/ds_sre"] == pytest.approx(alone["val/geobias/ds_sre"], rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_bank_trains_in_two_processes_with_rows_without_a_location(tmp_path):
    task = make_task(geobias_loss=SRELoss(DirectionSector(4), min_patch_size=2), bank=BANK, num_features=1)
    run = trainer(tmp_path, max_epochs=2, **TWO)
    run.fit(task, Places(rois=0, missing=24, features=1, steps=4))
    assert run.callback_metrics["train/geobias_loss"].isfinite()
    assert run.callback_metrics["val/hit_rate"] > 0
    assert all(parameter.isfinite().all() for parameter in task.parameters())
