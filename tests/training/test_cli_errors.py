"""``geobias-train``: settings and files that cannot do, each one line that says what to change, and no traceback."""

import sys
from pathlib import Path

import pytest
import torch

from training.__main__ import main as start
from training.cli import build, main

ROOT = Path(__file__).parents[2]
CONFIG = str(ROOT / "configs" / "airports.yaml")
SMALL = ("--data.init_args.steps", "1", "--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false")


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["geobias-train"])
    Path("no.ckpt").write_text("no checkpoint")
    torch.save({"state_dict": {}, "pytorch-lightning_version": "2.2.0"}, "other.ckpt")
    weights = build(["--config", CONFIG], run=False).model.state_dict()
    torch.save(
        {"state_dict": weights, "pytorch-lightning_version": "2.2.0", "epoch": 1, "global_step": 2}, "weights.ckpt"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("predict",),
            "Expected `--ckpt_path`, the checkpoint to predict with, but got none: the weights would be random",
        ),
        (("validate",), "Expected `--ckpt_path`, the checkpoint to validate with, but got none"),
        (("predict", "--ckpt_path", "nowhere/model.ckpt"), "to be a checkpoint, but got no file nowhere/model.ckpt."),
        (("predict", "--ckpt_path", "last"), "to be a checkpoint, but got no file last."),
        (
            ("fit", "--ckpt_path", "weights.ckpt", *SMALL),
            "a checkpoint with the state of the optimizer, but got weights",
        ),
        (("fit", *SMALL, "--trainer.precision", "bf16-true"), "Expected `precision` of 32 bits or mixed"),
        (("fit", *SMALL, "--model.init_args.encoder", "null"), "arguments are required: encoder"),
        (("fit", "--ckpt_path", "nowhere/model.ckpt"), "to be a checkpoint, but got no file nowhere/model.ckpt."),
        (("predict", "--ckpt_path", "no.ckpt"), "to be a checkpoint of the configured model, but got this: "),
        (
            ("predict", "--ckpt_path", "other.ckpt"),
            "to be a checkpoint of the configured model, but got this: Error(s) in",
        ),
        (
            ("fit", *SMALL, "--model.init_args.geobias.init_args.radius", "318"),
            "Expected `radius` in radians, but got 318",
        ),
        (("fit", *SMALL, "--data.init_args.held_out", "2"), "Expected `held_out` within (0, 1), but got 2.0."),
        (("fit", *SMALL, "--data.init_args.points", "0"), "Expected `points` of at least 1, but got 0."),
        (("fit", *SMALL, "--trainer.limit_val_batches", "-1"), "invalid value"),
        (("fit", *SMALL, "--trainer.overfit_batches", "2"), "Expected `overfit_batches` 0, as Lightning would replace"),
        (("fit", *SMALL, "--model.init_args.lr", "-1"), "Expected `lr` >= 0, but got -1.0."),
        (("test",), "invalid choice: 'test' (choose from 'fit', 'validate', 'predict')"),
    ],
)
def test_one_line_says_what_to_change(capsys, arguments, complaint):
    with pytest.raises(SystemExit) as stopped:
        main([arguments[0], "--config", CONFIG, *arguments[1:]])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    line = err.strip().splitlines()[-1]
    assert line.startswith("error: ")
    assert complaint in line
    assert "Traceback" not in err


def test_without_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lightning", None)
    for name in [name for name in sys.modules if name.startswith(("lightning.", "training.cli"))]:
        monkeypatch.delitem(sys.modules, name)
    assert start() == 2
    assert capsys.readouterr().err == "error: geobias-train needs lightning: pip install 'geobias-torch[train]'\n"


def test_a_defect_keeps_its_traceback(monkeypatch):
    from training.data import AirportsDataModule

    def defect(*_, **__):
        raise ValueError("math domain error")

    monkeypatch.setattr(AirportsDataModule, "setup", defect)
    with pytest.raises(ValueError, match="math domain error"):
        main(["fit", "--config", CONFIG, *SMALL])
