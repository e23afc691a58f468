"""Does the geo-bias loss lower geo-bias, and what does it cost? Fresh seeds, two splits, against a control.

Start: ``python -m benchmarks.airports`` (about 20 minutes on 2 cores). Every run is configs/airports_geobias.yaml with
the same steps and the same batches; what differs is the loss on the ROI samples:

- none;
- SRELoss, as in the configuration: patches that do worse than their ROI count fully, the others by .65;
- control: 1 - mean performance of the same ROI samples, at the same weight. It pulls up the same places without looking
  at geography inside them, so what SRELoss does beyond it is what the geo-bias term is worth.

Seed = split, start weights and batches. Scored on the held-out points with the settings of the configuration.

How these settings came about: the loss is lowered at the training points with ease, and the question is what is left of
it elsewhere. With ROI samples seen where they lie, 64 a step, one_sided=.75, weight .4 and 1500 steps, the excess of
the three scores falls by 40 % at the training points and by 16 / 13 / 10 % at held-out ones, with an R2 lower by .010
(seeds 13 to 16, whatever the width). Points moved by 10 km (`jitter`) before the loss sees them: 20 / 18 / 15 %; by 25
km: 16 / 15 / 9 %; by 50 km: it rises. Twice the steps instead: 24 / 25 / 23 % and R2 lower by .005; the model without
the loss pays for the longer run with an R2 of .640 instead of .649 (hit rate .790 instead of .786), so that part of
what R2 keeps is this one's loss. Both, 15 km, at weight .8: 24 / 23 / 20 % with one_sided=.6, where R2 is .006 and the
hit rate 1.8 points higher than without the loss; that slack is spent on a larger two-sided share: 36 / 34 / 36 % with
one_sided=.4 (R2 +.001, hits +.7), and at weight 1.6 with one_sided=.3 47 / 40 / 48 % (R2 -.014, hits -.7). one_sided=.4
was then run on seeds 50 to 52, fresh by then: 19 / 23 / 19 %, R2 -.004, hits +.3; it was not enough. On seeds 13, 14,
50 and 51, weight .8: one_sided=.2 40 / 35 / 42 % (R2 -.009, hits -.6), 1 - mean performance added 31 / 27 / 29 %, 20 km
31 / 19 / 33 %, distance lags counted three times no better. one_sided=.3 was fixed next and run on the fresh seeds 60
to 64: 44 / 41 / 46 %, R2 -.003, hits +.1, but the worst tenth -.5 points. So one_sided=.35 was fixed, for seeds that
nothing had been chosen on. Seeds differ by 15 points and more, so that six are run: a mean of three is uncertain by 8.
Settings before all this, without jitter, gave 18 / 21 / 14 % on seeds 20 to 22; also tried there, and no better:
networks with LayerNorm and skips, the KL form, softer limits, a gradient through the task loss.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import mean

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from geobias_torch import Regions
from geobias_torch.losses import SRELoss
from geobias_torch.performance import within
from tests.reference import sre as reference
from training.cli import build
from training.data import Batch

CONFIG = "configs/airports_geobias.yaml"
SEEDS, LOSSES = {"random": range(70, 76), "block": range(70, 73)}, ("none", "SRELoss", "control")
SCORES = ("sg_sre", "dl_sre", "ds_sre")
RESULTS = Path("benchmarks/results/airports.json")
COLUMNS = ("r2", "hit", "worst_tenth", *SCORES, *(f"{score}_excess" for score in SCORES))


class MeanPerformance(nn.Module):
    """The control: 1 - mean over the ROIs of their mean performance."""

    def forward(self, performance: Tensor, regions: Regions) -> Tensor:
        """1 = always wrong, 0 = always right."""
        return 1 - (regions.sum(performance) / regions.sizes).mean()


def run(split: str, seed: int, loss: str) -> dict[str, float | str]:
    """Train once and score the held-out points."""
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    setup = prepare(split, seed)
    trainer, task, data = setup.trainer, setup.model, setup.datamodule
    configured = task.geobias_loss
    task.geobias_loss = {"none": None, "SRELoss": configured, "control": MeanPerformance()}[loss]
    trainer.fit(task, data)
    (scores,) = trainer.validate(task, data, verbose=False)
    row: dict[str, float | str] = {"split": split, "seed": seed, "loss": loss, "r2": scores["val/r2"]}
    row |= {"hit": scores["val/hit_rate"], "worst_tenth": scores["val/geobias/performance_worst_decile"]}
    for score in SCORES:
        row[score] = scores[f"val/geobias/{score}"]
        row[f"{score}_excess"] = row[score] - scores[f"val/geobias/{score}_floor"]
    row["seconds"] = time.perf_counter() - start
    print(json.dumps(row), file=sys.stderr)  # a run that is stopped leaves what was done
    return row


def prepare(split: str, seed: int):
    """Trainer, task and data of the configuration; scored once, at the end."""
    arguments = ["--config", CONFIG, "--seed_everything", str(seed), "--data.init_args.seed", str(seed)]
    arguments += ["--data.init_args.split", split, "--trainer.logger", "false", "--trainer.callbacks", "null"]
    arguments += ["--trainer.enable_checkpointing", "false", "--trainer.enable_progress_bar", "false"]
    arguments += ["--trainer.enable_model_summary", "false", "--trainer.limit_val_batches", "1.0"]
    arguments += ["--trainer.check_val_every_n_epoch", "1000"]
    arguments += ["--model.init_args.geobias.init_args.scores", json.dumps(SCORES)]
    return build(arguments, run=False)


def check_loss() -> None:
    """SRELoss of one real batch equals the reference in plain loops, or there are no numbers."""
    setup = prepare("random", 0)
    setup.datamodule.setup()
    batch: Batch = next(iter(setup.datamodule.train_dataloader()))
    loss: SRELoss = setup.model.geobias_loss
    prediction = setup.model(batch.lat, batch.lon)
    performance = within(prediction, batch.target, setup.model.tolerance, bandwidth=setup.model.bandwidth)
    regions = batch.regions
    assert regions is not None
    centers = list(zip(regions.center_lat.tolist(), regions.center_lon.tolist(), strict=True))
    rois = np.split(regions.members.numpy(), regions.offsets[1:-1].numpy())
    values = performance.detach().double().numpy()
    expected = sum(
        reference.loss(
            values,
            regions.lat.numpy(),
            regions.lon.numpy(),
            centers,
            regions.radius,
            theirs,
            rois=rois,
            one_sided=loss.one_sided,
        )
        for theirs in (reference.scale_grid(0.05), reference.distance_lag(0.02), reference.direction_sector(8))
    )
    got = loss(performance.double(), regions).item()
    if abs(got - expected) > 1e-9 + 1e-7 * abs(expected):
        raise SystemExit(f"SRELoss gives {got} where the reference gives {expected}: nothing is measured.")


def means(rows: list[dict]) -> dict[tuple[str, str], dict[str, float]]:
    """Mean over the seeds per (split, loss)."""
    return {
        (split, loss): {c: mean(r[c] for r in rows if (r["split"], r["loss"]) == (split, loss)) for c in COLUMNS}
        for split, loss in product(SEEDS, LOSSES)
    }


def bounds(average: dict[tuple[str, str], dict[str, float]]) -> list[tuple[str, bool]]:
    """What was asked of the random split's means, and whether it holds."""
    none, sre, control = (average["random", loss] for loss in ("none", "SRELoss", "control"))
    change = {score: sre[f"{score}_excess"] / none[f"{score}_excess"] - 1 for score in SCORES}
    against = {score: sre[f"{score}_excess"] / control[f"{score}_excess"] - 1 for score in SCORES}
    out = [(f"excess of {s} at least 25 % lower than without: {v:+.1%}", v <= -0.25) for s, v in change.items()]
    out += [(f"R2 not lower by more than .01: {sre['r2'] - none['r2']:+.4f}", sre["r2"] >= none["r2"] - 0.01)]
    for name, text in (("hit", "hit rate"), ("worst_tenth", "worst-tenth hit rate")):
        out += [(f"{text} not lower: {sre[name] - none[name]:+.4f}", sre[name] >= none[name])]
    return out + [(f"excess of {s} lower than the control's: {v:+.1%}", v < 0) for s, v in against.items()]


def markdown(rows: list[dict], machine: dict[str, str]) -> str:
    """The table with every run, the means and the bounds."""
    head = ["split", "loss", "seed", "R2", "hit rate", "worst tenth", "SG", "DL", "DS", "SG ex.", "DL ex.", "DS ex."]
    lines = ["# Airports: geo-bias with and without the loss", "", __doc__.split("\n\n", 1)[1].strip(), ""]
    lines += [f"{', '.join(f'{k} {v}' for k, v in machine.items())}. ex. = score minus its noise floor, nats.", ""]
    lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    average = means(rows)
    for split, loss in product(SEEDS, LOSSES):
        block = [(str(r["seed"]), r) for r in rows if (r["split"], r["loss"]) == (split, loss)]
        for seed, row in [*block, ("**mean**", average[split, loss])]:
            numbers = [f"{row[c]:.3f}" if c in COLUMNS[:3] else f"{row[c]:.4f}" for c in COLUMNS]
            lines.append(f"| {' | '.join([split, loss, seed, *numbers])} |")
    lines += ["", "Asked of the means of the random split (the block split has no bound):", ""]
    lines += [f"- {'holds' if holds else '**DOES NOT HOLD**'}: {text}" for text, holds in bounds(average)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run everything, print and write the table; 1 if a bound does not hold."""
    parser = argparse.ArgumentParser(description="Geo-bias of the airports with and without the loss.")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each (default 2)")
    workers = parser.parse_args().workers
    check_loss()
    jobs = [(split, seed, loss) for split, seeds in SEEDS.items() for seed, loss in product(seeds, LOSSES)]
    rows = each(run, jobs, workers)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = {"machine": f"{platform.machine()} CPU", "python": platform.python_version(), "torch": torch.__version__}
    machine |= {"lightning": pl.__version__, "commit": commit}
    report = markdown(rows, machine)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.with_suffix(".md").write_text(report)
    average = {"/".join(key): value for key, value in means(rows).items()}
    checked = [{"bound": text, "holds": bool(holds)} for text, holds in bounds(means(rows))]
    RESULTS.write_text(json.dumps({"machine": machine, "bounds": checked, "means": average, "runs": rows}, indent=1))
    print(report)
    return 0 if all(bound["holds"] for bound in checked) else 1


def each(function: Callable, jobs: list[tuple], workers: int = 2) -> list:
    """Results in the order of the jobs, so many at a time, one thread each."""
    with ProcessPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(function, *job) for job in jobs]
        return [future.result() for future in tqdm(futures, desc="runs", file=sys.stderr)]


if __name__ == "__main__":
    raise SystemExit(main())
