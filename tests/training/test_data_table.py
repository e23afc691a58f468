"""Tables of any kind: formats, what is dropped, and that features stay with their rows."""

import gzip
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet

from training.data import TableDataModule

COUNT = 40


def column(values):
    return [None if isinstance(value, float) and np.isnan(value) else value for value in values]


@pytest.fixture
def columns():
    """Row i: latitude i / 10, target 100 + i; some have no location, no target, or neither."""
    rows = np.arange(COUNT, dtype=float)
    lat, lon, target = rows / 10, 20 + rows / 10, 100 + rows
    lat[[3, 20]] = np.nan
    lon[5] = np.nan
    target[[5, 8]] = np.nan
    split = np.array(["train", "train", "val", "test"])[np.arange(COUNT) % 4]
    bird = np.array(["kite", "wren", "NA"])[np.arange(COUNT) % 3].tolist()
    bird[8] = None
    return {"lat": column(lat), "lon": column(lon), "t": column(target), "split": split.tolist(), "bird": bird}


@pytest.fixture
def path(tmp_path, columns):
    return write(tmp_path / "table.csv", columns)


def write(path, columns, delimiter=","):
    table = pa.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        csv.write_csv(table, path, csv.WriteOptions(delimiter=delimiter))
    return path


@pytest.fixture
def features(tmp_path):
    """Row i is (i, 2i)."""
    rows = np.arange(COUNT, dtype=np.float32)
    np.save(tmp_path / "features.npy", np.stack([rows, 2 * rows], axis=1))
    return tmp_path / "features.npy"


def load(path, target="t", *, quiet=True, **options):
    data = TableDataModule(path, target, **({"steps": 2, "points": 8, "rois": 0} | options))
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        data.setup()
    return data


def everything(data):
    return [split[list(range(len(split)))] for split in (data.train_points, data.held_out_points)]


def test_formats_read_the_same(tmp_path, columns, path):
    others = [write(tmp_path / "b.parquet", columns)]
    others += [write(tmp_path / f"{number}.csv", columns, delimiter) for number, delimiter in enumerate(";\t")]
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    first = everything(load(path, "bird", task="classification"))
    for other in [*others, tmp_path / "c.csv.gz"]:
        for a, b in zip(first, everything(load(other, "bird", task="classification")), strict=True):
            assert torch.equal(a.lat, b.lat)
            assert torch.equal(a.target, b.target)


def test_rows_without_location_or_target_are_dropped_and_counted(path):
    with pytest.warns(UserWarning, match=r"Dropped 4 of 40 rows of .*table.csv without a location or a target"):
        data = load(path, quiet=False, standardise=False)
    train, held_out = everything(data)
    assert len(train.lat) + len(held_out.lat) == 36
    for batch in (train, held_out):
        torch.testing.assert_close(batch.target, (100 + 10 * batch.lat).float())


def test_features_stay_with_their_rows_and_speak_for_those_without_a_location(path, features):
    with pytest.warns(UserWarning, match=r"Dropped 2 of 40 rows of .*table.csv without a target"):
        data = load(path, quiet=False, features=features, standardise=False)
    batches = everything(data)
    assert sum(len(batch.lat) for batch in batches) == 38
    assert sum(int(batch.lat.isnan().sum()) for batch in batches) == 2
    for batch in batches:
        assert torch.equal(batch.features[:, 0], batch.target - 100)
        assert torch.equal(batch.features[:, 1], 2 * (batch.target - 100))


@pytest.mark.parametrize("split", ["random", "block"])
def test_batches_have_features_and_rois_of_located_rows(path, features, split):
    options = {"rois": 3, "min_members": 3, "max_members": 4, "radius": 0.02, "split": split, "block": 0.01}
    data = load(path, features=features, standardise=False, steps=30, **options)
    seen = []
    for batch in data.train_dataloader():
        assert torch.equal(batch.features[:, 0], batch.target - 100)
        assert batch.lat[batch.num_random :].isfinite().all()
        assert len(batch.lat) > batch.num_random == 8
        seen.append(batch.rows[: batch.num_random])
    assert torch.equal(torch.cat(seen).unique(), torch.arange(len(data.train_points)))


def test_split_column_names_the_rows(path):
    data = load(path, split_column="split", standardise=False)
    train, val = everything(data)
    assert set((train.target.int() % 4).tolist()) == {0, 1}
    assert set((val.target.int() % 4).tolist()) == {2}
    train, test = everything(load(path, split_column="split", held_out_split="test", standardise=False))
    assert set((train.target.int() % 4).tolist()) == {0, 1}
    assert set((test.target.int() % 4).tolist()) == {3}


def test_features_of_a_split_column(path, features):
    for batch in everything(load(path, split_column="split", features=features, standardise=False)):
        assert torch.equal(batch.features[:, 0], batch.target - 100)


def test_target_is_standardised_by_the_training_rows(path):
    data = load(path, split_column="split")
    train = data.train_points.target
    assert train.dtype == torch.float32
    assert train.mean().item() == pytest.approx(0, abs=1e-6)
    assert train.std().item() == pytest.approx(1, abs=1e-6)
    assert data.held_out_points.target.mean().item() != pytest.approx(0, abs=1e-3)
    assert data.class_names is None


def test_classes_are_those_of_the_training_rows(path):
    with pytest.warns(UserWarning, match="Dropped 4 of 40 rows of .* without a location or a target"):
        data = load(path, "bird", quiet=False, task="classification")  # one row has neither of them
    assert data.class_names == ["NA", "kite", "wren"]
    assert data.num_classes == 3
    for batch in everything(data):
        rows = (batch.lat * 10).round().int()
        assert torch.equal(batch.target, torch.tensor([1, 2, 0])[rows % 3])


def test_numbers_as_labels_are_in_the_order_of_numbers(tmp_path):
    labels = [2, 10, 9, 2, 10, 9, 9, 2] * 2
    for name in ("a.csv", "a.parquet"):
        table = {"lat": np.arange(16.0), "lon": np.arange(16.0), "label": labels}
        assert load(write(tmp_path / name, table), "label", task="classification").class_names == ["2", "9", "10"]


def test_held_out_label_that_no_training_row_has_is_dropped_and_named(tmp_path, columns, features):
    columns["bird"][2] = columns["bird"][6] = "dodo"  # both held out, and test rows do not count
    columns["bird"][3] = "moa"
    path = write(tmp_path / "dodo.csv", columns)
    with pytest.warns(
        UserWarning,
        match=r"Dropped 2 held-out rows of 1 classes that no training row has, the first 'dodo' at data row 3 of",
    ):
        data = load(path, "bird", quiet=False, task="classification", split_column="split", features=features, steps=2)
    assert data.class_names == ["NA", "kite", "wren"]
    rows = everything(data)[1].features[:, 0].int().tolist()
    assert rows == [row for row in range(2, COUNT, 4) if row not in (2, 6)]


def test_columns_can_be_named(tmp_path, columns):
    columns["north"], columns["east"] = columns.pop("lat"), columns.pop("lon")
    path = write(tmp_path / "named.csv", columns)
    assert len(load(path, lat="north", lon="east").train_points) == 27


def test_data_can_be_pickled(path, features):
    data = load(path, features=features)
    again = pickle.loads(pickle.dumps(data))
    for a, b in zip(everything(data), everything(again), strict=True):
        assert torch.equal(a.features, b.features)


def test_features_are_mapped_read_only(path, features):
    data = load(path, features=features)
    (array,) = data.train_points.features.arrays
    assert isinstance(array, np.memmap)
    assert array.mode == "r"


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        ({}, {"target": "u"}, "Expected the column `u` for the target, but got `lat`, .* in .*table.csv"),
        ({}, {"split_column": "u"}, "Expected the column `u` for the split, but got `lat`"),
        ({}, {"lat": "u"}, "Expected the column `u` for the latitude, but got `lat`"),
        ({}, {"target": "bird"}, "Expected numbers in the column `bird`, but got 'kite' at data row 1"),
        ({}, {"task": "ranking"}, "`task` to be 'regression' or 'classification', but got 'ranking'"),
        ({"split": ["dev"] * COUNT}, {"split_column": "split"}, "'train', 'val' or 'test' .*but got 'dev' at data row"),
        ({"split": [""] * COUNT}, {"split_column": "split"}, "'train', 'val' or 'test' .*but got '' at data row 1"),
        (
            {"split": ["train"] * COUNT},
            {"split_column": "split"},
            "rows to train with and held-out ones, but got 36 and",
        ),
        ({"split": ["test"] * COUNT}, {"split_column": "split"}, "train with and held-out ones, but got 0 and 0"),
        ({"t": [None] * COUNT}, {}, "rows to train with and held-out ones, but got 0 and 0"),
        ({"t": [7] * COUNT}, {}, r"differs between the training rows, but got 2\d rows with \[7.0\]"),
        ({"t": [1e300, 2.0] * (COUNT // 2)}, {}, r"target that can be standardised, but got numbers from 2 to 1e\+300"),
        ({"t": [1e300] * COUNT}, {"standardise": False}, r"target that float32 holds, but got 1e\+300 at data row"),
        ({"bird": ["wren"] * COUNT}, {"target": "bird", "task": "classification"}, r"2 classes .*got \['wren'\]"),
        ({"lat": [91] * COUNT}, {}, r"`lat` in degrees within \[-90, 90\], but got 91 at data row 1 of"),
    ],
)
def test_refused_tables(tmp_path, columns, change, options, match):
    path = write(tmp_path / "table.csv", columns | change)
    with pytest.raises(ValueError, match=match):
        load(path, **options)


def test_refused_files(tmp_path, path):
    with pytest.raises(ValueError, match=r"`path` to be a CSV or Parquet file, but got no file .*nowhere.csv"):
        load(tmp_path / "nowhere.csv")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"a readable table, but got this from .*damaged.parquet: "):
        load(tmp_path / "damaged.parquet")
    for name in ("empty.csv", "empty.parquet"):
        empty = write(tmp_path / name, {"lat": pa.array([], pa.float64()), "lon": pa.array([], pa.float64()), "t": []})
        with pytest.raises(ValueError, match=r"rows under the header, but got none in .*empty"):
            load(empty)
    with pytest.raises(ValueError, match=r"Expected features, but got no file .*nowhere.npy"):
        load(path, features=tmp_path / "nowhere.npy")
    np.save(tmp_path / "short.npy", np.zeros((39, 2)))
    with pytest.raises(ValueError, match=r"40 rows in .*short.npy, as in .*table.csv, but got 39"):
        load(path, features=tmp_path / "short.npy")
