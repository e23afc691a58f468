"""GeoPriorTask: the loss against plain loops, points from the whole sphere, and the fusion with an image."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from geobias_torch import DirectionSector
from geobias_torch.losses import SRELoss
from geobias_torch.tables import read_predictions
from tests.reference import geo_prior as reference
from tests.training.places import CLASSES, Places, make_points, metric, trainer
from training.callbacks import PredictionWriter
from training.data import Batch, ImagePredictions
from training.encoders import XYZ
from training.tasks import GeoPriorTask, fuse, presence_only_loss, uniform_on_sphere


def make_task(**options):
    torch.manual_seed(0)
    return GeoPriorTask(XYZ(), metric(), **({"num_classes": CLASSES, "hidden": 16, "layers": 1} | options))


def points_of(rows, lat=None):
    generator = torch.Generator().manual_seed(1)
    lat = torch.linspace(-60, 60, rows, dtype=torch.float64) if lat is None else lat
    lon = 20 + torch.rand(rows, generator=generator, dtype=torch.float64)
    return Batch(lat, lon, torch.arange(rows) % CLASSES, torch.arange(rows), rows, None)


def test_loss_and_gradient_are_those_of_plain_loops():
    generator = np.random.default_rng(0)
    places, elsewhere, weights = (generator.normal(size=(n, 3)) for n in (7, 4, CLASSES))
    seen = generator.integers(0, CLASSES, 7)
    expected, gradient = reference.presence_only(weights, places, seen, elsewhere)
    w = torch.tensor(weights, requires_grad=True)
    loss = presence_only_loss(torch.tensor(places) @ w.T, torch.tensor(seen), torch.tensor(elsewhere) @ w.T)
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), gradient, rtol=1e-10)
    assert torch.autograd.gradcheck(
        lambda w: presence_only_loss(torch.tensor(places) @ w.T, torch.tensor(seen), torch.tensor(elsewhere) @ w.T), w
    )


def test_loss_stays_finite():
    logits = torch.tensor([[300.0, -300.0]], requires_grad=True)
    loss = presence_only_loss(logits, torch.tensor([1]), logits)
    loss.backward()
    assert loss.item() == pytest.approx((2 * 300 + 300) / 2 + 150)
    assert logits.grad.isfinite().all()
    nothing = torch.zeros(0, 2)
    assert presence_only_loss(nothing, torch.zeros(0).long(), nothing) == 0


def test_loss_of_the_task_is_that_of_its_network():
    batch, task = points_of(9), make_task().double()
    loss = task.task_term(task.output_of(batch), batch)
    seed = np.random.SeedSequence([0, 0, 0]).generate_state(1, np.uint64)
    elsewhere = uniform_on_sphere(9, torch.Generator().manual_seed(int(seed[0])))
    places, negatives = (task.network.blocks(task.encoder(*p)).detach().numpy() for p in (batch[:2], elsewhere))
    assert task.network.last.bias is None
    weights = task.network.last.weight.detach().numpy()
    assert loss.item() == pytest.approx(reference.presence_only(weights, places, batch.target, negatives)[0], rel=1e-9)


def test_rows_without_a_location_are_left_out_of_the_loss():
    batch, task = points_of(9), make_task()
    batch = batch._replace(lat=torch.where(torch.arange(9) < 4, batch.lat, torch.nan))
    output, elsewhere = task.output_of(batch), []
    original = task.output
    task.output = lambda lat, lon: elsewhere.append(original(lat, lon)) or elsewhere[-1]
    loss = task.task_term(output, batch)
    torch.testing.assert_close(loss, presence_only_loss(output[:4], batch.target[:4], elsewhere[0]))
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in task.parameters())
    nowhere = batch._replace(lat=torch.full_like(batch.lat, torch.nan))
    assert task.task_term(original(nowhere.lat, nowhere.lon), nowhere).isfinite()


def test_points_elsewhere_are_uniform_on_the_whole_sphere():
    count = 40_000
    lat, lon = uniform_on_sphere(count, torch.Generator().manual_seed(0))
    for south, west, far in product((False, True), repeat=3):
        octant = ((lat < 0) == south) & ((lon < 0) == west) & ((lon.abs() > 90) == far)
        assert octant.double().mean().item() == pytest.approx(1 / 8, abs=4 * math.sqrt(1 / 8 * 7 / 8 / count))
    # Kolmogorov-Smirnov: sin(lat) is uniform on [-1, 1], lon on [-180, 180]; 1.63 / sqrt(n) is its 1 % point
    expected = (torch.arange(count) + 0.5) / count
    for values in ((torch.sin(torch.deg2rad(lat)) + 1) / 2, (lon + 180) / 360):
        assert (values.sort().values - expected).abs().max() < 1.63 / math.sqrt(count)


def test_points_elsewhere_depend_on_seed_and_step_alone(tmp_path):
    def drawn(**options):
        task, seen = make_task(geobias_loss=None, **options), []
        output = task.output
        task.output = lambda lat, lon, features=None: seen.append(lat) or output(lat, lon, features)
        trainer(tmp_path, max_epochs=1, limit_val_batches=0).fit(task, Places(classes=CLASSES, steps=2))
        return seen[1::2]  # after those of the batch

    first, again, other = drawn(), drawn(), drawn(seed=1)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])


def test_fusion_is_that_of_plain_loops():
    generator = np.random.default_rng(0)
    image, logits = generator.dirichlet(np.ones(4), size=6), 3 * generator.normal(size=(6, 4))
    image[2, :3], image[4] = 0, 0  # one class left; none at all
    located = [True, False, True, True, True, False]
    given = torch.tensor(np.where(np.array(located)[:, None], logits, np.nan), requires_grad=True)
    fused = fuse(torch.tensor(image).log(), given, torch.tensor(located))
    assert not fused.isnan().any()
    for row in range(6):
        expected = reference.fused(image[row], logits[row], located[row])
        got = fused[row].detach().exp()
        np.testing.assert_allclose(got / got.sum() if sum(expected) else got, expected, rtol=1e-12)
    fused[fused > -torch.inf].sum().backward()
    assert given.grad.isfinite().all()
    assert (given.grad[[1, 5]] == 0).all()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: fuse(torch.zeros(2, 3), torch.zeros(2, 2), torch.ones(2).bool()), r"`logit_prior` of shape \(B, K\)"),
        (lambda: presence_only_loss(torch.zeros(2, 3), torch.zeros(1), torch.zeros(2, 3)), r"`target` of shape \(B,\)"),
        (lambda: make_task(decay=0.0), r"`decay` within \(0, 1\], but got 0"),
    ],
)
def test_wrong_input_is_refused(call, complaint):
    with pytest.raises(ValueError, match=complaint):
        call()


def with_image(batch):
    """Predictions at up to three classes: all, some without the true one, none."""
    rows = len(batch.target)
    classes = torch.stack([batch.target, (batch.target + 1) % CLASSES, (batch.target + 2) % CLASSES], dim=1)
    classes[1::4, 0] = (classes[1::4, 0] + 3) % CLASSES  # not the true one
    classes[2::4, 1:] = -1
    classes[3::4] = -1
    probabilities = torch.where(classes >= 0, torch.tensor([0.2, 0.5, 0.3]).expand(rows, 3), 0.0)
    return batch._replace(image=ImagePredictions(classes, probabilities))


def test_fused_where_the_image_lists_classes():
    batch = with_image(points_of(12))
    batch = batch._replace(lat=torch.where(torch.arange(12) < 9, batch.lat, torch.nan))
    task = make_task()
    output = task.output_of(batch)
    table = task.predict_step(batch, 0)
    logits = output.detach().double()
    for row in range(12):
        classes = batch.image.classes[row].tolist()
        image = batch.image.probabilities[row].double().tolist()
        fused = reference.fused(image, [logits[row, max(c, 0)].item() for c in classes], row < 9)
        probability, ahead = reference.true_class(fused, classes, batch.target[row].item())
        assert table["true_class_prob"][row].item() == pytest.approx(probability, abs=1e-6)
        assert table["reciprocal_rank"][row].item() == pytest.approx(1 / (1 + ahead))
        assert table["hit@1"][row] == (ahead == 0)
        assert table["hit@3"][row] == (ahead < 3)
        if sum(fused):
            assert table["prediction"][row] == classes[int(np.argmax(fused))]
    assert table["hit@3"].tolist() == [1, 0, 1, 0] * 3
    task.soft_performance(output, batch).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in task.parameters())
    assert task.network.last.weight.grad.abs().max() > 0
    nothing = batch._replace(image=ImagePredictions(*(column[:, :0] for column in batch.image)))
    table = task.predict_step(nothing, 0)
    assert table["hit@3"].sum() == 0
    assert (table["prediction"] == -1).all()


class Images(torch.utils.data.Dataset):
    """Batches whose images list classes."""

    def __init__(self, points):
        self.points = points

    def __len__(self):
        return len(self.points)

    def __getitem__(self, rows):
        return with_image(self.points[rows])


def test_logged_are_the_fused_model_and_the_prior_alone(tmp_path):
    points, task = make_points(classes=CLASSES, missing=8), make_task()
    loader = DataLoader(Images(points), sampler=[list(range(100)), list(range(100, 160))], batch_size=None)
    run = trainer(tmp_path, callbacks=[PredictionWriter(tmp_path / "table.csv")])
    (logged,) = run.validate(task, loader, verbose=False)
    run.predict(task, loader)
    read = read_predictions(tmp_path / "table.csv")
    assert logged["val/accuracy"] == pytest.approx(read.performance.mean())
    assert logged["val/geobias/performance"] == pytest.approx(read.performance[:152].mean())
    assert logged["val/top3"] == pytest.approx(0.5, abs=0.01)  # the true class is listed in every other row
    prior = task(points.lat[:152], points.lon[:152]).argmax(dim=1) == points.target[:152]
    assert logged["val/prior_accuracy"] == pytest.approx(prior.float().mean().item())
    assert logged["val/prior_accuracy"] != pytest.approx(logged["val/accuracy"])


def test_samples_and_image_are_told_apart_in_training():
    data = Places(classes=CLASSES)
    data.setup()
    batch = with_image(next(iter(data.train_dataloader())))
    task = make_task(geobias_loss=SRELoss(DirectionSector(4), min_patch_size=2))
    assert task.training_step(batch, 0).isfinite()
    task.geobias_loss = None
    random = batch._replace(image=ImagePredictions(*(column[:32] for column in batch.image)))
    random = random._replace(lat=batch.lat[:32], lon=batch.lon[:32], target=batch.target[:32], regions=None)
    assert torch.equal(task.training_step(batch, 0), task.training_step(random, 0))


def test_it_learns_in_half_precision_and_the_rate_falls_per_epoch(tmp_path):
    task = make_task(lr=0.02, hidden=32, geobias_loss=SRELoss(DirectionSector(4), min_patch_size=2), decay=0.9)
    run = trainer(tmp_path, max_epochs=10, precision="bf16-mixed", check_val_every_n_epoch=10)
    run.fit(task, Places(classes=CLASSES, steps=10, points=64))
    assert run.callback_metrics["val/accuracy"] > 0.5
    assert run.callback_metrics["val/prior_accuracy"] == run.callback_metrics["val/accuracy"]  # no images
    assert run.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.02 * 0.9**10)
    assert type(run.optimizers[0]) is torch.optim.Adam
