"""A run that was stopped and resumed ends with the parameters of the uninterrupted one."""

import warnings

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from training.data import LocatedDataModule, Points

STEPS = 6


class Data(LocatedDataModule):
    """Points in a small area, so that many have enough others around them; one in ten has no location."""

    def load(self):
        generator = torch.Generator().manual_seed(0)
        lat, lon, target = torch.rand(3, 400, generator=generator, dtype=torch.float64) * 10
        lat[::10] = torch.nan
        return Points(lat, lon, target.float(), self.radius), self.hold_out(lat, lon)


class Model(pl.LightningModule):
    """One weight per training row, and a record of the rows it saw."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(300))
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen.append((self.current_epoch, batch_idx, batch.rows))
        return (self.weights[batch.rows] - batch.target).square().mean()

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)  # its moments depend on the order of the batches
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2 * STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def fit(folder, *, ckpt_path=None, workers=0, rois=2, callbacks=(), **options):
    model = Model()
    trainer = pl.Trainer(
        default_root_dir=folder, max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=bool(callbacks), callbacks=list(callbacks),
        num_sanity_val_steps=0, **options,
    )  # fmt: skip
    data = Data(steps=STEPS, points=8, rois=rois, min_members=5, max_members=4, num_workers=workers)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*your dataloader is not resumable.*")
        trainer.fit(model, data, ckpt_path=ckpt_path)
    return model, trainer


def every(steps, folder):
    return ModelCheckpoint(dirpath=folder, filename="{step}", every_n_train_steps=steps, save_top_k=-1)


def rows(model):
    return [(epoch, step, rows.tolist()) for epoch, step, rows in model.seen]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return fit(folder, callbacks=[every(1, folder)])[0], folder


@pytest.mark.parametrize("step", [1, 4, 5, 6, 7, 10, 11])
def test_resumed_run_sees_the_batches_that_are_left(whole, tmp_path, step):
    uninterrupted, folder = whole
    resumed, trainer = fit(tmp_path, ckpt_path=folder / f"step={step}.ckpt")
    assert len(uninterrupted.seen) == 2 * STEPS
    assert rows(resumed) == rows(uninterrupted)[step:]
    assert trainer.global_step == 2 * STEPS
    assert torch.equal(resumed.weights, uninterrupted.weights)


@pytest.mark.parametrize(("step", "rois"), [(4, 2), (8, 2), (4, 0)])
def test_neither_workers_nor_missing_rois_change_that(tmp_path, step, rois):
    """The workers are batches ahead of the training, and none of what they made in advance is lost."""
    uninterrupted = fit(tmp_path, rois=rois)[0]
    fit(tmp_path, rois=rois, workers=2, callbacks=[every(step, tmp_path)])
    resumed = fit(tmp_path, rois=rois, workers=2, ckpt_path=tmp_path / f"step={step}.ckpt")[0]
    assert rows(resumed) == rows(uninterrupted)[step:]
    assert torch.equal(resumed.weights, uninterrupted.weights)


class Killed(Exception):
    pass


class KillAfter(pl.Callback):
    """Saves by hand after a step, then the job is gone."""

    def __init__(self, steps, path):
        self.steps, self.path = steps, path

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == self.steps:
            trainer.save_checkpoint(self.path)
            raise Killed


def test_killed_run_resumes_after_the_step_it_was_saved_at(whole, tmp_path):
    path = tmp_path / "killed.ckpt"
    with pytest.raises(Killed):
        fit(tmp_path, callbacks=[KillAfter(4, path)])
    resumed = fit(tmp_path, ckpt_path=path)[0]
    assert rows(resumed) == rows(whole[0])[4:]
    assert torch.equal(resumed.weights, whole[0].weights)


def test_run_that_ended_by_itself_resumes_with_the_next_epoch(whole, tmp_path):
    """Lightning closes the epoch in which `max_steps` is reached; the data follow."""
    ended, trainer = fit(tmp_path, max_steps=4)
    trainer.save_checkpoint(tmp_path / "ended.ckpt")
    resumed = fit(tmp_path, ckpt_path=tmp_path / "ended.ckpt")[0]
    assert rows(ended) == rows(whole[0])[:4]
    assert rows(resumed) == rows(whole[0])[STEPS:]


@pytest.mark.parametrize("workers", [0, 2])
def test_shortened_epochs_resume_with_a_whole_epoch(tmp_path, workers):
    options = {"limit_train_batches": 4, "workers": workers}
    uninterrupted = fit(tmp_path, callbacks=[every(4, tmp_path)], **options)[0]
    resumed = fit(tmp_path, ckpt_path=tmp_path / "step=4.ckpt", **options)[0]
    assert rows(resumed) == rows(uninterrupted)[4:]
    assert torch.equal(resumed.weights, uninterrupted.weights)


def test_state_is_that_of_the_checkpoint(whole):
    state = torch.load(whole[1] / "step=10.ckpt", weights_only=True)
    assert state["loops"]["fit_loop"]["state_dict"]["combined_loader"] == [{"epoch": 1, "batches": 4}]
