"""Reading the columns of a table: every dialect and type, and what is refused."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from geobias_torch.columns import read_columns
from geobias_torch.tables import read_predictions
from tests.tables import writer

# without the time, by which two test processes would name their tests differently
ZIPPED = gzip.compress(b"lat,lon,hit\n" + b"1,2,1\n" * 1000, mtime=0)


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "lat,lon,hit@1\n48.5,9.25,1\n-10,170,0\n",
        "lat;lon;hit@1\n48.5;9.25;1\n-10;170;0\n",
        "lat\tlon\thit@1\n48.5\t9.25\t1\n-10\t170\t0\n",
        "lat|lon|hit@1\n48.5|9.25|1\n-10|170|0\n",
        "#,lat,lon,hit@1\n0,48.5,9.25,1\n1,-10,170,0\n",
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


def test_parquet_texts_of_every_kind(tmp_path):
    path = tmp_path / "table.parquet"
    texts = ["1", "NA", "0.5"]
    kinds = {name: pa.array(texts, getattr(pa, name)()) for name in ("string", "large_string")}
    if hasattr(pa, "string_view"):  # since pyarrow 16
        kinds["string_view"] = pa.array(texts, pa.string_view())
        kinds["words"] = pa.array(["good", "bad", "bad"], pa.string_view())
    kinds |= {
        f"dictionary of {name}": pa.array(texts, kinds[name].type).dictionary_encode() for name in list(kinds)[:2]
    }
    kinds["dictionary of numbers"] = pa.array([1.0, None, 0.5]).dictionary_encode()
    kinds["binary"] = pa.array([b"1", b"0", b"1"])
    kinds["list"] = pa.array([[1.0], [0.0], [1.0]])
    parquet.write_table(pa.table({"lat": [1.0, 2.0, 3.0], "lon": [1.0, 2.0, 3.0], **kinds}), path)
    for name in kinds:
        if name not in ("words", "binary", "list"):
            np.testing.assert_array_equal(read_columns(path, value=name)[1]["value"], [1, np.nan, 0.5], err_msg=name)
    for name, got in {"binary": "binary", "list": "list<", "words": "'good' at data row 1"}.items():
        if name in kinds:
            with pytest.raises(ValueError, match=f"Expected numbers in the column `{name}`, but got {got}"):
                read_columns(path, value=name)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "the empty file"),
        ("\n\n \n", "Expected"),
        ("lat,lon,hit", "Expected rows under the header, but got none"),
        ("lat,lon,hit\n\n\n", "Expected rows under the header, but got none"),
        (
            "lat,lon\n1,2\n",
            r"column with the performance \(one of hit@1, .*, or name it with `--value`, in Python `value=`\), but got",
        ),
        ("1.5,2,1\n1.5,2,0\n", r"the first line must name the columns"),
        (
            "# by me\nlat,lon,hit\n1,2,1\n",
            r"but got `# by me` in .*: take out comments above it, and a `#` ",
        ),
        ("#lat,lon,hit\n1,2,1\n", r"but got `#lat`, `lon`, `hit` in .*: take out comments above it"),
        ("lat lon hit\n1 2 1\n", r"but got `lat lon hit` in .* \(columns are parted by comma, semicolon, tab or bar\)"),
        ("sep=,\nlat,lon,hit\n1,2,1\n", r"but got `sep=`, `` in .* \(columns are parted by comma"),
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
        (ZIPPED[:-9], r"Expected a readable table, but got this from"),
        (ZIPPED[:-8] + b"\1" * 8, r"Expected a readable table"),
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


def test_a_million_rows(write):
    lat = np.linspace(-90, 90, 1_000_000)
    lines = "\n".join(f"{a:.6f},{2 * a:.6f},x{i % 7},{i % 2}" for i, a in enumerate(lat))
    table = read_predictions(write("lat,lon,name,hit\n" + lines + "\n"))
    np.testing.assert_allclose(table.lat, lat, atol=1e-6)
    assert table.performance.sum() == 500_000


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
