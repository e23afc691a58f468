"""What needs a CUDA device: the same scores, gradients and floors there as on the CPU, and how fast they are.

    python benchmarks/gpu.py

Under five minutes. Writes ``benchmarks/results/gpu.json``; without a CUDA device it says so and exits with 0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.functional import noise_floor, spatial_relative_entropy, spatial_self_information
from geobias_torch.losses import PerformanceBank, SRELoss
from geobias_torch.metrics import GeoBiasScores

PARTITIONS = [ScaleGrid(0.01), DistanceLag(0.005), DirectionSector(8)]


def clustered(number: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(lat, lon, probability of a hit) of points around 60 centres."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform((25, -120), (60, 30), (60, 2))
    where = torch.from_numpy(centers[rng.integers(60, size=number)] + rng.normal(0, 2.5, (number, 2)))
    return where[:, 0], where[:, 1], torch.from_numpy(rng.random(number))


def close(name: str, cpu: torch.Tensor, gpu: torch.Tensor, rtol: float) -> None:
    """Refuse to go on where the two devices disagree."""
    assert torch.allclose(cpu, gpu.cpu(), rtol=rtol, atol=1e-9, equal_nan=True), f"{name} differs between CPU and CUDA"


def timed(work: Callable[[], Any], rounds: int = 10) -> float:
    """Best of some rounds, seconds, with the device's queue empty before and after."""
    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def agree(number: int = 3_000) -> None:
    """Values and gradients on both devices, both ways of building patches."""
    lat, lon, performance = clustered(number, seed=0)
    there = Regions.from_points(lat=lat, lon=lon, radius=0.05).to("cuda")
    for partition in PARTITIONS:
        here = Regions.from_points(lat=lat, lon=lon, radius=0.05)  # patches by the fast way here, the plain one there
        for dtype, rtol in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
            hits = (performance < 0.7).to(dtype)
            args = {"min_patch_size": 5}
            close(
                f"SRE {partition}",
                spatial_relative_entropy(hits, here, partition, **args),
                spatial_relative_entropy(hits.cuda(), there, partition, **args),
                rtol,
            )
            close("floor", noise_floor(hits, here, partition), noise_floor(hits.cuda(), there, partition), rtol)
        gradients = []
        for values, regions in ((performance.clone(), here), (performance.cuda(), there)):
            values.requires_grad_()
            SRELoss(partition)(values, regions).backward()
            gradients.append(values.grad)
        close(f"gradient of SRELoss {partition}", *gradients, rtol=1e-7)
    here = Regions.from_points(lat=lat, lon=lon, radius=0.05)
    for values in (None, performance, (performance < 0.7).double()):
        moved = None if values is None else values.cuda()
        close("SSI", spatial_self_information(values, here), spatial_self_information(moved, there), 1e-6)
    gradients = []
    for device in ("cpu", "cuda"):
        bank = PerformanceBank(lat=lat, lon=lon, radius=0.05, min_coverage=0).to(device)
        for seen in (number // 2, number // 3):  # not everybody: the second time patches are thinned out
            batch = performance[:seen].to(device).requires_grad_()
            SRELoss(PARTITIONS)(*bank(batch, torch.arange(seen, device=device))).backward()
        gradients.append(batch.grad)
    close("gradient of SRELoss over a bank", *gradients, rtol=1e-7)
    results = []
    for device in ("cpu", "cuda"):
        metric = GeoBiasScores(radius=0.05).to(device)
        metric.update((performance < 0.7).to(device), lat=lat.to(device), lon=lon.to(device))
        results.append(metric.compute())
    for key, value in results[0].items():
        close(key, value, results[1][key], 1e-6)


def speed(number: int = 24_343) -> dict[str, float]:
    """A second performance vector, 256 of them, and a backward pass, on the device and as ratios to the CPU."""
    lat, lon, performance = clustered(number, seed=1)
    here = Regions.from_points(lat=lat, lon=lon, radius=0.05)
    here.build(PARTITIONS)
    there = here.to("cuda")
    hits = (torch.rand(number, 256, generator=torch.Generator().manual_seed(0)) < 0.7).float()
    turns = {"cpu": iter(range(256)), "cuda": iter(range(256))}
    moved = hits.cuda()

    def one(device: str) -> None:
        column = (moved if device == "cuda" else hits)[:, next(turns[device])]
        for partition in PARTITIONS:
            spatial_relative_entropy(column, there if device == "cuda" else here, partition)

    bank = PerformanceBank(lat=lat, lon=lon, radius=0.05).cuda()
    bank(performance.cuda(), torch.arange(number, device="cuda"))

    def step() -> None:
        index = torch.randint(number, (1024,), device="cuda")
        values = performance.float().cuda()[index].requires_grad_()
        SRELoss(PARTITIONS)(*bank(values, index)).backward()

    def backward() -> None:
        values = performance.float().cuda().requires_grad_()
        SRELoss(PARTITIONS)(values, there).backward()

    cpu, cuda = timed(lambda: one("cpu")), timed(lambda: one("cuda"))
    many = timed(lambda: [spatial_relative_entropy(moved, there, p) for p in PARTITIONS], rounds=3)
    return {
        "pairs": int(here.sizes.sum()),
        "three SRE of a vector, CPU, s": cpu,
        "three SRE of a vector, CUDA, s": cuda,
        "CPU / CUDA": cpu / cuda,
        "three SRE of 256 vectors, CUDA, s": many,
        "SRELoss forward and backward, CUDA, s": timed(backward),
        "SRELoss over a bank, batch 1024, forward and backward, CUDA, s": timed(step),
        "peak CUDA memory, GB": torch.cuda.max_memory_allocated() / 1e9,
    }


def main() -> int:
    """Check, then time, then write."""
    if not torch.cuda.is_available():
        print("No CUDA device: nothing to run.")
        return 0
    agree()
    figures = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, **speed()}
    path = Path(__file__).parent / "results" / "gpu.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
