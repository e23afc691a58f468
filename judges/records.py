"""Files of chains: JSON lines, CSV and the folders of GeoRC; and which references a candidate is held against."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from judges.chains import ReasoningChain, parse_chain
from judges.places import country_at, country_code


@dataclass(frozen=True)
class Record:
    """One chain of a file.

    Args:
        id: the location; references join candidates on it.
        chain: what was written about it.
        country: ISO alpha-2 code of the true country, from the field `country` or else from the location.
        lat: latitude in degrees.
        lon: longitude in degrees.
        image: path of the image, as the file names it.
        kind: such as "expert", "paraphrase" or "random".
        model: which model wrote the chain.
        author: which person wrote it.
        line: where it stands, as `chains.jsonl, line 3`.

    Example:
        >>> Record("tokyo/1", parse_chain("- Blue roofs"), country="JP").country
        'JP'
    """

    id: str
    chain: ReasoningChain
    country: str | None = None
    lat: float | None = None
    lon: float | None = None
    image: str | None = None
    kind: str | None = None
    model: str | None = None
    author: str | None = None
    line: str = ""


def read_records(
    path: str | os.PathLike[str], *, references: bool = False, skip_bad: bool = False
) -> tuple[list[Record], list[str]]:
    r"""Read chains from a file with one JSON object per line, or from CSV with a header; also as .gz.

    The fields are `id` and `text`, or `id`, `points` and `conclusion`; and where known `country` (name, code or
    demonym), `lat` and `lon` in degrees (both or none), `image`, `kind`, `model`, `author`. `points` is a list of
    texts; in a cell of CSV also one per line. Other fields are left alone.

    Args:
        path: ending in .jsonl, .ndjson, .json, .csv or one of these and .gz.
        references: whether these are references: any number may share an id, but none may be without points.
        skip_bad: leave out lines that cannot be used and say why, rather than to stop at the first.

    Returns:
        The records and, with `skip_bad`, one sentence for every line left out.

    Raises:
        ValueError: if the file cannot be read, or a line cannot be used: no JSON, a field twice, no id or no text,
            `points` or a `conclusion` that do not stand in the `text` beside them, half a surrogate pair, a location
            outside the globe, a country that is none, two candidates of one id, model, author and kind, a reference
            without points.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "chains.jsonl"
        >>> _ = path.write_text('{"id": "a", "text": "- Red soil\\n\\nAnswer: Uganda", "lat": 0.3, "lon": 32.6}\n')
        >>> records, problems = read_records(path)
        >>> records[0].country, records[0].chain.conclusion.country, problems
        ('UG', 'UG', [])
    """
    path = Path(path)
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith((".jsonl", ".ndjson", ".json", ".csv")):
        raise ValueError(f"Expected chains in a file ending in .jsonl or .csv (also .gz), but got {path}.")
    if not path.is_file():
        raise ValueError(f"Expected chains in a file, but got no file {path}.")
    keep = _Keep(references, skip_bad)
    with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
        try:
            for number, row in (_csv if name.endswith(".csv") else _jsonl)(file, path):
                keep.add(f"{path}, line {number}", row)
        except (OSError, EOFError, zlib.error, csv.Error) as error:
            raise ValueError(f"Expected readable chains, but got this from {path}: {error}") from error
    return keep.records, keep.problems


class _Keep:
    """Collects records, and what is wrong with those that are none."""

    def __init__(self, references: bool, skip_bad: bool) -> None:
        self.references = references
        self.skip_bad = skip_bad
        self.records: list[Record] = []
        self.problems: list[str] = []
        self.lines: dict[tuple[str | None, ...], str] = {}

    def add(self, line: str, row: Callable[[], Any]) -> None:
        try:
            record = _record(row(), line)
            name = (record.id, record.model, record.author, record.kind)
            if self.references and not record.chain.points:
                raise ValueError(f"Expected points in every reference, but got none for {record.id!r}")
            if not self.references and name in self.lines:
                raise ValueError(
                    f"Expected one chain for each `id` and `model`, but got {record.id!r}"
                    f"{f' of {record.model!r}' if record.model else ''} again (first at {self.lines[name]})"
                )
            self.lines[name] = line
            self.records.append(record)
        except ValueError as error:
            problem = f"{error}, at {line}."
            if not self.skip_bad:
                raise ValueError(problem) from None
            self.problems.append(problem)


def _jsonl(file: Iterable[bytes], path: Path) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Number and reader of every line that is not empty."""
    for number, line in enumerate(file, start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield number, partial(_parse, line)


def _parse(line: bytes) -> Any:
    twice: list[str] = []

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                twice.append(name)
            found[name] = value
        return found

    try:
        row = json.loads(line.decode("utf-8"), object_pairs_hook=fields)
    except UnicodeDecodeError:
        raise ValueError("Expected text in UTF-8, but got other bytes") from None
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number or list that is too long"
        if line.rstrip().endswith((b"{", b"[", b",")):
            reason = f"{reason} (one that goes over several lines?)"
        raise ValueError(f"Expected one JSON object per line, but got {reason}") from None
    if twice:
        raise ValueError(f"Expected every field once, but got {twice[0]!r:.60} twice")
    return row


def _csv(file: Iterable[bytes], path: Path) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Number of the last line and reader of every row."""
    csv.field_size_limit(sys.maxsize)

    def lines() -> Iterator[str]:
        pieces = (piece for line in file for piece in line.splitlines(keepends=True))  # some end in CR alone
        for number, line in enumerate(pieces, start=1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"Expected text in UTF-8, but got other bytes, at {path}, line {number}.") from None

    reader = csv.reader(lines(), strict=True)
    rows = _rows(reader, path)
    header = [name.strip() for name in next(rows, [])]
    if "id" not in header:
        there = ", ".join(f"`{name}`" for name in header[:12]) or "nothing"
        raise ValueError(f"Expected a column `id` in the header, but got {there} in {path}.")
    twice = [name for name, count in Counter(header).items() if name and count > 1]
    if twice:
        raise ValueError(f"Expected every column once in the header, but got `{twice[0]}` twice in {path}.")

    def row(cells: list[str]) -> dict[str, Any]:
        if len(cells) != len(header):
            raise ValueError(f"Expected {len(header)} fields as in the header, but got {len(cells)}")
        # An empty cell says nothing, but an empty text is there to be complained of.
        known = {name: cell for name, cell in zip(header, cells, strict=True) if cell.strip() or name == "text"}
        points = known.get("points")
        if points is not None:
            try:
                parsed = json.loads(points) if points.lstrip().startswith("[") else points.splitlines()
            except (ValueError, RecursionError):
                raise ValueError(
                    f"Expected `points` to be a JSON list of texts, or texts one per line, but got {points!r:.60}"
                ) from None
            return {**known, "points": parsed}
        return known

    for cells in rows:
        if cells:
            yield reader.line_num, partial(row, cells)


def _rows(reader: Any, path: Path) -> Iterator[list[str]]:
    """The rows of a CSV reader. After a stray quote nothing can be told apart, so one ends the reading."""
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            reason = "one that is never closed" if "end of data" in str(error) else str(error)
            raise ValueError(
                f"Expected closed quotes, with those inside a cell doubled, but got {reason}, in the row that starts "
                f"at {path}, line {start}."
            ) from None
        if cells is None:
            return
        yield cells


def _record(row: Any, line: str) -> Record:
    """The record that a row stands for."""
    if not isinstance(row, dict):
        raise ValueError(f"Expected one JSON object per line, but got {type(row).__name__}")
    texts: dict[str, Any] = {}
    for name in ("id", "image", "kind", "model", "author", "country", "text", "conclusion"):
        value = row.get(name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"Expected `{name}` to be a text, but got {value!r:.60}")
        texts[name] = _encodable(name, value)
    if not (texts["id"] or "").strip():
        raise ValueError("Expected an `id`, but got none")
    lat, lon = read_location(row)
    country = texts.pop("country")
    code = country_code(country) if country else None
    if country and code is None:
        raise ValueError(f"Expected `country` to be a country, but got {country!r:.60}")
    if code is None and lat is not None and lon is not None:
        code = country_at(lat, lon)
    chain = _chain(row, texts.pop("text"), texts.pop("conclusion"))
    return Record(chain=chain, country=code, lat=lat, lon=lon, line=line, **texts)


def _encodable(name: str, text: str | None) -> str | None:
    """The text, unless it holds half a surrogate pair: JSON can escape one, but no file and no tokenizer takes it."""
    half = re.search("[\ud800-\udfff]", text or "")
    if half:
        raise ValueError(f"Expected `{name}` in whole characters, but got half a surrogate pair ({half[0]!r})")
    return text


def read_location(row: Mapping[str, Any], lat: str = "lat", lon: str = "lon") -> tuple[float | None, float | None]:
    """The location that a row names, in degrees.

    Args:
        row: its fields; numbers, or texts that are some.
        lat: field of the latitude.
        lon: field of the longitude.

    Returns:
        Latitude and longitude, or two times None where the row names neither.

    Raises:
        ValueError: if one is no number or outside the globe, or only one is there.

    Example:
        >>> read_location({"lat": "0.3", "lon": 32.6}), read_location({})
        ((0.3, 32.6), (None, None))
    """
    north, east = _degrees(row, lat, 90.0), _degrees(row, lon, 360.0)
    if (north is None) != (east is None):
        there, missing = (lon, lat) if north is None else (lat, lon)
        raise ValueError(f"Expected `{lat}` and `{lon}` together, but got `{there}` without `{missing}`")
    return north, east


def _degrees(row: Mapping[str, Any], name: str, limit: float) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    try:
        # float() takes 1_0 for 10
        degrees = math.nan if isinstance(value, bool) or "_" in str(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        degrees = math.nan
    if not abs(degrees) <= limit:
        raise ValueError(f"Expected `{name}` in degrees within [-{limit:g}, {limit:g}], but got {value!r:.60}")
    return degrees


def _chain(row: dict[str, Any], text: str | None, conclusion: str | None) -> ReasoningChain:
    points = row.get("points")
    if points is not None and not (isinstance(points, list) and all(isinstance(point, str) for point in points)):
        raise ValueError(f"Expected `points` to be a list of texts, but got {points!r:.60}")
    for point in points or ():
        _encodable("points", point)
    other = disagreeing(text, points, conclusion)
    if other:
        raise ValueError(f"Expected a `text`, or `points` and a `conclusion`, but got `text` and another `{other}`")
    if points is not None:
        return ReasoningChain.of(points, conclusion)
    if text is None:
        raise ValueError("Expected a `text`, or `points` and a `conclusion`, but got neither")
    return parse_chain(text) if text.strip() else ReasoningChain.of([], conclusion)


def disagreeing(text: str | None, points: Sequence[str] | None, conclusion: str | None) -> str | None:
    """Which field holds what the text beside it does not say, so that one of the two would be lost.

    Args:
        text: of a chain; None or blank for none.
        points: of the same; None for none.
        conclusion: likewise.

    Returns:
        "points", "conclusion" or None.

    Example:
        >>> disagreeing("- Red soil. It is Kenya.", ["Red soil."], "Kenya"), disagreeing("- Red soil.", ["Tea."], None)
        (None, 'points')
    """
    if not text or not text.strip():
        return None
    if points is not None and not (points and all(point.strip() in text for point in points)):
        return "points"
    return "conclusion" if conclusion and conclusion.strip() not in text else None


def join(
    candidates: Iterable[Record], references: Iterable[Record], *, problems: list[str] | None = None
) -> list[tuple[Record, tuple[Record, ...]]]:
    """Give every candidate the references of its id.

    Args:
        candidates: in any order, which is kept.
        references: one or more for every id of the candidates.
        problems: takes what would be raised, and the candidate is left out.

    Raises:
        ValueError: if a candidate has no reference.

    Example:
        >>> one, two = Record("a", parse_chain("- Red soil")), Record("a", parse_chain("- Tea fields"))
        >>> [(candidate.id, len(matching)) for candidate, matching in join([one], [one, two])]
        [('a', 2)]
    """
    by_id: dict[str, list[Record]] = {}
    for reference in references:
        by_id.setdefault(reference.id, []).append(reference)
    joined = []
    for candidate in candidates:
        if candidate.id in by_id:
            joined.append((candidate, tuple(by_id[candidate.id])))
            continue
        problem = f"Expected a reference for every candidate, but got none for {candidate.id!r}, at {candidate.line}."
        if problems is None:
            raise ValueError(problem)
        problems.append(problem)
    return joined
