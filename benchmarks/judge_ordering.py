"""Does the embedding judge put chains in the right order? ``python -m benchmarks.judge_ordering`` (a minute on a CPU).

24 locations with a reference and five candidates each (tests/judges/data/ordering.jsonl, written by hand before any
threshold was set): a paraphrase, a chain that shares part of the evidence, one made up from country and city alone,
one of another country, and the reference with sides, colours, numbers, materials and negations turned round.

The thresholds of the ramp are chosen on the first twelve locations, by the rule in `choose`; every number in the table
is of the other twelve.
"""

from __future__ import annotations

import itertools
import json
import platform
import subprocess
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from tabulate import tabulate

from judges.chains import ReasoningChain
from judges.embeddings import Encoder
from judges.key_points import KeyPointJudge
from judges.one_to_all import OneToAllJudge
from judges.scorers import EmbeddingScorer

DATA = Path(__file__).parents[1] / "tests" / "judges" / "data" / "ordering.jsonl"
RESULTS = Path(__file__).parent / "results"
KINDS = ("paraphrase", "partial", "hallucinated", "random", "contradicted")
PAIRS = (*itertools.pairwise(KINDS[:4]), ("partial", "contradicted"))  # the first should score higher
GRID = [
    (lower, upper)
    for lower in (0.30, 0.35, 0.40, 0.45, 0.50, 0.55)
    for upper in (0.50, 0.55, 0.60, 0.65, 0.70, 0.75)
    if lower < upper
]
BOUNDS = {"paraphrase": "above .5", "random": "below .1"}


def read() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the locations that choose the thresholds, and of the others."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    ids = sorted({row["id"] for row in rows})
    first = set(ids[: len(ids) // 2])
    return [row for row in rows if row["id"] in first], [row for row in rows if row["id"] not in first]


def scores(judge: OneToAllJudge, rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """F1 of every candidate, by kind."""
    chains = {(row["id"], row["kind"]): ReasoningChain.of(row["points"], row["conclusion"]) for row in rows}
    named = [name for name in chains if name[1] != "reference"]
    f1 = judge.score([chains[name] for name in named], [chains[name[0], "reference"] for name in named]).f1.tolist()
    return {kind: [value for (_, other), value in zip(named, f1, strict=True) if other == kind] for kind in KINDS}


def auc(higher: list[float], lower: list[float]) -> float:
    """Chance that a chain of the first kind scores above one of the second; a tie is half."""
    wins = sum((one > other) + 0.5 * (one == other) for one in higher for other in lower)
    return wins / (len(higher) * len(lower))


def numbers(f1: dict[str, list[float]]) -> dict[str, Any]:
    """What the table shows of a set of scores."""
    return {
        "mean_f1": {kind: mean(values) for kind, values in f1.items()},
        "auc": {f"{one} > {other}": auc(f1[one], f1[other]) for one, other in PAIRS},
    }


def bounds_hold(means: dict[str, float]) -> bool:
    """Paraphrases above .5 and chains of other places below .1, on average."""
    return means["paraphrase"] > 0.5 and means["random"] < 0.1


def choose(encoder: Encoder, rows: list[dict[str, Any]]) -> tuple[float, float]:
    """The ramp with the largest mean AUC among those that keep the bounds.

    Where several have it, the one with the largest distance between paraphrase and partial.
    """

    def quality(ramp: tuple[float, float]) -> tuple[bool, float, float]:
        found = numbers(scores(OneToAllJudge(EmbeddingScorer(encoder, *ramp)), rows))
        means = found["mean_f1"]
        return bounds_hold(means), mean(found["auc"].values()), means["paraphrase"] - means["partial"]

    return max(GRID, key=quality)


def measure() -> dict[str, Any]:
    """Choose on one half, measure on the other."""
    encoder = Encoder()
    develop, held_out = read()
    lower, upper = choose(encoder, develop)
    default = EmbeddingScorer(encoder)
    judges = {
        f"one-to-all, chosen ramp {lower:.2f} to {upper:.2f}": OneToAllJudge(EmbeddingScorer(encoder, lower, upper)),
        f"one-to-all, default ramp {default.lower:.2f} to {default.upper:.2f}": OneToAllJudge(default),
        "key points, default ramp 0.40 to 0.55": KeyPointJudge(scorer=EmbeddingScorer(encoder, 0.40, 0.55)),
    }
    return {
        "chosen": {"lower": lower, "upper": upper},
        "locations": {
            "choosing": len({row["id"] for row in develop}),
            "measured": len({row["id"] for row in held_out}),
        },
        "judges": {name: numbers(scores(judge, held_out)) for name, judge in judges.items()},
    }


def table(results: dict[str, Any]) -> str:
    """The results as markdown."""
    means = [(name, *(f"{found['mean_f1'][kind]:.3f}" for kind in KINDS)) for name, found in results["judges"].items()]
    aucs = [(name, *(f"{value:.3f}" for value in found["auc"].values())) for name, found in results["judges"].items()]
    first = next(iter(results["judges"].values()))
    held = "kept" if bounds_hold(first["mean_f1"]) else "NOT kept"
    said = ", ".join(f"{kind} {bound}" for kind, bound in BOUNDS.items())
    return "\n".join(
        [
            f"Ramp chosen on {results['locations']['choosing']} locations, numbers of the other "
            f"{results['locations']['measured']}. Approximate: similarity, not entailment.",
            "",
            "Mean F1",
            "",
            tabulate(means, headers=("judge", *KINDS), tablefmt="github", disable_numparse=True),
            "",
            "AUC: chance that a chain of the first kind scores above one of the second; a tie counts half",
            "",
            tabulate(aucs, headers=("judge", *first["auc"]), tablefmt="github", disable_numparse=True),
            "",
            f"Bounds on the mean F1 of the chosen ramp ({said}): {held}.",
            "",
            *(f"- {name}: {_order(found['mean_f1'])}" for name, found in results["judges"].items()),
        ]
    )


def _order(means: dict[str, float]) -> str:
    wrong = [f"{one} ({means[one]:.3f}) > {other} ({means[other]:.3f})" for one, other in PAIRS]
    wrong = [text for text, (one, other) in zip(wrong, PAIRS, strict=True) if means[one] <= means[other]]
    return f"NOT in order: {'; '.join(wrong)}" if wrong else "all kinds in order"


def main() -> None:
    """Measure, print and write."""
    torch.set_num_threads(1)
    results = measure()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    results["where"] = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "torch": torch.__version__,
        "commit": commit.stdout.strip(),
    }
    text = table(results)
    print(text)
    (RESULTS / "judge_ordering.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    (RESULTS / "judge_ordering.md").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
