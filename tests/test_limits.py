"""Arguments beyond any use: one clear error; and outputs of the command line, all or none."""

import numpy as np
import pytest
import torch

import geobias_torch.cli as cli
from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.performance import hit, log_odds, true_class_probability, within


@pytest.mark.parametrize("partition", [DistanceLag(1e-12), ScaleGrid(1e-12)])
def test_patches_too_narrow_to_count_are_refused(partition):
    regions = Regions.from_points(lat=[40.0, 41.0], lon=[5.0, 6.0], radius=0.1)
    with pytest.raises(ValueError, match="Expected patches no narrower than radius / 10000, but got 1e-12 rad"):
        regions.patches(partition)


def test_sectors_without_end_are_refused():
    with pytest.raises(ValueError, match="Expected `n`, the number of sectors, to be at most 10000, but got 10001"):
        DirectionSector(10_001)


@pytest.mark.parametrize("function", [hit, true_class_probability, log_odds])
def test_predictions_that_are_no_tensors(function):
    with pytest.raises(TypeError, match=r"Expected `logits` to be a tensor, but got ndarray: torch\.as_tensor"):
        function(np.zeros((2, 3)), torch.tensor([0, 1]))
    with pytest.raises(TypeError, match="Expected `target` to be a tensor, but got list"):
        function(torch.zeros(2, 3), [0, 1])
    with pytest.raises(TypeError, match="Expected `pred` to be a tensor, but got list"):
        within([0.5], torch.zeros(1), 0.1)


def test_an_output_that_fails_takes_the_others_with_it(tmp_path, monkeypatch, capsys):
    table = tmp_path / "p.csv"
    table.write_text("\n".join(["lat,lon,hit", *(f"{40 + i % 9},{5 + i // 9},{i % 2}" for i in range(81))]))

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(cli, "write_json", full)
    local, scores = tmp_path / "l.csv", tmp_path / "s.json"
    scores.write_text("of an earlier run")
    arguments = ["score", str(table), "--radius", "500km", "--local", str(local), "--json", str(scores)]
    assert cli.main(arguments) == 2
    assert "no space left" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "s.json"]
    assert scores.read_text() == "of an earlier run"
