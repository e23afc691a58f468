"""What torchmetrics and users do with a metric: copy, move, collect it, and feed it any kind of numbers."""

import copy
import pickle

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from torchmetrics import MeanMetric, MetricCollection

from tests.metrics.rows import METRICS, Walks, bits, check_tables, chosen, every_metric, fed, rows_of, table


@every_metric
def test_copies_go_their_own_way(metric):
    rows, more = rows_of(), rows_of(n=20)
    more["performance"] = 1 - more["performance"]
    original = fed(METRICS[metric](), rows)
    original.compute()
    before = bits(original.compute()), table(original)
    for copied in (pickle.loads(pickle.dumps(original)), original.clone(), copy.deepcopy(original)):
        assert bits(copied.compute()) == before[0]
        check_tables(table(copied), before[1])
        fed(copied, more)
        assert bits(copied.compute()) != before[0]
        copied.reset()
        assert bits(fed(copied, rows).compute()) == before[0]
    assert bits(original.compute()) == before[0]
    check_tables(table(original), before[1])
    assert original.higher_is_better is False
    assert not original.is_differentiable


def test_a_pickle_holds_no_geometry(monkeypatch):
    walks, metric = Walks(monkeypatch), fed(METRICS["collection"](), rows_of())
    before = len(pickle.dumps(metric))
    first = walks.during(metric, rows_of())
    assert first > 0
    # the table of results is all that it has grown by
    assert len(pickle.dumps(metric)) < before + 60 * 8 * len(table(metric)) + 20_000
    copied = pickle.loads(pickle.dumps(metric))
    assert walks.during(metric, rows_of()) == 0
    assert walks.during(copied, rows_of()) == first


@every_metric
def test_reset_forgets_the_rows(metric):
    one = fed(METRICS[metric](), rows_of("island"))
    one.compute()
    one.reset()
    assert one.rows == []
    assert bits(fed(one, rows_of()).compute()) == bits(fed(METRICS[metric](), rows_of()).compute())


@pytest.mark.parametrize("cast", ["half", "double", "float", "bfloat16", "to"])
def test_casting_a_module_leaves_coordinates_alone(cast):
    """Half of a degree of latitude is 55 km: bfloat16 would not do, whatever the precision of the model."""
    for make in METRICS.values():
        expected = bits(fed(make(), rows_of()).compute())
        module = torch.nn.ModuleDict({"metric": make(), "layer": torch.nn.Linear(1, 1)})
        for part in (slice(0, 20), slice(20, 60)):
            fed(module["metric"], chosen(rows_of(), part))
            module.to(torch.bfloat16) if cast == "to" else getattr(module, cast)()
        assert bits(module["metric"].compute()) == expected


@every_metric
def test_moving_changes_nothing(metric):
    one = fed(METRICS[metric](), rows_of())
    expected = bits(one.compute())
    assert bits(one.to("cpu").compute()) == expected
    moved = fed(METRICS[metric]().to(torch.device("cpu")), rows_of())
    assert bits(moved.compute()) == expected


@every_metric
def test_forward_gives_the_batch_and_keeps_the_whole(metric):
    rows = rows_of()
    first, second = chosen(rows, slice(0, 35)), chosen(rows, slice(35, 60))
    one = METRICS[metric]()
    for part in (first, second):
        value = one(part["performance"], lat=part["lat"], lon=part["lon"])
        assert bits(value) == bits(fed(METRICS[metric](), part).compute())
    whole = fed(METRICS[metric](), rows)
    assert bits(one.compute()) == bits(whole.compute())
    check_tables(table(one), table(whole))


def test_metric_collection():
    rows = rows_of()
    metrics = {name.replace(" ", "_"): make() for name, make in METRICS.items() if name != "collection"}
    together = MetricCollection({**metrics, "all": METRICS["collection"](prefix="all/"), "mean": MeanMetric()})
    for part in (slice(0, 10), slice(10, 60)):
        together.update(rows["performance"][part], lat=rows["lat"][part], lon=rows["lon"][part])
    values = together.compute()
    expected = {name: fed(METRICS[name.replace("_", " ")](), rows).compute() for name in metrics}
    expected |= fed(METRICS["collection"](prefix="all/"), rows).compute()
    assert float(values.pop("mean")) == pytest.approx(rows["performance"].mean())
    assert bits(values) == bits(expected)
    # one group, one copy of the rows: they are not gathered once per metric
    assert sorted(map(len, together.compute_groups.values())) == [1, 7]
    together.reset()
    for part in (slice(0, 10), slice(10, 60)):
        together.update(rows["performance"][part], lat=rows["lat"][part], lon=rows["lon"][part])
        together.to("cpu")
    values = together.compute()
    values.pop("mean")
    assert bits(values) == bits(expected)


# ------------------------------------------------------------------ Lightning


class Located(pl.LightningModule):
    """Guesses hits from coordinates, and scores its guesses in each of the ways that Lightning knows."""

    def __init__(self, walks):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.scores = METRICS["collection"](prefix="val/geobias/")
        self.lag, self.spad = METRICS["lag"](), METRICS["spad"]()
        self.epochs, self.walks = [], walks

    def performance(self, batch):
        hits, lat, lon = batch
        guess = torch.sigmoid(self.layer(torch.stack([lat, lon], dim=1).float() / 90))[:, 0]
        return torch.where(hits > 0, guess, 1 - guess)

    def training_step(self, batch, _):
        return 1 - self.performance(batch).mean()

    def validation_step(self, batch, _):
        _, lat, lon = batch
        performance = self.performance(batch)
        for metric in (self.scores, self.lag, self.spad):
            metric.update(performance, lat=lat, lon=lon)
        self.log("val/lag", self.lag)
        self.log("val/spad", self.spad, on_step=False, on_epoch=True)

    def on_validation_epoch_end(self):
        before = self.walks.count
        values = self.scores.compute()
        self.log_dict(values)
        self.scores.reset()
        self.epochs.append((values, self.walks.count - before))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=10.0)


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:`isinstance.treespec")
def test_in_a_trainer(tmp_path, monkeypatch):
    columns = [torch.from_numpy(column) for column in rows_of().values()]
    data = torch.utils.data.TensorDataset(*columns)
    module = Located(Walks(monkeypatch))
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", default_root_dir=tmp_path, logger=CSVLogger(tmp_path),
        enable_checkpointing=True, enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1,
        num_sanity_val_steps=1,
    )  # fmt: skip
    training, validation = (
        torch.utils.data.DataLoader(data, batch_size=17, shuffle=shuffle) for shuffle in (True, False)
    )
    trainer.fit(module, training, validation)
    # one batch of the sanity check, then two epochs on one geometry
    sanity, first, last = module.epochs
    assert [searches > 0 for _, searches in (sanity, first, last)] == [True, True, False]
    assert bits(first[0]) != bits(last[0])
    with torch.no_grad():
        rows = {"performance": module.performance(columns), "lat": columns[1], "lon": columns[2]}
    expected = fed(METRICS["collection"](prefix="val/geobias/"), rows).compute()
    # rel: the guesses of a batch and of all rows differ in their last float32 digit
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert logged.pop("val/lag") == pytest.approx(float(expected["val/geobias/dl_sre"]), rel=1e-5)
    assert logged.pop("val/spad") == pytest.approx(float(fed(METRICS["spad"](), rows).compute()), rel=1e-5)
    assert logged == pytest.approx({name: float(value) for name, value in expected.items()}, rel=1e-5)
    written = (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").read_text().splitlines()
    assert set(expected) <= set(written[0].split(","))
    # rows and geometry are no part of the model
    (checkpoint,) = tmp_path.rglob("*.ckpt")
    assert set(torch.load(checkpoint, weights_only=False)["state_dict"]) == {"layer.weight", "layer.bias"}


# ------------------------------------------------------------------ kinds of numbers


@every_metric
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int8, torch.int64, torch.uint8, torch.float16, torch.bfloat16, torch.float32]
)
def test_hits_may_be_of_any_type(metric, dtype):
    rows = rows_of()
    expected = bits(fed(METRICS[metric](), rows).compute())
    hits = torch.from_numpy(rows["performance"]).to(dtype)
    assert bits(fed(METRICS[metric](), rows | {"performance": hits}).compute()) == expected


@every_metric
def test_numbers_come_in_many_forms_and_stay_as_they_are(metric):
    rows = rows_of()
    expected = bits(fed(METRICS[metric](), rows).compute())
    read_only = {name: column.copy() for name, column in rows.items()}
    for column in read_only.values():
        column.flags.writeable = False
    tensors = {name: torch.from_numpy(column.copy()) for name, column in rows.items()}
    tensors["performance"].requires_grad_()
    kept = {name: x.detach().clone() for name, x in tensors.items()}
    for form in (
        {name: column.tolist() for name, column in rows.items()},
        read_only,
        {name: column.astype(">f8") for name, column in rows.items()},
        {name: np.repeat(column, 2)[::2] for name, column in rows.items()},
        tensors,
    ):
        one = fed(METRICS[metric](), form)
        assert bits(one.compute()) == expected
        assert not any(x.requires_grad for x in one.rows)
    assert all(torch.equal(tensors[name], x) for name, x in kept.items())
    # the state is a copy: what becomes of the batch does not matter
    later = fed(METRICS[metric](), tensors)
    with torch.no_grad():
        for column in tensors.values():
            column.zero_()
    assert bits(later.compute()) == expected


@every_metric
def test_float32_coordinates_are_taken_as_they_are(metric):
    rows = rows_of()
    rounded = rows | {name: rows[name].astype(np.float32) for name in ("lat", "lon")}
    wide = rows | {name: rounded[name].astype(np.float64) for name in ("lat", "lon")}
    assert bits(fed(METRICS[metric](), rounded).compute()) == bits(fed(METRICS[metric](), wide).compute())
