"""The map: what is written, where it looks, what it shows."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from geobias_torch import maps
from geobias_torch.maps import draw_map


def table(lat, lon, score=None):
    count = len(lat)
    score = np.linspace(0, 1, count) if score is None else score
    return {"lat": np.asarray(lat, float), "lon": np.asarray(lon, float), "members": np.full(count, 9.0), "s": score}


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draw, and return the figure that was written."""
    figures = []
    savefig = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), savefig(self, *a, **k)))

    def draw(columns, name="map.png", **options):
        draw_map(columns, tmp_path / name, score="s", **options)
        return figures[-1]

    return draw


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".SVG", b"<?xml")])
def test_every_format_is_written_whole(tmp_path, suffix, magic):
    path = tmp_path / f"map{suffix}"
    draw_map(table([48, 49], [8, 9]), path, score="s")
    assert path.read_bytes().startswith(magic)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", [".png", ".pdf"])
def test_the_same_table_gives_the_same_bytes(tmp_path, suffix):
    for name in "ab":
        draw_map(table([48, 49], [8, 9]), tmp_path / f"{name}{suffix}", score="s")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_tensors_and_gaps(drawn):
    columns = table([48, np.nan, 50, 51], [8, 9, np.nan, 10], np.array([0.5, 1, 1, np.nan]))
    figure = drawn({name: torch.as_tensor(column) for name, column in columns.items()}, label="surprise (nats)")
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["scored: 1 of 2 ROIs", "could not be scored: 1", "members of the median ROI: 9"]
    assert figure.axes[0].get_title(loc="left") == "surprise (nats)"
    assert figure.axes[1].get_xlabel() == "surprise (nats); colours span its 2nd to 98th percentile"


def test_high_scores_lie_on_top_and_outliers_do_not_stretch_the_colours(drawn):
    score = np.r_[100.0, np.arange(100) / 100]
    figure = drawn(table(np.linspace(40, 50, 101), np.linspace(0, 20, 101), score), title="Title")
    marks = figure.axes[0].collections[-1]
    assert (np.diff(marks.get_array()) >= 0).all()
    assert marks.norm.vmax < 1
    assert figure.axes[0].get_title(loc="left") == "Title"


def test_no_score_at_all(drawn):
    figure = drawn(table([10, 11], [20, 21], np.full(2, np.nan)))
    assert len(figure.axes) == 1  # no colour bar
    assert figure.legends[0].get_texts()[0].get_text() == "scored: 0 of 2 ROIs"


def test_equal_scores_and_one_point(drawn):
    drawn(table([10, 11], [20, 21], np.full(2, 0.25)))
    drawn(table([-90], [180], np.full(1, 0.0)))


@pytest.mark.parametrize(
    ("lat", "lon", "inside"),
    [
        ([-18, -17], [178, -178], (176, 184)),  # Fiji: across the antimeridian in one piece
        ([36, 68], [-15, 33], (-30, 50)),
        ([50, -40, 20, 0, 9], [-150, -60, 20, 100, 160], (-180, 180)),
        ([85, 89], [0, 10], (-180, 180)),
    ],
)
def test_the_view_holds_the_points_without_gaps(drawn, lat, lon, inside):
    axes = drawn(table(lat, lon)).axes[0]
    west, east = axes.get_xlim()
    south, north = axes.get_ylim()
    assert inside[0] - 20 <= west < east <= inside[1] + 20
    assert east - west <= 360
    assert -90 <= south < min(lat) < max(lat) < north <= 90
    offsets = axes.collections[-1].get_offsets()
    assert (offsets[:, 0] >= west).all()
    assert (offsets[:, 0] <= east).all()
    box = axes.get_position()
    width, height = axes.figure.get_size_inches() * (box.width, box.height)
    assert 0.3 < height / width < 1


def test_degrees():
    assert [maps._degrees(x, "EW") for x in (-190, -60, 0, 60, 180, 190)] == [
        "170°E",
        "60°W",
        "0°",
        "60°E",
        "180°",
        "170°W",
    ]
    assert [maps._degrees(x, "NS") for x in (-30, 0, 2.5)] == ["30°S", "0°", "2.5°N"]


def test_land_outlines():
    rings = maps._land_rings()
    assert len(rings) == 126
    assert sum(len(ring) for ring in rings) == 5121
    open_rings = [ring for ring in rings if (ring[0] != ring[-1]).any()]
    assert len(open_rings) == 1  # Antarctica
    assert open_rings[0][:, 1].max() < -60
    assert max(np.abs(np.diff(ring[:, 0])).max() for ring in rings) < 20  # no jump at the antimeridian
    assert (Path(maps.__file__).parent / "data" / "README.md").read_text().count("public domain") == 1


def test_tables_and_files_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ending in .png or .pdf or .svg, but got .*map.gif"):
        draw_map(table([1], [2]), tmp_path / "map.gif", score="s")
    with pytest.raises(ValueError, match=r"with the column `t`, but got lat, lon, members, s"):
        draw_map(table([1], [2]), tmp_path / "map.png", score="t")
    with pytest.raises(ValueError, match="a located ROI"):
        draw_map(table([np.nan], [2]), tmp_path / "map.png", score="s")
    assert os.listdir(tmp_path) == []
