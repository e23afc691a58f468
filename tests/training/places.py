"""Small made-up places for the tests of the tasks: numbers, classes, features, rows without a location."""

import lightning.pytorch as pl
import torch

from geobias_torch.metrics import GeoBiasScores
from training.data import LocatedDataModule, Points

CLASSES = 5


def make_points(count=160, classes=0, features=0, missing=0, seed=0):
    """Points in Europe; a class or a number that follows the latitude; the last ``missing`` have no location."""
    generator = torch.Generator().manual_seed(seed)
    lat, lon = 45 + 3 * torch.randn(2, count, generator=generator, dtype=torch.float64)
    height = (lat - 45) / 3
    target = ((height + 2).clamp(0, 3.99) / 4 * classes).long() if classes else height.float()
    table = None
    if features:
        table = height[:, None].float() + 0.1 * torch.randn(count, features, generator=generator)
    if missing:
        lat[-missing:] = torch.nan
        lon[-missing:] = torch.nan
    return Points(lat, lon, target, radius=0.1, features=table)


class Places(LocatedDataModule):
    """A data module of them; every fourth row is held out."""

    def __init__(self, steps=3, points=32, rois=2, **options):
        super().__init__(radius=0.1, steps=steps, points=points, rois=rois, min_members=10)
        self.options = options

    def load(self):
        points = make_points(**self.options)
        points = points.take(torch.arange(len(points)).flip(0))  # those without a location come first
        if self.options.get("classes"):
            self.class_names = [str(c) for c in range(self.options["classes"])]
        return points, torch.arange(len(points)) % 4 == 3


def metric():
    return GeoBiasScores(radius=0.1, min_patch_size=2, scores=("sg_sre", "dl_sre", "ds_sre"))


def trainer(tmp_path, **options):
    settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    settings |= {"num_sanity_val_steps": 0, "enable_model_summary": False}
    return pl.Trainer(default_root_dir=tmp_path, **(settings | options))
