"""How well statements are told apart by kind, and the fit of the model that does it.

    python -m benchmarks.kinds [--fit]

`tests/judges/data/statements.jsonl` holds statements of eight kinds by 21 writers, each of whom knew the kinds and
none of the others' lines, and under number 22 sentences of the test banks whose kind readers told. Each writer's
statements are judged by a model fitted to those of all others; the table says how many of a kind are found and how many
found are of that kind. `--fit` fits to all of them and writes
``judges/data/kinds.npz``. Needs scikit-learn, which sentence-transformers brings.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from judges.kinds import BUCKETS, KINDS, features

ROOT = Path(__file__).resolve().parent.parent
STATEMENTS = ROOT / "tests" / "judges" / "data" / "statements.jsonl"
MODEL = ROOT / "judges" / "data" / "kinds.npz"
INVERSE_PENALTY = 20.0
SEEN = 2  # statements that must have a piece for it to count


def pieces(texts: list[str]) -> sparse.csr_matrix:
    """(N, BUCKETS): 1 where a text has a piece."""
    rows = [features(text) for text in texts]
    starts = np.cumsum([0, *map(len, rows)])
    return sparse.csr_matrix((np.ones(starts[-1]), np.concatenate(rows), starts), shape=(len(texts), BUCKETS))


def rarity(counted: sparse.csr_matrix) -> np.ndarray:
    """Weight of each piece: higher where fewer texts have it, 0 where hardly any does."""
    having = np.asarray(counted.sum(0)).ravel()
    return np.where(having < SEEN, 0.0, np.log((1 + counted.shape[0]) / (1 + having)) + 1)


def weighted(counted: sparse.csr_matrix, weights: np.ndarray) -> sparse.csr_matrix:
    """Rows of length 1."""
    rows = counted @ sparse.diags(weights)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(1)).ravel())
    return sparse.diags(1 / np.maximum(lengths, 1e-9)) @ rows


def fit(counted: sparse.csr_matrix, labels: np.ndarray) -> tuple[LogisticRegression, np.ndarray]:
    """The model and the weights of the pieces."""
    weights = rarity(counted)
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=500, class_weight="balanced")
    return model.fit(weighted(counted, weights), labels), weights


def save(model: LogisticRegression, weights: np.ndarray) -> None:
    """Write the model in a byte for each weight."""
    scale = np.abs(model.coef_).max() / 127
    np.savez_compressed(
        MODEL,
        weights=np.round(model.coef_.T / scale).astype(np.int8),
        scale=np.float64(scale),
        bias=model.intercept_,
        rarity=weights.astype(np.float16),
    )


def main() -> None:
    """Print and write the table, or fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="write the model fitted to all statements")
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in STATEMENTS.read_text(encoding="utf-8").splitlines()]
    labels = np.array([KINDS.index(row["kind"]) for row in rows])
    counted = pieces([row["text"] for row in rows])
    if arguments.fit:
        save(*fit(counted, labels))
        return
    writers = np.array([row["writer"] for row in rows])
    found = np.empty(len(rows), dtype=int)
    for writer in np.unique(writers):
        theirs = writers == writer
        model, weights = fit(counted[~theirs], labels[~theirs])
        found[theirs] = model.predict(weighted(counted[theirs], weights))
    english = np.array([row["language"] == "en" for row in rows])
    lines = ["| kind | statements | precision | recall | recall in English | in other languages |", "|---" * 6 + "|"]
    for number, kind in enumerate(KINDS):
        is_it, said = labels == number, found == number
        shares = [(is_it & said).sum() / said.sum()]
        shares += [said[is_it & part].mean() for part in (english | True, english, ~english)]
        lines.append(f"| {kind} | {is_it.sum()} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    lines += ["", f"{len(rows)} statements of {len(np.unique(writers))} writers, {(found == labels).mean():.3f} right."]
    print("\n".join(lines))
    (ROOT / "benchmarks" / "results" / "kinds.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
