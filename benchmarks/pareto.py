"""What geo-bias losses cost and gain: four location encoders, several weights, two estimators, a control, the bank.

Start: ``python -m benchmarks.pareto`` (183 runs, about an hour on 2 cores; ``--only airports/block`` for a part). Every
finished run is a row of benchmarks/results/pareto.csv; a run whose row is there, with the same settings and the same
code, is not repeated. ``--report`` only writes the tables and the figure of the rows that are there.

- airports: elevation from location, configs/encoders/*.yaml, performance = |error| < .5, ROIs of .1 radians;
- cities: country of 30,000 places from their location, performance = the right country, ROIs of .05 radians;
- excess, kl: `SRELoss` with that estimator and three partitions, over the ROI samples of each batch;
- control: 1 - mean performance of the same ROI samples, at the same weight. It pulls up the same places without looking
  at geography inside them: what a geo-bias loss does beyond it is what it is worth;
- bank: `SRELoss` ("excess") over whole ROIs of a `PerformanceBank`, 32 a step (bank8: 8, bank128: 128); its batches
  hold no ROI samples.

Seed = split, start weights and batches; all losses see the same batches. Scored on the held-out points.
"""

from __future__ import annotations

import argparse
import csv
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import lightning.pytorch as pl
import torch
from tabulate import tabulate
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks.airports import MeanPerformance, check_loss
from geobias_torch import DirectionSector, DistanceLag, ScaleGrid
from geobias_torch.losses import PerformanceBank, SRELoss
from geobias_torch.metrics import GeoBiasScores
from training.data import AirportsDataModule, CitiesDataModule, LocatedDataModule
from training.encoders import RBF, NeRF, NoLocation, Space2VecTheory, Sphere2Vec
from training.tasks import ClassificationTask, LocationTask, RegressionTask

RESULTS = Path("benchmarks/results/pareto.csv")
FIGURE = Path("docs/pareto.png")
RADIUS = {"airports": 0.1, "cities": 0.05}
STEPS = 100  # per epoch
# with the learning rate; as in configs/encoders
ENCODERS: dict[str, tuple[Callable[[LocatedDataModule], nn.Module], float]] = {
    "RBF": (lambda data: RBF.from_data(data, num_anchors=500, sigma=0.07), 5e-3),
    "Space2Vec": (lambda _: Space2VecTheory(64, 0.4, 360.0, periodic=True), 1e-3),
    "NeRF": (lambda _: NeRF(7), 1e-3),
    "Sphere2Vec": (lambda _: Sphere2Vec(32, 0.003, 1.0, periodic=True), 1e-3),
    "none": (lambda _: NoLocation(), 1e-3),
}
FOUR = ("RBF", "Space2Vec", "NeRF", "Sphere2Vec")
SCORES = ("sg_sre", "dl_sre", "ds_sre")
MEASURED = ("task", "performance", "worst_tenth", *SCORES, *(f"{score}_excess" for score in SCORES), "m_ssi")
SEEDS, WEIGHTS, FEW = (0, 1, 2), (0.1, 0.3, 1.0, 3.0), (0.3, 1.0)


@dataclass(frozen=True)
class Run:
    """Settings of one run: with the commit of the code, the key of its row."""

    data: str
    split: str
    seed: int
    encoder: str
    loss: str
    weight: float
    epochs: int


def grid(epochs: int) -> list[Run]:
    """All runs; those of one seed are together, so that a grid that is stopped has whole seeds."""
    kinds = [("none", 0.0), *product(["excess"], WEIGHTS), *product(["kl", "control", "bank"], FEW)]
    runs = []
    for seed in SEEDS:
        runs += [Run("airports", "block", seed, e, loss, w, epochs) for e in FOUR for loss, w in kinds]
        few = [("none", 0.0), ("excess", 1.0)]
        runs += [Run("airports", "random", seed, e, loss, w, epochs) for e in FOUR for loss, w in few]
        banks = ("bank8", "bank", "bank128")
        runs += [Run("airports", "random", seed, "Sphere2Vec", bank, 0.3, epochs) for bank in banks]
        few += [("excess", 3.0)]
        runs += [Run("cities", "random", seed, e, loss, w, epochs) for e in ("Sphere2Vec", "none") for loss, w in few]
    return runs


class Encoded(nn.Module):
    """A position encoding of known points, computed once: it has no parameters, and none of them moves."""

    def __init__(self, encoder: nn.Module, points: Iterable[Any]) -> None:
        super().__init__()
        lat, lon = (torch.cat([getattr(p, name) for p in points]) for name in ("lat", "lon"))
        key, order = _bits(lat, lon).sort()
        self.dim, self.key = encoder.dim, key
        self.lat, self.lon = lat[order], lon[order]
        parts = zip(self.lat.split(4096), self.lon.split(4096), strict=True)
        with torch.no_grad():
            self.table = torch.cat([encoder(*part) for part in parts])

    def forward(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Rows of the table."""
        row = torch.searchsorted(self.key, _bits(lat, lon)).clamp_max(len(self.key) - 1)
        assert torch.equal(self.lat[row], lat)
        assert torch.equal(self.lon[row], lon)
        return self.table[row]


def _bits(lat: Tensor, lon: Tensor) -> Tensor:
    """A number for a pair of coordinates; two pairs with the same one would trip the assertion above."""
    return lat.view(torch.int64) * -0x61C8864680B583EB + lon.view(torch.int64)


@cache
def data_of(data: str, split: str, seed: int, rois: bool) -> LocatedDataModule:
    """The data with its splits; with ROI samples in its batches or without."""
    settings: dict[str, Any] = {"split": split, "seed": seed, "radius": RADIUS[data], "steps": STEPS}
    settings |= {} if rois else {"rois": 0}
    make = {"airports": AirportsDataModule, "cities": partial(CitiesDataModule, "country", max_places=30_000)}[data]
    module = make(**settings)
    module.setup()
    return module


@cache
def metric_of(data: str, split: str, seed: int) -> GeoBiasScores:
    """The scores; kept, as their geometry serves every run on the same held-out points."""
    radius = RADIUS[data]
    return GeoBiasScores(
        radius=radius, scale=radius / 2, lag=radius / 5, sectors=8, min_roi_size=50, scores=(*SCORES, "m_ssi")
    )


def loss_of(run: Run) -> nn.Module | None:
    """What the geo-bias term is."""
    if run.loss in ("none", "control"):
        return MeanPerformance() if run.loss == "control" else None
    radius = RADIUS[run.data]
    parts = [ScaleGrid(radius / 2), DistanceLag(radius / 5), DirectionSector(8)]
    return SRELoss(parts, estimator="kl" if run.loss == "kl" else "excess")


def measure(run: Run) -> dict[str, float]:
    """Train once and score the held-out points."""
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    # the same points with and without ROI samples, and the same random rows in every step
    data = data_of(run.data, run.split, run.seed, rois=run.loss in ("excess", "kl", "control"))
    torch.manual_seed(run.seed)
    make, lr = ENCODERS[run.encoder]
    encoder = Encoded(make(data), [data.train_points, data.held_out_points])
    shared: dict[str, Any] = {"layers": 2, "activation": "gelu", "plain": True, "lr": lr, "weight": run.weight}
    shared |= {"geobias_loss": loss_of(run)}
    if run.loss.startswith("bank"):
        centers = int(run.loss.removeprefix("bank") or 32)
        shared["bank"] = partial(PerformanceBank, radius=RADIUS[run.data], centers_per_step=centers)
    metric = metric_of(run.data, run.split, run.seed)
    if run.data == "airports":
        task: LocationTask = RegressionTask(encoder, metric, **shared)
    else:
        task = ClassificationTask(encoder, metric, num_classes=data.num_classes, **shared)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = pl.Trainer(accelerator="cpu", max_epochs=run.epochs, num_sanity_val_steps=0, limit_val_batches=0, **quiet)
    trainer.fit(task, data)
    (scores,) = pl.Trainer(accelerator="cpu", **quiet).validate(task, data, verbose=False)
    row = {"task": scores["val/r2" if run.data == "airports" else "val/accuracy"]}
    row["performance"] = scores["val/geobias/performance"]
    row["worst_tenth"] = scores["val/geobias/performance_worst_decile"]
    for score in SCORES:
        row[score] = scores[f"val/geobias/{score}"]
        row[f"{score}_excess"] = row[score] - scores[f"val/geobias/{score}_floor"]
    return row | {"m_ssi": scores["val/geobias/m_ssi"]}


def rows_of(commit: str | None = None) -> list[dict[str, str]]:
    """The rows that are there, of one state of the code or of any."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="") as file:
        return [row for row in csv.DictReader(file) if commit in (None, row["commit"])]


def append(run: Run, measured: dict[str, float], commit: str) -> None:
    """Add a row to the table."""
    row = asdict(run) | {name: f"{measured[name]:.5f}" for name in MEASURED} | {"commit": commit}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def main() -> int:
    """Run what is missing, then write the report."""
    parser = argparse.ArgumentParser(description="Costs and gains of geo-bias losses.")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each (default 2)")
    parser.add_argument("--epochs", type=int, default=10, help=f"of {STEPS} steps (default 10)")
    parser.add_argument("--only", default="", help="runs whose 'data/split/encoder/loss' starts so")
    parser.add_argument("--any-code", action="store_true", help="rows of other commits count as done, too")
    parser.add_argument("--report", action="store_true", help="write the report of the rows that are there")
    given = parser.parse_args()
    commit = code()
    if not given.report:
        check_loss()
        settings = [f.name for f in fields(Run)]
        done = {tuple(row[name] for name in settings) for row in rows_of(None if given.any_code else commit)}
        named = [run for run in grid(given.epochs) if name_of(run).startswith(given.only)]
        missing = [run for run in named if tuple(str(value) for value in asdict(run).values()) not in done]
        print(f"{len(named) - len(missing)} of {len(named)} runs are there.", file=sys.stderr)
        with ProcessPoolExecutor(max_workers=given.workers) as pool:
            futures = {pool.submit(measure, run): run for run in missing}
            for future in tqdm(as_completed(futures), total=len(futures), desc="runs", file=sys.stderr):
                if future.exception() is None:
                    append(futures[future], future.result(), commit)
                else:
                    print(f"{futures[future]} failed: {future.exception()!r}", file=sys.stderr)
    write_report(rows_of(None if given.any_code else commit) or rows_of())
    return 0


def name_of(run: Run) -> str:
    """What ``--only`` looks at."""
    return f"{run.data}/{run.split}/{run.encoder}/{run.loss}"


def code() -> str:
    """The last commit that changed what is measured."""
    command = ["git", "log", "-1", "--format=%h", "--", "geobias_torch", "training"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


Means = dict[tuple[str, str, str, str, float], dict[str, float]]  # (data, split, encoder, loss, weight): mean of seeds


def means(rows: list[dict[str, str]]) -> Means:
    """Mean over the seeds, and of how many as "seeds"."""
    groups: dict[tuple[str, str, str, str, float], list[dict[str, str]]] = {}
    for row in rows:
        key = (row["data"], row["split"], row["encoder"], row["loss"], float(row["weight"]))
        groups.setdefault(key, []).append(row)
    return {
        key: {name: mean(float(row[name]) for row in group) for name in MEASURED} | {"seeds": len(group)}
        for key, group in groups.items()
    }


def conditions(average: Means, key: tuple[str, str, str, str, float]) -> list[tuple[str, bool]]:
    """What is asked of one loss at one weight, with the numbers, and whether it holds."""
    data, split, encoder, _, weight = key
    none, own = average[(data, split, encoder, "none", 0.0)], average[key]
    control = average.get((data, split, encoder, "control", weight))
    names = [f"{score}_excess" for score in SCORES]
    change = [own[name] / none[name] - 1 for name in names]
    out = [(f"excess {' / '.join(f'{c:+.1%}' for c in change)} (asked: each -25 %)", max(change) <= -0.25)]
    out += [(f"R2 {own['task'] - none['task']:+.4f} (-.01)", own["task"] >= none["task"] - 0.01)]
    for name, text in (("performance", "mean performance"), ("worst_tenth", "worst tenth")):
        out += [(f"{text} {own[name] - none[name]:+.4f} (not lower)", own[name] >= none[name])]
    if control is not None:
        against = [own[name] / control[name] - 1 for name in names]
        text = f"excess against the control's {' / '.join(f'{c:+.1%}' for c in against)} (lower)"
        out += [(text, max(against) < 0)]
    return out


def verdicts(average: Means, losses: tuple[str, ...]) -> Iterator[str]:
    """For each encoder the best weight of these losses on the block split, and what holds there."""
    for encoder in FOUR:
        keys = [k for k in average if k[:3] == ("airports", "block", encoder) and k[3] in losses and k[4] in FEW]
        if not keys or ("airports", "block", encoder, "none", 0.0) not in average:
            continue
        held = {key: conditions(average, key) for key in keys}
        best = max(keys, key=lambda k: (sum(ok for _, ok in held[k]), -sum(average[k][f"{s}_excess"] for s in SCORES)))
        fails = [text for text, ok in held[best] if not ok]
        yield f"- {encoder}, {best[3]} at weight {best[4]:g}: {'**DOES NOT HOLD**' if fails else 'holds'}"
        yield from (f"  - {'holds' if ok else '**does not hold**'}: {text}" for text, ok in held[best])


def write_report(rows: list[dict[str, str]]) -> None:
    """Tables as markdown beside the rows, and the figure."""
    average = means(rows)
    lines = ["# Costs and gains of geo-bias losses", "", __doc__.split("\n\n", 1)[1].strip(), ""]
    lines += [f"{len(rows)} runs, code {', '.join(sorted({row['commit'] for row in rows}))}. Means over the seeds."]
    lines += ["ex. = score minus its noise floor, nats; in brackets the change against no loss."]
    for data, split in dict.fromkeys(key[:2] for key in average):
        lines += ["", f"## {data}, {split} split", "", table(average, data, split)]
    lines += ["", "## What was asked (airports, block split, three-seed means)", ""]
    lines += [*verdicts(average, ("excess", "kl")), "", "With the bank in place of the ROI samples:", ""]
    lines += [*verdicts(average, ("bank",))]
    RESULTS.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw(average)


def table(average: Means, data: str, split: str) -> str:
    """One row an encoder, loss and weight."""
    head = ["encoder", "loss", "weight", "seeds", "R2" if data == "airports" else "accuracy", "performance"]
    head += ["worst tenth", "SG", "DL", "DS", "SG ex.", "DL ex.", "DS ex.", "M-SSI"]
    order = ["none", "excess", "kl", "bank8", "bank", "bank128", "control"]
    body = []
    for key in sorted((k for k in average if k[:2] == (data, split)), key=lambda k: (k[2], order.index(k[3]), k[4])):
        own, none = average[key], average.get((data, split, key[2], "none", 0.0))
        cells = [key[2], key[3], f"{key[4]:g}", own["seeds"], *(f"{own[name]:.3f}" for name in MEASURED[:3])]
        cells += [f"{own[score]:.4f}" for score in SCORES]
        for name in (f"{score}_excess" for score in SCORES):
            change = f" ({own[name] / none[name] - 1:+.0%})" if none and key[3] != "none" and none[name] else ""
            cells.append(f"{own[name]:.4f}{change}")
        body.append([*cells, f"{own['m_ssi']:.2f}"])
    return tabulate(body, head, tablefmt="github", disable_numparse=True)


def draw(average: Means) -> None:
    """Task score against excess, one panel an encoder: below and to the right is better."""
    import matplotlib.pyplot as plt

    style = {"none": ("black", "o"), "excess": ("#0072b2", "s"), "kl": ("#56b4e9", "D"), "bank": ("#009e73", "^")}
    style["control"] = ("#d55e00", "x")
    figure, panels = plt.subplots(1, len(FOUR), figsize=(14, 3.6), layout="constrained")
    for panel, encoder in zip(panels, FOUR, strict=True):
        for loss, (colour, marker) in style.items():
            keys = sorted(k for k in average if k[:4] == ("airports", "block", encoder, loss))
            x = [average[k]["task"] for k in keys]
            y = [mean(average[k][f"{s}_excess"] for s in SCORES) for k in keys]
            panel.plot(x, y, marker=marker, color=colour, label=loss, linestyle="-" if loss == "excess" else "none")
            for key, *place in zip(keys, x, y, strict=True):
                if key[4]:
                    panel.annotate(f"{key[4]:g}", place, xytext=(4, 3), textcoords="offset points", fontsize=7)
        panel.set(title=encoder, xlabel="R2 held out (block split)")
    panels[0].set_ylabel("mean excess of SG, DL, DS SRE (nats)")
    panels[-1].legend(fontsize=8)
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    raise SystemExit(main())
