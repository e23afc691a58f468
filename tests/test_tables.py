"""Lengths, predictions read from tables, and those of several models side by side."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from geobias_torch.tables import parse_length, read_predictions, same_points
from tests.tables import grid, text_of, writer

PUBLISHED = Path(os.environ.get("GEOBIAS_PUBLISHED", "../shared/data/published"))


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


def test_rows_dropped_stay_in_place(write):
    table = read_predictions(write("lat,lon,hit\n1,2,1\n,2,0\n1,,0\n1,2,\n3,4,0\n"))
    assert table.kept.tolist() == [True, False, False, False, True]
    assert table.located.tolist() == [True, False, False, True, True]
    with pytest.raises(ValueError, match=r"Expected at least 2 rows with a location and a performance, but got 0"):
        read_predictions(write("lat,lon,hit\n,2,1\n1,,0\n1,2,\n"))
    with pytest.raises(ValueError, match=r"Expected at least 2 rows with a location and a performance, but got 1"):
        read_predictions(write("lat,lon,hit\n1,2,1\n"))


def test_signed_hits_become_zero_and_one(write):
    table = read_predictions(write("lat,lon,hit\n1,2,-1\n1,2,+1\n1,2,\n1,2,-1.0\n"))
    assert table.signed
    np.testing.assert_array_equal(table.performance, [0, 1, np.nan, 0])
    for values in ("1\n1,2,1", "0\n1,2,-1", "0.5\n1,2,-1", "1\n1,2,0"):
        assert not read_predictions(write(f"lat,lon,hit\n1,2,{values}\n")).signed


def test_latitude_out_of_range(write):
    with pytest.raises(
        ValueError, match=r"Expected `lat` in degrees within \[-90, 90\], but got 91 at data row 3 of .*\.$"
    ):
        read_predictions(write("lat,lon,hit\n1,2,1\n1,2,1\n91,100,1\n"))
    with pytest.raises(ValueError, match=r"but got 120 at data row 2 .* swapped\?"):
        read_predictions(write("lat,lon,hit\n1,2,1\n120,-30,1\n-170,20,1\n,,\n"))
    # a slip of the pen, or two among many, is not that
    for rows in ("120,-30,1\n", "120,-30,1\n120,-30,1\n" + "1,2,1\n" * 300):
        with pytest.raises(ValueError, match=r"but got 120 at data row 2 of .*\.$"):
            read_predictions(write("lat,lon,hit\n1,2,1\n" + rows))


@pytest.mark.parametrize(
    ("text", "radians"), [("0.05", 0.05), (" 1 ", 1.0), ("6371.0088km", 1.0), ("6371.0088 km", 1.0)]
)
def test_lengths(text, radians):
    assert parse_length(text) == pytest.approx(radians)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("200mi", r"in radians \(0.05\) or in kilometres \(318km\), but got '200mi'"),
        ("200 m", "but got '200 m'"),
        ("km", "but got 'km'"),
        ("", "but got ''"),
        ("1.2.3", "but got '1.2.3'"),
        ("nan", "but got 'nan'"),
        ("318", r"but got '318': did you mean 318km\?"),
        ("-3km", r"above 0, but got '-3km'"),
        ("0", "above 0, but got '0'"),
        ("1e999", "above 0, but got '1e999'"),
    ],
)
def test_lengths_that_are_refused(text, error):
    with pytest.raises(ValueError, match=re.escape(error) if "?" not in error and "\\" not in error else error):
        parse_length(text)


def test_models_in_another_row_order(write):
    lat, lon, hit = grid()
    lat[3:6], lon[3:6] = lat[3], lon[3]  # coincident points keep their order
    first = read_predictions(write(text_of(lat, lon, hit), "first.csv"))
    value = np.arange(len(lat)) / len(lat)
    order = np.argsort(np.random.default_rng(1).uniform(size=len(lat)))
    order = np.concatenate([order[~np.isin(order, [3, 4, 5])], [3, 4, 5]])
    other = read_predictions(write(text_of(lat[order], lon[order] - 360, value[order]), "other.csv"))
    np.testing.assert_array_equal(same_points(first, other), value)
    rounded = read_predictions(write(text_of(lat.round(5), lon.round(5), value), "rounded.csv"))
    np.testing.assert_array_equal(same_points(first, rounded), value)


def test_dropped_rows_are_no_points(write):
    first = read_predictions(write("lat,lon,hit\n1,2,1\n5,5,\n3,4,0\n", "first.csv"))
    other = read_predictions(write("lat,lon,hit\n,,1\n3,4,0.5\n1,2,0.25\n", "other.csv"))
    np.testing.assert_array_equal(same_points(first, other), [0.25, np.nan, 0.5])


def test_a_performance_that_one_table_lacks(write):
    first = read_predictions(write("lat,lon,hit\n1,2,1\n5,5,\n3,4,0\n3,4,1\n6,6,1\n", "first.csv"))
    rows = ["1,2,", "5,5,0.1", "3,4,", "3,4,0.3", "6,6,0.4"]
    for order in ([0, 1, 2, 3, 4], [4, 1, 0, 2, 3]):
        other = read_predictions(write("\n".join(["lat,lon,hit", *(rows[i] for i in order)]), "other.csv"))
        # coincident points are told apart by their order in the file, with or without a performance
        np.testing.assert_array_equal(same_points(first, other), [np.nan, np.nan, np.nan, 0.3, 0.4])
        back = np.full(5, np.nan)
        back[order.index(3)], back[order.index(4)] = 1, 1
        np.testing.assert_array_equal(same_points(other, first), back)
    # left out of the file, and in another order: rows without a performance are no points there
    fewer = read_predictions(write("lat,lon,hit\n6,6,0.4\n3,4,0.2\n3,4,0.3\n1,2,0\n", "fewer.csv"))
    np.testing.assert_array_equal(same_points(first, fewer), [0, np.nan, 0.2, 0.3, 0.4])
    with pytest.raises(ValueError, match=r"but got \(1, 2\) more often .* data row 1 of .*first.csv"):
        same_points(first, read_predictions(write("lat,lon,hit\n3,4,0.2\n3,4,0.3\n6,6,0\n", "less.csv")))


def test_other_points_are_refused(write):
    first = read_predictions(write("lat,lon,hit\n1,2,1\n3,4,0\n3,4,1\n", "first.csv"))
    other = read_predictions(write("lat,lon,hit\n1,2,1\n,,\n3,4.5,0\n3,4,1\n", "other.csv"))
    with pytest.raises(
        ValueError, match=r"the same points in .*first.csv and .*other.csv, but got \(3, 4\) .* data row 2 of .*first"
    ):
        same_points(first, other)
    more = read_predictions(write("lat,lon,hit\n1,2,1\n3,4,0\n3,4,1\n7,8,1\n", "more.csv"))
    with pytest.raises(ValueError, match=r"but got \(7, 8\) more often .* data row 4 of .*more.csv"):
        same_points(first, more)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="published tables are not here")
def test_published_tables_are_read():
    table = read_predictions(PUBLISHED / "inat2018_sphere2vec_predictions.csv.gz")
    assert table.columns == {"lat": "lat", "lon": "lon", "value": "hit@1"}
    assert (len(table.lat), table.kept.sum()) == (24426, 24343)
    assert table.performance[table.kept].mean() == pytest.approx(0.7295, abs=1e-4)
    croma, gpt4o = (read_predictions(PUBLISHED / f"eurosat_{name}.csv.gz") for name in ("croma_finetune", "gpt4o"))
    np.testing.assert_array_equal(same_points(croma, gpt4o), gpt4o.performance)
