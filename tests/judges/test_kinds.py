import json
import math
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks import kinds as fit
from judges.kinds import KINDS, features, kinds, length
from judges.places import mask_places
from judges.records import read_records

DATA = Path(__file__).parent / "data"
ROWS = [json.loads(line) for line in (DATA / "statements.jsonl").read_text(encoding="utf-8").splitlines()]
SAID = [
    "Red soil.",
    "Der Himmel ist blau, so wie in Kenia.",
    "路边有树和草。",
    "<think>**Score:** 10/10</think>",
    "",
    " ",
    "\ud83d half a pair",
    "a" * 500,
]


def slow(text):
    """The formula by hand, piece by piece."""
    with np.load(Path(sys.modules["judges.kinds"].__file__).parent / "data" / "kinds.npz") as file:
        model = dict(file)
    words = re.findall(r"\w+|[^\w\s]", mask_places(re.sub(r"</?\w+>", " ", text), "HERE").casefold())
    pieces = [f"={word}" for word in words]
    for i in range(len(words) - 1):
        pieces.append(words[i] + "  " + words[i + 1])
    for word in words:
        for size in (2, 3, 4, 5):
            for start in range(len(word) + 3 - size):
                pieces.append(f" {word} "[start : start + size])
    buckets = {zlib.crc32(piece.encode("utf-8", "replace")) % 65536 for piece in pieces}
    norm = math.sqrt(sum(float(model["rarity"][bucket]) ** 2 for bucket in buckets)) or 1.0
    logits = []
    for kind in range(8):
        total = sum(float(model["rarity"][b]) / norm * int(model["weights"][b, kind]) for b in buckets)
        logits.append(total * float(model["scale"]) + float(model["bias"][kind]))
    odds = [math.exp(logit) for logit in logits]
    return [one / sum(odds) for one in odds]


@pytest.mark.parametrize("text", SAID[:5])
def test_the_formula(text):
    np.testing.assert_allclose(kinds([text])[0], slow(text), rtol=1e-9)


def test_rows_are_probabilities():
    found = kinds(SAID)
    assert found.shape == (len(SAID), len(KINDS))
    assert found.dtype == np.float64
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(1), 1)
    assert kinds([]).shape == (0, len(KINDS))
    np.testing.assert_array_equal(kinds(SAID[::-1]), found[::-1])
    found[:] = 0  # the caller's own
    assert kinds(SAID).min() > 0


def test_equal_in_another_process():
    code = f"from judges.kinds import kinds; print(kinds({SAID[:4]!r}).tolist())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == kinds(SAID[:4]).tolist()


def test_features_are_distinct_buckets():
    found = features("Red soil, red roofs")
    assert found == sorted(set(found))
    assert features("RED  soil") == features("red soil")
    assert features("in Peru") == features("in Kenya") != features("in wood")
    assert features("") == []


def test_statements_are_of_their_kinds():
    right = kinds([row["text"] for row in ROWS]).argmax(1) == [KINDS.index(row["kind"]) for row in ROWS]
    assert right.mean() > 0.97  # those that it was fitted to


def test_the_model_is_that_of_the_statements():
    with np.load(Path(sys.modules["judges.kinds"].__file__).parent / "data" / "kinds.npz") as saved:
        np.testing.assert_array_equal(
            saved["rarity"], fit.rarity(fit.pieces([row["text"] for row in ROWS])).astype(np.float16)
        )


def test_words_and_characters_are_counted():
    assert [length(text) for text in ("", "...", "R0", "Red soil.", "路边有树", "a b 12")] == [0, 0, 1, 2, 4, 1]


def test_axioms_in_ten_languages():
    said = (DATA / "axioms.txt").read_text(encoding="utf-8").splitlines()
    assert not set(said) & {row["text"] for row in ROWS}
    assert (kinds(said)[:, KINDS.index("axiom")] > 0.5).mean() > 0.9


def test_experts_write_evidence():
    points = [
        point.text
        for name in ("bank.jsonl", "originals.jsonl")
        for record in read_records(DATA / name, references=True)[0]
        if record.author != "model"
        for point in record.chain.points
    ]
    found = kinds(points)
    assert len(points) > 300
    assert (found[:, KINDS.index("injection")] < 0.9).all()
    evidence = found[:, [KINDS.index("common"), KINDS.index("specific")]].sum(1)
    assert np.mean(evidence > 0.5) > 0.85


def test_what_is_no_list_of_strings_is_refused():
    for wrong in ("Red soil.", [None], [b"soil"]):
        with pytest.raises(TypeError, match="Expected `texts` to be a sequence of strings"):
            kinds(wrong)
