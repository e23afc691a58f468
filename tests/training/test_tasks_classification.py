"""ClassificationTask: what it sees, what counts as good, what it logs, and the table it writes."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from geobias_torch import DirectionSector
from geobias_torch.losses import SRELoss, SSILoss
from geobias_torch.performance import hit, true_class_probability
from geobias_torch.tables import read_predictions
from tests.reference import geo_prior as reference
from tests.training.places import CLASSES, Places, make_points, metric, trainer
from training.callbacks import PredictionWriter
from training.encoders import XYZ, NoLocation, Sphere2Vec
from training.tasks import ClassificationTask
from training.tasks.ranking import of_true_class


def make_task(encoder=None, **options):
    torch.manual_seed(0)
    settings = {"num_classes": CLASSES, "hidden": 16, "layers": 1} | options
    return ClassificationTask(encoder or XYZ(), metric(), **settings)


def test_cross_entropy_over_the_random_rows_and_probability_for_the_loss():
    class Spy(nn.Module):
        def forward(self, performance, regions):
            self.performance = performance
            return performance.sum()

    spy = Spy()
    task, data = make_task(geobias_loss=spy, weight=0.5), Places(classes=CLASSES)
    data.setup()
    batch = next(iter(data.train_dataloader()))
    loss = task.training_step(batch, 0)
    probability = task(batch.lat, batch.lon).softmax(dim=1)[torch.arange(len(batch.lat)), batch.target]
    torch.testing.assert_close(spy.performance, probability)
    torch.testing.assert_close(loss, -probability[:32].log().mean() + 0.5 * probability.sum())


def test_logged_scores_and_table_are_those_of_plain_loops(tmp_path):
    points, task = make_points(classes=CLASSES, features=2, missing=8), make_task(num_features=2)
    rows = [list(range(100)), list(range(100, 160))]
    loader = DataLoader(points, sampler=rows, batch_size=None)
    run = trainer(tmp_path, callbacks=[PredictionWriter(tmp_path / "table.csv")])
    (logged,) = run.validate(task, loader, verbose=False)
    run.predict(task, loader)
    logits = task(points.lat, points.lon, points.features).detach().double()
    found = [
        reference.true_class(row.softmax(0).tolist(), range(CLASSES), true)
        for row, true in zip(logits, points.target.tolist(), strict=True)
    ]
    hits = {k: np.array([float(ahead < k) for _, ahead in found]) for k in (1, 3)}
    assert logged["val/accuracy"] == pytest.approx(hits[1].mean())
    assert logged["val/top3"] == pytest.approx(hits[3].mean())
    assert logged["val/geobias/performance"] == pytest.approx(hits[1][:152].mean())  # without those of no location
    alone = metric()
    alone.update(torch.tensor(hits[1][:152]), lat=points.lat[:152], lon=points.lon[:152])
    for key, value in alone.compute().items():
        assert logged[f"val/geobias/{key}"] == pytest.approx(value.item(), nan_ok=True)
    table = {
        name: torch.cat([task.predict_step(points[r], 0)[name] for r in rows])
        for name in task.predict_step(points[[0]], 0)
    }
    assert list(table) == ["lat", "lon", "target", "prediction", "true_class_prob", "reciprocal_rank", "hit@1", "hit@3"]
    torch.testing.assert_close(
        table["true_class_prob"].double(), torch.tensor([p for p, _ in found], dtype=torch.double)
    )
    torch.testing.assert_close(
        table["reciprocal_rank"].double(), torch.tensor([1 / (1 + a) for _, a in found]).double()
    )
    assert torch.equal(table["prediction"], logits.argmax(dim=1))
    read = read_predictions(tmp_path / "table.csv")
    assert read.columns["value"] == "hit@1"
    assert read.located.sum() == 152
    assert (read.performance == hits[1]).all()


def test_ranks_and_probabilities_are_those_of_the_library():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randint(-3, 4, (200, 6), generator=generator).double()  # many ties
    target = torch.randint(0, 6, (200,), generator=generator)
    found = of_true_class(logits, target)
    torch.testing.assert_close(found.probability, true_class_probability(logits, target))
    for k in (1, 2, 3, 6):
        assert torch.equal(found.hit(k), hit(logits, target, k))
    order = torch.rand(200, 6, generator=generator).argsort(dim=1)  # listed in any order, all the same
    listed = of_true_class(logits.gather(1, order), target, order)
    torch.testing.assert_close(listed.probability, found.probability)
    assert torch.equal(listed.ahead, found.ahead)


@pytest.mark.parametrize(
    ("scores", "target", "classes", "error", "complaint"),
    [
        (torch.zeros(2, 3), torch.zeros(3).long(), None, ValueError, r"`scores` of shape \(N, C\) and `target` of"),
        (torch.zeros(2, 3), torch.zeros(2), None, TypeError, "`target` to hold class numbers"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), None, ValueError, r"`target` within \[0, 2\], but got 3 at row 1"),
        (
            torch.tensor([[0, torch.nan]]),
            torch.tensor([0]),
            None,
            ValueError,
            "`scores` without NaN, but got NaN at row 0",
        ),
        (
            torch.zeros(2, 3),
            torch.tensor([0, 3]),
            torch.zeros(2, 2).long(),
            ValueError,
            "`classes` of the shape of `scores`",
        ),
    ],
)
def test_wrong_rows_are_refused(scores, target, classes, error, complaint):
    with pytest.raises(error, match=complaint):
        of_true_class(scores, target, classes)


def test_without_location_the_features_decide_alone():
    lat, lon, features = torch.tensor([1.0, torch.nan]), torch.tensor([2.0, 3.0]), torch.ones(2, 3)
    logits = make_task(NoLocation(), num_features=3)(lat, lon, features)
    assert torch.equal(logits[0], logits[1])
    with_location = make_task(num_features=3)(lat, lon, features)
    assert with_location.isfinite().all()
    assert not torch.equal(with_location[0], with_location[1])


def test_rows_without_a_location_train_without_nan():
    batch, task = make_points(classes=CLASSES, features=2, missing=40)[list(range(160))], make_task(num_features=2)
    task.training_step(batch, 0).backward()
    assert all(parameter.grad.isfinite().all() for parameter in task.parameters())


def test_two_losses_train_it_in_half_precision(tmp_path):
    losses = {"sre": SRELoss(DirectionSector(4), min_patch_size=2), "ssi": SSILoss()}
    task = make_task(Sphere2Vec(scales=8, min_radius=0.02), geobias_loss=losses, shares={"ssi": 0.01}, lr=0.01)
    run = trainer(tmp_path, max_epochs=15, precision="bf16-mixed", check_val_every_n_epoch=15)
    run.fit(task, Places(classes=CLASSES, steps=5))
    logged = run.callback_metrics
    assert logged["val/accuracy"] > 0.5
    assert {"train/loss", "train/task_loss", "train/geobias_loss/sre", "train/geobias_loss/ssi"} <= set(logged)
    assert {"val/top3", "val/geobias/performance_worst_decile"} <= set(logged)
    assert all(parameter.isfinite().all() for parameter in task.parameters())


def test_classes_are_those_of_the_data(tmp_path):
    with pytest.raises(ValueError, match="`num_classes` of 5, as many as the data have, but got 7"):
        trainer(tmp_path, max_epochs=1).fit(make_task(num_classes=7), Places(classes=CLASSES))
    with pytest.raises(ValueError, match="`num_classes` of at least 2, but got 1"):
        make_task(num_classes=1)
