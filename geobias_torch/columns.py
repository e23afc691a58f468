"""Find the location and the performance among the columns of a file, and read them as numbers."""

from __future__ import annotations

import csv
import io
import itertools
import os
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

LOCATION_NAMES = (
    ("lat", "lon"),
    ("lat", "lng"),
    ("lat", "long"),
    ("latitude", "longitude"),
    ("gt_latitude", "gt_longitude"),
    ("gt_lat", "gt_lon"),
    ("decimallatitude", "decimallongitude"),
    ("y", "x"),
)
"""Names of a latitude and its longitude, in order of preference; upper and lower case are the same."""

VALUE_NAMES = (
    *("hit@1", "hit_at_1", "hit1", "hit", "correct", "is_correct", "accuracy", "acc"),
    *("performance", "score", "f1", "true_class_prob"),
)
"""Names of a performance, in order of preference."""

MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")
"""Texts that stand for "no value", in any case."""

_PARQUET = (".parquet", ".pq")
_BLOCK = 8 << 20  # bytes of text handled at a time: what bounds the memory


def place(path: str | os.PathLike[str], row: int) -> str:
    """Say where a row of a file is, as its owner counts.

    Example:
        >>> place("predictions.csv", 0)
        'at data row 1 of predictions.csv (data row 1 is the first after the header)'
    """
    first = "the first" if Path(path).suffix.lower() in _PARQUET else "the first after the header"
    return f"at data row {row + 1} of {os.fspath(path)} (data row 1 is {first})"


def read_columns(
    path: str | os.PathLike[str], *, value: str | None = None, lat: str | None = None, lon: str | None = None
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    r"""Read latitude, longitude and performance from CSV (comma, semicolon, tab, bar; also .gz) or Parquet.

    The content tells the format. The file is read in blocks, and only the three columns are kept. Empty lines are not
    counted as rows.

    Args:
        path: the file.
        value: column of the performance; by default the first of `VALUE_NAMES` that is there.
        lat: column of the latitude; by default by `LOCATION_NAMES`.
        lon: column of the longitude; by default by `LOCATION_NAMES`.

    Returns:
        The names taken and the values, (N,) float64 with NaN where nothing stands, both by "lat", "lon", "value".

    Raises:
        ValueError: if the file cannot be read as such a table, a column is missing, there twice or has no numbers, or
            a value is infinite.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "predictions.csv"
        >>> _ = path.write_text("Lon;Lat;correct\n9.2;48.8;True\n;48.9;False\n")
        >>> names, values = read_columns(path)
        >>> names
        {'lat': 'Lat', 'lon': 'Lon', 'value': 'correct'}
        >>> values["lon"], values["value"]
        (array([9.2, nan]), array([1., 0.]))
    """
    return read(path, {"lat": lat, "lon": lon, "value": value})


def read(
    path: str | os.PathLike[str],
    asked: Mapping[str, str | None],
    *,
    what: str = "performance",
    text: Collection[str] = (),
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The same for any columns.

    Args:
        path: the file.
        asked: column by role: "lat", "lon", "value", or another that names its column.
        what: how errors call the value.
        text: roles that come as text without spaces around it, "" where nothing stands, and not as numbers.
    """
    import pyarrow as pa

    path = Path(path)
    if path.is_dir():
        raise ValueError(f"Expected a prediction table, but got the folder {path}.")
    if not path.exists():
        raise ValueError(f"Expected a prediction table, but got no file {path}.")
    if not path.is_file():
        raise ValueError(f"Expected a regular file, but got {path}, which cannot be read twice.")
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic:
        raise ValueError(f"Expected a prediction table, but got the empty file {path}.")
    if magic != b"PAR1" and path.suffix.lower() in _PARQUET:
        raise ValueError(f"Expected a Parquet file, but got {path}, which is none (or a damaged one).")
    reader = _parquet if magic == b"PAR1" else _csv
    try:
        names, blocks = reader(path, _Asked(asked, what), magic[:2] == b"\x1f\x8b")
        parts: dict[str, list[np.ndarray]] = {role: [] for role in names}
        row = 0
        for block in blocks:
            for (role, name), column in zip(names.items(), block, strict=True):
                parts[role].append(_texts(column) if role in text else _numbers(column, name, row, path))
            row += len(block[0])
    except (pa.ArrowException, OSError, csv.Error) as error:
        reason = str(error).splitlines()[0]
        if "straddling object" in reason:
            reason = "a quote that is never closed, or a row longer than 8 MB"
        raise ValueError(f"Expected a readable table, but got this from {path}: {reason}") from error
    if row == 0:
        raise ValueError(f"Expected rows under the header, but got none in {path}.")
    return names, {role: np.concatenate(arrays) for role, arrays in parts.items()}


class _Asked(NamedTuple):
    """Columns by role, and how errors call the value."""

    columns: Mapping[str, str | None]
    what: str


def _csv(path: Path, asked: _Asked, gzipped: bool) -> tuple[dict[str, str], Iterator[list[pa.Array]]]:
    """The names taken, and their columns as text, block by block."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    compression = "gzip" if gzipped else None
    with pa.input_stream(str(path), compression=compression) as stream:
        head = stream.read(1 << 20)
    if b"\0" in head:
        raise ValueError(f"Expected text (UTF-8) or Parquet, but got {path}, which is another kind of file.")
    # Names of columns that are not taken may be in any encoding.
    lines = io.StringIO(head.decode("utf-8-sig", errors="replace"), newline="")
    header: list[str] = []
    for candidate in ",;\t|":
        lines.seek(0)
        # empty lines above the header count for Arrow, empty lines below do not
        for above, fields in enumerate(csv.reader(lines, delimiter=candidate, skipinitialspace=True)):
            if len(fields) > len(header):
                header, delimiter, rest, skip = fields, candidate, lines.tell(), above + 1
            if fields:
                break
    if not header:
        raise ValueError(f"Expected a prediction table, but got only empty lines in {path}.")
    lines.seek(rest)
    if len(head) < 1 << 20 and not lines.read().strip():
        raise ValueError(f"Expected rows under the header, but got none in {path}.")
    names, taken = _find(header, asked, path)
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "error"

    # Columns are told apart by position: names may be there twice. One thread: row numbers are known only then.
    ids = [str(position) for position in range(len(header))]
    options = (
        arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=ids, skip_rows_after_names=skip),
        arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=remember),
        arrow_csv.ConvertOptions(include_columns=[ids[i] for i in taken], column_types=dict.fromkeys(ids, pa.string())),
    )

    def blocks() -> Iterator[list[pa.Array]]:
        try:
            with pa.input_stream(str(path), compression=compression) as stream:
                rows = 0
                for batch in arrow_csv.open_csv(stream, *options):
                    rows += batch.num_rows
                    yield batch.columns
        except pa.ArrowInvalid as error:
            if not ragged:
                raise
            row = ragged[0]
            raise ValueError(
                f"Expected {row.expected_columns} fields as in the header, but got {row.actual_columns} "
                f"{place(path, row.number - 1 - skip)}."
            ) from error
        if _open_quote(path, compression, rows + above):
            raise ValueError(
                f"Expected every quote to be closed, but one is not, at the latest {place(path, rows - 1)}, and "
                "takes the rest of the file with it."
            )

    return names, blocks()


def _open_quote(path: Path, compression: str | None, lines: int) -> bool:
    """Whether a quote is never closed: quotes do not come in pairs, and the text has more than so many full lines.

    A lone quote inside a field (5" for inches) is not one: it takes no lines with it.
    """
    import pyarrow as pa

    quotes = ends = 0
    with pa.input_stream(str(path), compression=compression) as stream:
        while block := stream.read(_BLOCK):
            quotes += block.count(b'"')
            ends += max(block.count(b"\n"), block.count(b"\r"))
    return quotes % 2 == 1 and ends > lines + 2


def _parquet(path: Path, asked: _Asked, _: bool) -> tuple[dict[str, str], Iterator[list[pa.Array]]]:
    """The names taken, and their columns in the types of the file, block by block."""
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    header = file.schema_arrow.names
    names, taken = _find(header, asked, path)
    wanted = [header[position] for position in taken]
    return names, ([batch[name] for name in wanted] for batch in file.iter_batches(columns=wanted))


def _find(header: list[str], asked: _Asked, path: Path) -> tuple[dict[str, str], list[int]]:
    """Names and positions of the columns asked for."""
    names = [name.strip() for name in header]
    lower = [name.lower() for name in names]
    there = ", ".join(f"`{name}`" for name in names[:12]) + (", ..." if len(names) > 12 else "")
    known: dict[str, list[str]] = {
        "lat": list(dict.fromkeys(pair[0] for pair in LOCATION_NAMES)),
        "lon": list(dict.fromkeys(pair[1] for pair in LOCATION_NAMES)),
        "value": list(VALUE_NAMES),
    }
    for pair in reversed(LOCATION_NAMES):  # a pair that belongs together goes before its parts
        if set(pair) <= set(lower):
            known["lat"].insert(0, pair[0])
            known["lon"].insert(0, pair[1])
    words = {role: role for role in asked.columns} | {"lat": "latitude", "lon": "longitude", "value": asked.what}
    hint = ""
    if all(map(_is_number, names)):
        hint = " (the first line must name the columns)"
    elif names[0].startswith("#"):
        hint = " (the first line must name the columns: take out comments above it, and a `#` before it)"
    elif len(list(filter(None, names))) == 1:
        hint = " (columns are parted by comma, semicolon, tab or bar)"
    taken = {}
    for role, name in asked.columns.items():
        if name is None:
            found = next((candidate for candidate in known[role] if candidate in lower), None)
            if found is None:
                usual = ", ".join(dict.fromkeys(known[role]))
                raise ValueError(
                    f"Expected a column with the {words[role]} (one of {usual}, or name it with `--{role}`, in Python "
                    f"`{role}=`), but got {there} in {path}{hint}."
                )
            matches = [position for position, other in enumerate(lower) if other == found]
        else:
            matches = [position for position, other in enumerate(names) if other == name.strip()]
            matches = matches or [i for i, other in enumerate(lower) if other == name.strip().lower()]
            if not matches:
                raise ValueError(
                    f"Expected the column `{name}` for the {words[role]}, but got {there} in {path}{hint}."
                )
        if len(matches) > 1:
            at = " and ".join(f"`{names[i]}` (column {i + 1})" for i in matches)
            raise ValueError(f"Expected one column for the {words[role]}, but got {at} in {path}.")
        taken[role] = matches[0]
    for one, other in itertools.combinations(taken, 2):
        if taken[one] == taken[other]:
            twice = names[taken[one]]
            raise ValueError(
                f"Expected different columns for {words[one]} and {words[other]}, but got `{twice}` in {path}."
            )
    return {role: names[i] for role, i in taken.items()}, list(taken.values())


def _numbers(column: pa.Array, name: str, first_row: int, path: Path) -> np.ndarray:
    """A block of a column as float64, NaN where nothing stands."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if str(column.type) == "string_view":  # no kernel for text takes it
        column = column.cast(pa.string())
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _parse(column, name, first_row, path)
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not any(
        is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    ):
        raise ValueError(f"Expected numbers in the column `{name}`, but got {kind} in {path}.")
    # A copy: blocks of the file are not kept alive by a few of their columns.
    numbers = np.array(compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        row = int(infinite[0])
        raise ValueError(
            f"Expected finite numbers in the column `{name}`, but got {numbers[row]} {place(path, first_row + row)}."
        )
    return numbers


def _texts(column: pa.Array) -> np.ndarray:
    """A block of a column as text, "" where nothing stands."""
    values = column.to_pylist()
    return np.array(["" if value is None else str(value).strip() for value in values], dtype=object)


def _parse(text: pa.Array, name: str, first_row: int, path: Path) -> pa.Array:
    """Text -> float64; true and false count as 1 and 0."""
    import pyarrow as pa
    from pyarrow import compute

    text = compute.utf8_lower(compute.utf8_trim_whitespace(text))
    text = compute.if_else(compute.is_in(text, pa.array(MISSING, text.type)), None, text)
    text = compute.replace_substring_regex(text, r"^\+", "")  # "+1" is not a number to Arrow
    if compute.any(compute.is_in(text, pa.array(["true", "false"], text.type))).as_py():
        for word, number in (("true", "1"), ("false", "0")):
            text = compute.if_else(compute.equal(text, word), number, text)
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        row = bisect_left(range(len(text)), True, key=lambda n: not _castable(text[: n + 1]))
        got = text[row].as_py()
        hint = ""
        if got.count(",") == 1 and _is_number(got.replace(",", ".")):
            hint = " (write a decimal point, not a comma)"
        raise ValueError(
            f"Expected numbers in the column `{name}`, but got {got!r} {place(path, first_row + row)}{hint}."
        ) from None


def _castable(text: pa.Array) -> bool:
    import pyarrow as pa

    try:
        text.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
