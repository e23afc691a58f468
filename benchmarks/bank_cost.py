"""What a step with a `PerformanceBank` costs: against one without, and against the loop that runs the model again.

Start: ``python -m benchmarks.bank_cost`` (two minutes on 2 cores). Airports, batch 1024, the encoders and the network
of configs/encoders, three SRE partitions; writes benchmarks/results/bank_cost.json. What is compared:

- plain: forward, smooth-L1, backward, AdamW;
- bank: the same with ``+ weight * sre(*bank(performance, index))``, at 8, 32 and 128 centres a step, 32 being the
  default. It costs about the same whatever the model is, so that the ratio depends on that;
- again: for each centre the model is run again on all members of its ROI, and the loss taken over these, one ROI after
  the other, as the published training code of geo-bias scores does. It finds no neighbours and cuts no patches: both
  are known beforehand, which the published code does not do.

The steps of all kinds take turns, so that a busy machine is busy for all; medians. Before anything is timed, the loss
that the bank hands out has to equal that of the model run again. How much the centres help on held-out points:
`benchmarks.pareto`, "bank8", "bank" (32) and "bank128".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from benchmarks.pareto import ENCODERS, FOUR
from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.losses import PerformanceBank, SRELoss
from geobias_torch.performance import within
from training.data import AirportsDataModule
from training.encoders import FFN

RESULTS = Path("benchmarks/results/bank_cost.json")
RADIUS, BATCH, CENTERS, WEIGHT = 0.1, 1024, (8, 128), 0.3
ROUNDS = 120


class Setup:
    """The training points, a model and its optimiser."""

    def __init__(self, encoder: str) -> None:
        data = AirportsDataModule(rois=0)
        data.setup()
        points = data.train_points
        assert points is not None
        self.lat, self.lon, self.target = points.lat, points.lon, points.target
        torch.manual_seed(0)
        make, lr = ENCODERS[encoder]
        self.encoder = make(data)
        self.network = FFN(self.encoder.dim, 1, hidden=256, layers=2, activation="gelu", plain=True)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=lr)
        self.sre = SRELoss([ScaleGrid(RADIUS / 2), DistanceLag(RADIUS / 5), DirectionSector(8)])
        self.regions = Regions.from_points(lat=self.lat, lon=self.lon, radius=RADIUS)
        self.regions.build(self.sre.partitions)

    def performance(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Prediction and soft performance of some training points."""
        prediction = self.network(self.encoder(self.lat[rows], self.lon[rows]))[:, 0]
        return prediction, within(prediction, self.target[rows], 0.5, bandwidth=0.1)

    def again(self, centers: Tensor) -> Tensor:
        """The loss over the ROIs of some points, with the model run on all their members."""
        losses = []
        for center in centers.tolist():
            roi = self.regions[torch.tensor([center])]
            members = roi.members.long()
            everybody = torch.zeros(len(self.lat), dtype=torch.float64)
            everybody = everybody.index_copy(0, members, self.performance(members)[1].double())
            losses.append(self.sre(everybody, roi))
        return torch.stack(losses).mean()

    def step(self, term: Callable[[Tensor, Tensor], Tensor] | None) -> float:
        """Train one step; its seconds."""
        index = torch.randint(len(self.lat), (BATCH,))
        start = time.perf_counter()
        prediction, performance = self.performance(index)
        loss = smooth_l1_loss(prediction, self.target[index])
        if term is not None:
            loss = loss + WEIGHT * term(performance, index)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return time.perf_counter() - start


def make_bank(setup: Setup, centers: int) -> PerformanceBank:
    """A bank that knows everybody."""
    bank = PerformanceBank(lat=setup.lat, lon=setup.lon, radius=RADIUS, centers_per_step=centers)
    with torch.no_grad():
        everybody = torch.arange(len(setup.lat))
        bank(setup.performance(everybody)[1], everybody)
    return bank


def check(setup: Setup) -> None:
    """A bank that has just seen everybody gives the loss of the model run again, or nothing is timed."""
    bank = make_bank(setup, 32)
    index = torch.arange(BATCH)
    with torch.no_grad():
        everybody, regions = bank(setup.performance(index)[1], index)
        centers = [
            int(((setup.lat == a) & (setup.lon == b)).nonzero()[0])
            for a, b in zip(regions.center_lat, regions.center_lon, strict=True)
        ]
        got, expected = float(setup.sre(everybody, regions)), float(setup.again(torch.tensor(centers)))
    if abs(got - expected) > 1e-6 * abs(expected):
        raise SystemExit(f"The bank's loss is {got} where running the model again gives {expected}: nothing is timed.")


def time_all(setup: Setup, centers: int) -> dict[str, float]:
    """Milliseconds of a step of each kind, medians."""
    bank = make_bank(setup, centers)
    eligible = bank.eligible

    def by_bank(performance: Tensor, index: Tensor) -> Tensor:
        return setup.sre(*bank(performance, index))

    def again(performance: Tensor, index: Tensor) -> Tensor:
        return setup.again(index[eligible[index]][:centers])

    kinds: dict[str, Callable[[Tensor, Tensor], Tensor] | None] = {"plain": None, f"bank {centers}": by_bank}
    seconds: dict[str, list[float]] = {kind: [] for kind in [*kinds, f"again {centers}"]}
    for round_ in range(ROUNDS):
        for kind, term in kinds.items():
            seconds[kind].append(setup.step(term))
        if round_ % 12 == 0:
            seconds[f"again {centers}"].append(setup.step(again))
    return {kind: 1e3 * median(times[len(times) // 10 :]) for kind, times in seconds.items()}


def main() -> int:
    """Time, print and write."""
    report: dict[str, Any] = {"threads": torch.get_num_threads(), "torch": torch.__version__, "milliseconds a step": {}}
    for encoder in FOUR:
        setup = Setup(encoder)
        check(setup)
        times = time_all(setup, 32)
        plain, bank, again = (times[kind] for kind in ("plain", "bank 32", "again 32"))
        report["milliseconds a step"][encoder] = {kind: round(value, 2) for kind, value in times.items()}
        report[f"{encoder}: step with bank / plain (bound 1.25)"] = round(bank / plain, 3)
        report[f"{encoder}: term by running again / by bank (bound 20)"] = round((again - plain) / (bank - plain), 1)
    for centers in CENTERS:
        times = time_all(setup, centers)
        report[f"Sphere2Vec, {centers} centres: step with bank / plain"] = round(
            times[f"bank {centers}"] / times["plain"], 3
        )
    print(json.dumps(report, indent=1))
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
