"""GeoBiasLogger in two processes: what a sampler repeats counts once, and all is as in one process."""

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from geobias_torch.metrics import GeoBiasScores
from training.callbacks import GeoBiasLogger

COUNT = 151  # odd: the sampler of two ranks repeats a row


class Rows(Dataset):
    """Points that do worse in the south."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.lat, self.lon = 45 + 3 * torch.rand(2, COUNT, generator=generator, dtype=torch.float64)
        self.performance = (torch.rand(COUNT, generator=generator) < (self.lat - 44.5) / 3).float()

    def __len__(self):
        return COUNT

    def __getitem__(self, row):
        return {"performance": self.performance[row], "lat": self.lat[row], "lon": self.lon[row], "index": row}


class Module(pl.LightningModule):
    """Hands its points over and has one parameter."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def validation_step(self, batch, _):
        return batch

    def training_step(self, batch, _):
        return self.weight.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def scores(devices):
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    strategy = "auto" if devices == 1 else "ddp_spawn"
    logger = GeoBiasLogger(GeoBiasScores(radius=0.02, scores=("dl_sre", "ds_sre", "m_ssi")))
    trainer = pl.Trainer(
        accelerator="cpu", devices=devices, strategy=strategy, callbacks=[logger], max_epochs=1, **quiet
    )
    loader = DataLoader(Rows(), batch_size=20)
    trainer.fit(Module(), loader, loader)
    return {key: value.item() for key, value in trainer.callback_metrics.items() if key.startswith("val/geobias/")}


@pytest.mark.filterwarnings("ignore")
def test_two_processes_score_as_one():
    alone, together = scores(1), scores(2)
    assert alone["val/geobias/ds_sre"] > 0
    assert together == pytest.approx(alone, rel=1e-6)
