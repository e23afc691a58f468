"""Draw a per-ROI table on a map with land outlines. Sees the table only; needs matplotlib, not the network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from geobias_torch.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAP_SUFFIXES = (".png", ".pdf", ".svg")
"""Endings of the files that a map is written to."""

_WIDTH = 7.2  # inches: the text width of a two-column paper
_LAND, _COAST, _SEA, _UNSCORED = "#f1efe9", "#a8a49a", "#ffffff", "#8c8c8c"


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install where matplotlib is missing.

    Example:
        >>> require_matplotlib()
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError('Maps need matplotlib: pip install "geobias-torch[maps]".') from error


def draw_map(
    table: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    score: str,
    label: str | None = None,
    title: str | None = None,
) -> None:
    """Draw one mark per ROI, coloured by its score, on a map of the part of the world where the ROIs are.

    Colours span the 2nd to the 98th percentile of the scores; scores beyond have the outermost colour. High scores are
    drawn last, so that they stay visible. ROIs that could not be scored are grey. A degree of longitude is drawn at its
    length in the middle of the map, and the map is cut where no data are, so that regions across the antimeridian stay
    in one piece.

    Args:
        table: per-ROI columns "lat", "lon", "members" and the score, each (M,) arrays or tensors, as
            `GeoBiasScores.local` returns them; rows with NaN for "lat" are skipped.
        path: a file ending in .png, .pdf or .svg; it is replaced as a whole or not at all.
        score: the column that gives the colours.
        label: what stands at the colour bar; by default the name of the column, in nats.
        title: what stands above; by default the label.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if the ending of the file is another, the column is missing or no row has a location.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "map.svg")
        >>> table = {"lat": [48.8, 50.1], "lon": [9.2, 8.7], "members": [12, 30], "dl_sre": [0.2, float("nan")]}
        >>> draw_map(table, path, score="dl_sre")
        >>> os.path.exists(path)
        True
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in MAP_SUFFIXES:
        raise ValueError(f"Expected a map file ending in {' or '.join(MAP_SUFFIXES)}, but got {os.fspath(path)}.")
    for name in ("lat", "lon", "members", score):
        if name not in table:
            raise ValueError(f"Expected a table with the column `{name}`, but got {', '.join(table)}.")
    columns = np.stack([np.asarray(table[name], dtype=np.float64) for name in ("lat", "lon", "members", score)])
    columns = columns[:, ~np.isnan(columns[:2]).any(axis=0)]
    if not columns.size:
        raise ValueError("Expected a table with a located ROI, but got none.")
    lat, lon, members, values = columns
    label = label or f"{score} (nats)"
    view = _view(lat, lon)
    west, east, south, north = view
    stretch = _stretch(south, north)

    map_width, margin, top, below = _WIDTH - 0.75, 0.55, 0.35, 1.0
    map_height = map_width * (north - south) * stretch / (east - west)
    height = top + map_height + below
    figure = Figure(figsize=(_WIDTH, height), dpi=300)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((margin / _WIDTH, below / height, map_width / _WIDTH, map_height / height))
    axes.set_title(title or label, fontsize=10, loc="left")
    _draw_land(axes, view)
    _draw_frame(axes, view, stretch)
    marks = _draw_marks(axes, west + np.mod(lon - west, 360), lat, values, area=map_width * map_height)
    if marks is not None:
        bar_axes = figure.add_axes((margin / _WIDTH, 0.42 / height, 0.5 * map_width / _WIDTH, 0.12 / height))
        bar = figure.colorbar(marks, cax=bar_axes, orientation="horizontal", extend="both", ticks=MaxNLocator(5))
        bar.set_label(f"{label}; colours span its 2nd to 98th percentile", fontsize=7.5, loc="left")
        bar.ax.tick_params(labelsize=7.5, width=0.5, length=2)
        bar.outline.set_linewidth(0.5)
    _draw_legend(axes, figure, values, members, height)
    with replacing(path) as temporary:
        # no date in the file: the same table gives the same bytes
        metadata = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}[suffix]
        figure.savefig(temporary, format=suffix[1:], metadata=metadata)


def _view(lat: np.ndarray, lon: np.ndarray) -> tuple[float, float, float, float]:
    """West, east, south, north of the part of the world to draw; east may exceed 180."""
    ordered = np.unique(np.mod(lon + 180, 360) - 180)
    gaps = np.diff(ordered, append=ordered[0] + 360)
    widest = int(gaps.argmax())
    west = float(ordered[(widest + 1) % len(ordered)])
    east = west + 360 - float(gaps[widest])
    south, north = float(lat.min()), float(lat.max())
    # a margin, nothing smaller than 4 degrees, and a shape between 2 : 1 and 5 : 4
    pad = max(0.04 * max(east - west, north - south), 2.0)
    west, east = west - pad, east + pad
    south, north = max(south - pad, -90.0), min(north + pad, 90.0)
    missing = 0.5 * (east - west) / _stretch(south, north) - (north - south)
    if missing > 0:
        south, north = max(south - missing / 2, -90.0), min(north + missing / 2, 90.0)
    missing = 1.25 * (north - south) * _stretch(south, north) - (east - west)
    if missing > 0:
        missing = min(missing, 360 - (east - west))
        west, east = west - missing / 2, east + missing / 2
    if east - west > 270:
        west, east = -180.0, 180.0  # the world as everybody knows it
    return west, east, south, north


def _stretch(south: float, north: float) -> float:
    """Degrees of longitude to a degree of latitude, by length on the ground, in the middle of the map."""
    return float(1 / np.cos(np.deg2rad(np.clip((south + north) / 2, -75, 75))))


@cache
def _land_rings() -> list[np.ndarray]:
    """Land outlines as (n, 2) arrays of longitude and latitude; what they are: data/README.md."""
    with resources.files("geobias_torch").joinpath("data/land_110m.npz").open("rb") as file, np.load(file) as land:
        points, sizes = land["lon_lat"] / 100, land["ring_sizes"]
    return np.split(points, np.cumsum(sizes)[:-1])


def _draw_land(axes: Axes, view: tuple[float, float, float, float]) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    coasts, shapes = [], []
    for turn in (-360, 0, 360):
        for ring in _land_rings():
            ring = ring + np.array([turn, 0])
            if ring[:, 0].max() < view[0] or ring[:, 0].min() > view[1]:
                continue
            coasts.append(ring)
            if ring[0, 0] != ring[-1, 0]:  # Antarctica: around the world, closed over the pole
                ring = np.concatenate([ring, [[ring[-1, 0], -90], [ring[0, 0], -90]], ring[:1]])
            shapes.append(Path(ring, closed=True))
    if shapes:
        # one path for all, so that a ring that runs the other way is a hole
        axes.add_patch(PathPatch(Path.make_compound_path(*shapes), facecolor=_LAND, edgecolor="none", zorder=0))
        axes.add_collection(LineCollection(coasts, colors=_COAST, linewidths=0.4, zorder=1))


def _draw_frame(axes: Axes, view: tuple[float, float, float, float], stretch: float) -> None:
    """Limits, aspect, and a light grid with degrees at it."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set(xlim=view[:2], ylim=view[2:], aspect=stretch, facecolor=_SEA)
    for axis, ends in ((axes.xaxis, "EW"), (axes.yaxis, "NS")):
        span = view[1] - view[0] if ends == "EW" else view[3] - view[2]
        steps = [1, 1.5, 3, 4.5, 6, 9, 10] if span > 100 else [1, 2, 5, 10]
        axis.set_major_locator(MaxNLocator(nbins=7, steps=steps))
        axis.set_major_formatter(FuncFormatter(lambda degrees, _, ends=ends: _degrees(degrees, ends)))
    axes.tick_params(labelsize=7.5, width=0.5, length=2, color=_COAST)
    axes.grid(color=_COAST, linewidth=0.25, alpha=0.5, zorder=1)
    for spine in axes.spines.values():
        spine.set(linewidth=0.5, color=_COAST)


def _degrees(degrees: float, ends: str) -> str:
    """60 -> 60°E, -60 -> 60°W, 190 -> 170°W."""
    degrees = (degrees + 180) % 360 - 180 if ends == "EW" else degrees
    side = "" if degrees in (0, -180) else ends[int(degrees < 0)]
    return f"{abs(degrees):g}°{side}"


def _draw_marks(axes: Axes, lon: np.ndarray, lat: np.ndarray, values: np.ndarray, area: float) -> Any:
    """Grey marks, and above them coloured ones; returned for the colour bar, None where nothing was scored."""
    scored = ~np.isnan(values)
    # the more marks, the smaller: about a fifth of the map would be covered if none overlapped
    size = float(np.clip(0.2 * area * 72**2 / len(values), 2.5, 30))
    style: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": len(values) > 2000}
    axes.scatter(lon[~scored], lat[~scored], color=_UNSCORED, alpha=0.7, zorder=2, **style)
    if not scored.any():
        return None
    lowest, highest = np.percentile(values[scored], [2, 98])
    order = np.flatnonzero(scored)[np.argsort(values[scored], kind="stable")]
    return axes.scatter(
        lon[order], lat[order], c=values[order], cmap="viridis_r", vmin=lowest, vmax=highest, zorder=3, **style
    )


def _draw_legend(axes: Axes, figure: Any, values: np.ndarray, members: np.ndarray, height: float) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    unscored = int(np.isnan(values).sum())
    entries: list[tuple[Any, str]] = [
        (colormaps["viridis_r"](0.6), f"scored: {len(values) - unscored:,} of {len(values):,} ROIs"),
        *([(to_rgba(_UNSCORED), f"could not be scored: {unscored:,}")] if unscored else []),
        ("none", f"members of the median ROI: {int(np.median(members)):,}"),
    ]
    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=4, markeredgewidth=0, color=color, label=text)
        for color, text in entries
    ]
    figure.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(1 - 0.15 / _WIDTH, 0.72 / height),
        fontsize=7.5,
        frameon=False,
        handletextpad=0.3,
        labelspacing=0.25,
    )
