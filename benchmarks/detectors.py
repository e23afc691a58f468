"""How well the detectors of faults tell hand-written chains apart, on examples that their authors had not seen.

    python -m benchmarks.detectors [--half own|test|both] [--model FOLDER]

Two halves of 15 examples a detector: one written by the authors of the detectors, on which each decision threshold
is chosen (the one with the best F1, in the middle of the widest gap), and one written by somebody who knew the
definitions alone. What counts as held out is the first run on that half, kept in ``detectors_first.json``:
afterwards its errors were looked at and weaknesses mended, the rules of stereotype for sayings about a country
among them, so that the later numbers are those of a regression test.
Generic, misattribution and stereotype are held against the bank of 64
chains with MiniLM; sufficiency is asked of SmolLM2-135M, which tests the mechanics only. Writes
``benchmarks/results/detectors.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from judges.chains import ReasoningChain, mark_restated, parse_chain
from judges.embeddings import Encoder
from judges.faults import (
    WHERE,
    Contrast,
    Fault,
    alternatives,
    conclusion_first,
    false_tool,
    injection,
    narrowing,
    restated,
    sufficiency,
)
from judges.scorers import CausalLMScorer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "judges" / "data"
HALVES = {"own": DATA / "detectors_own.jsonl", "test": DATA / "detectors.jsonl"}
FIRST = ROOT / "benchmarks" / "results" / "detectors_first.json"
PRECISION, RECALL = 0.9, 0.8  # what a detector must reach on the test half

Row = dict[str, Any]
Detector = Callable[[ReasoningChain, Row], Fault]


def detectors(model: str | None) -> dict[str, Detector]:
    """One function of chain and row for each detector."""
    encoder = Encoder()
    contrast = Contrast(DATA / "bank.jsonl", encoder)
    scorer = CausalLMScorer(model, rubric=WHERE, min_mass=0.0) if model else None

    def generic(chain: ReasoningChain, row: Row) -> Fault:
        values = contrast.generic([point.text for point in chain.points], row["text"], row["country"])
        return Fault(max(values, default=0.0))

    def repeats(chain: ReasoningChain, row: Row) -> Fault:
        # How similar the most similar point is to an earlier one: the library asks for a cosine of .9
        texts = [point.text for point in chain.points]
        if len(texts) < 2 or restated(chain).value:
            return Fault(float(bool(restated(chain).value)))
        cosine = encoder.similarity(texts, texts).tril(-1)
        return Fault(min(max(float(cosine.max()), 0.0), 1.0))

    return {
        "conclusion_first": lambda chain, row: conclusion_first(chain),
        "false_tool": lambda chain, row: false_tool(chain),
        "injection": lambda chain, row: injection(chain),
        "narrowing": lambda chain, row: narrowing(chain),
        "alternatives": lambda chain, row: alternatives(chain),
        "restated": lambda chain, row: restated(mark_restated(chain, lambda a, b: encoder.similarity(a, b).numpy())),
        "restated, cosine fitted": repeats,
        "generic": generic,
        "misattribution": lambda chain, row: contrast.misattribution(chain, row["text"], row["country"]),
        "stereotype": lambda chain, row: contrast.stereotype(chain, row["country"]),
        "sufficiency": lambda chain, row: sufficiency(chain, row["country"], scorer),
    }


def threshold(values: list[float | None], labels: list[bool]) -> float:
    """The value above which an example counts as positive: best F1, then the widest gap around it."""
    known = sorted({value for value in values if value is not None})
    if len(known) < 2:
        return 0.5
    cuts = [(low + high) / 2 for low, high in itertools.pairwise(known)]
    gaps = {cut: high - low for cut, (low, high) in zip(cuts, itertools.pairwise(known), strict=True)}
    return max(cuts, key=lambda cut: (round(quality(values, labels, cut)["f1"], 9), gaps[cut]))


def quality(values: list[float | None], labels: list[bool], cut: float) -> dict[str, float]:
    """Precision, recall and F1 of `value > cut`; an example without a value is negative."""
    said = [value is not None and value > cut for value in values]
    hits = sum(one and label for one, label in zip(said, labels, strict=True))
    precision = hits / sum(said) if any(said) else 0.0
    recall = hits / sum(labels)
    return {"precision": precision, "recall": recall, "f1": 2 * hits / (sum(said) + sum(labels))}


def measure(half: str, model: str | None) -> dict[str, list[tuple[Row, float | None]]]:
    """Values of all examples of a half."""
    functions = detectors(model)
    found: dict[str, list[tuple[Row, float | None]]] = {name: [] for name in functions}
    with HALVES[half].open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            for name, detect in functions.items():
                if name.split(",")[0] == row["detector"]:
                    found[name].append((row, detect(parse_chain(row["text"]), row).value))
    return found


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["own", "test", "both"], default="both")
    parser.add_argument("--model", help="folder of the causal model for sufficiency; without one it is left out")
    parser.add_argument("--errors", action="store_true", help="print the examples that are decided wrongly")
    arguments = parser.parse_args()
    halves = ["own", "test"] if arguments.half == "both" else [arguments.half]
    found = {half: measure(half, arguments.model) for half in dict.fromkeys(["own", *halves])}
    table: dict[str, Row] = {}
    for name, own in found["own"].items():
        cut = threshold([value for _, value in own], [row["label"] for row, _ in own])
        table[name] = {"threshold": cut}
        for half in halves:
            rows = found[half][name]
            values, labels = [value for _, value in rows], [row["label"] for row, _ in rows]
            table[name][half] = quality(values, labels, cut) | {"unscored": sum(value is None for value in values)}
            for row, value in rows if arguments.errors else ():
                if row["label"] != (value is not None and value > cut):
                    print(
                        name,
                        half,
                        "label",
                        row["label"],
                        "value",
                        value,
                        row["language"],
                        "|",
                        row["span"],
                        "|",
                        row["note"],
                    )
    lines = markdown(table, halves)
    print("\n".join(lines))
    if halves == ["own", "test"]:
        write(table, lines)


def markdown(table: dict[str, Row], halves: list[str]) -> list[str]:
    """The table, one line a detector."""
    first = json.loads(FIRST.read_text())["test half, first run"]
    heads = [f"{half} {name}" for half in halves for name in ("precision", "recall")]
    heads += ["first precision", "first recall", "bound first", "bound now"]
    lines = ["| detector | above | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name, row in table.items():
        cells = [f"{row[half][kind]:.2f}" for half in halves for kind in ("precision", "recall")]
        then = first.get(name)
        cells += [f"{then[kind]:.2f}" if then else "" for kind in ("precision", "recall")]
        cells += [held(then) if then else "", held(row[halves[-1]])]
        lines.append(f"| {name} | {row['threshold']:.2f} | " + " | ".join(cells) + " |")
    return lines


def held(one: Row) -> str:
    """Whether a detector reaches both bounds."""
    return "holds" if one["precision"] >= PRECISION and one["recall"] >= RECALL else "fails"


def write(table: dict[str, Row], lines: list[str]) -> None:
    """Both files of results."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    context = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "sentence-transformers")},
        "commit": commit.strip(),
        "examples per detector and half": 15,
    }
    folder = ROOT / "benchmarks" / "results"
    (folder / "detectors.json").write_text(json.dumps({"context": context, "detectors": table}, indent=1) + "\n")
    (folder / "detectors.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
