"""The folders in which GeoRC keeps its chains, one for each challenge of five rounds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judges.chains import ReasoningChain, parse_chain
from judges.places import country_at, country_code
from judges.records import Record, read_location

_EXPERT = re.compile(r"human_(?:chain|expert)_(?P<author>\w+)\.txt", re.IGNORECASE)
_MODEL = re.compile(r"candidate_reasoning_chain_(?P<model>.+)_(?P<round>\d+)\.txt", re.IGNORECASE)
_ROUND = re.compile(r"^[^\w\n]*Round\s+(\d+)\b.*$", re.IGNORECASE | re.MULTILINE)
_SECTION = re.compile(r"^\W*(reasoning|conclusion)s?\W*$", re.IGNORECASE)


def read_georc(folder: str | os.PathLike[str]) -> tuple[list[Record], list[Record]]:
    r"""Read the chains of models and of experts from folders laid out as those of GeoRC.

    `<challenge>/Human_Chain_3.txt` (or `Human_Expert_3.txt`) holds an expert's chains of all rounds: a line "Round n",
    then "Reasoning" with a point in each line, then "Conclusion". `candidate_reasoning_chain_<model>_<n>.txt` holds a
    model's chain of one round, `<challenge>_<n>.png` is the image, and `<challenge>_rounds_metadata.json`, where it is
    there, tells the location of each round.

    Args:
        folder: the folder of one challenge, or the one that holds them all.

    Returns:
        The candidates and the references; their ids are "<challenge>/<n>".

    Raises:
        ValueError: if there is no such file, a file or its name is no UTF-8, an expert's file names no round or a round
            twice, or has no points in one, or a location is none.

    Example:
        >>> import tempfile
        >>> challenge = Path(tempfile.mkdtemp()) / "asia"
        >>> challenge.mkdir()
        >>> expert = "Round 1\nReasoning\nBlack and yellow poles\nConclusion\nTaiwan\n"
        >>> _ = (challenge / "Human_Chain_3.txt").write_text(expert)
        >>> _ = (challenge / "candidate_reasoning_chain_small_1.txt").write_text("Striped poles.")
        >>> candidates, references = read_georc(challenge.parent)
        >>> candidates[0].id, candidates[0].model, references[0].chain.conclusion.country
        ('asia/1', 'small', 'TW')
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"Expected the folder of GeoRC, but got no folder {folder}.")
    candidates: list[Record] = []
    references: list[Record] = []
    for challenge in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]:
        rounds = _rounds(challenge)
        for path in sorted(challenge.glob("*.txt")):
            model, expert = _MODEL.fullmatch(path.name), _EXPERT.fullmatch(path.name)
            if (model or expert) and not _is_utf8(path):
                raise ValueError(f"Expected names of files and folders in UTF-8, but got {str(path)!r}.")
            if model:
                number = int(model["round"])
                where = _where(challenge, number, rounds)
                candidates.append(Record(chain=parse_chain(_text(path)), model=model["model"], line=str(path), **where))
            elif expert:
                for number, line, chain in _expert_chains(path):
                    where = _where(challenge, number, rounds)
                    references.append(
                        Record(
                            chain=chain, kind="expert", author=expert["author"], line=f"{path}, line {line}", **where
                        )
                    )
    if not candidates and not references:
        raise ValueError(f"Expected chains of GeoRC (such as Human_Chain_3.txt in a folder), but got none in {folder}.")
    return candidates, references


def _expert_chains(path: Path) -> Iterator[tuple[int, int, ReasoningChain]]:
    """Number of each round, the line where it starts, and its chain."""
    text = _text(path)
    starts = list(_ROUND.finditer(text))
    if not starts:
        raise ValueError(f'Expected lines such as "Round 1" before the chains of an expert, but got none in {path}.')
    seen: set[str] = set()
    for start, end in zip(starts, [*(start.start() for start in starts[1:]), len(text)], strict=True):
        line = text.count("\n", 0, start.start()) + 1
        if start[1] in seen:
            raise ValueError(f"Expected every round once, but got round {start[1]} again, at {path}, line {line}.")
        seen.add(start[1])
        parts: dict[str, list[str]] = {"reasoning": [], "conclusion": []}
        part = "reasoning"
        for said in filter(None, map(str.strip, text[start.end() : end].splitlines())):
            title = _SECTION.fullmatch(said)
            if title:
                part = title[1].lower()
            else:
                parts[part].append(said)
        if not parts["reasoning"]:
            raise ValueError(f"Expected points in every reference, but got none at {path}, line {line}.")
        yield int(start[1]), line, ReasoningChain.of(parts["reasoning"], " ".join(parts["conclusion"]))


def _where(challenge: Path, number: int, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known of the place of a round."""
    image = challenge / f"{challenge.name}_{number}.png"
    known = rounds[number - 1] if 0 < number <= len(rounds) else {}
    lat, lon = known.get("lat"), known.get("lon")
    code = country_code(str(known.get("streakLocationCode") or ""))
    if code is None and lat is not None and lon is not None:
        code = country_at(lat, lon)
    return {
        "id": f"{challenge.name}/{number}",
        "image": str(image) if image.exists() else None,
        "country": code,
        "lat": lat,
        "lon": lon,
    }


def _rounds(challenge: Path) -> list[dict[str, Any]]:
    """The rounds of a challenge, in order; empty without the file that tells."""
    path = challenge / f"{challenge.name}_rounds_metadata.json"
    if not path.exists():
        return []
    try:
        known = json.loads(_text(path))
        rounds = [dict(row) for row in (known["rounds"] if isinstance(known, dict) else known)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"Expected a JSON list with `lat` and `lng` of each round, but got another in {path}."
        ) from None
    found = []
    for number, row in enumerate(rounds, start=1):
        try:
            lat, lon = read_location(row, lon="lng")
        except ValueError as error:
            raise ValueError(f"{error}, at {path}, round {number}.") from None
        found.append({"lat": lat, "lon": lon, "streakLocationCode": row.get("streakLocationCode")})
    return found


def _is_utf8(path: Path) -> bool:
    try:
        return bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"Expected text in UTF-8, but got other bytes in {path}.") from None
