"""The geo-bias loss over a bank: whose rows it holds, what checkpoints keep, and that no ROI samples are needed."""

from functools import partial

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

from geobias_torch import DirectionSector
from geobias_torch.losses import PerformanceBank, SRELoss, SSILoss
from tests.training.places import CLASSES, Places, metric, trainer
from training.encoders import Sphere2Vec
from training.tasks import ClassificationTask, GeoPriorTask, RegressionTask

BANK = partial(PerformanceBank, radius=0.1, centers_per_step=4, min_members=10, min_coverage=0.2)


def sre():
    return SRELoss(DirectionSector(4), min_patch_size=2)


def make_task(kind=RegressionTask, loss=None, **options):
    torch.manual_seed(0)
    classes = {} if kind is RegressionTask else {"num_classes": CLASSES}
    settings = {"hidden": 16, "layers": 1, "bank": BANK, "lr": 0.01} | classes | options
    return kind(Sphere2Vec(scales=4, min_radius=0.05), metric(), geobias_loss=loss or sre(), **settings)


class Spy(nn.Module):
    """Keeps what the bank hands out."""

    def forward(self, performance, regions):
        self.performance, self.regions = performance, regions
        return regions.sum(performance).sum() + 0 * performance.sum()


def test_bank_holds_the_rows_with_a_location_by_their_performance(tmp_path):
    spy, data = Spy(), Places(rois=0, missing=24, features=1, points=64, steps=5)
    task = make_task(loss=spy, num_features=1, weight=0.0, lr=0.0, weight_decay=0.0)  # the model stays as it is
    trainer(tmp_path, max_epochs=2).fit(task, data)
    points = data.train_points
    located = ~points.lat.isnan()
    assert 0 < (~located).sum() == len(points) - len(task.bank.seen)
    seen = task.bank.seen >= 0
    assert seen.double().mean() > 0.9
    batch = points[list(range(len(points)))]
    error = (task(batch.lat, batch.lon, batch.features) - batch.target)[located].detach()
    expected = torch.sigmoid((0.5 - error.abs()) / 0.1).double()
    torch.testing.assert_close(task.bank.performance[seen], expected[seen], atol=1e-6, rtol=1e-5)
    assert spy.regions.num_points == located.sum()
    assert len(spy.regions) == 4


@pytest.mark.parametrize("kind", [RegressionTask, ClassificationTask, GeoPriorTask])
def test_it_trains_every_task_without_roi_samples(tmp_path, kind):
    data = Places(rois=0, missing=12, features=1, classes=0 if kind is RegressionTask else CLASSES)
    features = {} if kind is GeoPriorTask else {"num_features": 1}
    weights = []
    for weight in (0.0, 1.0):
        task = make_task(kind, {"sre": sre(), "ssi": SSILoss()}, weight=weight, **features)
        run = trainer(tmp_path, max_epochs=2)
        run.fit(task, data)
        assert all(parameter.isfinite().all() for parameter in task.parameters())
        assert {"train/geobias_loss/sre", "train/geobias_loss/ssi"} <= set(run.callback_metrics)
        weights.append(task.network.last.weight.detach())
    assert not torch.equal(*weights)


def test_roi_samples_of_a_batch_are_not_looked_at():
    losses = []
    for shift in (0, 100):
        data, task = Places(), make_task(loss=Spy())
        data.setup()
        batch = next(iter(data.train_dataloader()))
        task.bank = BANK(lat=data.train_points.lat, lon=data.train_points.lon)
        task._bank_rows = torch.arange(len(data.train_points))
        target = torch.cat([batch.target[:32], batch.target[32:] + shift])
        losses.append(task.training_step(batch._replace(target=target), 0))
    assert torch.equal(*losses)


def test_bank_is_no_part_of_the_weights(tmp_path):
    task = make_task()
    names = list(task.state_dict())
    trainer(tmp_path, max_epochs=1).fit(task, Places())
    assert task.bank is not None
    assert list(task.state_dict()) == names
    assert not any(name.startswith("bank") for name, _ in task.named_buffers())


def test_no_bank_without_a_loss_or_in_validation(tmp_path):
    task = make_task()
    trainer(tmp_path).validate(task, Places(), verbose=False)
    assert task.bank is None
    task.geobias_loss = None
    trainer(tmp_path, max_epochs=1).fit(task, Places(rois=0))
    assert task.bank is None


def test_bank_needs_a_data_module(tmp_path):
    data = Places()
    data.setup()
    with pytest.raises(ValueError, match="a data module with `train_points` for `bank`, but got none"):
        trainer(tmp_path, max_epochs=1).fit(make_task(), data.train_dataloader())


@pytest.mark.parametrize("kind", [RegressionTask, GeoPriorTask])
def test_a_resumed_run_equals_one_that_never_stopped(tmp_path, kind):
    options = {"max_epochs": 3, "enable_checkpointing": True, "limit_val_batches": 0}
    data = {"rois": 0, "steps": 4, "missing": 12, "classes": 0 if kind is RegressionTask else CLASSES}
    schedule = {"burn_in": 2, "ramp": 4, "weight": 3.0}
    whole = make_task(kind, **schedule)
    saver = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=1, filename="{step}")
    trainer(tmp_path, callbacks=[saver], **options).fit(whole, Places(**data))
    for step in (4, 6):  # at the end of an epoch, and within one
        path = tmp_path / f"step={step}.ckpt"
        assert "performance_bank" in torch.load(path, weights_only=False)
        resumed = make_task(kind, **schedule)
        trainer(tmp_path, **(options | {"enable_checkpointing": False})).fit(resumed, Places(**data), ckpt_path=path)
        assert torch.equal(resumed.bank.performance, whole.bank.performance)
        assert torch.equal(resumed.bank.seen, whole.bank.seen)
        for name, value in whole.state_dict().items():
            assert torch.equal(resumed.state_dict()[name], value), name


def test_a_checkpoint_without_a_bank_starts_with_an_empty_one(tmp_path):
    task = make_task(bank=None)
    run = trainer(tmp_path, max_epochs=1, enable_checkpointing=True, limit_val_batches=0)
    run.fit(task, Places())
    run.save_checkpoint(tmp_path / "plain.ckpt")
    resumed = make_task()
    trainer(tmp_path, max_epochs=2, limit_val_batches=0).fit(resumed, Places(), ckpt_path=tmp_path / "plain.ckpt")
    assert resumed.bank.calls == 3
