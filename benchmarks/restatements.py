"""How well points that say an earlier one again are told, and the fit of the model that does it.

    python -m benchmarks.restatements [--fit]

`tests/judges/data/restatements.jsonl` holds pairs of points by five writers, the examples of the detector ``restated``
among the development files chains by others, with the point that repeats. The pairs of a writer, and the chains of a
writer or file, are judged by a model fitted to all others: pairs one by one, a chain by the point that is likeliest a
repetition (1 where `parse_chain` has marked one). Beside, how many of the chains written for other detectors, whose
points should all be new, would have one marked. ``--fit`` fits to all and writes ``judges/data/restatements.json``.
Needs scikit-learn, which sentence-transformers brings, and the encoder of `judges.embeddings`.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.detectors import DATA, EXAMPLES
from judges import restatement
from judges.chains import parse_chain, told
from judges.embeddings import Encoder
from judges.faults import restated
from judges.glossary import language, understand
from judges.places import mask_places
from judges.restatement import FEATURES, SURE, Said, compared, contrasts, rarities

ROOT = Path(__file__).resolve().parent.parent
PAIRS, STATEMENTS = DATA / "restatements.jsonl", DATA / "statements.jsonl"
MODEL = ROOT / "judges" / "data" / "restatements.json"
RESULTS = ROOT / "benchmarks" / "results" / "restatements.md"
PENALTY = 0.3  # inverse
CHAIN = 2.0  # weight of a point that repeats in a chain


def rows(file: Path) -> list[dict[str, Any]]:
    """The lines of a file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class Example:
    """A point beside all points before it.

    Args:
        writer: who wrote it.
        compared: (earlier points, features).
        repeats: whether it repeats one of them.
        weight: in the fit.
    """

    def __init__(self, writer: str, compared: np.ndarray, repeats: bool, weight: float) -> None:
        self.writer, self.compared, self.repeats, self.weight = writer, compared, repeats, weight

    def training(self) -> Iterator[tuple[np.ndarray, bool, float]]:
        """Pairs: of a point that repeats, the one that it is closest to, else all."""
        if self.repeats:
            closest = max(self.compared, key=lambda x: x[0] - x[1] + 2 * x[2])
            yield closest, True, self.weight
        else:
            for x in self.compared:
                yield x, False, self.weight


def matrix(encoder: Encoder, said: list[Said]) -> np.ndarray:
    """(A, A, features): each point beside each before it; nothing where the two contrast."""
    cosine = encoder.similarity([one.evidence for one in said], [one.evidence for one in said])
    of_glosses = encoder.similarity([one.gloss for one in said], [one.gloss for one in said])
    found = np.zeros((len(said), len(said), len(FEATURES)))
    for i, a in enumerate(said):
        for j, b in enumerate(said[:i]):
            if not contrasts(a, b):
                found[i, j] = compared(a, b, float(cosine[i, j]), float(of_glosses[i, j]))
    return found


def pairs(encoder: Encoder) -> tuple[list[Example], list[bool]]:
    """The pairs, and which are in English."""
    found = []
    listed = rows(PAIRS)
    for row in listed:
        spoken = language([row["earlier"], row["later"]])
        both = [Said.of(row[which], spoken) for which in ("earlier", "later")]
        found.append(Example(row["writer"], matrix(encoder, both)[1, :1], row["restated"], 1.0))
    return found, [row["language"] == "en" for row in listed]


def chains(encoder: Encoder) -> tuple[list[list[Example]], list[dict[str, Any]]]:
    """The points of each chain, and its row with ``marked``: whether `parse_chain` has found a fault."""
    found, listed = [], []
    for name in EXAMPLES["development"]:
        for row in rows(DATA / name):
            chain = parse_chain(row["text"])
            writer = row.get("writer", name)
            listed.append({**row, "writer": writer, "marked": restated(chain).value > 0})
            said = told(chain)
            span = _plain(row.get("span") or "") if row["detector"] == "restated" else ""
            numbers = matrix(encoder, said) if len(said) > 1 else np.zeros((0, 0, len(FEATURES)))
            points = []
            for i in range(1, len(said)):
                text = _plain(said[i].text)
                repeats = bool(span) and (span in text or text in span)
                points.append(Example(writer, numbers[i, :i], repeats, CHAIN if repeats else 1.0))
            found.append(points)
    return found, listed


def _plain(text: str) -> str:
    return " ".join("".join(letter if letter.isalnum() else " " for letter in text.casefold()).split())


def fit(examples: list[Example]) -> Any:
    """The model, on numbers of mean 0 and variance 1."""
    x, y, weight = zip(*(one for example in examples for one in example.training()), strict=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=PENALTY, max_iter=1000))
    return model.fit(np.array(x), np.array(y), logisticregression__sample_weight=np.array(weight))


def rate(model: Any, points: list[Example]) -> float:
    """The likeliest repetition among points."""
    if not points:
        return 0.0
    x = np.concatenate([point.compared for point in points])
    return float((model.predict_proba(x)[:, 1] * (x[:, 0] > 0)).max())


def save(model: Any, rare: dict[str, float]) -> None:
    """Write the weights for numbers as they are, and how rare each concept is."""
    scale, line = model[0], model[1]
    weights = line.coef_[0] / scale.scale_
    bias = float(line.intercept_[0] - weights @ scale.mean_)
    _write({"weights": [round(float(w), 4) for w in weights], "bias": round(bias, 4), "rarity": rare})


def _write(model: dict[str, Any]) -> None:
    MODEL.write_text(json.dumps(model, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    restatement._model.cache_clear()


def main() -> None:
    """Print and write the table, or fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="write the model fitted to all examples")
    arguments = parser.parse_args()
    if arguments.fit:
        texts = [mask_places(row["text"], " ") for row in rows(STATEMENTS)]
        rare = rarities([understand(text, language([text])) for text in texts])
        _write({"weights": [0.0] * len(FEATURES), "bias": 0.0, "rarity": {k: round(v, 3) for k, v in rare.items()}})
    encoder = Encoder()
    (listed, english), (points, told_of) = pairs(encoder), chains(encoder)
    everything = [*listed, *(point for chain in points for point in chain)]
    if arguments.fit:
        save(fit(everything), restatement._model()["rarity"])
        return
    lines = ["| written by | examples | AUC | in English | precision | recall |", "|---" * 6 + "|"]
    scores: dict[str, list[tuple[float, bool, bool]]] = defaultdict(list)
    for writer in sorted({example.writer for example in everything}):
        model = fit([example for example in everything if example.writer != writer])
        for example, is_english in zip(listed, english, strict=True):
            if example.writer == writer:
                scores[writer].append((rate(model, [example]), example.repeats, is_english))
        for chain, row in zip(points, told_of, strict=True):
            if row["detector"] == "restated" and row["writer"] == writer:
                value = 1.0 if row["marked"] else rate(model, chain)
                scores[writer].append((value, row["label"], row["language"] == "en"))
    of_chains = {row["writer"] for row in told_of}
    scores["all chains"] = [one for writer in scores if writer in of_chains for one in scores[writer]]
    for writer, found in scores.items():
        p, y, en = (np.array(column) for column in zip(*found, strict=True))
        marked = p >= SURE
        auc = [f"{roc_auc_score(y[of], p[of]):.2f}" if of.any() else "" for of in (en | True, en)]
        shares = (y[marked].mean(), marked[y].mean())
        lines.append(f"| {writer} | {len(y)} | " + " | ".join([*auc, *(f"{share:.2f}" for share in shares)]) + " |")
    model = fit(everything)
    others = [
        rate(model, chain)
        for chain, row in zip(points, told_of, strict=True)
        if row["detector"] != "restated" and not row["marked"]
    ]
    share = np.mean(np.array(others) >= SURE)
    lines += ["", f"Of {len(others)} chains for other detectors {share:.1%} would have a point marked."]
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
