"""The iNaturalist layout, in a small folder: who belongs to whom, and that nothing sparse is made dense."""

import io
import json
import pickle
import warnings

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.utils.data import DataLoader

from training.data import INaturalistDataModule

TRAIN, VAL = 60, 20
FEATURES, PREDICTIONS = "features_inception/inat2018_{split}_net_feats.npy", "features_inception/val_sparse.npz"
CATEGORIES = (3, 8, 5, 40)  # as in a part of the data: not all numbers occur


def category(row):
    return CATEGORIES[row % 3]


@pytest.fixture
def folder(tmp_path):
    """Picture i of a split has latitude i / 10 (of val: 10 + i / 10); every 7th has none. Lists are in other orders."""
    (tmp_path / "features_inception").mkdir()
    for split, count, first in (("train", TRAIN, 0), ("val", VAL, 10)):
        ids = [1000 * first + 7 * row for row in range(count)]
        places = [{"id": i, "lat": first + n / 10, "lon": 5.0, "user_id": 1} for n, i in enumerate(ids)]
        for place in places[::7]:
            place |= {"lat": None, "lon": None, "user_id": None}
        labels = [{"id": 5 * n, "image_id": i, "category_id": category(n)} for n, i in enumerate(ids)]
        dump(tmp_path / f"{split}2018_locations.json", places[::-1])
        images = [{"id": i, "file_name": f"{i}.jpg"} for i in ids]
        dump(tmp_path / f"{split}2018.json", {"images": images, "annotations": labels[1:] + labels[:1]})
        features = np.stack([np.arange(count) + 100 * first, np.ones(count)], axis=1)
        np.save(tmp_path / FEATURES.replace("{split}", split), features.astype(np.float32))
    dump(tmp_path / "categories2018.json", [{"id": i, "name": f"species {i}"} for i in range(41)])
    predictions = sparse.lil_matrix((VAL, 41))
    for row in range(VAL):
        predictions[row, category(row)] = 0.5 + row / 100
        predictions[row, 40] = 0.1  # no training picture has this one
        if row % 2:
            predictions[row, 3 if category(row) != 3 else 8] = 0.2
    sparse.save_npz(tmp_path / PREDICTIONS, predictions.tocsr())
    return tmp_path


def dump(path, content):
    path.write_text(json.dumps(content))


def load(folder, *, quiet=True, **options):
    data = INaturalistDataModule(folder, **({"rois": 0, "steps": 20, "points": 16} | options))
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        data.setup()
    return data


def test_classes_and_places_are_those_of_the_pictures(folder):
    with pytest.warns(UserWarning, match=r"Dropped 12 of 80 pictures in .* without a location"):
        data = load(folder, quiet=False)
    assert data.class_names == ["species 3", "species 5", "species 8"]  # by number, not by text
    assert data.num_classes == 3
    assert len(data.train_points) == 51
    assert len(data.held_out_points) == 17
    for split, first in ((data.train_points, 0), (data.held_out_points, 10)):
        row = ((split.lat - first) * 10).round().int()
        assert torch.equal(split.target, torch.tensor([0, 2, 1])[row % 3])
        assert (split.lon == 5).all()
    assert data.train_points[[0]].features is None
    assert data.held_out_points[[0]].image is None


def test_names_are_the_category_ids_without_a_list_of_names(folder):
    (folder / "categories2018.json").unlink()
    assert load(folder).class_names == ["3", "5", "8"]


def test_features_keep_pictures_without_a_location_and_belong_to_them(folder):
    data = load(folder, features=FEATURES)
    assert len(data.train_points) == TRAIN
    assert len(data.held_out_points) == VAL
    for split, first in ((data.train_points, 0), (data.held_out_points, 10)):
        batch = split[torch.randperm(len(split), generator=torch.Generator().manual_seed(0))]
        row = batch.features[:, 0].int() - 100 * first
        located = batch.lat.isfinite()
        assert torch.equal(located, row % 7 != 0)
        assert torch.equal(((batch.lat - first) * 10).round().int()[located], row[located])
        assert torch.equal(batch.target, torch.tensor([0, 2, 1])[row % 3])


def test_predictions_are_by_class_number_and_never_dense(folder, monkeypatch):
    def dense(*_):
        raise AssertionError("made dense")

    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, dense)
    data = load(folder, predictions=PREDICTIONS)
    assert len(data.train_points) == 51  # nothing speaks for a training picture without a location
    assert len(data.held_out_points) == VAL
    assert data.train_points[[0, 1]].image is None
    (batch,) = data.val_dataloader()
    for row, (classes, probabilities) in enumerate(zip(*(part.tolist() for part in batch.image), strict=True)):
        found = {number: p for number, p in zip(classes, probabilities, strict=True) if number >= 0}
        others = {} if row % 2 == 0 else {0 if category(row) != 3 else 2: 0.2}
        assert found == pytest.approx({int(batch.target[row]): 0.5 + row / 100} | others)
    assert batch.image.classes.shape == (VAL, 2)
    assert batch.image.classes.dtype == torch.int64
    assert batch.image.probabilities.dtype == torch.float32


def test_worker_that_is_spawned_makes_the_same_batches(folder):
    split = load(folder, predictions=PREDICTIONS, features=FEATURES).held_out_points
    here = split[[4, 7]]
    (there,) = DataLoader(split, sampler=[[4, 7]], batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert torch.equal(here.features, there.features)
    assert torch.equal(here.image.classes, there.image.classes)
    assert len(pickle.dumps(split)) < 20_000


def test_random_rows_are_from_at_most_so_many_of_a_class(folder):
    data = load(folder, max_per_class=4)
    loader = data.train_dataloader()
    epochs = []
    for epoch in (0, 1, 0):
        loader.sampler.set_epoch(epoch)
        rows = torch.cat([batch.rows for batch in loader]).unique()
        assert data.train_points.target[rows].bincount().tolist() == [4, 4, 4]
        epochs.append(rows.tolist())
    assert epochs[0] == epochs[2] != epochs[1]
    rows = torch.cat([batch.rows for batch in load(folder, max_per_class=None).train_dataloader()])
    assert len(rows.unique()) == 51


def test_rois_are_of_located_pictures(folder):
    data = load(folder, features=FEATURES, rois=3, min_members=3, max_members=5, radius=0.02)
    for batch in data.train_dataloader():
        assert batch.num_random == 16 < len(batch.lat)
        assert batch.lat[16:].isfinite().all()


def test_held_out_picture_of_an_unknown_class_is_dropped_and_named(folder):
    change(folder / "val2018.json", lambda labels: labels["annotations"][4].update(category_id=40))
    with pytest.warns(UserWarning, match=r"Dropped 1 held-out rows .* the first 40 in picture 6 of .*val2018.json"):
        data = load(folder, quiet=False, features=FEATURES, predictions=PREDICTIONS)
    rows = data.held_out_points[list(range(VAL - 1))].features[:, 0].int() - 1000
    assert rows.tolist() == [row for row in range(VAL) if row != 5]


def test_other_years_are_other_files(folder):
    for path in list(folder.glob("*2018*.json")):
        path.rename(folder / path.name.replace("2018", "2017"))
    assert load(folder, year=2017).num_classes == 3


def change(path, function):
    content = json.loads(path.read_text())
    function(content)
    dump(path, content)


@pytest.mark.parametrize(
    "name", ["train2018.json", "val2018.json", "train2018_locations.json", "val2018_locations.json"]
)
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"`folder` with the files of iNaturalist, but got no file .*{name}"):
        load(folder)


@pytest.mark.parametrize(
    ("name", "function", "match"),
    [
        ("val2018.json", lambda x: x.pop("images"), "images and annotations in .*val2018.json .*entry 'images'"),
        (
            "val2018.json",
            lambda x: x["annotations"].pop(),
            "every picture, but got none for id 10000 in .*val",
        ),
        (
            "val2018_locations.json",
            lambda x: x.pop(),
            "every picture, but got none for id 10000 in .*_locations",
        ),
        ("val2018_locations.json", lambda x: x[0].pop("lat"), "a list of places in .*entry 'lat'"),
        ("train2018_locations.json", lambda x: x[0].update(lat=95), r"\[-90, 90\], but got 95 for id 413 in .*train"),
        (
            "val2018_locations.json",
            lambda x: x[0].update(lat="48.8"),
            r"`lat` .*, but got '48.8' for id 10133 in .*_loc",
        ),
        ("val2018_locations.json", lambda x: x[0].update(lon="9"), r"`lon` .*, but got '9' for id 10133 in .*_loc"),
        (
            "val2018_locations.json",
            lambda x: x[0].update(lon=float("inf")),
            r"`lon` .*finite, but got inf for id 10133",
        ),
        ("val2018_locations.json", lambda x: x[0].update(lon=10**400), r"`lon` .*finite, but got 10+ for id 10133"),
        (
            "val2018_locations.json",
            lambda x: x.append(x[0] | {"lat": 1}),
            r"one location .* \(1, 5.0\) for id 10133 in",
        ),
        *(
            (
                "train2018.json",
                lambda x, value=value: x["annotations"][0].update(category_id=value),
                f"a whole `category_id`, but got {value!r} for id 7 in .*train2018.json",
            )
            for value in (None, "three", 3.5, 2**53 + 1, float("nan"), -1, True)
        ),
        (
            "val2018.json",
            lambda x: x["annotations"].append({"image_id": 10000, "category_id": 5}),
            "one category for every picture, but got 3 and 5 for id 10000 in .*val2018.json",
        ),
        (
            "val2018.json",
            lambda x: x["images"].append(x["images"][2]),
            "every picture once, but got id 10014 more often in .*val2018.json",
        ),
        ("categories2018.json", lambda x: x.pop(3), "id and name of every category in .*but got none with '3'"),
        ("categories2018.json", lambda x: x[0].pop("name"), "id and name of every category in .*none with 'name'"),
    ],
)
def test_refused_contents(folder, name, function, match):
    change(folder / name, function)
    with pytest.raises(ValueError, match=match):
        load(folder)


def test_text_that_is_no_json_is_refused(folder):
    (folder / "val2018.json").write_text("images")
    with pytest.raises(ValueError, match=r"JSON, but got this from .*val2018.json: Expecting value"):
        load(folder)


def test_refused_features_and_predictions(folder):
    with pytest.raises(ValueError, match=r"'\{split\}' in `features`, in place of train and val, but got x.npy"):
        load(folder, features="x.npy")
    with pytest.raises(ValueError, match=r"Expected features, but got no file .*x_train.npy"):
        load(folder, features="x_{split}.npy")
    with pytest.raises(ValueError, match=r"`predictions` in the folder, but got no file .*x.npz"):
        load(folder, predictions="x.npz")
    (folder / "x.npz").write_text("no archive")
    with pytest.raises(ValueError, match=r"a sparse matrix as scipy saves it, but got .*x.npz, which is none"):
        load(folder, predictions="x.npz")
    whole = (folder / PREDICTIONS).read_bytes()
    dense = io.BytesIO()
    np.save(dense, np.zeros((VAL, 41)))
    for content in (dense.getvalue(), b"PK\x03\x04 and no more", whole[: len(whole) // 2], b""):
        (folder / "x.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a sparse matrix as scipy saves it, but got .*x.npz, which is none"):
            load(folder, predictions="x.npz")
    for value in (np.nan, np.inf, -0.5):
        sparse.save_npz(folder / "x.npz", sparse.csr_matrix(([0.5, value], ([1, 4], [3, 5])), shape=(VAL, 41)))
        with pytest.raises(ValueError, match=rf"finite and >= 0, but got {value:g} in row 4 of .*x.npz, counted"):
            load(folder, predictions="x.npz")
    for shape in ((VAL + 1, 41), (VAL, 8)):
        sparse.save_npz(folder / "x.npz", sparse.csr_matrix(shape))
        with pytest.raises(ValueError, match=r"shape \(20, 9 or more\): .*, but got \(2.* in .*x.npz"):
            load(folder, predictions="x.npz")
    np.save(folder / FEATURES.replace("{split}", "val"), np.zeros((VAL + 1, 2)))
    with pytest.raises(ValueError, match=r"20 rows in .*val_net_feats.npy, as many as pictures, but got 21"):
        load(folder, features=FEATURES)
