"""Score a file of candidate chains against a file of references, batch by batch, into a third."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.fault_columns import FaultColumns
from judges.georc import read_georc
from judges.one_to_all import OneToAllJudge
from judges.places import country_at, neighbours
from judges.records import Record, join, read_records
from judges.results import EMPTY_REFERENCE, PointScore
from judges.settings import Settings
from judges.summary import Summary
from judges.unfinished import Unfinished, replacing

__all__ = ["Work", "score_files"]

_NEAR = 20  # countries; none has as many neighbours
_REASONS = 3  # lines that are quoted where none is left
_ROUND = 6  # decimals: what remains of a float is the same in JSON and in CSV


@dataclass
class Work:
    """How far a run has come, and what it found.

    Attributes:
        total: candidates to be scored.
        done: candidates scored, earlier runs included.
        resumed: how many of them an earlier run had scored.
        replaced: whether what an earlier run kept belonged to other inputs or settings and was thrown away.
        problems: lines that were left out.
        elsewhere: chains whose country is not that of their location, each with both.
        approximate: whether the scores rest on similarity.
        kept: where the finished part waits.
        summary: of all records.

    Example:
        >>> work = Work(total=40, done=12)
        >>> f"{work.done / work.total:.0%}"
        '30%'
    """

    total: int = 0
    done: int = 0
    resumed: int = 0
    replaced: bool = False
    problems: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    approximate: bool = False
    kept: Path | None = None
    summary: Summary = field(default_factory=Summary)


Joined = tuple[Record, tuple[Record, ...]]


def score_files(settings: Settings, progress: Callable[[Work], None] | None = None, work: Work | None = None) -> Work:
    """Score every candidate of a file and write a record for each, in the order of the file.

    Finished batches are kept beside the output and taken up again by a run of the same inputs and settings; what comes
    out is the same to the byte. The output appears whole, at the end.

    Args:
        settings: what to do.
        progress: is called before the first batch and after each.
        work: is filled on the way, so that it is known after an interruption too.

    Returns:
        What was done.

    Raises:
        ValueError: if an input cannot be used, naming file and line.
        OSError: if a model cannot be loaded, naming it, or the output not be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name, text in (("c", "- Red soil."), ("r", "- The soil is red.")):
        ...     _ = (folder / f"{name}.jsonl").write_text(json.dumps({"id": "a", "text": text, "lat": 0, "lon": 32}))
        >>> work = score_files(Settings(folder / "c.jsonl", folder / "r.jsonl", folder / "scores.jsonl"))
        >>> json.loads((folder / "scores.jsonl").read_text())["f1"]
        1.0
    """
    work = Work() if work is None else work
    joined = _read(settings, work)
    work.total = len(joined)
    judge = settings.make_judge()
    settings.load(judge)
    work.approximate = judge.approximate
    faults = FaultColumns(settings.contrast, settings.make_encoder())
    key = _key(settings, faults.names)
    with Unfinished(settings.out, key) as unfinished:
        work.kept, work.replaced = unfinished.path, unfinished.replaced
        starts = range(0, len(joined), settings.batch)
        work.done = work.resumed = min(work.total, unfinished.batches * settings.batch)
        if progress:
            progress(work)
        if work.done < work.total:
            faults.prepare()
        for start in starts[unfinished.batches :]:
            unfinished.add(_score(joined[start : start + settings.batch], judge, faults))
            work.done = min(work.total, start + settings.batch)
            if progress:
                progress(work)
        for record in unfinished.records():
            work.summary.add(record)
        with replacing(settings.out) as temporary:
            _write(temporary, settings.out.suffix.lower(), unfinished.records(), faults.names)
        unfinished.remove()
    return work


def _read(settings: Settings, work: Work) -> list[Joined]:
    """The candidates with their references."""
    skip = settings.skip_bad
    candidates, bad = _records(settings.candidates, skip)
    references, worse = _records(settings.references, skip, references=True)
    work.problems += bad + worse
    joined = join(candidates, references, problems=work.problems if skip else None)
    if not joined:
        reasons = " ".join(work.problems[:_REASONS])
        more = f" And {len(work.problems) - _REASONS:,} more." if len(work.problems) > _REASONS else ""
        raise ValueError(f"Expected chains to score, but got none from {settings.candidates}. {reasons}{more}".rstrip())
    everyone = {id(one): one for candidate, references in joined for one in (candidate, *references)}
    work.elsewhere = _elsewhere(everyone.values())
    return joined


def _elsewhere(records: Iterable[Record]) -> list[str]:
    """Chains whose country is neither where they lie nor near: at a border, the nearest town may be on the other side.

    What is returned says which country and location, and where they stand.
    """
    known: dict[tuple[str, float, float], str | None] = {}
    found = []
    for record in records:
        if record.country is None or record.lat is None or record.lon is None:
            continue
        place = record.country, record.lat, record.lon
        if place not in known:
            there = country_at(record.lat, record.lon)
            same = there in (None, record.country) or there in neighbours(record.country, _NEAR)
            known[place] = None if same else there
        if known[place]:
            found.append(f"{record.country} for {record.lat}, {record.lon} in {known[place]}, at {record.line}")
    return found


def _records(path: Path, skip: bool, references: bool = False) -> tuple[list[Record], list[str]]:
    """The chains of a file, or of the folders of GeoRC."""
    return (
        (read_georc(path)[references], [])
        if path.is_dir()
        else read_records(path, references=references, skip_bad=skip)
    )


def _key(settings: Settings, faults: Sequence[str]) -> str:
    """What the output depends on, as one string: contents of the inputs, and settings."""
    inputs = [settings.candidates, settings.references, *([settings.contrast] if settings.contrast else [])]
    contents = [
        f"{path.relative_to(given)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for given in inputs
        for path in (
            [given] if given.is_file() else sorted(p for p in given.rglob("*") if p.suffix in (".txt", ".json"))
        )
    ]
    given = {name: str(getattr(settings, name)) for name in ("judge", "scorer", "model", "read", "batch", "device")}
    given["skip_bad"] = str(settings.skip_bad)
    given |= {"columns": settings.out.suffix.lower(), "faults": ",".join(faults), "version": _version()}
    return hashlib.sha256(json.dumps([contents, given], sort_keys=True).encode()).hexdigest()


def _version() -> str:
    try:
        return metadata.version("geobias-torch")
    except metadata.PackageNotFoundError:
        return ""


def _score(batch: Sequence[Joined], judge: OneToAllJudge, faults: FaultColumns) -> list[dict[str, Any]]:
    """The records of a batch: they depend on nothing that was scored before."""
    _forget(judge)
    chains = judge.mark([candidate.chain for candidate, _ in batch])
    scores = judge.score(chains, [[reference.chain for reference in references] for _, references in batch])
    numbers = [getattr(scores, name).tolist() for name in ("precision", "recall", "f1", "reliability")]
    records = []
    for item, (candidate, references) in enumerate(batch):
        precision, recall, f1, reliability = (_rounded(column[item]) for column in numbers)
        country = candidate.country or next((one.country for one in references if one.country), None)
        conclusion = chains[item].conclusion
        guess = conclusion.country if conclusion else None
        places = [one for one in (candidate, *references) if one.lat is not None and one.lon is not None]
        points = scores.candidate_points[item]
        values, spans = faults.of(chains[item], references[0].chain, country)
        failures = Counter(
            point.reason
            for side in (points, *scores.reference_points[item])
            for point in side
            if point.reason is not None and point.reason != EMPTY_REFERENCE  # the status says that
        )
        records.append(
            {
                "id": candidate.id,
                "model": candidate.model,
                "kind": candidate.kind,
                "author": candidate.author,
                "lat": places[0].lat if places else None,
                "lon": places[0].lon if places else None,
                "country": country,
                "guessed_country": guess,
                "country_correct": None if country is None else guess == country,
                "precision": precision,
                "recall": recall,
                "f1": f1,
                "reliability": reliability,
                "status": scores.status[item],
                "failures": dict(sorted(failures.items())),
                **{name: _rounded(value) for name, value in values.items()},
                "fault_spans": spans,
                "points": [_point(point) for point in points],
            }
        )
    return records


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, _ROUND)


def _point(point: PointScore) -> dict[str, Any]:
    record = point.to_record()
    record["value"], record["reliability"] = _rounded(point.value), _rounded(point.reliability)
    if point.clauses:
        record["clauses"] = [[text, _rounded(value)] for text, value in point.clauses]
    return record


def _forget(judge: OneToAllJudge) -> None:
    """Empty the judge's memories: the last digits of a score depend on the company in which it was read."""
    for owner in (judge.scorer, judge.encoder):
        memo = getattr(owner, "_memo", None)
        if memo is not None:
            memo.clear()


def _write(path: Path, suffix: str, records: Iterator[dict[str, Any]], faults: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        if suffix == ".jsonl":
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
            return
        names = (
            *("id", "model", "kind", "author", "lat", "lon", "country", "guessed_country", "country_correct"),
            *("precision", "recall", "f1", "reliability", "status", "failures", *faults),
        )
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for record in records:
            correct = record["country_correct"]
            cells = record | {
                "country_correct": None if correct is None else int(correct),
                "failures": sum(record["failures"].values()),
            }
            writer.writerow(cells)
