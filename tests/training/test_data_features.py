"""Features and image predictions of rows: in which row they are, and what is read of their files."""

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.utils.data import DataLoader

from training.data import FeatureFiles, Points


def points(count, **options):
    lat = torch.arange(count, dtype=torch.float64)
    return Points(lat, lat, lat.float(), 0.1, **options)


@pytest.fixture
def files(tmp_path):
    """Row i of all of them is (i, -i)."""
    rows = np.arange(10.0)
    both = np.stack([rows, -rows], axis=1)
    np.save(tmp_path / "a.npy", both[:6].astype(np.float16))
    np.save(tmp_path / "b.npy", both[6:].astype(np.float32))
    return tmp_path / "a.npy", tmp_path / "b.npy"


def test_rows_come_from_their_file_in_the_order_asked_for(files):
    features = FeatureFiles(*files)
    assert features.shape == (10, 2)
    assert features[np.array([9, 0, 6, 5, 5])].tolist() == [[9, -9], [0, 0], [6, -6], [5, -5], [5, -5]]
    assert features[np.array([], dtype=int)].shape == (0, 2)


def test_features_stay_with_their_rows(files):
    """Through two choices of rows, as a data set drops some and splits the rest."""
    chosen = points(10, features=FeatureFiles(*files)).take(torch.arange(10) % 2 == 0).take(torch.tensor([4, 1, 3]))
    batch = chosen[[2, 0]]
    assert batch.lat.tolist() == [6, 8]
    assert batch.features.tolist() == [[6, -6], [8, -8]]
    assert batch.features.dtype == torch.float32


def test_features_that_are_not_finite_are_refused_with_their_place(files):
    for path, row, value in ((files[0], 3, np.nan), (files[1], 2, np.inf)):
        array = np.load(path)
        array[row, 1] = value
        np.save(path, array)
    split = points(10, features=FeatureFiles(*files)).take(torch.arange(1, 10))
    assert split[[0, 1]].features.isfinite().all()
    with pytest.raises(ValueError, match=r"finite `features`, but got nan in row 3 of .*a.npy, counted from 0"):
        split[[0, 2]]
    with pytest.raises(ValueError, match=r"finite `features`, but got inf in row 2 of .*b.npy, counted from 0"):
        split[[0, 7]]
    table = torch.zeros(4, 2, dtype=torch.float64)
    table[2, 1] = 1e300  # not as float32
    with pytest.raises(ValueError, match="finite `features`, but got inf in row 2, counted from 0"):
        points(4, features=table)[[1, 2]]


def test_rows_by_mask_and_from_the_end(files):
    split = points(10, features=FeatureFiles(*files))
    for rows in (torch.arange(10) > 7, (np.arange(10) > 7), [8, -1]):
        batch = split[rows]
        assert batch.rows.tolist() == batch.lat.tolist() == batch.features[:, 0].tolist() == [8, 9]
        assert batch.num_random == 2


@pytest.mark.parametrize("row", [10, -1])
def test_rows_that_no_file_has_are_refused(files, row):
    with pytest.raises(ValueError, match=rf"rows within \[0, 10\), but got {row}"):
        FeatureFiles(*files)[np.array([3, row])]


def test_files_larger_than_the_memory_are_read_row_by_row(tmp_path):
    shape = (2_000_000, 100_000)  # 800 GB of which nothing is on the disk
    array = np.lib.format.open_memmap(tmp_path / "large.npy", mode="w+", dtype=np.float32, shape=shape)
    array[1_999_999, 99_999] = 5
    del array
    features = FeatureFiles(tmp_path / "large.npy")
    read = features[np.array([0, 1_999_999])]
    assert read.shape == (2, 100_000)
    assert read[:, -1].tolist() == [0, 5]
    assert len(pickle.dumps(features)) < 1000


def test_worker_that_is_spawned_reads_the_same(files):
    split = points(10, features=FeatureFiles(*files), image=sparse.eye_array(10, format="csr"))
    loader = DataLoader(split, sampler=[[3, 7]], batch_size=None, num_workers=1, multiprocessing_context="spawn")
    (batch,) = loader
    assert batch.features.tolist() == [[3, -3], [7, -7]]
    assert batch.image.classes.tolist() == [[3], [7]]


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.zeros(3), r"numbers of shape \(N, F\), but got float64 of shape \(3,\)"),
        (np.array([["a"]]), r"numbers of shape \(N, F\), but got <U1"),
        (np.array([[None]]), "an .npy file of numbers, but got .*which is none"),
    ],
)
def test_refused_arrays(tmp_path, array, match):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(ValueError, match=match):
        FeatureFiles(tmp_path / "x.npy")


def test_refused_files(tmp_path, files):
    with pytest.raises(ValueError, match=r"Expected features, but got no file .*nowhere.npy"):
        FeatureFiles(tmp_path / "nowhere.npy")
    (tmp_path / "text.npy").write_text("1,2")
    (tmp_path / "empty.npy").write_text("")
    for name in ("text", "empty"):
        with pytest.raises(ValueError, match=rf"an .npy file of numbers, but got .*{name}.npy, which is none"):
            FeatureFiles(tmp_path / f"{name}.npy")
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match=r"an .npy file of numbers, but got .*zip.npy, which is none"):
        FeatureFiles(tmp_path / "zip.npy")
    np.savez(tmp_path / "x.npz", np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"an .npy file of numbers, but got .*x.npz, which is an .npz file"):
        FeatureFiles(tmp_path / "x.npz")
    np.save(tmp_path / "wide.npy", np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"as many features in every file, but got \[2, 3\]"):
        FeatureFiles(files[0], tmp_path / "wide.npy")


@pytest.mark.parametrize("name", ["features", "image"])
def test_refuses_another_number_of_rows(name):
    with pytest.raises(ValueError, match=f"`{name}` of 4 rows, but got 3"):
        points(4, **{name: torch.zeros(3, 2)})


def test_refuses_columns_of_different_length():
    with pytest.raises(ValueError, match=r"of the same shape \(N,\), but got \[\(3,\), \(2,\), \(3,\)\]"):
        Points(torch.zeros(3), torch.zeros(2), torch.zeros(3), 0.1)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_image_predictions_are_padded_to_the_longest_row(kind, monkeypatch):
    dense = np.array([[0, 0.2, 0.8], [0, 0, 0], [0.1, 0.3, 0.6], [0, 1, 0]])
    matrix = kind(dense)
    for name in ("toarray", "todense"):
        monkeypatch.setattr(type(matrix), name, None)
    split = points(4, image=matrix)
    image = split[[1, 3, 0]].image
    assert image.classes.tolist() == [[-1, -1], [1, -1], [1, 2]]
    torch.testing.assert_close(image.probabilities, torch.tensor([[0, 0], [1, 0], [0.2, 0.8]]))
    assert split[[1]].image.classes.shape == (1, 0)
    assert split.take(torch.tensor([2, 1]))[[0]].image.classes.tolist() == [[0, 1, 2]]
    assert points(4)[[1]].image is None
