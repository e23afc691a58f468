"""Reading, matching, scoring and writing prediction tables."""

import csv
import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from geobias_torch.columns import read_columns
from geobias_torch.files import check_output, replacing
from geobias_torch.scoring import LOCAL_SCORES, score_tables, write_json, write_local
from geobias_torch.tables import parse_length, read_predictions, same_points

PUBLISHED = Path(os.environ.get("GEOBIAS_PUBLISHED", "../shared/data/published"))


@pytest.fixture
def write(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def grid(seed=0, count=120):
    """Points around Stuttgart with hits that are better in the west."""
    generator = np.random.default_rng(seed)
    lat, lon = generator.uniform(48, 50, count), generator.uniform(8, 11, count)
    return lat, lon, (generator.uniform(8, 11, count) > lon).astype(int)


def text_of(lat, lon, hit, header="lat,lon,hit"):
    return "\n".join([header, *(f"{a!r},{b!r},{c}" for a, b, c in zip(lat.tolist(), lon.tolist(), hit, strict=True))])


# ---- reading


@pytest.mark.parametrize(
    "content",
    [
        "lat,lon,hit@1\n48.5,9.25,1\n-10,170,0\n",
        "lat;lon;hit@1\n48.5;9.25;1\n-10;170;0\n",
        "lat\tlon\thit@1\n48.5\t9.25\t1\n-10\t170\t0\n",
        "\ufefflat,lon,hit@1\r\n48.5,9.25,1\r\n\r\n-10,170,0\r\n\r\n\r\n",
        '\n\n"lat" , "lon",hit@1\n48.5, 9.25 ,+1\n-10,170,0',
        "id,hit@1,LON,Lat\nß,True,9.25,4.85e1\nü,FALSE,170,-10\n",
        '"a\nnote, long",lat,lon,hit@1\n"x\ny, z",48.5,9.25,1\n,-10,170,0\n',
        "gt_lat,lat,lon,hit@1\n0,48.5,9.25,1\n0,-10,170,0\n",
        "hit@5,correct,hit@1,longitude,latitude\n0,0,1,9.25,48.5\n0,0,0,170,-10\n",
        "lat,lon,hit@1\r48.5,9.25,1\r-10,170,0\r",
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_every_dialect_gives_the_same_values(write, content, suffix):
    data = gzip.compress(content.encode()) if suffix == ".csv.gz" else content
    _, values = read_columns(write(data, f"table{suffix}"))
    np.testing.assert_array_equal(values["lat"], [48.5, -10])
    np.testing.assert_array_equal(values["lon"], [9.25, 170])
    np.testing.assert_array_equal(values["value"], [1, 0])


def test_a_name_that_was_given_goes_before_the_usual_ones(write):
    path = write("lat,lon,hit,Größe,Breite,L\n1,2,3,4,5,6\n")
    names, values = read_columns(path, value="größe", lat=" Breite", lon="L")
    assert names == {"lat": "Breite", "lon": "L", "value": "Größe"}
    assert [values[role][0] for role in ("lat", "lon", "value")] == [5, 6, 4]


def test_pairs_of_coordinates_stay_together(write):
    names, _ = read_columns(write("y,latitude,longitude,lon,hit\n1,2,3,4,5\n"))
    assert (names["lat"], names["lon"]) == ("latitude", "longitude")


@pytest.mark.parametrize("missing", ["", "NA", "n/a", "NaN", "null", "None", " ", '""'])
def test_missing_values(write, missing):
    _, values = read_columns(write(f"lat,lon,hit\n{missing},2,3\n1,2,{missing}\n"))
    np.testing.assert_array_equal(values["lat"], [np.nan, 1])
    np.testing.assert_array_equal(values["value"], [3, np.nan])


def test_parquet_types(tmp_path):
    path = tmp_path / "table.parquet"
    columns = {
        " lat ": pa.array([1.5, None], pa.float32()),
        "lon": pa.array([2**60, None], pa.int64()),
        "hit": pa.array([True, None]),
        "correct": pa.array(["0.5", "NA"]).dictionary_encode(),
        "nothing": pa.nulls(2),
        "when": pa.array([0, 1], pa.timestamp("s")),
    }
    parquet.write_table(pa.table(columns), path)
    _, values = read_columns(path)
    np.testing.assert_array_equal(values["lat"], [1.5, np.nan])
    np.testing.assert_array_equal(values["lon"], [2.0**60, np.nan])
    np.testing.assert_array_equal(values["value"], [1, np.nan])
    np.testing.assert_array_equal(read_columns(path, value="correct")[1]["value"], [0.5, np.nan])
    np.testing.assert_array_equal(read_columns(path, value="nothing")[1]["value"], [np.nan, np.nan])
    with pytest.raises(ValueError, match=r"Expected numbers in the column `when`, but got timestamp"):
        read_columns(path, value="when")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "the empty file"),
        ("\n\n \n", "Expected"),
        ("lat,lon,hit", "Expected rows under the header, but got none"),
        ("lat,lon,hit\n\n\n", "Expected rows under the header, but got none"),
        ("lat,lon\n1,2\n", r"column with the performance \(one of hit@1, .*`value`\), but got `lat`, `lon` in"),
        ("1.5,2,1\n1.5,2,0\n", r"the first line must name the columns"),
        (
            "lat,lon,hit,Hit\n1,2,1,1\n",
            r"one column for the performance, but got `hit` \(column 3\) and `Hit` \(column 4\)",
        ),
        (
            "lat,lat,lon,hit\n1,1,2,1\n",
            r"one column for the latitude, but got `lat` \(column 1\) and `lat` \(column 2\)",
        ),
        (
            "lat,lon,hit\n1,2,1\n1,2,good\n",
            r"in the column `hit`, but got 'good' at data row 2 of .* \(data row 1 is the first",
        ),
        ("lat,lon,hit\n1,2,1\n1,N 9,1\n", r"in the column `lon`, but got 'n 9' at data row 2"),
        ("lat;lon;hit\n1;2;1\n48,5;9,1;1\n", r"got '48,5' at data row 2 .*\(write a decimal point, not a comma\)"),
        ("lat,lon,hit\n1,2,1\n1,2,inf\n", r"finite numbers in the column `hit`, but got inf at data row 2"),
        ("lat,lon,hit\n1,2,1\n1,2\n", r"Expected 3 fields as in the header, but got 2 at data row 2"),
        ("\n\nlat,lon,hit\n1,2,1\n\n1,2,1,1\n", r"Expected 3 fields as in the header, but got 4 at data row 2"),
        ('lat,lon,hit\n1,2,"1\n1,2,1\n', r"in the column `hit`, but got .* at data row 1"),
        ("lat,lon,hit\n1,2,1\n" + "x" * 17_000_000, r"a quote that is never closed"),
        (b"PK\x03\x04\x00\x00lat,lon,hit\n", r"Expected text \(UTF-8\) or Parquet, but got .* another kind of file"),
        ("lat,lon,hit\n1,2,1\n".encode("utf-16"), r"Expected text \(UTF-8\)"),
        ("lat,lon,hit\n1,2,é\n".encode("latin-1"), r"invalid UTF8"),
        (gzip.compress(b"lat,lon,hit\n" + b"1,2,1\n" * 1000)[:-9], r"Expected a readable table, but got this from"),
        (gzip.compress(b"lat,lon,hit\n" + b"1,2,1\n" * 1000)[:-8] + b"\1" * 8, r"Expected a readable table"),
        (b"\x1f\x8bno gzip", r"Expected a readable table"),
        (b"PAR1 but no more", r"Expected a readable table, but got this from"),
        (b"x" * 400_000, "Expected"),
    ],
)
def test_files_that_are_refused(write, content, error):
    with pytest.raises(ValueError, match=error) as caught:
        read_predictions(write(content))
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ragged_row_after_empty_lines_and_a_long_way_down(write):
    path = write("lat,lon,hit\n" + "1,2,1\n" * 5000 + "1,2\n")
    with pytest.raises(ValueError, match=r"got 2 at data row 5001 of"):
        read_predictions(path)
    path = write("lat,lon,hit\n" + "10.25,20.5,1\n" * 900_000 + "x,2,1\n")  # beyond the first block
    with pytest.raises(ValueError, match=r"got 'x' at data row 900001 of"):
        read_predictions(path)


def test_paths_that_are_refused(tmp_path, write):
    with pytest.raises(ValueError, match="but got the folder"):
        read_predictions(tmp_path)
    with pytest.raises(ValueError, match="but got no file"):
        read_predictions(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="regular file"):
        read_predictions("/dev/null")
    with pytest.raises(ValueError, match="Expected a Parquet file"):
        read_predictions(write("lat,lon,hit\n1,2,1\n", "table.parquet"))


def test_names_that_are_refused(write):
    path = write("lat,lon,hit\n1,2,1\n")
    with pytest.raises(ValueError, match=r"Expected the column `f1` for the performance, but got `lat`, `lon`, `hit`"):
        read_columns(path, value="f1")
    with pytest.raises(ValueError, match=r"different columns for latitude and performance, but got `lat`"):
        read_columns(path, value="LAT")


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
        read_predictions(write("lat,lon,hit\n1,2,1\n120,-30,1\n,,\n"))


def test_a_million_rows(write):
    lat = np.linspace(-90, 90, 1_000_000)
    lines = "\n".join(f"{a:.6f},{2 * a:.6f},x{i % 7},{i % 2}" for i, a in enumerate(lat))
    table = read_predictions(write("lat,lon,name,hit\n" + lines + "\n"))
    np.testing.assert_allclose(table.lat, lat, atol=1e-6)
    assert table.performance.sum() == 500_000


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


# ---- the same points


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
    np.testing.assert_array_equal(same_points(first, other), [0.25, 0.5])


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


# ---- scoring and writing


def test_scores_are_those_of_the_metric_and_keep_their_rows(write):
    from geobias_torch.metrics import GeoBiasScores

    lat, lon, hit = grid()
    lines = text_of(lat, lon, hit).splitlines()
    lines[6:6] = [",9,1", "48,9,"]
    [scored] = score_tables([read_predictions(write("\n".join(lines)))], radius=0.02, min_patch_size=4, sectors=4)
    metric = GeoBiasScores(radius=0.02, min_patch_size=4, sectors=4)
    metric.update(hit, lat=lat, lon=lon)
    for name, value in metric.compute().items():
        np.testing.assert_allclose(scored.scores[name], value.item(), rtol=1e-6, equal_nan=True)
    gap = [5, 6]
    for name, column in metric.local().items():
        assert np.isnan(scored.local[name][gap]).all()
        np.testing.assert_allclose(np.delete(scored.local[name], gap), np.asarray(column), rtol=1e-6, equal_nan=True)
    assert scored.scores["ds_sre_excess"] == scored.scores["ds_sre"] - scored.scores["ds_sre_floor"]
    assert scored.settings["scale"] == pytest.approx(0.01)
    assert scored.settings["lag"] == pytest.approx(0.004)


def test_several_models_equal_each_alone(write):
    lat, lon, hit = grid()
    order = np.random.default_rng(2).permutation(len(lat))
    first = read_predictions(write(text_of(lat, lon, hit), "first.csv"))
    other = read_predictions(write(text_of(lat[order], lon[order], 1 - hit[order] * (order > 30)), "other.csv"))
    together = score_tables([first, other], radius=0.02)
    for table, scored in zip((first, other), together, strict=True):
        [alone] = score_tables([table], radius=0.02)
        assert alone.scores.keys() == scored.scores.keys()
        for name, value in alone.scores.items():
            if not name.startswith("spad_"):
                np.testing.assert_allclose(scored.scores[name], value, rtol=1e-4, equal_nan=True, err_msg=name)


def test_performance_outside_the_unit_interval_has_no_spad(write):
    lat, lon, hit = grid()
    [scored] = score_tables([read_predictions(write(text_of(lat, lon, 7 * hit - 3)))], radius=0.02)
    assert "spad" not in scored.scores
    assert scored.scores["ds_sre_rois"] > 0


def test_worst_regions_lie_apart(write):
    lat, lon, hit = grid(count=300)
    [scored] = score_tables([read_predictions(write(text_of(lat, lon, hit)))], radius=0.004, min_patch_size=3)
    rows = scored.worst("ds_sre")
    excess = scored.local["ds_sre"] - scored.local["ds_sre_floor"]
    assert 2 <= len(rows) <= 5
    assert excess[rows[0]] == np.nanmax(excess)
    assert all(a >= b for a, b in zip(excess[rows], excess[rows][1:], strict=False))
    x, y = np.deg2rad(lon[rows]) * np.cos(np.deg2rad(49)), np.deg2rad(lat[rows])
    apart = np.hypot(x[:, None] - x, y[:, None] - y)[~np.eye(len(rows), dtype=bool)]
    assert apart.min() > 0.0039


def test_constant_performance_has_no_scores(write):
    lat, lon, hit = grid()
    [scored] = score_tables([read_predictions(write(text_of(lat, lon, hit * 0 + 1)))], radius=0.02)
    assert scored.worst("ds_sre") == []
    assert scored.as_json()["scores"]["ds_sre"] is None
    assert scored.scores["ds_sre_rois"] == 0


def test_local_tables_read_back(tmp_path):
    local = {"lat": np.array([1.5, np.nan]), "members": np.array([3.0, np.nan]), "ds_sre": np.array([np.nan, np.nan])}
    write_local(local, tmp_path / "local.parquet")
    table = parquet.read_table(tmp_path / "local.parquet")
    assert table.to_pydict() == {"lat": [1.5, None], "members": [3, None], "ds_sre": [None, None]}
    write_local(local, tmp_path / "local.csv")
    with (tmp_path / "local.csv").open() as file:
        assert list(csv.reader(file)) == [["lat", "members", "ds_sre"], ["1.5", "3", ""], ["", "", ""]]
    assert sorted(os.listdir(tmp_path)) == ["local.csv", "local.parquet"]


def test_nothing_is_left_after_an_error(tmp_path):
    path = tmp_path / "scores.json"
    write_json({"a": 1}, path)
    with pytest.raises(ValueError, match="Out of range float"):
        write_json({"a": float("nan")}, path)

    def interrupted():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == ["scores.json"]
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "folder" / "real.json")
    write_json([1], tmp_path / "link.json")
    assert (tmp_path / "folder" / "real.json").read_text() == "[\n  1\n]\n"
    assert (tmp_path / "link.json").is_symlink()


def test_outputs_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ending in .parquet or .csv, but got .*x.txt"):
        check_output(tmp_path / "x.txt", [".parquet", ".csv"])
    with pytest.raises(ValueError, match=r"Expected the folder of the output file"):
        check_output(tmp_path / "no" / "x.csv", [".csv"])
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match=r"but got the folder"):
        check_output(tmp_path / "folder.csv", [".csv"])


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="published tables are not here")
def test_published_tables_are_read():
    table = read_predictions(PUBLISHED / "inat2018_sphere2vec_predictions.csv.gz")
    assert table.columns == {"lat": "lat", "lon": "lon", "value": "hit@1"}
    assert (len(table.lat), table.kept.sum()) == (24426, 24343)
    assert table.performance[table.kept].mean() == pytest.approx(0.7295, abs=1e-4)
    croma, gpt4o = (read_predictions(PUBLISHED / f"eurosat_{name}.csv.gz") for name in ("croma_finetune", "gpt4o"))
    np.testing.assert_array_equal(same_points(croma, gpt4o), gpt4o.performance)


def test_every_local_score_has_its_columns(write):
    lat, lon, hit = grid()
    [scored] = score_tables([read_predictions(write(text_of(lat, lon, hit)))], radius=0.02)
    expected = {"lat", "lon", "members", "performance", *LOCAL_SCORES, *(f"{name}_floor" for name in LOCAL_SCORES)}
    assert set(scored.local) == expected


def test_a_quote_that_is_never_closed_is_not_the_end(tmp_path):
    path = tmp_path / "open.csv"
    rows = [f"{i % 7},{i % 5},1,fine" for i in range(50)]
    rows[5] = '1,2,0,"abc'
    path.write_text("\n".join(["lat,lon,hit,note", *rows]))
    with pytest.raises(
        ValueError, match="Expected every quote to be closed, but one is not, at the latest at data row 6 "
    ):
        read_predictions(path)


def test_a_lone_quote_inside_a_field_is_a_quote(tmp_path):
    path = tmp_path / "inches.csv"
    path.write_text("\n".join(["lat,lon,hit,note", *(f'{i % 7},{i % 5},1,5" pipe' for i in range(51))]))
    assert len(read_predictions(path).lat) == 51
