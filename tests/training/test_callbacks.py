"""The logger of any module's geo-bias; the prediction table: columns, order, format, and no half-written file."""

from types import SimpleNamespace

import lightning.pytorch as pl
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from geobias_torch.metrics import GeoBiasScores
from training.callbacks import GeoBiasLogger, GeoBiasMap, PredictionWriter

BATCHES = [
    {"lat": torch.tensor([1.0, 2.0], dtype=torch.float64), "hit": torch.tensor([1.0, 0.0])},
    {"lat": torch.tensor([3.123456789], dtype=torch.float64), "hit": torch.tensor([1.0])},
]


@pytest.mark.parametrize("name", ["table.csv", "folder/table.parquet"])
def test_batches_are_joined_in_order(tmp_path, name):
    PredictionWriter(tmp_path / name).write_on_epoch_end(SimpleNamespace(), SimpleNamespace(), BATCHES, [])
    reader = pyarrow.csv.read_csv if name.endswith("csv") else pyarrow.parquet.read_table
    assert reader(tmp_path / name).to_pydict() == {"lat": [1.0, 2.0, 3.123456789], "hit": [1.0, 0.0, 1.0]}
    assert len(list((tmp_path / name).parent.iterdir())) == 1


def test_a_failed_write_leaves_the_old_table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    broken = [{"lat": torch.zeros(2)}, {"lon": torch.zeros(2)}]
    with pytest.raises(KeyError, match="lat"):
        PredictionWriter(path).write_on_epoch_end(SimpleNamespace(), SimpleNamespace(), broken, [])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("returned", "got"),
    [
        (None, "got NoneType"),
        (torch.zeros(2), r"got \(2,\)"),
        ({"lat": torch.zeros(2), "hit": torch.zeros(1)}, r"got \{'lat': \(2,\), 'hit': \(1,\)\}"),
        ({"lat": torch.zeros(2, 3)}, r"got \{'lat': \(2, 3\)\}"),
        ({"lat": [0.0]}, r"got \{'lat': 'list'\}"),
    ],
)
def test_what_a_step_must_return(tmp_path, returned, got):
    with pytest.raises(ValueError, match=rf"`predict_step` of SimpleNamespace to return a dictionary of .*{got}"):
        PredictionWriter(tmp_path / "table.csv").write_on_epoch_end(
            SimpleNamespace(), SimpleNamespace(), [returned], []
        )
    assert list(tmp_path.iterdir()) == []


def test_bfloat16_columns_and_one_device(tmp_path):
    path = tmp_path / "table.csv"
    writer = PredictionWriter(path)
    writer.write_on_epoch_end(SimpleNamespace(), SimpleNamespace(), [{"hit": torch.ones(2).bfloat16()}], [])
    assert path.read_text() == '"hit"\n1\n1\n'
    with pytest.raises(ValueError, match="`predict` on one device, but got 2"):
        writer.setup(SimpleNamespace(world_size=2), pl.LightningModule(), "predict")
    writer.setup(SimpleNamespace(world_size=2), pl.LightningModule(), "fit")


def test_refuses_other_formats():
    with pytest.raises(ValueError, match=r"end in .csv or .parquet, but got 'table.xlsx'"):
        PredictionWriter("table.xlsx")


class Module(pl.LightningModule):
    """Hands over its points as a dictionary, or as attributes."""

    def __init__(self, returned, held=()):
        super().__init__()
        self.returned, self.held = returned, held
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, _):
        return self.weight.sum()

    def validation_step(self, batch, _):
        for name in self.held:
            setattr(self, name, batch[name])
        return {name: batch[name] for name in self.returned} or None

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def batches(count=120):
    generator = torch.Generator().manual_seed(0)
    lat, lon = 45 + 3 * torch.rand(2, count, generator=generator, dtype=torch.float64)
    performance = (lat > 46).float()
    return [
        {"performance": performance[i], "lat": lat[i], "lon": lon[i], "index": i} for i in torch.arange(count).split(50)
    ]


def validate(module, metric, *callbacks):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "max_epochs": 1}
    trainer = pl.Trainer(
        callbacks=[GeoBiasLogger(metric), *callbacks], accelerator="cpu", enable_model_summary=False, **quiet
    )
    loader = torch.utils.data.DataLoader(batches(), batch_size=None)
    trainer.fit(module, loader, loader)
    return trainer.callback_metrics


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("returned", "held"),
    [
        (("performance", "lat", "lon"), ()),
        (("performance", "lat", "lon", "index"), ()),
        ((), ("performance", "lat", "lon", "index")),
        (("performance",), ("lat", "lon")),
    ],
)
@pytest.mark.parametrize("prefix", ["", "test/"])
def test_any_module_is_logged(returned, held, prefix):
    options = {"radius": 0.02, "scores": ("dl_sre", "ds_sre")}
    logged = validate(Module(returned, held), GeoBiasScores(**options, prefix=prefix))
    metric = GeoBiasScores(**options)
    for batch in batches():
        metric.update(batch["performance"], lat=batch["lat"], lon=batch["lon"])
    expected = {f"{prefix or 'val/geobias/'}{key}": value.float() for key, value in metric.compute().items()}
    assert set(expected) <= set(logged)
    for key, value in expected.items():
        torch.testing.assert_close(logged[key], value)  # the sanity check's points are not among them


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_hands_over_nothing():
    with pytest.raises(ValueError, match=r"`validation_step` of Module to return .* but got no `performance`, `lon`"):
        validate(Module(("lat",)), GeoBiasScores(radius=0.02))


@pytest.mark.filterwarnings("ignore")
def test_a_map_of_the_last_epoch(tmp_path):
    metric = GeoBiasScores(radius=0.02, scores=("dl_sre",))
    module = Module(("performance", "lat", "lon"))
    validate(module, metric, GeoBiasMap(tmp_path / "new" / "map.svg", "dl_sre"))
    assert "epoch 0" in (tmp_path / "new" / "map.svg").read_text()
    with pytest.raises(ValueError, match="a GeoBiasLogger with the score 'sg_sre' among the callbacks"):
        validate(module, metric, GeoBiasMap(tmp_path / "map.png"))
    with pytest.raises(ValueError, match="GeoBiasLogger with the score 'spad'"):  # has no map: it is of no place
        validate(module, GeoBiasScores(radius=0.02, scores=("spad",)), GeoBiasMap(tmp_path / "map.png", "spad"))
    with pytest.raises(ValueError, match=r"end in .png or .pdf or .svg, but got 'map.gif'"):
        GeoBiasMap("map.gif")
