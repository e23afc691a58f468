"""RegressionTask: features, both losses, the standard deviation of the errors as the limit."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from geobias_torch import DirectionSector
from geobias_torch.losses import SRELoss
from tests.training.places import Places, make_points, metric, trainer
from training.encoders import XYZ, NoLocation
from training.tasks import RegressionTask


def make_task(encoder=None, **options):
    torch.manual_seed(0)
    return RegressionTask(encoder or XYZ(), metric(), **({"hidden": 16, "layers": 1} | options))


def test_features_stand_beside_the_encoding():
    points, task = make_points(features=2), make_task(num_features=2)
    batch = points[[3, 1, 4]]
    expected = task.network(torch.cat([task.encoder(batch.lat, batch.lon), batch.features], dim=1))[:, 0]
    torch.testing.assert_close(task(batch.lat, batch.lon, batch.features), expected)
    assert make_task(NoLocation(), num_features=2)(batch.lat, batch.lon, batch.features).isfinite().all()


def test_a_row_without_a_location_is_predicted_from_its_features():
    lat, lon, features = torch.tensor([1.0, torch.nan]), torch.tensor([2.0, 3.0]), torch.ones(2, 2)
    task = make_task(num_features=2)
    assert task(lat, lon, features).isfinite().all()
    torch.testing.assert_close(task(lat, lon, features)[1], task.network(torch.tensor([[0.0, 0, 0, 1, 1]]))[0, 0])
    assert make_task()(lat, lon, features).isnan().tolist() == [False, True]


@pytest.mark.parametrize("given", [None, torch.zeros(2, 3), torch.zeros(1, 2)])
def test_other_features_are_refused(given):
    with pytest.raises(ValueError, match=r"`features` of shape \(2, 2\) \(`num_features`\), but got"):
        make_task(num_features=2)(torch.zeros(2), torch.zeros(2), given)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"num_features": -1}, "`num_features` >= 0, but got -1"),
        ({"task_loss": "l1"}, r"`task_loss` to be one of \['mse', 'smooth_l1'\], but got 'l1'"),
        ({"tolerance": 0.0}, "`tolerance` > 0 or 'std', but got 0.0"),
        ({"tolerance": "mad"}, "`tolerance` > 0 or 'std', but got 'mad'"),
        ({"bandwidth": 0.0}, "`bandwidth` > 0, but got 0.0"),
        ({"shares": {"sre": 1.0}}, r"`shares` of the losses \(\), but got one of 'sre'"),
        ({"geobias_loss": {"a": SRELoss(DirectionSector(4))}, "shares": {"a": -1.0}}, "`shares` >= 0, but got -1.0"),
    ],
)
def test_wrong_settings_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_task(**options)


@pytest.mark.parametrize("name", ["smooth_l1", "mse"])
def test_task_loss_of_the_rows_that_can_be_predicted(name):
    batch, task = make_points(missing=10)[list(range(160))], make_task(task_loss=name)
    error = task(batch.lat, batch.lon)[:150] - batch.target[:150]
    each = error**2 if name == "mse" else torch.where(error.abs() < 1, error**2 / 2, error.abs() - 0.5)
    loss = task.training_step(batch, 0)
    torch.testing.assert_close(loss, each.mean())
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in task.parameters())


def test_std_in_training_is_that_of_the_random_rows():
    data = Places()
    data.setup()
    batch = next(iter(data.train_dataloader()))
    task = make_task(tolerance="std", bandwidth=0.2)
    output = task.output_of(batch)
    error = output[:, 0] - batch.target
    limit = error[:32].detach().std(correction=0)
    torch.testing.assert_close(task.soft_performance(output, batch), torch.sigmoid((limit - error.abs()) / 0.2))
    same = batch._replace(target=output[:, 0].detach())  # no error at all
    assert task.soft_performance(output, same).isfinite().all()


def test_std_is_that_of_the_whole_held_out_set_whatever_the_batches(tmp_path):
    points, task = make_points(features=1, missing=8), make_task(tolerance="std", num_features=1)
    order = torch.arange(160).tolist()
    logged = [
        trainer(tmp_path).validate(task, DataLoader(points, sampler=rows, batch_size=None), verbose=False)[0]
        for rows in ([order], [order[:30], order[30:31], order[31:]])
    ]
    error = (task(points.lat, points.lon, points.features) - points.target).detach()
    hits = (error.abs() < error.double().std(correction=0)).float()
    for scores in logged:
        assert scores["val/hit_rate"] == pytest.approx(hits[:152].mean().item())  # without the rows of no location
        assert scores["val/r2"] == pytest.approx(
            1 - (error**2).mean().item() / points.target.var(correction=0).item(), rel=1e-4
        )
    assert logged[0] == pytest.approx(logged[1], rel=1e-5, nan_ok=True)
    table = task.predict_step(points[order], 0)
    assert torch.equal(table["hit"], hits)


def test_std_of_an_unvalidated_model_is_not_known():
    points, task = make_points(), make_task(tolerance="std")
    with pytest.raises(ValueError, match="a model that was validated: a hit by `tolerance` 'std' needs its errors"):
        task.predict_step(points[[0, 1]], 0)


def test_std_goes_with_the_weights(tmp_path):
    points, task = make_points(), make_task(tolerance="std")
    assert "error_std" not in make_task().state_dict()
    trainer(tmp_path).validate(task, DataLoader(points, batch_size=None, sampler=[[0, 1, 2]]), verbose=False)
    other = make_task(tolerance="std")
    other.load_state_dict(task.state_dict())
    assert torch.equal(other.predict_step(points[[0, 1, 2]], 0)["hit"], task.predict_step(points[[0, 1, 2]], 0)["hit"])


def test_rows_without_a_location_are_left_out_of_the_scores(tmp_path):
    points, task = make_points(missing=10), make_task()
    loader = DataLoader(points, sampler=[list(range(160))], batch_size=None)
    (with_them,) = trainer(tmp_path).validate(task, loader, verbose=False)
    loader = DataLoader(points, sampler=[list(range(150))], batch_size=None)
    (without,) = trainer(tmp_path).validate(task, loader, verbose=False)
    assert with_them == pytest.approx(without, nan_ok=True)
    table = task.predict_step(points[[0, 159]], 0)
    assert table["hit"].isnan().tolist() == [False, True]


def test_half_precision_trains_and_scores_in_single(tmp_path):
    task = make_task(num_features=1, geobias_loss=SRELoss(DirectionSector(4), min_patch_size=2), lr=0.01)
    data, seen, soft_performance = Places(features=1), [], task.soft_performance
    task.soft_performance = lambda output, batch: seen.append(output.dtype) or soft_performance(output, batch)
    run = trainer(tmp_path, precision="bf16-mixed", max_epochs=1)
    run.fit(task, data)
    assert set(seen) == {torch.float32}
    assert all(parameter.isfinite().all() for parameter in task.parameters())
    assert run.callback_metrics["val/r2"].isfinite()


class Sum(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, performance, regions):
        return self.factor * regions.sum(performance).sum()


def test_several_losses_are_summed_by_their_shares_and_logged_apart(tmp_path):
    task = make_task(geobias_loss={"one": Sum(1.0), "ten": Sum(10.0)}, shares={"ten": 0.5}, weight=2.0, lr=0.0)
    run = trainer(tmp_path, max_epochs=1)
    run.fit(task, Places(steps=1))
    logged = {name: value.item() for name, value in run.callback_metrics.items()}
    one = logged["train/geobias_loss/one"]
    assert one > 0
    assert logged["train/geobias_loss/ten"] == pytest.approx(10 * one)
    assert logged["train/geobias_loss"] == pytest.approx(6 * one)
    assert logged["train/loss"] == pytest.approx(logged["train/task_loss"] + 12 * one)
    assert "val/geobias/performance_worst_decile" in logged


def test_losses_without_rois_are_refused(tmp_path):
    task = make_task(geobias_loss=Sum(1.0))
    with pytest.raises(ValueError, match=r"ROI samples .* or a `bank` for `geobias_loss`, but got none"):
        trainer(tmp_path, max_epochs=1).fit(task, Places(rois=0))
