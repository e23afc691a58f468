"""Support by a model that reads both texts at once: an NLI model, a reranker or a trained reward model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from judges.isolation import isolated, refuse_live_pickle
from judges.loading import import_extra, local_device, refuse_placing
from judges.memo import Memo
from judges.scorers.contract import OUT_OF_MEMORY, TOO_LONG, Outcome, Pair, PairScores, score_distinct
from judges.scorers.forward import batches
from judges.scorers.prompts import control_pattern, inert
from judges.scorers.readout import out_of_memory

__all__ = ["CrossEncoderScorer"]

_REMEMBERED = 100_000  # pairs


class CrossEncoderScorer:
    r"""The best probability, over the points of a context, that the point supports the statement.

    With :math:`z` the logits of the text pair (context point j, statement):

    .. math::
        \text{value} = \max_j p_j, \qquad p_j = \sigma(z) \;\text{(one label)} \quad\text{or}\quad
        p_j = \mathrm{softmax}(z)_\text{entailment} \;\text{(several)}

    The match is the best point. With ``join=True`` the whole context, one point a sentence, is read at once instead:
    evidence spread over several points is seen, and there is no match. Reliability is 1.

    Args:
        model: name or folder of a sequence classifier of transformers or of a CrossEncoder of sentence-transformers, a
            live CrossEncoder, or a live ``(model, tokenizer)``. Live models are taken as frozen.
        join: read the context as one text.
        max_batch_tokens: bound on the tokens of one batch.
        device: None for this rank's GPU, else the CPU; a live model stays where it is.
        dtype: None for float32 on the CPU and the checkpoint's own on a GPU.

    Raises:
        ValueError: on an option outside its range, ``device`` or ``dtype`` with a live model, or, on first use, several
            labels of which not exactly one is called entailment.
        TypeError: if ``model`` is of another type, or when a scorer with a live model is pickled.
        ImportError: on first use without transformers, naming the extra.

    Example:
        >>> import string
        >>> import torch
        >>> from tokenizers import Tokenizer, models
        >>> from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
        >>> from judges.scorers import CrossEncoderScorer
        >>> letters = Tokenizer(models.BPE({letter: i for i, letter in enumerate(string.printable)}, []))
        >>> size = dict(hidden_size=16, intermediate_size=16, num_attention_heads=2, num_hidden_layers=1)
        >>> config = BertConfig(vocab_size=100, num_labels=1, **size)  # random weights stand in for a model
        >>> live = BertForSequenceClassification(config), PreTrainedTokenizerFast(tokenizer_object=letters)
        >>> scores = CrossEncoderScorer(live).score(["red soil"], [("The soil is red.", "Wooden poles.")])
        >>> bool(0 <= scores.value[0] <= 1), scores.match[0] in (0, 1)
        (True, True)

    References:
        Entailment as support of one text by another: SNLI (Bowman et al., 2015).
    """

    def __init__(
        self,
        model: Any,
        *,
        join: bool = False,
        max_batch_tokens: int = 16_384,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._live = not isinstance(model, (str, Path))
        if self._live and not isinstance(model, tuple):
            model = getattr(model, "model", None), getattr(model, "tokenizer", None)  # as a CrossEncoder names them
        if self._live and not (len(model) == 2 and isinstance(model[0], torch.nn.Module) and callable(model[1])):
            raise TypeError(
                "Expected `model` to be a name, a folder, a CrossEncoder or a pair (model, tokenizer) of transformers."
            )
        refuse_placing(self._live, device=device, dtype=dtype)
        if max_batch_tokens < 1:
            raise ValueError(f"Expected `max_batch_tokens` of at least 1, but got {max_batch_tokens}.")
        self.model = model
        self.join = join
        self.max_batch_tokens = max_batch_tokens
        self.device = device
        self.dtype = dtype
        self._memo: Memo[Outcome] = Memo(_REMEMBERED)
        self._loaded: tuple[Any, Any, int | None] | None = None

    def score(self, statements: list[str], contexts: list[tuple[str, ...]]) -> PairScores:
        """Score statement i against context i. See the class, and `Scorer` for the arguments."""
        return score_distinct(statements, contexts, self._memo, self._compute)

    def _compute(self, pairs: list[Pair]) -> list[Outcome]:
        model, tokenizer, entailed = self._load()
        controls = control_pattern(tokenizer)
        texts: dict[tuple[str, str], float | str] = {}
        premises = []  # per pair: (index of the point, its text)
        for statement, context in pairs:
            points = [(index, inert(point, controls)) for index, point in enumerate(context) if point.strip()]
            if self.join:
                points = [(-1, " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for _, text in points))]
            premises.append(points)
            texts.update(dict.fromkeys(((text, inert(statement, controls)) for _, text in points), OUT_OF_MEMORY))
        with isolated(model.device, model):
            self._read(texts, model, tokenizer, entailed)
        outcomes = []
        for (statement, _), points in zip(pairs, premises, strict=True):
            found = [(index, texts[text, inert(statement, controls)]) for index, text in points]
            known = [(chance, index) for index, chance in found if isinstance(chance, float)]
            if len(known) < len(found):  # the best of some points is not the best of all
                outcomes.append(Outcome.failed(next(why for _, why in found if isinstance(why, str))))
                continue
            chance, index = max(known, key=lambda known: known[0])
            outcomes.append(Outcome(chance, 1.0, None if self.join else index, None))
        return outcomes

    def _read(
        self, texts: dict[tuple[str, str], float | str], model: Any, tokenizer: Any, entailed: int | None
    ) -> None:
        """Put the probability of each text pair, or why there is none, into ``texts``."""
        limit = min(self.max_batch_tokens, _longest(model, tokenizer))
        rows = {}
        for key in texts:
            encoded = dict(tokenizer(*key))
            if len(encoded["input_ids"]) <= limit:
                rows[key] = encoded
            else:
                texts[key] = TOO_LONG
        keys = list(rows)
        # Without a padding token a decoder cannot find the last token of a padded row.
        one = model.config.get_text_config().pad_token_id is None
        todo = batches([len(rows[key]["input_ids"]) for key in keys], 0, 1 if one else self.max_batch_tokens)
        while todo:
            batch = todo.pop(0)
            try:
                chances = _forward([rows[keys[i]] for i in batch], model, entailed)
            except Exception as error:
                if not out_of_memory(error):
                    raise
                chances = None
            if chances is not None:
                texts.update(zip((keys[i] for i in batch), chances.tolist(), strict=True))
            elif len(batch) > 1:
                todo[:0] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]

    def _load(self) -> tuple[Any, Any, int | None]:
        if self._loaded is None:
            if isinstance(self.model, tuple):
                model, tokenizer = self.model
            else:
                library = import_extra("transformers")
                device = local_device(self.device)
                with isolated(device):
                    tokenizer = library.AutoTokenizer.from_pretrained(self.model)
                    model = library.AutoModelForSequenceClassification.from_pretrained(self.model)
                    dtype = self.dtype or (torch.float32 if device.type == "cpu" else None)
                    model = model.to(device=device, dtype=dtype).eval()
            self._loaded = model, tokenizer, _entailed(model.config)
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        refuse_live_pickle(self, self._live)
        return {name: getattr(self, name) for name in ("model", "join", "max_batch_tokens", "device", "dtype")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _entailed(config: Any) -> int | None:
    """Which label means that the first text supports the second; None for a single one."""
    if config.num_labels == 1:
        return None
    names = {int(index): str(name).lower() for index, name in config.id2label.items()}
    found = [index for index, name in names.items() if name.startswith("entail")]
    if len(found) != 1:
        raise ValueError(
            "Expected a model with one label, or with one whose name in `id2label` begins with 'entail', "
            f"but got {sorted(names.values())}."
        )
    return found[0]


def _longest(model: Any, tokenizer: Any) -> int:
    """Tokens of a text pair that model and tokenizer can take."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 2**31
    return min(positions, tokenizer.model_max_length)


def _forward(rows: list[dict[str, list[int]]], model: Any, entailed: int | None) -> Tensor:
    """Probabilities of one batch, padded on the right: absolute positions start with the text."""
    width = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": model.config.get_text_config().pad_token_id or 0}
    inputs = {
        name: torch.tensor(
            [row[name] + [fill.get(name, 0)] * (width - len(row[name])) for row in rows], device=model.device
        )
        for name in rows[0]
    }
    logits = model(**inputs).logits.float()  # (rows, labels)
    if entailed is None:
        return logits[:, 0].sigmoid().double().cpu()
    return logits.softmax(-1)[:, entailed].double().cpu()
