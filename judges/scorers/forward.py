"""One forward pass over many short rows that continue rows already run: packed into one, or padded."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

# How rows on a kept cache are laid out; None: its states cannot be shared at all.
Layout = Literal["packed", "padded", "equal"]

_WASTE = 0.1  # share of a padded batch that may be padding


def batches(lengths: Sequence[int], past: int, max_tokens: int, equal: bool = False) -> list[list[int]]:
    """Cut rows into batches of similar length.

    Args:
        lengths: tokens of each row.
        past: tokens that each row has before it, already run, which the batch holds too.
        max_tokens: bound on rows * (past + longest row); a row that alone is above it makes a batch of its own.
        equal: only rows of equal length; else up to a tenth of a batch may be padding.

    Returns:
        Row numbers per batch, from the shortest to the longest.

    Example:
        >>> from judges.scorers.forward import batches
        >>> batches([10, 11, 30, 10], past=0, max_tokens=1000)
        [[0, 3, 1], [2]]
        >>> batches([10, 10, 10], past=40, max_tokens=100)
        [[0, 1], [2]]
    """
    waste = 0.0 if equal else _WASTE
    cut: list[list[int]] = []
    used = 0
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = lengths[row]
        rows = len(cut[-1]) + 1 if cut else 1
        fits = rows * (past + longest) <= max_tokens and rows * longest - (used + longest) <= waste * rows * longest
        if cut and fits:
            cut[-1].append(row)
            used += longest
        else:
            cut.append([row])
            used = longest
    return cut


def packs(lengths: Sequence[int], past: int, max_tokens: int, largest: int) -> list[list[int]]:
    """Cut rows, in their order, into packs.

    Args:
        lengths: tokens of each row.
        past: tokens already run that the pack attends to, held once.
        max_tokens: bound on past + the sum of the rows; a row that alone is above it makes a pack of its own.
        largest: bound on the sum of the rows likewise: each token of a pack attends to all, if only to be masked.

    Returns:
        Row numbers per pack.

    Example:
        >>> from judges.scorers.forward import packs
        >>> packs([10, 20, 30, 10], past=40, max_tokens=100, largest=1000)
        [[0, 1, 2], [3]]
    """
    cut: list[list[int]] = []
    used = 0
    for row, length in enumerate(lengths):
        if cut and past + used + length <= max_tokens and used + length <= largest:
            cut[-1].append(row)
            used += length
        else:
            cut.append([row])
            used = length
    return cut


@dataclass(frozen=True)
class Past:
    """Rows that have been run: their cache, which of its columns each row consists of, and how many those are.

    Attributes:
        cache: one row of states each, or, packed, one row that holds the states of all.
        mask: (rows, columns), 1 where the row has a token.
        length: (rows,), tokens of the row.

    Example:
        >>> import torch
        >>> from judges.scorers.forward import Past
        >>> Past(None, torch.ones(1, 3), torch.tensor([3])).mask.shape
        torch.Size([1, 3])
    """

    cache: Any
    mask: Tensor
    length: Tensor


class Forward:
    """Calls a causal model of transformers by the names that its version uses.

    Args:
        model: the model.
        answers: ids of the L tokens whose probability is read.
    """

    def __init__(self, model: Any, answers: Sequence[int]) -> None:
        self.model = model
        base = model.get_base_model() if hasattr(model, "get_base_model") else model  # an adapter hides the signature
        parameters = inspect.signature(base.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._keeps = "logits_to_keep" in parameters
        self._positions = "position_ids" in parameters
        self._answers = torch.tensor(answers)

    def padded(
        self, rows: Sequence[Sequence[int]], past: Past | None = None, source: Tensor | None = None, read: bool = True
    ) -> tuple[Tensor, Past]:
        """Run rows as a batch, padded on the left.

        Args:
            rows: n token lists, none empty if ``read``.
            past: rows that have been run, each with a cache row of its own; it is not changed.
            source: (n,), the row of ``past`` that each row continues.
            read: whether the answers are wanted, or the cache.

        Returns:
            (n, L) float64 probabilities on the CPU (empty without ``read``), and the rows run (without a cache if
            ``read``).
        """
        device = self.model.device
        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)  # what pads is masked, so its id does not matter
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for row, tokens in enumerate(rows):
            ids[row, width - len(tokens) :] = torch.tensor(tokens)
            mask[row, width - len(tokens) :] = 1
        ids, new_mask = ids.to(device), mask.to(device)
        length = torch.zeros(len(rows), dtype=torch.long, device=device)
        mask, cache = new_mask, None
        if past is not None and source is not None:
            source = source.to(device)
            length = past.length[source]
            mask = torch.cat([past.mask[source], new_mask], dim=1)  # (rows, columns + width)
            cache = _expanded(past.cache, source)
        positions = (new_mask.cumsum(1) - 1).clamp_min(0) + length[:, None]
        output = self._call(ids, mask, positions, cache, keep=1, use_cache=not read or past is not None)
        return (
            self._read(output.logits[:, -1]) if read else torch.empty(0),
            Past(None if read else getattr(output, self._cache_name), mask, length + new_mask.sum(1)),
        )

    def packed(
        self, rows: Sequence[Sequence[int]], past: Past, source: Tensor, read: bool = True
    ) -> tuple[Tensor, Past]:
        """Run rows one behind the other as a single one, each seeing only itself and the row that it continues.

        Nothing is padded and no cache copied over rows. Arguments and result are those of `padded`, but the cache of
        ``past`` is a single row, and so is that of the result.
        """
        device = self.model.device
        lengths = torch.tensor([len(tokens) for tokens in rows], device=device)
        ids = torch.tensor([token for tokens in rows for token in tokens], device=device)  # (tokens,)
        owner = torch.arange(len(rows), device=device).repeat_interleave(lengths)  # (tokens,)
        source = source.to(device)
        ends = lengths.cumsum(0)
        within = torch.arange(len(ids), device=device) - (ends - lengths)[owner]
        seen = past.mask[source].bool()  # (rows, columns)
        itself = (owner[:, None] == owner[None, :]).tril()  # (tokens, tokens)
        allowed = torch.cat([seen[owner], itself], dim=1)  # (tokens, columns + tokens)
        dtype = self.model.dtype
        mask = torch.zeros(allowed.shape, dtype=dtype, device=device).masked_fill_(~allowed, torch.finfo(dtype).min)
        output = self._call(
            ids[None],
            mask[None, None],
            (past.length[source][owner] + within)[None],
            _expanded(past.cache, torch.zeros(1, dtype=torch.long, device=device)),
            keep=ends - 1 if read else 1,
            use_cache=True,
        )
        of_rows = owner[None, :] == torch.arange(len(rows), device=device)[:, None]  # (rows, tokens)
        new = torch.cat([past.mask[source], of_rows.to(past.mask.dtype)], dim=1)
        logits = output.logits[0] if self._keeps or not read else output.logits[0, ends - 1]
        return (
            self._read(logits) if read else torch.empty(0),
            Past(None if read else getattr(output, self._cache_name), new, past.length[source] + lengths),
        )

    def layout(self, past: Past) -> Layout | None:
        """How rows can continue these, by the kind of their cache and by a trial.

        Args:
            past: one row that has been run, of at least two tokens.

        Returns:
            The best layout that gives right results.
        """
        layers = getattr(past.cache, "layers", None)
        # By name: hybrid layers inherit the expansion of the attention part alone, and would lose their state.
        kinds = {type(layer).__name__ for layer in layers} if layers else {type(past.cache).__name__}
        known = {"DynamicLayer", "DynamicSlidingWindowLayer", "DynamicCache"}
        if not hasattr(past.cache, "batch_select_indices") or not kinds <= known:
            return None
        window = getattr(self.model.config.get_text_config(), "sliding_window", None)
        if not self._positions or "DynamicSlidingWindowLayer" in kinds or (layers is None and window is not None):
            return "equal"
        return "packed" if self._takes_masks(past) else "padded"

    def _takes_masks(self, past: Past) -> bool:
        """Whether the model follows a mask of every token for every token; flash attention, for one, does not."""
        answer = int(self._answers[0]), int(self._answers[-1])
        rows, source = [[answer[0]] * 5 + [answer[1]], [answer[1]] * 3], torch.zeros(2, dtype=torch.long)
        expected = self.padded(rows, past, source)[0]
        try:
            found = self.packed(rows, past, source)[0]
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            return False
        # Of the labels among themselves: their mass may be tiny.
        expected, found = (chances / chances.sum(1, keepdim=True) for chances in (expected, found))
        return torch.allclose(found, expected, rtol=0, atol=1e-4 if self.model.dtype == torch.float32 else 5e-2)

    def _call(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: Any, keep: Any, use_cache: bool) -> Any:
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": use_cache}
        if self._positions:
            inputs["position_ids"] = positions
        if self._keeps:
            inputs["logits_to_keep"] = keep
        if cache is not None:
            inputs[self._cache_name] = cache
        return self.model(**inputs)

    def _read(self, logits: Tensor) -> Tensor:
        return logits.float().softmax(-1)[:, self._answers.to(logits.device)].double().cpu()


def _expanded(cache: Any, rows: Tensor) -> Any:
    """A cache with the given rows of another, which stays as it is although a call changes the cache it gets."""
    if hasattr(cache, "layers"):  # these layers replace their tensors and never write into them: no deep copy
        expanded = copy.copy(cache)
        expanded.layers = [copy.copy(layer) for layer in cache.layers]
    else:
        expanded = copy.deepcopy(cache)
    expanded.batch_select_indices(rows)
    return expanded
