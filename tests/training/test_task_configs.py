"""The configurations of the tasks, run in-process through ``geobias-train``."""

import sys
from pathlib import Path

import pytest

from geobias_torch.losses import PerformanceBank
from training.cli import build, main

ROOT = Path(__file__).parents[2]
CONFIGS = {
    "classification": "ClassificationTask",
    "classification_geobias": "ClassificationTask",
    "geo_prior": "GeoPriorTask",
    "regression_bank": "RegressionTask",
}
QUIET = ["--trainer.fast_dev_run", "2", "--trainer.enable_progress_bar", "false"]
# two scores: the others are the metric's business, and cost a second each
QUICK = ["--model.init_args.geobias.init_args.scores", '["sg_sre","dl_sre"]']


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["geobias-train"])


def path_of(name):
    return ROOT / "configs/tasks" / f"{name}.yaml"


def test_every_configuration_has_a_test():
    assert sorted(path.stem for path in path_of("*").parent.glob("*")) == sorted(CONFIGS)


@pytest.mark.filterwarnings("ignore:Dropped")
@pytest.mark.parametrize("name", CONFIGS)
def test_configuration_runs_and_says_what_it_is(name):
    header = path_of(name).read_text().splitlines()[0]
    assert header.startswith("# ")
    assert f"geobias-train fit --config configs/tasks/{name}.yaml" in header
    main(["fit", "--config", str(path_of(name)), *QUIET, *QUICK])


def test_configurations_are_what_their_names_say():
    for name, task in CONFIGS.items():
        model = build(["--config", str(path_of(name))], run=False).model
        assert type(model).__name__ == task
        assert (model.geobias_loss is not None) == (name in ("classification_geobias", "regression_bank"))
        if name == "regression_bank":
            assert isinstance(model._make_bank(lat=[1.0, 2.0], lon=[1.0, 2.0]), PerformanceBank)
        else:
            assert model._make_bank is None


def test_a_wrong_option_of_the_bank_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--config", str(path_of("regression_bank")), "--model.init_args.bank.init_args.centres", "3"])
    assert "centres" in capsys.readouterr().err.strip().splitlines()[-1]
