"""Files for the command line of the judges, and runs of it in this process."""

import functools
import json
import os
from pathlib import Path

import sentence_transformers

from judges.cli import main

LOADED = functools.cache(sentence_transformers.SentenceTransformer)
DATA = Path(__file__).parent / "data"
COUNTRIES = {"UG": "Uganda", "JP": "Japan", "BR": "Brazil", "NO": "Norway", "ZA": "South Africa"}
PLACES = {"UG": (0.3, 32.6), "JP": (35.7, 139.7), "BR": (-15.8, -47.9), "NO": (59.9, 10.7), "ZA": (-26.2, 28.0)}
CLUES = ("Red soil along the road.", "Wooden poles.", "Cars drive on the left.", "Tea fields.", "White plates.")


def write(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


def load_once(monkeypatch):
    """Each run loads MiniLM; here it stays."""
    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", LOADED)


def fill(tmp_path, monkeypatch):
    """A folder with twenty locations, two references each, and candidates of two models; it is the working one."""
    candidates, references = [], []
    for number in range(20):
        country, (lat, lon) = list(PLACES.items())[number % 5]
        place = {"id": f"loc{number:02}", "lat": lat + number / 10, "lon": lon, "country": country}
        for author in ("one", "two"):
            clues = (CLUES[number % 5], CLUES[(number + 1) % 5], f"A sign with the number {number}.")
            references.append({**place, "author": author, "points": clues, "conclusion": COUNTRIES[country]})
        for model in ("small", "large"):
            texts = [CLUES[number % 5], CLUES[(number + (model == "small") * 2) % 5], "I checked Google Maps."]
            guess = "Uganda" if model == "small" else COUNTRIES[country]
            candidates.append(
                {"id": place["id"], "model": model, "points": texts[: 2 + number % 2], "conclusion": guess}
            )
    write(tmp_path / "c.jsonl", candidates)
    write(tmp_path / "r.jsonl", references)
    bank = (DATA / "bank.jsonl").read_text("utf-8").splitlines()
    write(tmp_path.parent / f"{tmp_path.name}_bank.jsonl", bank[:6])  # beside the folder, whose files are counted
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments, out="scores.jsonl"):
    status = main(["score", "--candidates", "c.jsonl", "--references", "r.jsonl", "--out", out, *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def read(name="scores.jsonl"):
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


def error_of(capsys, *arguments, **options):
    """The one line that an error prints; and no output is there."""
    before = sorted(os.listdir())
    status, out, err = run(capsys, *arguments, **options)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sorted(os.listdir()) == before
    return err
