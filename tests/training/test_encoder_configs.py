"""The configurations of the encoders, run in-process through ``geobias-train``."""

import sys
from pathlib import Path

import pytest
import torch

from training import encoders
from training.cli import build, main

ROOT = Path(__file__).parents[2]
CONFIGS = {
    "nerf": "NeRF",
    "none": "NoLocation",
    "rbf": "RBF",
    "space2vec_grid": "Space2VecGrid",
    "space2vec_theory": "Space2VecTheory",
    "sphere2vec_c": "Sphere2Vec",
    "sphere2vec_cplus": "Sphere2Vec",
    "sphere2vec_m": "Sphere2Vec",
    "spherical_harmonics": "LocationEmbedding",
    "xyz": "XYZ",
}
DIFFERENT = ("encoder", "layers", "activation", "plain", "lr")
QUIET = ["--trainer.fast_dev_run", "2", "--trainer.enable_progress_bar", "false"]
# three scores: the others are the metric's business, and cost a second each
QUICK = ["--model.init_args.geobias.init_args.scores", '["sg_sre","dl_sre","ds_sre"]']


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["geobias-train"])


def path_of(name):
    return ROOT / "configs/encoders" / f"{name}.yaml"


def test_every_encoder_has_a_configuration_and_every_configuration_a_test():
    assert sorted(path.stem for path in path_of("*").parent.glob("*")) == sorted(CONFIGS)
    networks = {"FFN", "SIREN"}
    named = {*CONFIGS.values(), "SphericalHarmonics"}  # the last within its LocationEmbedding
    assert named == set(encoders.__all__) - networks


@pytest.mark.parametrize("name", CONFIGS)
def test_configuration_runs_and_says_what_it_is(name):
    header = path_of(name).read_text().splitlines()[0]
    assert header.startswith("# ")
    assert f"geobias-train fit --config configs/encoders/{name}.yaml" in header
    main(["fit", "--config", str(path_of(name)), *QUIET, *QUICK])


def test_configurations_differ_in_encoder_network_and_files_only():
    rest = {}
    for name, encoder in CONFIGS.items():
        cli = build(["--config", str(path_of(name))], run=False)
        assert type(cli.model.encoder).__name__ == encoder
        config = cli.config.as_dict()
        for key in DIFFERENT:
            config["model"]["init_args"].pop(key)
        files = [config["trainer"].pop("logger"), *config["trainer"].pop("callbacks")]
        assert all(f"encoders/{name}" in str(file["init_args"]) for file in files)
        config.pop("config")
        rest[name] = config
    assert all(config == rest["none"] for config in rest.values())


def test_rbf_draws_its_anchors_from_the_training_rows_of_the_same_data():
    cli = build(["--config", str(path_of("rbf"))], run=False)
    config = cli.config.as_dict()
    assert config["model"]["init_args"]["encoder"]["init_args"]["data"] == config["data"]
    cli.datamodule.setup("fit")
    train = cli.datamodule.train_points
    points = torch.stack([train.lat, train.lon], dim=1)
    anchors = cli.model.encoder.anchors
    assert (points[:, None] == anchors[:8]).all(dim=2).any(dim=0).all()
    assert len(anchors.unique(dim=0)) > 0.9 * len(anchors)
