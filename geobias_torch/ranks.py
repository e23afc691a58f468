"""How many processes a run has."""

from __future__ import annotations

import torch


def world_size() -> int:
    """Ranks of the distributed run, 1 where there is none.

    Example:
        >>> world_size()
        1
    """
    running = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if running else 1
