"""Command line: ``geobias-judge score``. Parse, call, print; what is computed is elsewhere."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tabulate import tabulate
from tqdm import tqdm

from judges.fault_columns import CONTRASTED, FAULTS
from judges.score_files import Work, score_files
from judges.settings import JUDGES, READS, SCORERS, Settings
from judges.summary import Summary

_SHOWN = 20  # groups, and lines left out
_VIRTUES = ("narrowing", "alternatives")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments; by default those of the process.

    Returns:
        The exit status: 0; 2 after an error, 130 after Ctrl-C, 143 where the process was told to end (SIGTERM): one
        line on stderr then, and no output file.

    Example:
        >>> main(["score", "--candidates", "c.csv", "--references", "r.csv", "--out", "s.txt"])  # error: on stderr
        2
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as exit_:  # argparse has printed its line
        return int(exit_.code or 0)
    work = Work()
    try:
        with _ending_in_order(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: _say(message, "warning")
            _score(arguments, work)
    except KeyboardInterrupt:
        _say(f"interrupted{_kept(work)}")
        return 128 + signal.SIGINT
    except _Terminated:
        _say(f"told to end{_kept(work)}")
        return 128 + signal.SIGTERM
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError) as error:
        _say(f"{error}{_kept(work)}")
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


def _say(text: object, kind: str = "error") -> None:
    print(f"{kind}: {' '.join(str(text).split())}", file=sys.stderr)


def _kept(work: Work) -> str:
    """How to go on, where something was finished."""
    if not work.done or work.kept is None or not work.kept.exists():
        return ""
    return (
        f"; {work.done:,} of {work.total:,} chains are kept in {work.kept}: the same command again goes on from there"
    )


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="geobias-judge", description="Score the reasoning chains of geolocation models.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    score = commands.add_parser(
        "score",
        help="score candidate chains against references",
        description="One JSON object a line, or CSV (also .gz): id; text, or points and conclusion; and where known "
        "country, lat, lon, kind, model, author. Candidates join references on id. Or the folders of GeoRC.",
    )
    files = score.add_argument_group("files")
    files.add_argument(
        "--candidates", type=Path, required=True, metavar="FILE", help="chains to be scored, or a folder of GeoRC"
    )
    files.add_argument(
        "--references", type=Path, required=True, metavar="FILE", help="what they are held against; likewise"
    )
    files.add_argument("--contrast", type=Path, metavar="FILE", help="bank of chains of other locations, for faults")
    files.add_argument("--out", type=Path, required=True, metavar="FILE", help="scores (.jsonl with points, or .csv)")
    files.add_argument("--skip-bad", action="store_true", help="leave out lines of these two that cannot be used")
    judge = score.add_argument_group("judge")
    judge.add_argument("--judge", choices=JUDGES, default=JUDGES[0], help="(%(default)s)")
    judge.add_argument("--scorer", choices=SCORERS, default=SCORERS[0], help="(%(default)s)")
    judge.add_argument("--model", metavar="DIR", help="folder or name of the scorer's model (MiniLM, if installed)")
    judge.add_argument("--read", choices=READS, help="how causal-lm becomes a number (expectation)")
    judge.add_argument("--batch", type=int, default=64, metavar="N", help="chains scored at a time (%(default)s)")
    judge.add_argument("--device", help="such as cpu or cuda:0")
    return parser


@contextmanager
def _no_loading_bars() -> Iterator[None]:
    """Keep the bars that transformers draws while it loads weights out of what is printed."""
    try:
        from transformers.utils import logging
    except ImportError:  # whoever needs it says so
        yield
        return
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _score(arguments: argparse.Namespace, work: Work) -> None:
    settings = Settings(**vars(arguments))
    with _no_loading_bars(), tqdm(total=0, unit=" chains", disable=None, leave=False) as bar:

        def progress(work: Work) -> None:
            if not bar.total:
                bar.total, bar.initial = work.total, work.done
                _print_notes(work)
            bar.update(work.done - bar.n)

        score_files(settings, progress, work)
    _print(settings, work)


def _print_notes(work: Work) -> None:
    for problem in work.problems[:_SHOWN]:
        _say(f"left out: {problem}", "warning")
    if len(work.problems) > _SHOWN:
        _say(f"left out: {len(work.problems) - _SHOWN:,} more lines", "warning")
    if work.elsewhere:
        _say(f"{len(work.elsewhere):,} chains lie outside their country; the first: {work.elsewhere[0]}", "warning")
    if work.replaced:
        _say(f"{work.kept} belonged to other inputs or settings and is started over", "warning")


def _print(settings: Settings, work: Work) -> None:
    summary = work.summary
    model = f" ({settings.model})" if settings.model else ""
    locations = len({row["id"] for row in summary.rows})
    print(f"{settings.candidates} against {settings.references}: {settings.judge}, {settings.scorer}{model}")
    print(
        f"  {work.total:,} chains at {locations:,} locations"
        f"{f', {work.resumed:,} of them scored by an earlier run' if work.resumed else ''}"
        f"{f'; {len(work.problems):,} lines left out' if work.problems else ''}"
    )
    if work.approximate:
        print("  approximate: similarity, not entailment")
    print()
    _print_scores(summary)
    _print_shares(summary)
    _print_faults(settings, summary)
    print(
        "\nIntervals: 95 % of 2,000 draws of the locations. F1 is the mean over chains, not that of the mean P and R."
    )
    print("Unlike in the public script, guesses and headings are no points, neither of candidates nor of references.")


def _print_scores(summary: Summary) -> None:
    """Means with intervals, for each model and kind and for all."""
    groups = summary.groups()
    rows: list[tuple[Any, ...]] = []
    for group in [*groups[:_SHOWN], None] if len(groups) > 1 else [None]:
        name = "all" if group is None else " ".join(part for part in group if part) or "(no model)"
        scores = [summary.mean(column, group) for column in ("precision", "recall", "f1")]
        correct = summary.mean("country_correct", group)
        count = summary.count(group)
        rows.append((name, f"{count:,}", f"{count - scores[2].number:,}", *map(str, scores), str(correct)))
    headers = ("chains", "n", "not scored", "precision", "recall", "F1", "country right")
    print(tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", *["right"] * 6)))
    if len(groups) > _SHOWN:
        print(f"{len(groups) - _SHOWN:,} more models and kinds are in the output.")
    known = summary.mean("country_correct").number
    print(f"Country right: of {known:,} chains whose true country is known; a chain without a guess counts as wrong.")
    for status, text in (
        ("refused", "refused to answer and count as 0"),
        ("empty candidate", "have no points and count as 0"),
        ("empty reference", "have no reference with points and are not scored"),
    ):
        if summary.status[status]:
            print(f"{summary.status[status]:,} chains {text}.")
    for reason, count in summary.failures.most_common():
        print(f"{count:,} points could not be scored: {reason}.")


def _print_shares(summary: Summary) -> None:
    if summary.points:
        shares = [f"{name} {share:.1%}" for name, share in summary.categories().items()]
        print(f"\nKinds of evidence, share of {summary.points:,} points: {', '.join(shares) or 'none known'}.")


def _print_faults(settings: Settings, summary: Summary) -> None:
    rows = []
    for name in (*FAULTS, *(CONTRASTED if settings.contrast else ())):
        label = f"{name} (higher = better)" if name in _VIRTUES else name
        mean = summary.mean(name)
        share = f"{summary.share(name):.1%}" if mean.number else "-"
        rows.append((label, str(mean), share, f"{mean.number:,}"))
    print()
    headers = ("fault", "mean share", "chains with any", "n")
    print(tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", "right", "right", "right")))
    if not settings.contrast:
        print(f"Not looked for: {', '.join(CONTRASTED)} (needs --contrast).")
    elif settings.scorer != "embedding":
        print(f"Also with {settings.scorer}, {', '.join(CONTRASTED)} rest on the similarity of sentences.")


if __name__ == "__main__":
    sys.exit(main())
