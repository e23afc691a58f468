"""The command line, in process: exit status, what is printed, which files are there afterwards."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from geobias_torch import cli, maps, regions
from geobias_torch.cli import main

PUBLISHED = Path(os.environ.get("GEOBIAS_PUBLISHED", "../shared/data/published"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a table of 200 predictions that are better in the west."""
    monkeypatch.chdir(tmp_path)
    write_table("preds.csv")
    return tmp_path


def write_table(path, seed=0, header="lat,lon,hit", shuffle=False, transform=str):
    generator = np.random.default_rng(0)
    lat, lon = generator.uniform(48, 50, 200).round(4), generator.uniform(8, 11, 200).round(4)
    hit = (np.random.default_rng(seed).uniform(8, 11, 200) > lon).astype(int)
    rows = [f"{a},{b},{transform(c)}" for a, b, c in zip(lat.tolist(), lon.tolist(), hit.tolist(), strict=True)]
    if shuffle:
        generator.shuffle(rows)
    Path(path).write_text("\n".join([header, *rows]) + "\n")


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_score_prints_what_it_read_and_every_score(folder, capsys):
    status, out, err = run(capsys, "score", "preds.csv", "--radius", "100km", "--min-patch-size", "4")
    assert (status, err) == (0, "")
    assert "latitude `lat`, longitude `lon`, performance `hit`" in out
    assert "200 rows read, 200 scored; dropped: 0 without a location, 0 without a performance" in out
    assert "radius 100 km (0.0157 rad), scale 50 km" in out
    assert "lag 20 km" in out
    assert "mean performance 0." in out
    assert "worst tenth" in out
    for name in ("sg_sre", "dl_sre", "ds_sre", "u_ssi", "m_ssi", "spad"):
        assert f"({name})" in out
    for words in ("noise floor", "excess", "ROIs counted", " of 200", "100 nearest members", "standard error"):
        assert words in out
    assert "Worst regions by scale-grid SRE" in out


def test_where_no_region_can_be_scored_it_says_what_would_do(folder, capsys):
    hint = "An SRE score needs regions with two patches of at least {} points"
    for command in (("score", "preds.csv"), ("compare", "preds.csv", "preds.csv")):
        status, out, _ = run(capsys, *command, "--radius", "5km")
        assert status == 0
        assert hint.format(10) in out
        _, out, _ = run(capsys, *command, "--radius", "100km", "--min-patch-size", "4")
        assert hint.format(4) not in out


def test_score_writes_its_files(folder, capsys):
    outputs = ("--json", "out.json", "--local", "out.parquet", "--map", "out.png")
    status, out, _ = run(capsys, "score", "preds.csv", "--radius", "0.0157", *outputs, "--show", "ds_sre")
    assert status == 0
    assert "Worst regions by direction-sector SRE" in out
    assert sorted(os.listdir()) == ["out.json", "out.parquet", "out.png", "preds.csv"]
    content = json.loads(Path("out.json").read_text())
    assert content["columns"] == {"lat": "lat", "lon": "lon", "value": "hit"}
    assert content["rows"] == 200
    assert content["settings"]["radius"] == 0.0157
    scores = content["scores"]
    assert scores["ds_sre_excess"] == pytest.approx(scores["ds_sre"] - scores["ds_sre_floor"])
    table = parquet.read_table("out.parquet")
    assert table.num_rows == 200
    assert {"lat", "lon", "members", "performance", "sg_sre", "m_ssi_floor"} <= set(table.column_names)
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")


def test_local_table_keeps_the_rows_of_the_file(folder, capsys):
    lines = Path("preds.csv").read_text().splitlines()
    lines[3:3] = ["NA,9,1", "48,9,"]
    Path("gaps.csv").write_text("\n".join(lines))
    status, out, err = run(capsys, "score", "gaps.csv", "--radius", "100km", "--local", "local.csv")
    assert (status, err) == (0, "")  # dropped rows are said once, on stdout
    assert "202 rows read, 200 scored; dropped: 1 without a location, 1 without a performance" in out
    local = Path("local.csv").read_text().splitlines()
    assert len(local) == 203
    assert set(local[3]) == set(local[4]) == {","}
    assert local[1].startswith(lines[1].rsplit(",", 1)[0])


def test_signed_hits_are_said(folder, capsys):
    write_table("signed.csv", transform=lambda hit: 2 * hit - 1)
    _, out, _ = run(capsys, "score", "signed.csv", "--radius", "100km")
    assert "hits of -1 and +1 were turned into 0 and 1" in out
    _, plain, _ = run(capsys, "score", "preds.csv", "--radius", "100km")
    assert out.splitlines()[4:] == plain.splitlines()[3:]


def test_columns_by_name(folder, capsys):
    write_table("named.csv", header='Breite," Länge ",Güte')
    names = ("--lat", "Breite", "--lon", "Länge", "--value", "güte")
    status, out, _ = run(capsys, "score", "named.csv", "--radius", "100km", *names)
    assert status == 0
    assert "latitude `Breite`, longitude `Länge`, performance `Güte`" in out


def test_performance_outside_the_unit_interval(folder, capsys):
    write_table("wide.csv", transform=lambda hit: 5 * hit)
    status, out, _ = run(capsys, "score", "wide.csv", "--radius", "100km", "--json", "out.json")
    assert status == 0
    assert "SPAD was left out: it needs a performance within [0, 1]" in out
    assert "(spad)" not in out
    assert "spad" not in json.loads(Path("out.json").read_text())["scores"]


def test_constant_performance_and_coincident_points(folder, capsys):
    write_table("constant.csv", transform=lambda hit: 1)
    status, out, _ = run(capsys, "score", "constant.csv", "--radius", "100km", "--map", "map.png", "--json", "out.json")
    assert status == 0
    assert "0 of 200" in out
    assert "none could be scored" in out
    assert json.loads(Path("out.json").read_text())["scores"]["sg_sre"] is None
    Path("same.csv").write_text("lat,lon,hit\n" + "1.5,100,1\n1.5,100,0\n" * 20)
    status, out, _ = run(capsys, "score", "same.csv", "--radius", "100km", "--map", "map.png")
    assert status == 0
    assert "40 rows read" in out


def test_coordinates_that_look_like_radians(folder, capsys):
    Path("radians.csv").write_text("lat,lon,hit\n" + "".join(f"{i / 40},{i / 30},{i % 2}\n" for i in range(1, 40)))
    status, _, err = run(capsys, "score", "radians.csv", "--radius", "100km")
    assert status == 0
    assert err.startswith("warning: ")
    assert err.count("\n") == 1
    assert "radians" in err


OUTPUTS = ("--json", "out.json", "--local", "out.csv", "--map", "out.svg")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "the empty file preds.csv"),
        ("lat,lon,hit\n", "Expected rows under the header, but got none in preds.csv"),
        ("lat,lon,hit\n1,2,1\n", "at least 2 rows with a location and a performance, but got 1 in preds.csv"),
        ("lat,lon,hit\n,2,1\n,2,1\n", "but got 0 in preds.csv"),
        ("lat,lon\n1,2\n", "a column with the performance"),
        ("lat,lon,hit,hit\n1,2,1,1\n", "one column for the performance"),
        ("lat,lon,hit\n1,2,1\n91,2,1\n", "Expected `lat` in degrees within [-90, 90], but got 91 at data row 2"),
        ("lat,lon,hit\n1,2,1\n1,2,yes\n", "Expected numbers in the column `hit`, but got 'yes' at data row 2"),
        ("lat,lon,hit\n1,2,1\n1,inf,1\n", "finite numbers in the column `lon`, but got inf at data row 2"),
        ("lat;lon;hit\n1,5;2;1\n1,5;2;1\n", "write a decimal point"),
        (b"\x1f\x8b\x08garbage", "readable table"),
        (b"\x89PNG\0\0\0", "another kind of file"),
    ],
)
@pytest.mark.parametrize("command", ["score", "compare"])
def test_bad_tables_give_one_line_and_no_file(folder, capsys, command, content, error):
    Path("good.csv").write_text(Path("preds.csv").read_text())
    Path("preds.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    tables = ("preds.csv",) if command == "score" else ("good.csv", "preds.csv")
    outputs = OUTPUTS if command == "score" else OUTPUTS[:2]
    status, out, err = run(capsys, command, *tables, "--radius", "100km", *outputs)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert error in err
    assert err.count("\n") == 1
    assert sorted(os.listdir()) == ["good.csv", "preds.csv"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("preds.csv",), "Expected `--radius`, such as --radius 318km or --radius 0.05 (radians), but got none"),
        (
            ("preds.csv", "--radius", "200mi"),
            "argument --radius: Expected a length in radians (0.05) or in kilometres (318km)",
        ),
        (("preds.csv", "--radius", "318"), "did you mean 318km?"),
        (("preds.csv", "--radius", "30000km"), "Expected `radius`"),
        (("preds.csv", "--radius", "10km", "--lag", "20km"), "Expected `lag` to be at most the radius"),
        (("preds.csv", "--radius", "10km", "--scale", "20km"), "Expected `scale` to be at most the radius"),
        (("preds.csv", "--radius", "10km", "--sectors", "1"), "sectors"),
        (("preds.csv", "--radius", "10km", "--sectors", "x"), "invalid int value"),
        (("preds.csv", "--radius", "10km", "--show", "spad"), "invalid choice"),
        (("preds.csv", "--radius", "10km", "--lat", "nord"), "Expected the column `nord` for the latitude"),
        (("nameless.csv", "--radius", "10km"), "or name it with `--lat`"),
        (("preds.csv", "--radius", "10km", "--value", "lat"), "different columns"),
        ((".", "--radius", "10km"), "but got the folder ."),
        (("no.csv", "--radius", "10km"), "but got no file no.csv"),
        (("preds.csv", "--radius", "10km", "--json", "out.txt"), "ending in .json"),
        (("preds.csv", "--radius", "10km", "--local", "out.xlsx"), "ending in .parquet or .csv"),
        (("preds.csv", "--radius", "10km", "--map", "out.jpg"), "ending in .png or .pdf or .svg"),
        (("preds.csv", "--radius", "10km", "--map", "no/out.png"), "the folder of the output file no/out.png to exist"),
        (("preds.csv", "--radius", "10km", "--local", "./preds.csv"), "an output file other than the input"),
        ((), "the following arguments are required: table"),
    ],
)
def test_bad_arguments_give_one_line_and_no_file(folder, capsys, arguments, error):
    write_table("nameless.csv", header="nord,ost,hit")
    status, out, err = run(capsys, "score", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert error in err
    assert err.count("\n") == 1
    assert sorted(os.listdir()) == ["nameless.csv", "preds.csv"]


def test_outputs_are_checked_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setattr(cli, "read_predictions", lambda *_, **__: pytest.fail("read before the outputs were checked"))
    status, _, err = run(capsys, "score", "preds.csv", "--radius", "10km", "--json", "no/out.json")
    assert (status, "no/out.json" in err) == (2, True)


def test_a_map_without_matplotlib(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"geobias-torch\[maps\]"):
        maps.require_matplotlib()
    status, _, err = run(capsys, "score", "preds.csv", "--radius", "10km", "--map", "out.png")
    assert (status, err) == (2, 'error: Maps need matplotlib: pip install "geobias-torch[maps]".\n')
    assert os.listdir() == ["preds.csv"]


def test_compare(folder, capsys):
    write_table("other.csv", seed=1, shuffle=True, header="lat,lon,correct")
    status, out, err = run(capsys, "compare", "preds.csv", "other.csv", "--radius", "100km", "--json", "out.json")
    assert (status, err) == (0, "")
    assert "performance `correct`" in out
    assert "To first = difference to preds.csv." in out
    first, other = json.loads(Path("out.json").read_text())
    difference = other["scores"]["ds_sre"] - first["scores"]["ds_sre"]
    lines = out.splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("direction-sector SRE"))
    assert "preds.csv" in lines[row]
    assert "other.csv" in lines[row + 1]
    assert f"{difference:.4f}" in lines[row + 1].split()
    _, alone, _ = run(capsys, "score", "other.csv", "--radius", "100km")
    value = next(line for line in alone.splitlines() if line.startswith("direction-sector SRE")).split()[3]
    assert value in lines[row + 1].split()


def test_compare_leaves_out_what_one_table_lacks(folder, capsys):
    write_table("other.csv", seed=1)
    lines, others = (Path(name).read_text().splitlines() for name in ("preds.csv", "other.csv"))
    for name, text in (("preds_part.csv", lines), ("other_part.csv", others)):
        Path(name).write_text("\n".join(text[:5] + text[8:]))
    others[5], lines[6], others[7] = others[5][:-1], lines[6][:-1], others[7][:-1] + "NA"
    Path("preds.csv").write_text("\n".join(lines))
    Path("other.csv").write_text("\n".join([others[0], *reversed(others[1:])]))
    arguments = ("--radius", "100km", "--json", "out.json")
    status, out, err = run(capsys, "compare", "preds.csv", "other.csv", *arguments)
    assert (status, err) == (0, "")
    said = "197 scored; dropped: 0 without a location, {} without a performance, {} without a performance in another"
    assert said.format(1, 2) in out
    assert said.format(2, 1) in out
    content = json.loads(Path("out.json").read_text())
    status, part, _ = run(capsys, "compare", "preds_part.csv", "other_part.csv", *arguments)
    assert "197 rows read, 197 scored; dropped: 0 without a location, 0 without a performance\n" in part
    expected = [model["scores"] for model in json.loads(Path("out.json").read_text())]
    assert [model["scores"] for model in content] == [pytest.approx(scores) for scores in expected]


def test_percent_is_said_and_has_no_spad(folder, capsys):
    write_table("percent.csv", header="lat,lon,accuracy", transform=lambda hit: 87.5 * hit)
    status, out, err = run(capsys, "score", "percent.csv", "--radius", "100km")
    assert status == 0
    assert "SPAD was left out" in out
    assert err == (
        "warning: `accuracy` of percent.csv is expected within [0, 1], but goes up to 87.5: these look like percent: "
        "divide by 100.\n"
    )


def test_compare_wants_the_same_points(folder, capsys):
    lines = Path("preds.csv").read_text().splitlines()
    lines[7] = "10,20,1"
    Path("other.csv").write_text("\n".join(lines))
    status, out, err = run(capsys, "compare", "preds.csv", "other.csv", "--radius", "100km", "--json", "out.json")
    assert (status, out) == (2, "")
    assert err.startswith("error: Expected the same points in preds.csv and other.csv, but got (")
    assert "at data row 7 of preds.csv" in err
    status, _, err = run(capsys, "compare", "preds.csv", "--radius", "100km")
    assert (status, err) == (2, "error: Expected at least 2 prediction tables to compare, but got 1.\n")
    assert sorted(os.listdir()) == ["other.csv", "preds.csv"]


def test_a_bar_is_seen_on_a_terminal_only(folder, monkeypatch):
    for terminal in (True, False):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["score", "preds.csv", "--radius", "100km"]) == 0
        assert ("scoring preds.csv" in stream.getvalue()) == terminal


def test_the_bar_says_how_long_a_long_stage_will_take(folder, monkeypatch):
    monkeypatch.setattr(regions, "MAX_PAIRS", 8000)
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    assert main(["score", "preds.csv", "--radius", "100km"]) == 0
    assert re.search(r"scoring preds.csv, 00:0\d left", stream.getvalue())


INTERRUPTED = """
import os, signal, sys, threading
from pathlib import Path
from geobias_torch import cli
from geobias_torch.files import replacing

def write(content, path):
    with replacing(path) as temporary:
        temporary.write_text("half")
        print(len(list(Path().glob(".*.part"))), flush=True)
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        threading.Event().wait(60)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without one
cli.write_json = write
sys.exit(cli.main(["score", "preds.csv", "--radius", "100km", "--json", "out.json", "--local", "out.csv"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes are ended in another way there")
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupted_run_says_so_and_leaves_no_file(folder, name, status):
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    command = [sys.executable, "-c", INTERRUPTED, name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (status, "1\n")
    assert re.fullmatch(r"error: (interrupted|told to end)\n", done.stderr)
    assert os.listdir() == ["preds.csv"]


def test_signals_are_as_before_after_a_run(folder, capsys):
    before = signal.getsignal(signal.SIGTERM)
    run(capsys, "score", "preds.csv", "--radius", "100km")
    assert signal.getsignal(signal.SIGTERM) is before
    # no signals are looked for where there are none: not in the main thread
    thread = threading.Thread(target=lambda: statuses.append(main(["score", "preds.csv", "--radius", "100km"])))
    statuses = []
    thread.start()
    thread.join()
    assert statuses == [0]


def test_version_and_help(capsys):
    status, out, _ = run(capsys, "--version")
    assert (status, out.startswith("geobias-torch ")) == (0, True)
    status, out, _ = run(capsys, "score", "--help")
    assert status == 0
    for words in ("--radius", "318km", "hit@1, hit_at_1", "lat/lon", "--map"):
        assert words in out
    status, _, err = run(capsys)
    assert (status, err.count("\n")) == (2, 1)


def test_as_a_module(folder):
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    command = [sys.executable, "-m", "geobias_torch.cli", "score", "preds.csv"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: Expected `--radius`")


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="published tables are not here")
@pytest.mark.parametrize(
    ("name", "said", "performance"),
    [
        ("eurosat_gpt4o", "5,400 rows read, 5,400 scored", 0.4489),
        pytest.param(
            "inat2018_sphere2vec_predictions",
            "24,426 rows read, 24,343 scored; dropped: 83 without a location, 0 without a performance",
            0.7295,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_published_predictions(tmp_path, capsys, name, said, performance):
    outputs = ("--json", tmp_path / "out.json", "--local", tmp_path / "out.parquet", "--map", tmp_path / "out.png")
    status, out, err = run(capsys, "score", PUBLISHED / f"{name}.csv.gz", "--radius", "318km", *outputs)
    assert (status, err) == (0, "")
    assert said in out
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["scores"]["performance"] == pytest.approx(performance, abs=1e-4)
    assert parquet.read_table(tmp_path / "out.parquet").num_rows == content["rows"]
