"""The MOSAIKS layout, in a small folder."""

import numpy as np
import pytest
import torch

from training.data import MosaiksDataModule


@pytest.fixture
def folder(tmp_path):
    """As it comes: with a column of row numbers; row i has latitude i, elevation 10 i and features (i, 0, i)."""
    rows = np.arange(30)
    splits = np.array(["train", "train", "train", "val", "test"])[rows % 5]
    lines = [f"{row},{-row},{row},{10 * row},{split}" for row, split in zip(rows, splits, strict=True)]
    (tmp_path / "Y_elevation.csv").write_text("\n".join([",lon,lat,elevation,split", *lines, ""]))
    np.save(tmp_path / "X_elevation.npy", np.stack([rows, 0 * rows, rows], axis=1).astype(np.float64))
    return tmp_path


@pytest.mark.parametrize(("split", "remainder"), [("val", 3), ("test", 4)])
def test_rows_features_and_split_are_those_of_the_files(folder, split, remainder):
    data = MosaiksDataModule(folder, "elevation", standardise=False, held_out_split=split, steps=2, points=4, rois=0)
    data.setup()
    assert set((data.train_points.lat % 5).tolist()) == {0, 1, 2}
    assert set((data.held_out_points.lat % 5).tolist()) == {remainder}
    for batch in [*data.train_dataloader(), *data.val_dataloader()]:
        assert torch.equal(batch.lon, -batch.lat)
        assert torch.equal(batch.target, 10 * batch.lat.float())
        assert torch.equal(batch.features, torch.stack([batch.lat, 0 * batch.lat, batch.lat], dim=1).float())


def test_target_is_standardised_unless_told_otherwise(folder):
    data = MosaiksDataModule(folder, "elevation")
    data.setup()
    assert data.train_points.target.std().item() == pytest.approx(1, abs=1e-6)


def test_missing_files_are_named(folder):
    with pytest.raises(ValueError, match=r"got no file .*Y_income.csv"):
        MosaiksDataModule(folder, "income").setup()
    (folder / "X_elevation.npy").unlink()
    with pytest.raises(ValueError, match=r"got no file .*X_elevation.npy"):
        MosaiksDataModule(folder, "elevation").setup()


def test_features_of_other_rows_are_refused(folder):
    np.save(folder / "X_elevation.npy", np.zeros((31, 3)))
    with pytest.raises(ValueError, match=r"30 rows in .*X_elevation.npy, as in .*Y_elevation.csv, but got 31"):
        MosaiksDataModule(folder, "elevation").setup()
