"""``geobias-train``, in-process: every configuration, a whole small run, and what a slip of the pen gets."""

import csv
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from geobias_torch.cli import main as geobias
from training.cli import build, main

ROOT = Path(__file__).parents[2]
CONFIGS = ("airports.yaml", "airports_geobias.yaml")
# three scores: the others are the metric's business, and cost a second each
SMALL = ["--data.init_args.steps", "2", "--model.init_args.geobias.init_args.scores", '["sg_sre","dl_sre","ds_sre"]']


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["geobias-train"])


def test_every_configuration_is_tested():
    assert sorted(path.name for path in ROOT.glob("configs/*.yaml")) == sorted(CONFIGS)
    # each of these has a test file with a test like this one: test_<folder>_configs.py
    folders = {path.relative_to(ROOT / "configs").parts[0] for path in ROOT.glob("configs/*/**/*.yaml")}
    assert folders == {"data", "encoders", "tasks"}


@pytest.mark.parametrize("name", CONFIGS)
def test_configuration_runs_and_says_what_it_is(name):
    path = ROOT / "configs" / name
    header = path.read_text().splitlines()[0]
    assert header.startswith("# ")
    assert f"geobias-train fit --config configs/{name}" in header
    main(["fit", "--config", str(path), "--trainer.fast_dev_run", "2", "--trainer.enable_progress_bar", "false"])


def test_configurations_differ_in_the_loss_only():
    configs = []
    for name in CONFIGS:
        config = build(["--config", str(ROOT / "configs" / name), *SMALL], run=False).config.as_dict()
        for key in ("geobias_loss", "weight", "bandwidth", "jitter"):
            config["model"]["init_args"].pop(key)
        for key in ("logger", "callbacks"):
            config["trainer"].pop(key)
        config.pop("config")
        configs.append(config)
    assert configs[0] == configs[1]


def small_run(name, *more):
    main(["fit", "--config", str(ROOT / "configs" / name), "--trainer.max_epochs", "2", *SMALL, *more])


def test_fit_predict_score(tmp_path, capsys):
    small_run("airports_geobias.yaml")
    (log,) = tmp_path.glob("runs/airports_geobias/version_0/metrics.csv")
    rows = list(csv.DictReader(log.open()))
    validated = [row for row in rows if row["val/geobias/sg_sre"]]
    assert len(validated) == 2  # once per epoch
    for key in ("val/r2", "val/hit_rate", "val/geobias/dl_sre_floor", "val/geobias/performance_worst_decile"):
        assert all(row[key] for row in validated)
    assert all(row["train/geobias_loss"] for row in rows if row["train/loss"])

    checkpoint = torch.load("runs/airports_geobias/model.ckpt", weights_only=True)
    assert "state_dict" in checkpoint
    assert not {"optimizer_states", "lr_schedulers"} & checkpoint.keys()

    config = str(ROOT / "configs" / "airports_geobias.yaml")
    main(["predict", "--config", config, "--ckpt_path", "runs/airports_geobias/model.ckpt"])
    assert "predictions written to" in capsys.readouterr().out
    with open("demo/airports_geobias.csv") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["lat", "lon", "target", "prediction", "error", "hit"]
    first = {key: float(value) for key, value in table[0].items()}
    assert first["error"] == pytest.approx(first["prediction"] - first["target"], abs=1e-5)
    assert all((abs(float(row["error"])) < 0.5) == (float(row["hit"]) == 1) for row in table)
    hit_rate = sum(float(row["hit"]) for row in table) / len(table)
    assert hit_rate == pytest.approx(float(validated[-1]["val/hit_rate"]), abs=1e-5)

    capsys.readouterr()
    assert geobias(["score", "demo/airports_geobias.csv", "--radius", "0.1", "--min-roi-size", "50"]) == 0
    assert "hit" in capsys.readouterr().out


def test_logger_is_csv_unless_named(tmp_path):
    config = (ROOT / "configs" / "airports.yaml").read_text().replace("  logger:\n", "  unused:\n", 1)
    start = config.index("  unused:")
    config = config[:start] + config[config.index("  callbacks:") :]
    (tmp_path / "no_logger.yaml").write_text(config)
    assert isinstance(build(["--config", "no_logger.yaml"], run=False).trainer.logger, CSVLogger)


def test_tensorboard(tmp_path):
    small_run("airports.yaml", "--trainer.logger", "TensorBoardLogger", "--trainer.logger.save_dir", "board")
    assert list(tmp_path.glob("board/**/events.out.tfevents.*"))


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("scale: 0.05}}", "scal: 0.05}}", "model.geobias_loss.partition: Option 'scal' is not accepted"),
        ("    weight: ", "    wieght: ", "model: Option 'wieght' is not accepted"),
        ("max_epochs:", "max_epoch:", "does not accept option 'trainer.max_epoch'"),
        ("split: random", "splitt: random", "data: Option 'splitt' is not accepted"),
        ("losses.SRELoss", "losses.SRELos", "model.geobias_loss: module 'geobias_torch.losses' has no attribute"),
        ("steps: 100", "steps: ten", "data.steps: Expected a <class 'int'>. Got value: ten"),
    ],
)
def test_a_misspelt_key_is_named_in_one_line(tmp_path, capsys, before, after, complaint):
    text = (ROOT / "configs" / "airports_geobias.yaml").read_text()
    assert before in text
    (tmp_path / "wrong.yaml").write_text(text.replace(before, after, 1))
    with pytest.raises(SystemExit) as stopped:
        main(["fit", "--config", "wrong.yaml"])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ")
    assert complaint in line
    assert len(line) < 200
    assert not (tmp_path / "runs").exists()
