"""Bring in what the models of the judges need: optional packages, and the device of this process."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import torch

__all__ = ["check_device", "import_extra", "local_device", "refuse_placing"]


def import_extra(name: str) -> ModuleType:
    """The module of a package that only the judges need.

    Args:
        name: the module, such as "transformers".

    Returns:
        The imported module.

    Raises:
        ImportError: if it is not installed, naming the command that installs it.

    Example:
        >>> from judges.loading import import_extra
        >>> import_extra("no_such_module")
        Traceback (most recent call last):
        ImportError: This judge needs `no_such_module`: pip install 'geobias-torch[judge]'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise  # the package is there, but something it needs is not: its own message says more
        raise ImportError(f"This judge needs `{name}`: pip install 'geobias-torch[judge]'") from error


def local_device(device: str | torch.device | None = None) -> torch.device:
    """The device given, else this rank's GPU (``LOCAL_RANK``), else the CPU.

    Args:
        device: anything `torch.device` takes, or None.

    Returns:
        The device.

    Example:
        >>> from judges.loading import local_device
        >>> local_device("cpu")
        device(type='cpu')
    """
    if device is not None:
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def check_device(device: str) -> None:
    """Refuse a device that no model can be put on here.

    Args:
        device: its name.

    Raises:
        ValueError: if there is none of this name, or it holds no numbers.

    Example:
        >>> from judges.loading import check_device
        >>> check_device("banana")
        Traceback (most recent call last):
        ValueError: Expected `device` to be one of this machine, such as cpu, but got 'banana'.
    """
    try:
        torch.zeros(1, device=device).item()
    except Exception:  # of many kinds, by the device
        raise ValueError(f"Expected `device` to be one of this machine, such as cpu, but got {device!r}.") from None


def refuse_placing(live: bool, **placing: object) -> None:
    """Refuse to place a live model: it stays where and as it is.

    Args:
        live: whether the model is a live one, not a name or folder.
        **placing: ``device``, and ``dtype`` where there is one; None where not given.

    Raises:
        ValueError: if something is given for a live model.

    Example:
        >>> from judges.loading import refuse_placing
        >>> refuse_placing(True, device="cpu")
        Traceback (most recent call last):
        ValueError: Expected no `device` with a live model: it stays as it is.
    """
    if live and any(value is not None for value in placing.values()):
        names = " and no ".join(f"`{name}`" for name in placing)
        raise ValueError(f"Expected no {names} with a live model: it stays as it is.")
