"""The page docs/own_loop.md: its code runs as printed, and adds no more lines than it says."""

import re
from pathlib import Path

import pytest
import torch

PAGE = (Path(__file__).parents[2] / "docs" / "own_loop.md").read_text(encoding="utf-8")
LIGHTNING, PLAIN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
N = 400


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    lat, lon = 45 + 4 * torch.rand(2, N, generator=generator, dtype=torch.float64)
    x = torch.stack([lat, lon], dim=1).float() - 47
    y = (x[:, 0] * x[:, 1] > 0).long()
    index = torch.arange(N)
    return [
        {"x": x[i], "y": y[i], "lat": lat[i], "lon": lon[i], "index": i} for i in index.split(100)
    ], lat, lon  # fmt: skip


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


@pytest.mark.parametrize(("code", "most"), [(LIGHTNING, 6), (PLAIN, 8)])
def test_no_more_lines_than_it_says(code, most):
    marked = re.findall(r"# (\d+)$", code, re.MULTILINE)
    assert marked == [str(number) for number in range(1, most + 1)]


@pytest.mark.filterwarnings("ignore")
def test_lightning(data):
    batches, lat, lon = data
    names = {}
    exec(LIGHTNING, names)
    task, trainer = names["Classifier"](network(), lat, lon), names["trainer"]
    loader = torch.utils.data.DataLoader(batches, batch_size=None)
    trainer.fit(task, loader, loader)
    logged = trainer.callback_metrics
    assert logged["val/geobias/ds_sre"].isfinite()
    hit = torch.cat([(task.model(b["x"]).argmax(-1) == b["y"]).float() for b in batches])
    assert logged["val/geobias/performance"].item() == pytest.approx(hit.mean().item())
    assert task.bank.coverage == 1


def test_plain(data):
    batches, lat, lon = data
    names = {}
    exec(PLAIN, names)
    scores = list(names["train"](network(), batches, batches, lat, lon, epochs=2))
    assert len(scores) == 2
    assert scores[1]["ds_sre_excess"].isfinite()
