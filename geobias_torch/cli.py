"""Command line: ``geobias score`` and ``geobias compare``. Parse, call, print; the mathematics is elsewhere."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from tabulate import tabulate
from tqdm import tqdm

from geobias_torch.columns import LOCATION_NAMES, VALUE_NAMES
from geobias_torch.files import check_output
from geobias_torch.geometry import km
from geobias_torch.maps import MAP_SUFFIXES, draw_map, require_matplotlib
from geobias_torch.scoring import LOCAL_SCORES, LOCAL_SUFFIXES, ScoredTable, score_tables, write_json, write_local
from geobias_torch.tables import PredictionTable, parse_length, read_predictions

LABELS = {
    "sg_sre": "scale-grid SRE",
    "dl_sre": "distance-lag SRE",
    "ds_sre": "direction-sector SRE",
    "u_ssi": "unmarked SSI",
    "m_ssi": "marked SSI",
    "spad": "SPAD",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments; by default those of the process.

    Returns:
        The exit status: 0; 2 after an error, 130 after Ctrl-C, 143 where the process was told to end (SIGTERM): one
        line on stderr then, and no output file.

    Example:
        >>> main(["score", "predictions.csv"])  # on stderr: error: Expected `--radius`, ...
        2
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as exit_:  # argparse has printed its line
        return int(exit_.code or 0)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "None of the regions")  # said below the table, with the names of the options
        warnings.showwarning = lambda message, *_: print(f"warning: {_line(message)}", file=sys.stderr)
        try:
            with _ending_in_order():
                arguments.run(arguments)
        except KeyboardInterrupt:
            print("error: interrupted", file=sys.stderr)
            return 128 + signal.SIGINT
        except _Terminated:
            print("error: told to end", file=sys.stderr)
            return 128 + signal.SIGTERM
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (ValueError, OSError, ImportError) as error:
            print(f"error: {_line(error)}", file=sys.stderr)
            return 2
    return 0


class _Terminated(BaseException):
    """SIGTERM arrived."""


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that no half-written file stays behind."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return

    def end(*_: object) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _line(text: object) -> str:
    return " ".join(str(text).split())


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def _length(text: str) -> float:
    try:
        return parse_length(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    locations = ", ".join("/".join(pair) for pair in LOCATION_NAMES)
    shared = _Parser(add_help=False)
    columns = shared.add_argument_group(
        "columns", f"Found by name. Location: {locations}. Value: {', '.join(VALUE_NAMES)}."
    )
    columns.add_argument("--value", metavar="NAME", help="column of the performance, 1 = good")
    columns.add_argument("--lat", metavar="NAME", help="column of the latitude in degrees")
    columns.add_argument("--lon", metavar="NAME", help="column of the longitude in degrees")
    settings = shared.add_argument_group("settings", "Lengths are radians (0.05) or kilometres (318km).")
    settings.add_argument(
        "--radius", type=_length, metavar="LENGTH", help="radius of the region (ROI) around every point; required"
    )
    settings.add_argument(
        "--scale", type=_length, metavar="LENGTH", help="side of a square of the scale grid (radius/2)"
    )
    settings.add_argument(
        "--lag", type=_length, metavar="LENGTH", help="width of a ring of the distance lag (radius/5)"
    )
    settings.add_argument(
        "--sectors", type=int, default=8, metavar="N", help="number of direction sectors (%(default)s)"
    )
    settings.add_argument(
        "--min-patch-size", type=int, default=10, metavar="N", help="fewest points of a patch (%(default)s)"
    )
    settings.add_argument(
        "--min-roi-size", type=int, default=1, metavar="N", help="fewest points of a region (%(default)s)"
    )
    outputs = shared.add_argument_group("outputs")
    outputs.add_argument("--json", metavar="FILE", help="write the scores (.json)")

    parser = _Parser(prog="geobias", description="Geo-bias scores of a model's predictions.")
    parser.add_argument("--version", action="version", version=f"geobias-torch {_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    score = commands.add_parser("score", parents=[shared], help="score one prediction table")
    score.add_argument("table", help="CSV (comma, semicolon, tab, bar; also .gz) or Parquet, one prediction a row")
    score.add_argument("--local", metavar="FILE", help="write the scores of every region (.parquet, .csv)")
    score.add_argument("--map", metavar="FILE", help="draw the scores of every region (.png, .pdf, .svg)")
    score.add_argument(
        "--show", choices=LOCAL_SCORES, default="sg_sre", help="score of the map and of the worst regions (%(default)s)"
    )
    score.set_defaults(run=_score)

    compare = commands.add_parser(
        "compare", parents=[shared], help="score several models at the same points side by side"
    )
    compare.add_argument("table", nargs="+", help="prediction tables; the rows may be in any order")
    compare.set_defaults(run=_compare)
    return parser


def _version() -> str:
    try:
        return metadata.version("geobias-torch")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _check(arguments: argparse.Namespace, inputs: Sequence[str]) -> None:
    """Refuse what would fail after the long work."""
    if arguments.radius is None:
        raise ValueError("Expected `--radius`, such as --radius 318km or --radius 0.05 (radians), but got none.")
    outputs = []
    for name, suffixes in (("json", (".json",)), ("local", LOCAL_SUFFIXES), ("map", MAP_SUFFIXES)):
        if getattr(arguments, name, None) is not None:
            outputs.append(check_output(getattr(arguments, name), suffixes).resolve())
    if getattr(arguments, "map", None) is not None:
        require_matplotlib()
    for path in outputs:
        if path in [Path(file).resolve() for file in inputs]:
            raise ValueError(f"Expected an output file other than the input, but got {path}.")
    if len(set(outputs)) < len(outputs):
        raise ValueError(f"Expected one file for every output, but got {outputs[-1]} twice.")


@contextmanager
def _all_or_none(*outputs: str | None) -> Iterator[None]:
    """Leave none of the outputs where one of them cannot be written; older files not yet replaced stay."""

    def present() -> dict[Path, int]:
        return {Path(path): os.stat(path).st_ino for path in outputs if path and os.path.exists(path)}

    before = present()
    try:
        yield
    except BaseException:
        for path, inode in present().items():
            if before.get(path) != inode:  # a file of this run: writing replaces, never overwrites
                path.unlink()
        raise


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Yield a function that is called before and within every stage; a bar is seen on a terminal only."""
    start = time.monotonic()
    with tqdm(total=total, disable=None, leave=False, bar_format="{desc} |{bar:20}| {elapsed}") as bar:

        def stage(text: str, done: float = 0.0) -> None:
            nonlocal start
            if done == 0:
                start = time.monotonic()
                bar.update()
            elif done < 1:
                seconds = (time.monotonic() - start) * (1 - done) / done
                text = f"{text}, {tqdm.format_interval(seconds)} left"
            bar.set_description_str(text)

        yield stage


def _read(arguments: argparse.Namespace, path: str) -> PredictionTable:
    return read_predictions(path, value=arguments.value, lat=arguments.lat, lon=arguments.lon)


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("radius", "scale", "lag", "sectors", "min_patch_size", "min_roi_size")
    return {name: getattr(arguments, name) for name in names}


def _score(arguments: argparse.Namespace) -> None:
    _check(arguments, [arguments.table])
    with _progress(4) as stage:
        stage(f"reading {arguments.table}")
        table = _read(arguments, arguments.table)
        [scored] = score_tables([table], **_settings(arguments), progress=stage)
        stage("writing")
        label = LABELS[arguments.show]
        title = f"{label[0].upper()}{label[1:]} around every point of {table.path.name}"
        with _all_or_none(arguments.map, arguments.local, arguments.json):
            if arguments.map:
                draw_map(scored.local, arguments.map, score=arguments.show, label=f"{label} (nats)", title=title)
            if arguments.local:
                write_local(scored.local, arguments.local)
            if arguments.json:
                write_json(scored.as_json(), arguments.json)
    _print_table(scored)
    _print_settings(scored)
    scores = scored.scores
    print(
        f"\nmean performance {scores['performance']:.4f}, "
        f"in the worst tenth of the regions {_number(scores['performance_worst_decile'])}\n"
    )
    rows = [
        (
            _label(name),
            _number(scores[name]),
            *(_number(scores[f"{name}_{part}"]) for part in ("floor", "excess")),
            rois,
        )
        for name, rois in _rois(scored).items()
    ]
    print(tabulate(rows, headers=("score", "value", "noise floor", "excess", "ROIs counted"), **_STYLE))
    _print_notes([scored])
    _print_worst(scored, arguments.show)


_STYLE: dict[str, Any] = {"disable_numparse": True, "colalign": ("left", "right", "right", "right", "right")}


def _label(name: str) -> str:
    return f"{LABELS[name]} ({name})"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) < 100 else f"{value:.1f}"


def _rois(scored: ScoredTable) -> dict[str, str]:
    """How many ROIs each score counts, in words, for the scores that were computed."""
    total = int(scored.kept.sum())
    counted = {name: f"{int(scored.scores[f'{name}_rois']):,} of {total:,}" for name in LOCAL_SCORES}
    return counted | ({"spad": ""} if "spad" in scored.scores else {})


def _print_table(scored: ScoredTable) -> None:
    table, count = scored.table, int(scored.kept.sum())
    columns = table.columns
    print(f"{table.path}: latitude `{columns['lat']}`, longitude `{columns['lon']}`, performance `{columns['value']}`")
    if table.signed:
        print("  hits of -1 and +1 were turned into 0 and 1")
    nowhere = int((~table.located).sum())
    elsewhere = int(table.kept.sum()) - count
    print(
        f"  {len(table.lat):,} rows read, {count:,} scored; dropped: {nowhere:,} without a location, "
        f"{int((table.located & ~table.kept).sum()):,} without a performance"
        f"{f', {elsewhere:,} without a performance in another table' if elsewhere else ''}"
    )


def _print_settings(scored: ScoredTable) -> None:
    settings = scored.settings
    lengths = ", ".join(
        f"{name} {settings[name] / km(1):.4g} km ({settings[name]:.4g} rad)" for name in ("radius", "scale", "lag")
    )
    print(
        f"  {lengths}, {settings['sectors']} sectors, patches of at least {settings['min_patch_size']} points, "
        f"regions of at least {settings['min_roi_size']}"
    )


def _print_notes(results: Sequence[ScoredTable]) -> None:
    scored = results[0]
    print("Higher = more biased. Excess = value - noise floor (the value without any geo-bias). - = not scorable.")
    if any(one.scores[f"{name}_rois"] == 0 for one in results for name in ("sg_sre", "dl_sre", "ds_sre")):
        print(
            f"An SRE score needs regions with two patches of at least {scored.settings['min_patch_size']} points whose "
            "performance differs: a larger --radius or a smaller --min-patch-size may have some."
        )
    print(
        f"SSI looks at the {scored.settings['ssi_max_members']} nearest members of a region; unmarked SSI at where "
        "they lie, whatever the performance."
    )
    if "spad" in scored.scores:
        errors = ", ".join(_number(scored.scores["spad_se"]) for scored in results)
        print(f"SPAD is in percent; its standard error is {errors}.")
    else:
        print("SPAD was left out: it needs a performance within [0, 1].")


def _print_worst(scored: ScoredTable, score: str) -> None:
    rows = scored.worst(score)
    local = scored.local
    print(f"\nWorst regions by {_label(score)}: largest excess, none centred within another")
    print(
        tabulate(
            [
                (
                    f"{local['lat'][row]:.4f}, {local['lon'][row]:.4f}",
                    f"{int(local['members'][row]):,}",
                    *(_number(local[name][row]) for name in ("performance", score, f"{score}_floor")),
                )
                for row in rows
            ],
            headers=("centre (lat, lon)", "members", "mean performance", "score", "noise floor"),
            **_STYLE,
        )
        if rows
        else "none could be scored"
    )


def _compare(arguments: argparse.Namespace) -> None:
    paths = arguments.table
    if len(paths) < 2:
        raise ValueError(f"Expected at least 2 prediction tables to compare, but got {len(paths)}.")
    _check(arguments, paths)
    with _progress(2 * len(paths)) as stage:
        tables = []
        for path in paths:
            stage(f"reading {path}")
            tables.append(_read(arguments, path))
        results = score_tables(tables, **_settings(arguments), progress=stage)
        if arguments.json:
            write_json([scored.as_json() for scored in results], arguments.json)
    for scored in results:
        _print_table(scored)
    _print_settings(results[0])
    names = [Path(path).name for path in paths]
    names = names if len(set(names)) == len(names) else list(paths)
    keys = {"performance": "mean performance", "performance_worst_decile": "worst tenth of the regions"}
    rows = []
    for key in (*keys, *_rois(results[0])):
        for name, scored in zip(names, results, strict=True):
            label = (keys.get(key) or _label(key)) if scored is results[0] else ""
            cells = []
            for column in (key, f"{key}_floor", f"{key}_excess"):
                value, first = scored.scores.get(column), results[0].scores.get(column)
                cells.append("" if value is None else _number(value))
                cells.append(
                    "" if value is None or first is None or scored is results[0] else f"{_number(value - first)}"
                )
            rois = _rois(scored).get(key, "")
            rows.append((label, name, *cells[:3], *cells[4:], rois))
    headers = ("score", "model", "value", "to first", "noise floor", "excess", "to first", "ROIs counted")
    print()
    print(tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", "left", *["right"] * 6)))
    print(f"To first = difference to {names[0]}.")
    _print_notes(results)


if __name__ == "__main__":
    sys.exit(main())
