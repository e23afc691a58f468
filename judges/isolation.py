"""Run a model in the middle of somebody else's training, and leave no trace there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["isolated", "refuse_live_pickle"]


@contextmanager
def isolated(device: torch.device, model: nn.Module | None = None) -> Iterator[None]:
    """Inference inside, everything as it was afterwards.

    Inside there is no gradient, no autocast (a caller's bfloat16 would move the scores), and the model is in eval mode.
    On leaving, also by an exception: the random states of torch (CPU and ``device``), numpy and Python, gradient mode
    and each submodule's training flag are what they were.

    Args:
        device: where the model runs.
        model: its modules' training flags are kept; None while it is being loaded.

    Example:
        >>> import torch
        >>> from judges.isolation import isolated
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Dropout()
        >>> with isolated(torch.device("cpu"), model):
        ...     noise, training = torch.rand(3), model.training
        >>> training, model.training, torch.rand(1) == noise[0]
        (False, True, tensor([True]))
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (kept for others, not used)
    training = [module for module in model.modules() if module.training] if model is not None else []
    cuda = [device] if device.type == "cuda" else []
    try:
        with (
            torch.random.fork_rng(devices=cuda),
            torch.no_grad(),
            torch.autocast(device.type, enabled=False),
        ):
            for module in training:
                module.training = False
            yield
    finally:
        for module in training:
            module.training = True
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def refuse_live_pickle(owner: Any, live: bool) -> None:
    """Raise if ``owner`` holds a model instance: a pickle would carry its weights to every worker.

    Args:
        owner: the object being pickled; its class is named in the error.
        live: whether it was given a model instance rather than a name.

    Raises:
        TypeError: if it was.

    Example:
        >>> from judges.isolation import refuse_live_pickle
        >>> refuse_live_pickle(object(), live=False)
    """
    if live:
        raise TypeError(
            f"Expected {type(owner).__name__} to hold a model name or folder when pickled, but it was given a live "
            "model: pass the name or folder instead, so that each process loads its own."
        )
