"""The configurations of the data sets, run in-process through ``geobias-train`` on small files."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv

from training.cli import build, main
from training.data import TableDataModule

ROOT = Path(__file__).parents[2]
QUIET = ["--trainer.fast_dev_run", "2", "--trainer.enable_progress_bar", "false"]
# two scores: the others are the metric's business, and cost a second each
QUICK = ["--model.init_args.geobias.init_args.scores", '["sg_sre","ds_sre"]']


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["geobias-train"])


def cities_population():
    return ["--data.init_args.max_places", "3000"]


def table():
    write("mine.csv", lat="lat", lon="lon", height="height")
    return ["--data.init_args.path", "mine.csv", "--data.init_args.target", "height", "--data.init_args.block", "0.02"]


def mosaiks():
    Path("small").mkdir()
    write("small/Y_elevation.csv", lat="lat", lon="lon", height="elevation")
    np.save("small/X_elevation.npy", np.random.default_rng(1).normal(size=(400, 5)))
    return ["--data.init_args.folder", "small", "--model.init_args.num_features", "5"]


def write(path, **names):
    """400 rows in one place, so that there are ROIs."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(40, 44, (2, 400))
    columns = {"lat": lat, "lon": lon, "height": lat + rng.normal(size=400)}
    columns["bird"] = np.array(["owl", "tit", "wren"])[(3 * (lat - 40) / 4).astype(int)]
    split = np.where(np.arange(400) % 4 == 3, "val", "train")
    csv.write_csv(pa.table({name: columns[key] for key, name in names.items()} | {"split": split}), path)


CONFIGS = {made.__name__: made for made in (cities_population, table, mosaiks)}


def path_of(name):
    return ROOT / "configs/data" / f"{name}.yaml"


@pytest.mark.parametrize("name", CONFIGS)
def test_configuration_runs_and_says_what_it_is(name):
    header = path_of(name).read_text().splitlines()[0]
    assert header.startswith("# ")
    assert f"geobias-train fit --config configs/data/{name}.yaml" in header
    main(["fit", "--config", str(path_of(name)), *CONFIGS[name](), *QUIET, *QUICK])


@pytest.mark.parametrize("name", CONFIGS)
def test_files_are_named_after_the_configuration(name):
    config = build(["--config", str(path_of(name))], run=False).config.as_dict()
    files = [config["trainer"]["logger"], *config["trainer"]["callbacks"]]
    assert all(f"data/{name}" in str(file["init_args"]) for file in files)


@pytest.mark.parametrize("name", ["table", "mosaiks"])
def test_file_that_is_not_there_is_one_line(name, capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--config", str(path_of(name)), *QUIET])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert "Expected `path` to be a CSV or Parquet file, but got no file data/" in line


def test_features_reach_the_network():
    cli = build(["--config", str(path_of("mosaiks")), *mosaiks()], run=False)
    cli.datamodule.setup()
    batch = cli.datamodule.held_out_points[list(range(100))]
    assert batch.features.shape == (100, 5)
    assert not torch.equal(cli.model.output_of(batch), cli.model.output_of(batch._replace(features=batch.features + 1)))


def test_the_run_that_the_docs_show():
    text = (ROOT / "docs/training.md").read_text()
    Path("run.yaml").write_text(text[text.index("seed_everything") : text.index("```\n\n```\ngeobias-train fit")])
    write("birds.csv", lat="lat", lon="lon", bird="bird")
    np.save("birds.npy", np.random.default_rng(1).normal(size=(400, 6)))
    main(["fit", "--config", "run.yaml", *QUIET])


def test_a_block_split_that_misses_its_share_says_so():
    write("mine.csv", lat="lat", lon="lon", height="height")
    data = TableDataModule("mine.csv", "height", split="block", block=0.09, seed=1)
    with pytest.warns(
        UserWarning, match=r"of 400 rows, \d+%, are held out, where `held_out` asks for 25%: cells of 0.09"
    ):
        data.setup()
