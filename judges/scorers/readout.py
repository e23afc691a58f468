"""Next-token probabilities of many prompts, running what they share once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from judges.scorers.forward import Forward, Layout, Past, batches, packs
from judges.scorers.prompts import common_prefix

# Tokens of a pack. A CPU has nothing to gain from more (measured: 128 to 1024), a GPU is not kept busy by fewer.
_PACK_ON_CPU, _PACK = 256, 1024


def out_of_memory(error: BaseException) -> bool:
    """Whether the error says that a batch was too large, on any device.

    Args:
        error: what was raised.

    Returns:
        True for an allocation that failed.

    Example:
        >>> from judges.scorers.readout import out_of_memory
        >>> out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory")), out_of_memory(KeyError("a"))
        (True, False)
    """
    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(
        text in str(error) for text in ("can't allocate memory", "not enough memory", "out of memory")
    )


class PrefixReader:
    """Reads what a causal model says next, at one cost for each distinct part of the prompts.

    The tokens with which every prompt begins are run once in the reader's life, those that the prompts of a group share
    once a call, and then only the rest of each prompt. By what the model's cache allows (`Forward.layout`), rests are

    - packed one behind the other into one row under a mask: nothing is padded, no cache copied;
    - or a batch, padded on the left, on a cache expanded over its rows (attention that takes no such mask);
    - or a batch of equal length (sliding windows, which padding would shift);
    - or whole prompts, padded on the left (recurrent or compressed states, which cannot be expanded).

    Args:
        model: a causal model of transformers, in eval mode while it is used.
        start: tokens with which prompts usually begin.
        answers: ids of the L tokens whose probability is read.
        max_batch_tokens: bound on the tokens of one batch, those of its cache included, once for each row of it.
    """

    def __init__(self, model: Any, start: Sequence[int], answers: Sequence[int], max_batch_tokens: int) -> None:
        self.model = model
        self.start = list(start)
        self.max_batch_tokens = max_batch_tokens
        self.layout: Layout | None = None
        self._forward = Forward(model, answers)
        self._started: Past | None = None

    def read(self, prompts: Sequence[list[int]], groups: Sequence[Any]) -> list[Tensor | None]:
        """Probabilities of the answers after each prompt.

        Args:
            prompts: n token lists.
            groups: n keys; prompts of one key are expected to share more than their start.

        Returns:
            n tensors (L,) float64 on the CPU; None where even a batch of one ran out of memory.
        """
        out: list[Tensor | None] = [None] * len(prompts)
        self._start()
        shared = len(self.start) if self.layout is not None else 0
        members: dict[Any, list[int]] = {}
        alone = []
        for row, (prompt, group) in enumerate(zip(prompts, groups, strict=True)):
            if shared and len(prompt) > shared and list(prompt[:shared]) == self.start:
                members.setdefault(group, []).append(row)
            else:
                alone.append(row)
        # A group of one shares nothing beyond the start; others share all but at least one token of the shortest.
        prefix = {
            group: min(common_prefix([prompts[row] for row in rows]), min(len(prompts[row]) for row in rows) - 1)
            if len(rows) > 1
            else shared
            for group, rows in members.items()
        }
        keys = list(members)
        # Packed, the heads of other groups stay in the cache beside a row's own: leave it room.
        room = self.max_batch_tokens - max(
            (len(prompts[row]) - prefix[key] for key in keys for row in members[key]), default=0
        )
        for chunk in self._cut([prefix[key] - shared for key in keys], shared, room):
            self._chunk([(members[keys[i]], prefix[keys[i]]) for i in chunk], prompts, out)
        self._rows(alone, [list(prompts[row]) for row in alone], None, None, out)
        return out

    def _chunk(
        self, groups: list[tuple[list[int], int]], prompts: Sequence[list[int]], out: list[Tensor | None]
    ) -> None:
        """Run what each of these groups shares beyond the start, in one batch, then their rows."""
        shared = len(self.start)
        heads = [list(prompts[rows[0]][shared:prefix]) for rows, prefix in groups]
        source = torch.zeros(len(groups), dtype=torch.long)
        past = self._started
        if any(heads):
            result = self._run(heads, past, source, read=False)
            if result is None:
                if len(groups) > 1:
                    self._chunk(groups[: len(groups) // 2], prompts, out)
                    self._chunk(groups[len(groups) // 2 :], prompts, out)
                return
            past, source = result[1], torch.arange(len(groups))
        rows = [row for members, _ in groups for row in members]
        rest = [list(prompts[row][prefix:]) for members, prefix in groups for row in members]
        of_row = torch.cat([source[i].expand(len(members)) for i, (members, _) in enumerate(groups)])
        self._rows(rows, rest, past, of_row, out)

    def _rows(
        self,
        rows: list[int],
        rest: list[list[int]],
        past: Past | None,
        source: Tensor | None,
        out: list[Tensor | None],
    ) -> None:
        columns = past.mask.shape[1] if past is not None else 0
        todo = self._cut([len(tokens) for tokens in rest], columns, self.max_batch_tokens)
        while todo:
            batch = todo.pop(0)
            picked = None if source is None else source[batch]
            result = self._run([rest[i] for i in batch], past, picked)
            if result is not None:
                for i, probabilities in zip(batch, result[0], strict=True):
                    out[rows[i]] = probabilities
            elif len(batch) > 1:
                todo[:0] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]

    def _start(self) -> None:
        if self._started is not None or len(self.start) < 2:
            return
        result = self._run([self.start], None, None, read=False)
        if result is not None:
            self._started = result[1]
            self.layout = self._forward.layout(self._started)

    def _cut(self, lengths: list[int], past: int, max_tokens: int) -> list[list[int]]:
        if self.layout == "packed" and past:
            return packs(lengths, past, max_tokens, _PACK_ON_CPU if self.model.device.type == "cpu" else _PACK)
        return batches(lengths, past, max_tokens, equal=self.layout == "equal")

    def _run(
        self, rows: list[list[int]], past: Past | None, source: Tensor | None, read: bool = True
    ) -> tuple[Tensor, Past] | None:
        """The result, or None if memory ran out; what the failed batch held is free by then."""
        work: Callable[[], tuple[Tensor, Past]] = partial(self._forward.padded, rows, past, source, read)
        if self.layout == "packed" and past is not None and source is not None:
            work = partial(self._forward.packed, rows, past, source, read)
        try:
            return work()
        except Exception as error:
            if not out_of_memory(error):
                raise
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None
