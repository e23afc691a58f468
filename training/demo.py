"""The main job, ``make demo``: train with and without a geo-bias loss, compare, draw. On a CPU, into ``demo/``."""

from __future__ import annotations

import time
from pathlib import Path

from geobias_torch.cli import main as geobias
from training.cli import main as geobias_train

RUNS = ("airports", "airports_geobias")
SETTINGS = "--radius 0.1 --scale 0.05 --lag 0.02 --sectors 8 --min-roi-size 50"


def main() -> int:
    """Run the commands that a user would type, and say each before it runs."""
    start = time.monotonic()
    Path("demo").mkdir(exist_ok=True)
    for run in RUNS:
        _say(f"geobias-train fit --config configs/{run}.yaml")
        geobias_train(["fit", "--config", f"configs/{run}.yaml"])
        _say(f"geobias-train predict --config configs/{run}.yaml --ckpt_path runs/{run}/model.ckpt")
        geobias_train(["predict", "--config", f"configs/{run}.yaml", "--ckpt_path", f"runs/{run}/model.ckpt"])
    commands = [f"score demo/{run}.csv {SETTINGS} --map demo/{run}.png" for run in RUNS]
    commands.append(f"compare {' '.join(f'demo/{run}.csv' for run in RUNS)} {SETTINGS}")
    for command in commands:
        _say(f"geobias {command}")
        failed = geobias(command.split())
        if failed:
            return failed
    print(f"\nTook {time.monotonic() - start:.0f} s. Predictions and maps are in demo/, the logs in runs/.")
    return 0


def _say(command: str) -> None:
    print(f"\n$ {command}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
