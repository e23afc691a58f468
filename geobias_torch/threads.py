"""Threads for work that numpy does without the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import torch

T = TypeVar("T")


def spread(work: Callable[..., T], *items: Iterable, most: int) -> Iterator[T]:
    """The results of ``work`` in the order of the items, as many at a time as torch has threads, at most ``most``.

    The threads stay, and with them their scratch memory: to touch new memory costs more than most operations on it.
    Work must not spread work of its own.
    """
    threads = min(torch.get_num_threads(), most)
    return _pool(threads, os.getpid()).map(work, *items) if threads > 1 else map(work, *items)


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """A pool of the process: a fork has none of its parent's threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="geobias")
