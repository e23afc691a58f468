"""The prediction table: columns, order, format, and no half-written file."""

from types import SimpleNamespace

import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from training.callbacks import PredictionTable

BATCHES = [
    {"lat": torch.tensor([1.0, 2.0], dtype=torch.float64), "hit": torch.tensor([1.0, 0.0])},
    {"lat": torch.tensor([3.123456789], dtype=torch.float64), "hit": torch.tensor([1.0])},
]


@pytest.mark.parametrize("name", ["table.csv", "folder/table.parquet"])
def test_batches_are_joined_in_order(tmp_path, name):
    PredictionTable(tmp_path / name).write_on_epoch_end(SimpleNamespace(), SimpleNamespace(), BATCHES, [])
    reader = pyarrow.csv.read_csv if name.endswith("csv") else pyarrow.parquet.read_table
    assert reader(tmp_path / name).to_pydict() == {"lat": [1.0, 2.0, 3.123456789], "hit": [1.0, 0.0, 1.0]}
    assert len(list((tmp_path / name).parent.iterdir())) == 1


def test_a_failed_write_leaves_the_old_table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    broken = [{"lat": torch.zeros(2), "hit": torch.zeros(1)}]
    with pytest.raises(ValueError, match="length"):
        PredictionTable(path).write_on_epoch_end(SimpleNamespace(), SimpleNamespace(), broken, [])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_refuses_other_formats():
    with pytest.raises(ValueError, match=r"end in .csv or .parquet, but got 'table.xlsx'"):
        PredictionTable("table.xlsx")
