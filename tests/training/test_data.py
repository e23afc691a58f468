"""The airports: what is loaded, dropped, split and standardised."""

import importlib
import types

import numpy as np
import pytest
import torch

from training.data import AirportsDataModule, load_airports
from training.data.splits import equal_area_cells, split_rows, standardised

ROW = {"lat": 10.0, "lon": 20.0, "elevation": 100.0}


def stub(monkeypatch, rows):
    module = types.SimpleNamespace(load=lambda code: dict(enumerate(rows)))
    monkeypatch.setattr(importlib, "import_module", lambda name: module)


def test_real_airports_are_complete():
    lat, lon, elevation = load_airports()
    assert len(lat) > 20_000
    assert lat.dtype == torch.float64
    assert lat.abs().max() <= 90
    assert lon.abs().max() <= 180
    assert -500 < elevation.min() < -300  # shore of the Dead Sea, in metres
    assert 4000 < elevation.max() < 5000


def test_rows_without_location_are_dropped_and_counted(monkeypatch):
    stub(monkeypatch, [ROW, ROW | {"lat": None}, ROW | {"lon": float("nan")}, ROW | {"elevation": ""}, ROW])
    with pytest.warns(UserWarning, match="Dropped 3 of 5 airports"):
        lat, lon, elevation = load_airports()
    assert lat.tolist() == [10, 10]
    assert lon.tolist() == [20, 20]
    torch.testing.assert_close(elevation, torch.full((2,), 30.48, dtype=torch.float64))


def test_missing_airportsdata_names_the_extra(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'geobias-torch\[train\]'"):
        load_airports()


@pytest.mark.parametrize("split", ["random", "block"])
def test_split_is_seeded_and_holds_out_the_share(split):
    lat, lon, _ = load_airports()
    held_out = split_rows(lat, lon, split=split, held_out=0.25, seed=0, block=0.2)
    assert held_out.double().mean() == pytest.approx(0.25, abs=1e-4 if split == "random" else 0.05)
    assert torch.equal(held_out, split_rows(lat, lon, split=split, held_out=0.25, seed=0, block=0.2))
    assert not torch.equal(held_out, split_rows(lat, lon, split=split, held_out=0.25, seed=1, block=0.2))


def test_block_split_holds_out_whole_cells():
    lat, lon, _ = load_airports()
    held_out = split_rows(lat, lon, split="block", held_out=0.25, seed=0, block=0.2)
    cells = equal_area_cells(lat, lon, 0.2)
    assert not set(cells[held_out].tolist()) & set(cells[~held_out].tolist())
    assert 20 < len(cells[held_out].unique()) < len(cells.unique()) / 2


def test_cells_have_equal_area():
    rng = np.random.default_rng(0)  # uniform on the sphere
    lat = torch.tensor(np.degrees(np.arcsin(rng.uniform(-1, 1, 200_000))))
    lon = torch.tensor(rng.uniform(-180, 180, 200_000))
    count = equal_area_cells(lat, lon, 0.5).bincount().double()
    assert len(count) == 4 * 13
    assert count.std() < 1.5 * count.mean().sqrt()
    assert count.mean() * 4 * np.pi / 200_000 == pytest.approx(0.25, rel=0.05)
    assert torch.equal(equal_area_cells(lat, lon, 0.5), equal_area_cells(lat, lon + 360, 0.5))


def test_poles_and_antimeridian_lie_in_a_cell():
    cells = equal_area_cells(torch.tensor([90.0, -90.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 180.0, -180.0]), 0.5)
    assert 0 <= cells.min() <= cells.max() < 52
    assert cells[2] == cells[3]


def test_rows_without_a_location_are_split_at_random_with_the_same_share():
    lat, lon, _ = load_airports()
    lat, lon = lat.clone(), lon.clone()
    lat[::4] = torch.nan
    lon[1::8] = torch.nan
    missing = lat.isnan() | lon.isnan()
    cells = equal_area_cells(lat, lon, 0.2)
    assert torch.equal(cells == -1, missing)
    held_out = split_rows(lat, lon, split="block", held_out=0.25, seed=0, block=0.2)
    assert held_out[missing].double().mean() == pytest.approx(0.25, abs=1e-4)
    assert held_out[~missing].double().mean() == pytest.approx(0.25, abs=0.05)
    assert not set(cells[held_out & ~missing].tolist()) & set(cells[~held_out & ~missing].tolist())
    # the located rows are split as they would be without the others
    alone = split_rows(lat[~missing], lon[~missing], split="block", held_out=0.25, seed=0, block=0.2)
    assert torch.equal(held_out[~missing], alone)


def test_nothing_located_is_split_all_the_same():
    nowhere = torch.full((8,), torch.nan)
    assert split_rows(nowhere, nowhere, split="block", held_out=0.25, seed=0, block=0.2).sum() == 2


@pytest.mark.parametrize(("split", "held_out", "counts"), [("block", 0.25, "0 and 8"), ("random", 0.01, "8 and 0")])
def test_split_that_leaves_a_side_empty_is_refused(split, held_out, counts):
    nearby = torch.linspace(50, 50.1, 8)
    with pytest.raises(ValueError, match=f"rows to train with and held-out ones, but got {counts}: a smaller `block`"):
        split_rows(nearby, nearby, split=split, held_out=held_out, seed=0, block=0.2)


def test_constant_target_is_refused():
    with pytest.raises(ValueError, match=r"differs between the training rows, but got 2 rows with \[3.0\]"):
        standardised(torch.tensor([3.0, 3.0, 4.0]), torch.tensor([True, True, False]))


@pytest.mark.parametrize("row", [0, 3])  # of the training rows and of the others
def test_target_too_large_to_be_standardised_is_refused(row):
    target = torch.tensor([1.0, 2.0, 4.0, 3.0], dtype=torch.float64)
    target[row] = 1e300
    with pytest.raises(ValueError, match=r"target that can be standardised, but got numbers from . to 1e\+300"):
        standardised(target, torch.tensor([True, True, True, False]))


def test_target_is_standardised_by_the_training_split():
    data = AirportsDataModule(steps=2, rois=2)
    data.setup()
    train, held_out = data.train_points, data.held_out_points
    assert train.target.mean().item() == pytest.approx(0, abs=1e-5)
    assert train.target.std().item() == pytest.approx(1, abs=1e-5)
    assert held_out.target.mean().item() != pytest.approx(0, abs=1e-5)
    assert len(train) == pytest.approx(3 * len(held_out), abs=3)
    # one airport back to metres: the target is monotone, and the same function in both splits
    order = torch.argsort(torch.cat([train.target, held_out.target]), stable=True)
    elevation = {(a, b): z for a, b, z in zip(*[x.tolist() for x in load_airports()], strict=True)}
    lat, lon = torch.cat([train.lat, held_out.lat])[order], torch.cat([train.lon, held_out.lon])[order]
    sorted_elevation = [elevation[pair] for pair in zip(lat.tolist(), lon.tolist(), strict=True)]
    assert np.diff(sorted_elevation[::500]).min() >= -1


def test_loaders_set_the_data_up_by_themselves():
    assert len(AirportsDataModule(steps=2, rois=2).train_dataloader()) == 2
    assert len(AirportsDataModule().val_dataloader()) == 2


def test_held_out_loader_gives_every_row_once_in_order():
    data = AirportsDataModule(steps=2, rois=2)
    data.setup()
    batches = list(data.val_dataloader())
    assert torch.equal(torch.cat([batch.rows for batch in batches]), torch.arange(len(data.held_out_points)))
    assert all(batch.regions is None for batch in batches)
    assert all(batch.num_random == len(batch.lat) for batch in batches)


@pytest.mark.parametrize("name", ["seed", "rois", "num_workers", "steps", "points", "min_members", "max_members"])
def test_counts_are_refused_at_once(name):
    least = 0 if name in ("seed", "rois", "num_workers") else 1
    with pytest.raises(ValueError, match=f"Expected `{name}` of at least {least}, but got {least - 1}"):
        AirportsDataModule(**{name: least - 1})


def test_radius_is_refused_at_once():
    with pytest.raises(ValueError, match=r"`radius` in radians within \(0, pi\], but got 0"):
        AirportsDataModule(radius=0.0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"split": "blocks"}, "'random' or 'block', but got 'blocks'"),
        ({"held_out": 1.0}, r"`held_out` within \(0, 1\), but got 1.0"),
        ({"split": "block", "block": 0.0}, "`block` within .* radians, but got 0.0"),
    ],
)
def test_refused_settings(options, match):
    with pytest.raises(ValueError, match=match):
        AirportsDataModule(**options).setup()
