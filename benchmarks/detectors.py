"""How well the detectors of faults tell hand-written chains apart, on examples that their authors had not seen.

    python -m benchmarks.detectors [--examples development|held-out|both] [--model FOLDER]

Development: about 100 examples a detector (900 of restated), 15 of them by the authors of the detectors and the others
by writers who knew the definitions alone, whose errors have been looked at since; each decision threshold is chosen on
them, in the middle of where F1 is within one example of the best (at the best alone, which hangs on a single example,
generic has .82/.90 held out). Held out: 20 more a detector, 40 of stereotype, 200 of restated, by writers who knew the
definitions alone. They are run again after every change, and their errors are not looked at.

Of restated nine sets of 60 were met at first contact, each by a writer who knew the definition alone. Precision and
recall were .96/.87, .90/.63, .85/.73, .80/.67, .90/.93, .96/.73, .84/.90 and .67/.80, and .70/.53 where the writer was
asked for hard cases. The first, fifth and sixth are among the held-out ones; the others have been read, and are
development now.

Generic is decided by the point that shows it most, stereotype by what the bank says of the chain or by the point that
is most likely lore.

Generic, misattribution and stereotype are held against a bank of chains of many countries with MiniLM; sufficiency is
asked of SmolLM2-135M, which tests the mechanics only. Writes ``benchmarks/results/detectors.json`` and ``.md``.
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
from judges.kinds import KINDS, kinds
from judges.records import read_records
from judges.scorers import CausalLMScorer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "judges" / "data"
EXAMPLES = {
    "development": (
        "detectors_own.jsonl",
        "detectors.jsonl",
        "detectors_more.jsonl",
        "detectors_later.jsonl",
        "detectors_restated.jsonl",
    ),
    "held-out": ("detectors_held_out.jsonl",),
}
BANKS = ("bank.jsonl", "bank_models.jsonl")
PRECISION, RECALL = 0.9, 0.8  # what a detector must reach on the examples held out

Row = dict[str, Any]
Detector = Callable[[ReasoningChain, Row], Fault]


def detectors(model: str | None) -> dict[str, Detector]:
    """One function of chain and row for each detector."""
    encoder = Encoder()
    contrast = Contrast([record for name in BANKS for record in read_records(DATA / name, references=True)[0]], encoder)
    scorer = CausalLMScorer(model, rubric=WHERE, min_mass=0.0) if model else None

    def generic(chain: ReasoningChain, row: Row) -> Fault:
        values = contrast.generic([point.text for point in chain.points], row["text"], row["country"])
        return Fault(max(values, default=0.0))

    def stereotype(chain: ReasoningChain, row: Row) -> Fault:
        lore = kinds([point.text for point in chain.points])[:, KINDS.index("lore")]
        return Fault(max(contrast.stereotype(chain, row["country"]).value or 0.0, *lore))

    return {
        "conclusion_first": lambda chain, row: conclusion_first(chain),
        "false_tool": lambda chain, row: false_tool(chain),
        "injection": lambda chain, row: injection(chain),
        "narrowing": lambda chain, row: narrowing(chain),
        "alternatives": lambda chain, row: alternatives(chain),
        "restated": lambda chain, row: restated(mark_restated(chain, lambda a, b: encoder.similarity(a, b).numpy())),
        "generic": generic,
        "misattribution": lambda chain, row: contrast.misattribution(chain, row["text"], row["country"]),
        "stereotype": stereotype,
        "sufficiency": lambda chain, row: sufficiency(chain, row["country"], scorer),
    }


def threshold(values: list[float | None], labels: list[bool]) -> float:
    """The value above which an example counts as positive: in the middle of where F1 is within an example of the best.

    The best alone may hang on a single example, and lies then at the edge of what the others allow.
    """
    known = sorted({value for value in values if value is not None})
    if len(known) < 2:
        return 0.5
    cuts = [(low + high) / 2 for low, high in itertools.pairwise(known)]
    reached = {cut: quality(values, labels, cut)["f1"] for cut in cuts}
    enough = max(reached.values()) - 1 / sum(labels)
    good = [cut for cut in cuts if reached[cut] >= enough]
    return (good[0] + good[-1]) / 2


def quality(values: list[float | None], labels: list[bool], cut: float) -> dict[str, float]:
    """Precision, recall and F1 of `value > cut`; an example without a value is negative."""
    said = [value is not None and value > cut for value in values]
    hits = sum(one and label for one, label in zip(said, labels, strict=True))
    precision = hits / sum(said) if any(said) else 0.0
    recall = hits / sum(labels)
    return {"precision": precision, "recall": recall, "f1": 2 * hits / (sum(said) + sum(labels))}


def measure(part: str, model: str | None) -> dict[str, list[tuple[Row, float | None]]]:
    """Values of all examples of a part."""
    functions = detectors(model)
    found: dict[str, list[tuple[Row, float | None]]] = {name: [] for name in functions}
    for name in EXAMPLES[part]:
        for line in (DATA / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            value = functions[row["detector"]](parse_chain(row["text"]), row).value
            found[row["detector"]].append((row, value))
    return found


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", choices=[*EXAMPLES, "both"], default="both")
    parser.add_argument("--model", help="folder of the causal model for sufficiency; without one it is left out")
    parser.add_argument("--errors", action="store_true", help="print the examples that are decided wrongly")
    arguments = parser.parse_args()
    parts = list(EXAMPLES) if arguments.examples == "both" else [arguments.examples]
    found = {part: measure(part, arguments.model) for part in dict.fromkeys(["development", *parts])}
    table: dict[str, Row] = {}
    for name, examples in found["development"].items():
        cut = threshold([value for _, value in examples], [row["label"] for row, _ in examples])
        table[name] = {"threshold": cut}
        for part in parts:
            rows = found[part][name]
            values, labels = [value for _, value in rows], [row["label"] for row, _ in rows]
            table[name][part] = quality(values, labels, cut) | {"unscored": sum(value is None for value in values)}
            for row, value in rows if arguments.errors else ():
                if row["label"] != (value is not None and value > cut):
                    print(
                        f"{name}, {part}: label {row['label']}, value {value}, {row['language']} | {row['span']} | ",
                        end="",
                    )
                    print(row["note"])
    lines = markdown(table, parts)
    print("\n".join(lines))
    if parts == list(EXAMPLES):
        write(table, lines, found)


def markdown(table: dict[str, Row], parts: list[str]) -> list[str]:
    """The table, one line a detector."""
    heads = [f"{part} {name}" for part in parts for name in ("precision", "recall")]
    lines = ["| detector | above | " + " | ".join(heads) + " | bound |", "|---" * (len(heads) + 3) + "|"]
    for name, row in table.items():
        cells = [f"{row[part][kind]:.2f}" for part in parts for kind in ("precision", "recall")]
        lines.append(f"| {name} | {row['threshold']:.2f} | " + " | ".join(cells) + f" | {held(row[parts[-1]])} |")
    return lines


def held(one: Row) -> str:
    """Whether a detector reaches both bounds."""
    return "holds" if one["precision"] >= PRECISION and one["recall"] >= RECALL else "fails"


def write(table: dict[str, Row], lines: list[str], found: dict[str, Any]) -> None:
    """Both files of results."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    context = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "sentence-transformers")},
        "commit": commit.strip(),
        "examples per detector": {part: len(rows["generic"]) for part, rows in found.items()},
    }
    folder = ROOT / "benchmarks" / "results"
    (folder / "detectors.json").write_text(json.dumps({"context": context, "detectors": table}, indent=1) + "\n")
    (folder / "detectors.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
