"""Scoring prediction tables, and writing what came out: whole files or none."""

import csv
import json
import os

import numpy as np
import pytest
from pyarrow import parquet

from geobias_torch import regions
from geobias_torch.files import check_output, replacing
from geobias_torch.metrics import GeoBiasScores, excess
from geobias_torch.scoring import LOCAL_SCORES, score_tables, write_json, write_local
from geobias_torch.tables import read_predictions
from tests.tables import grid, text_of, writer


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


def test_scores_are_those_of_the_metric_and_keep_their_rows(write):
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
    assert excess(metric.compute()).items() <= scored.scores.items()
    np.testing.assert_array_equal(
        excess(metric.local())["ds_sre_excess"], metric.local()["ds_sre"] - metric.local()["ds_sre_floor"]
    )
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


def test_rows_without_a_performance_in_one_table_are_left_out_of_all(write):
    lat, lon, hit = grid()
    lines, others = (text_of(lat, lon, values).splitlines() for values in (hit, 1 - hit))
    keep = np.ones(120, dtype=bool)
    lines[7], others[12] = lines[7][:-1], others[12][:-1]
    keep[[6, 11]] = False
    tables = [read_predictions(write("\n".join(text), name)) for text, name in ((lines, "a.csv"), (others, "b.csv"))]
    together = score_tables(tables, radius=0.02)
    for scored, values in zip(together, (hit, 1 - hit), strict=True):
        [alone] = score_tables([read_predictions(write(text_of(lat[keep], lon[keep], values[keep])))], radius=0.02)
        assert scored.scores == pytest.approx(alone.scores, nan_ok=True)
        np.testing.assert_array_equal(scored.kept, keep)
        np.testing.assert_array_equal(np.isnan(scored.local["members"]), ~keep)
        content = scored.as_json()
        assert [content[key] for key in ("rows", "rows_without_performance", "rows_scored")] == [120, 1, 118]
    first = read_predictions(write("lat,lon,hit\n1,2,1\n3,4,0\n5,6,\n", "first.csv"))
    other = read_predictions(write("lat,lon,hit\n1,2,1\n3,4,\n5,6,1\n", "other.csv"))
    with pytest.raises(ValueError, match=r"2 points with a performance in every table, but got 1 in .*other.csv"):
        score_tables([first, other], radius=0.02)


def test_a_performance_rounded_beyond_one_has_spad(write):
    lat, lon, hit = grid()
    plain, rounded = (
        score_tables([read_predictions(write(text_of(lat, lon, values)))], radius=0.02)[0]
        for values in (hit, np.where(hit > 0, np.float32(1.0000001).item(), 0.0))
    )
    assert rounded.scores == plain.scores


def test_percent_is_said(write):
    lat, lon, hit = grid()
    table = read_predictions(write(text_of(lat, lon, 87.5 * hit, "lat,lon,acc")))
    with pytest.warns(UserWarning, match=r"`acc` of .*csv .* goes up to 87.5: these look like percent: divide by"):
        score_tables([table], radius=0.02)


def test_progress_within_a_stage(write, monkeypatch):
    monkeypatch.setattr(regions, "MAX_PAIRS", 2500)
    lat, lon, hit = grid()
    calls = []
    score_tables(
        [read_predictions(write(text_of(lat, lon, hit)))], radius=0.02, progress=lambda *call: calls.append(call)
    )
    assert {text for text, _ in calls} == {"scoring table.csv"}
    shares = [share for _, share in calls]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert len(shares) > 3
    assert shares == sorted(shares)


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


def test_every_local_score_has_its_columns(write):
    lat, lon, hit = grid()
    [scored] = score_tables([read_predictions(write(text_of(lat, lon, hit)))], radius=0.02)
    expected = {"lat", "lon", "members", "performance", *LOCAL_SCORES, *(f"{name}_floor" for name in LOCAL_SCORES)}
    assert set(scored.local) == expected
