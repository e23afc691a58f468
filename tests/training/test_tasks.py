"""RegressionTask: which rows each loss sees, what is logged, and what a row without a location gets."""

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader

from geobias_torch import DirectionSector
from geobias_torch.losses import SPADLoss, SRELoss
from geobias_torch.metrics import GeoBiasScores
from tests.training.places import CLASSES, Places
from training.data import Points
from training.encoders import Sphere2Vec
from training.samplers import RoiBatchSampler
from training.tasks import ClassificationTask, RegressionTask

SCORES = ("sg_sre", "dl_sre", "ds_sre")


def metric():
    return GeoBiasScores(radius=0.1, min_patch_size=2, scores=SCORES)


def make_points(count=150, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lat = 45 + 3 * torch.randn(count, generator=generator, dtype=torch.float64)
    lon = 10 + 3 * torch.randn(count, generator=generator, dtype=torch.float64)
    return Points(lat, lon, ((lat - 45) / 3).float(), radius=0.1)


def loader(points, steps=3):
    sampler = RoiBatchSampler(points.lat, points.lon, radius=0.1, steps=steps, points=32, rois=2, min_members=10)
    return DataLoader(points, sampler=sampler, batch_size=None)


def make_task(loss=None, **options):
    torch.manual_seed(0)
    return RegressionTask(Sphere2Vec(scales=4), metric(), geobias_loss=loss, hidden=16, layers=1, **options)


class Spy(nn.Module):
    """Takes what the task hands to its loss."""

    def forward(self, performance, regions):
        self.performance, self.regions = performance, regions
        return regions.sum(performance).sum()


def test_task_loss_sees_the_random_rows_and_the_geobias_loss_the_samples():
    points, spy = make_points(), Spy()
    batch = next(iter(loader(points)))
    task = make_task(spy, weight=2.0)
    loss = task.training_step(batch, 0)
    prediction = task(batch.lat, batch.lon)
    error = (prediction - batch.target).abs()
    torch.testing.assert_close(spy.performance, torch.sigmoid((0.5 - error) / 0.1))
    assert spy.regions is batch.regions
    assert spy.regions.members.min() == batch.num_random == 32
    expected = (
        nn.functional.smooth_l1_loss(prediction[:32], batch.target[:32])
        + 2 * spy.regions.sum(torch.sigmoid((0.5 - error) / 0.1)).sum()
    )
    torch.testing.assert_close(loss, expected)


def test_without_a_loss_the_samples_do_not_matter():
    batch = next(iter(loader(make_points())))
    task = make_task()
    plain = task.training_step(batch, 0)
    moved = batch._replace(target=torch.cat([batch.target[:32], batch.target[32:] + 100]))
    assert torch.equal(plain, task.training_step(moved, 0))


def test_the_geobias_loss_changes_the_gradient():
    batch = next(iter(loader(make_points())))
    gradients = []
    for loss in (None, SRELoss(DirectionSector(4))):
        task = make_task(loss)
        task.training_step(batch, 0).backward()
        gradients.append(task.network.last.weight.grad)
    assert (gradients[0] - gradients[1]).abs().max() > 1e-4


def test_a_row_without_a_location_is_predicted_nan():
    prediction = make_task()(torch.tensor([1.0, float("nan")]), torch.tensor([2.0, 3.0]))
    assert prediction.isnan().tolist() == [False, True]


def held_out_loader(points):
    return DataLoader(points, sampler=[list(range(100)), list(range(100, 150))], batch_size=None)


def trainer(tmp_path, **options):
    settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    return pl.Trainer(default_root_dir=tmp_path, enable_model_summary=False, **(settings | options))


def test_logged_scores_are_those_of_the_metric(tmp_path):
    points, task = make_points(), make_task()
    (logged,) = trainer(tmp_path).validate(task, held_out_loader(points), verbose=False)
    prediction = task(points.lat, points.lon).detach()
    alone = metric()
    alone.update(((prediction - points.target).abs() < 0.5).float(), lat=points.lat, lon=points.lon)
    expected = alone.compute()
    assert set(logged) == {"val/r2", "val/hit_rate"} | {f"val/geobias/{key}" for key in expected}
    for key, value in expected.items():
        torch.testing.assert_close(torch.tensor(logged[f"val/geobias/{key}"]), value.float(), equal_nan=True)
    residual = ((prediction - points.target) ** 2).sum() / ((points.target - points.target.mean()) ** 2).sum()
    assert logged["val/r2"] == pytest.approx(1 - residual.item(), rel=1e-4)
    assert logged["val/hit_rate"] == pytest.approx(((prediction - points.target).abs() < 0.5).float().mean().item())


def test_epochs_draw_new_batches_and_the_run_is_reproducible(tmp_path):
    points = make_points()

    class Rows(pl.Callback):
        def __init__(self):
            self.rows = []

        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            self.rows.append(batch.rows.tolist())

    weights, rows = [], []
    for loss in (SRELoss(DirectionSector(4)), SRELoss(DirectionSector(4)), None):
        task, seen = make_task(loss), Rows()
        trainer(tmp_path, max_epochs=2, callbacks=[seen], limit_val_batches=0).fit(task, loader(points))
        weights.append(task.network.last.weight.detach().clone())
        rows.append(seen.rows)
    assert len(rows[0]) == len({tuple(r) for r in rows[0]}) == 6  # no step twice: set_epoch was called
    assert rows[0] == rows[1] == rows[2]  # with and without a loss
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_learning_rate_ends_at_zero(tmp_path):
    task = make_task(lr=0.01)
    run = trainer(tmp_path, max_epochs=2, limit_val_batches=0)
    run.fit(task, loader(make_points()))
    assert run.lr_scheduler_configs[0].scheduler.get_last_lr() == [pytest.approx(0, abs=1e-8)]


def test_it_learns(tmp_path):
    points = make_points()
    task = make_task(lr=0.01)
    before = trainer(tmp_path).validate(task, held_out_loader(points), verbose=False)[0]["val/r2"]
    trainer(tmp_path, max_epochs=10, limit_val_batches=0).fit(task, loader(points, steps=10))
    after = trainer(tmp_path).validate(task, held_out_loader(points), verbose=False)[0]["val/r2"]
    assert after > max(before, 0.5)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"weight": -1.0}, "`weight` >= 0: a negative one would teach geo-bias, but got -1"),
        ({"lr": -1e-3}, "`lr` >= 0, but got -0.001"),
        ({"weight_decay": float("nan")}, "`weight_decay` >= 0, but got nan"),
    ],
)
def test_settings_out_of_range_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        make_task(**settings)


def test_the_weight_burns_in_and_rises():
    task = make_task(weight=2.0, burn_in=10, ramp=20)
    assert [task.weight_at(step) for step in (0, 10, 15, 20, 30, 99)] == [0, 0, 0.5, 1, 2, 2]
    assert [make_task(weight=2.0, burn_in=3).weight_at(step) for step in (2, 3)] == [0, 2]
    assert make_task(weight=2.0).weight_at(0) == 2
    for name in ("burn_in", "ramp"):
        with pytest.raises(ValueError, match=f"`{name}` >= 0 steps, but got -1"):
            make_task(**{name: -1})


def test_the_schedule_follows_the_steps_of_training(tmp_path):
    points, spy = make_points(), Spy()
    task = make_task(spy, weight=1.0, burn_in=2, ramp=2)
    used, weight_at = [], task.weight_at
    task.weight_at = lambda step: used.append(weight_at(step)) or used[-1]
    trainer(tmp_path, max_epochs=2, limit_val_batches=0).fit(task, loader(points, steps=3))
    assert used == [0, 0, 0, 0.5, 1, 1]


def test_a_run_that_goes_on_for_longer_learns_again(tmp_path):
    """The cosine is that of the whole run, of which the first part was done with a shorter one."""
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    points = make_points()

    def fit(epochs, path=None):
        task = make_task()
        saver = ModelCheckpoint(dirpath=tmp_path, filename=f"{epochs}")
        trainer = pl.Trainer(
            accelerator="cpu",
            max_epochs=epochs,
            callbacks=[saver],
            default_root_dir=tmp_path,
            limit_val_batches=0,
            **quiet,
        )
        trainer.fit(task, loader(points), ckpt_path=path)
        return task, trainer.optimizers[0].param_groups[0]["lr"]

    first, end = fit(2)
    assert end == 0
    longer, end = fit(4, tmp_path / "2.ckpt")
    assert end == 0
    change = max(float((a - b).abs().max()) for a, b in zip(first.parameters(), longer.parameters(), strict=True))
    assert change > 1e-4


def test_a_run_without_an_end_keeps_its_rate():
    task = make_task(lr=0.01)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = pl.Trainer(accelerator="cpu", max_epochs=-1, max_time={"seconds": 1}, limit_val_batches=0, **quiet)
    trainer.fit(task, loader(make_points()))
    assert trainer.global_step > 3
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.01


def test_the_metric_brings_no_prefix():
    with pytest.raises(ValueError, match=r"without a prefix.*but got 'mine/'"):
        RegressionTask(Sphere2Vec(scales=4), GeoBiasScores(radius=0.1, prefix="mine/"))


@pytest.mark.parametrize("missing", [0, 5])
def test_spad_gets_the_random_rows_that_lie_somewhere(missing):
    points = make_points()
    batch = next(iter(loader(points)))
    lat = batch.lat.clone()
    lat[:missing] = torch.nan
    batch = batch._replace(lat=lat, lon=torch.where(lat.isnan(), torch.nan, batch.lon))
    both = make_task({"sre": Spy(), "spad": SPADLoss(seed=3)}, shares={"sre": 0.0, "spad": 2.0}, weight=0.5)
    alone, none = make_task(SPADLoss(seed=3), weight=1.0), make_task()
    lone = batch._replace(regions=None)  # boxes need no ROIs
    rows = slice(missing, batch.num_random)
    error = (both(batch.lat, batch.lon) - batch.target).abs()[rows]
    expected = SPADLoss(seed=3)(torch.sigmoid((0.5 - error) / 0.1), lat=batch.lat[rows], lon=batch.lon[rows])
    assert expected > 0
    for task, given in ((both, batch), (alone, lone)):
        torch.testing.assert_close(task.training_step(given, 0) - none.training_step(given, 0), expected)
    assert len(both.geobias_loss["sre"].performance) == len(batch.rows)


def test_no_losses_are_no_loss():
    assert make_task({}).geobias_loss is None


def test_a_batch_in_which_nothing_can_be_predicted_costs_nothing():
    batch = next(iter(loader(make_points())))
    nowhere = batch._replace(lat=torch.full_like(batch.lat, torch.nan), regions=None)
    loss = make_task().training_step(nowhere, 0)
    loss.backward()
    assert loss.item() == 0


@pytest.mark.parametrize("kind", [RegressionTask, ClassificationTask])
def test_the_data_must_be_of_the_tasks_kind(tmp_path, kind):
    regression = kind is RegressionTask
    data = Places(rois=0, classes=CLASSES if regression else 0)
    task = kind(Sphere2Vec(scales=4), metric(), **({} if regression else {"num_classes": CLASSES}))
    with pytest.raises(
        ValueError, match="number as the target, but got" if regression else "data with classes, but got"
    ):
        trainer(tmp_path).fit(task, data)


def test_features_are_not_passed_over(tmp_path):
    with pytest.raises(ValueError, match="`num_features` of 2, as the data have features, but got 0"):
        pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False).fit(make_task(), Places(features=2))


def test_the_rate_is_torchs_cosine():
    task, parameter = make_task(lr=0.01), nn.Parameter(torch.zeros(1))
    task._steps = 20
    optimizer = torch.optim.SGD([parameter], lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for step in range(21):
        assert 0.01 * task._cosine(step) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        scheduler.step()
    assert task._cosine(30) == 0
