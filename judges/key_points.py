"""Key clauses of one chain against those of the other, each weighed by the point it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from judges.chains import ReasoningChain
from judges.conclusions import EVIDENCE
from judges.embeddings import Encoder
from judges.evidence import MASK, evidence
from judges.isolation import isolated, refuse_live_pickle
from judges.loading import import_extra, local_device, refuse_placing
from judges.one_to_all import OneToAllJudge, Similarity
from judges.pairing import Side
from judges.scorers.contract import Scorer
from judges.scorers.embedding import EmbeddingScorer
from judges.scorers.prompts import control_pattern, inert
from judges.sentences import mentions

__all__ = ["KeyPointJudge", "LLMExtractor", "split_clauses"]

MOST = 3
"""Key clauses of a point."""

Extractor: TypeAlias = Callable[[list[str]], list[list[str]]]


class KeyPointJudge(OneToAllJudge):
    r"""Precision, recall and F1 over key clauses.

    Every point is taken apart into one to three key clauses: its own words, without place names. With K points and
    :math:`k_i` clauses of point i, a clause weighs :math:`w = 1 / (k_i K)` and scores what the other side supports of
    it at best:

    .. math::
        P = \sum_i \sum_{c \in \text{point } i} \frac{s(c, \text{clauses of the references})}{k_i K}

    and the same for recall; everything else is as in `OneToAllJudge`. A point's value is the mean over its clauses. A
    point that the extractor could not take apart fails ("no key clauses"); as support for others its text stands in.

    Args:
        extractor: takes a list of points and gives the clauses of each, such as an `LLMExtractor`; more than three are
            cut off, and none is a failure. By default `split_clauses`, by rules; the scores are then approximate.
        scorer: how far clauses support a clause. By default ``EmbeddingScorer(lower=0.40, upper=0.55)``; equal
            thresholds make a step.
        similarity: as in `OneToAllJudge`.
        max_failed: as in `OneToAllJudge`, of the clauses.

    Raises:
        TypeError: if ``extractor`` is not a function, on use if it does not give a list of texts for every point, and
            as `OneToAllJudge`.
        ValueError: as `OneToAllJudge`.

    Example:
        >>> judge = KeyPointJudge()
        >>> candidate = ["- Red soil and wooden poles.\n\nAnswer: Kenya"]
        >>> scores = judge.score(candidate, ["- The soil is red.\n- A lighthouse on a cliff."])
        >>> scores.precision.item(), scores.recall.item(), scores.approximate
        (0.5, 0.5, True)
        >>> scores.candidate_points[0][0].clauses
        (('Red soil', 1.0), ('wooden poles', 0.0))

    References:
        GeoRC (arXiv 2601.21278), Algorithm 2.
    """

    def __init__(
        self,
        extractor: Extractor | None = None,
        scorer: Scorer | None = None,
        *,
        similarity: Encoder | Similarity | None = None,
        max_failed: float = 0.25,
    ) -> None:
        if not (extractor is None or callable(extractor)):
            raise TypeError(f"Expected `extractor` to be a function, but got {type(extractor).__name__}.")
        scorer = EmbeddingScorer(lower=0.40, upper=0.55) if scorer is None else scorer
        super().__init__(scorer, similarity=similarity, max_failed=max_failed)
        self.extractor = extractor

    @property
    def approximate(self) -> bool:
        """Whether clauses come from rules or their support from similarity."""
        return self.extractor is None or super().approximate

    def _sides(self, chains: list[ReasoningChain]) -> list[Side]:
        chains = self.mark(chains)
        texts = [point.text for chain in chains for point in chain.points if not point.restated]
        distinct = list(dict.fromkeys(texts))
        clauses = dict(zip(distinct, self._extract(distinct), strict=True))
        return [
            Side(chain, tuple(() if point.restated else clauses[point.text] for point in chain.points))
            for chain in chains
        ]

    def _extract(self, texts: list[str]) -> list[tuple[str, ...]]:
        found = (self.extractor or split_clauses)(texts)
        if not isinstance(found, (list, tuple)) or len(found) != len(texts):
            raise TypeError(
                f"Expected `extractor` to give a list of clauses for each of the {len(texts)} points, but got "
                f"{len(found) if isinstance(found, (list, tuple)) else type(found).__name__}."
            )
        for row, clauses in enumerate(found):
            if not isinstance(clauses, (list, tuple)) or not all(isinstance(clause, str) for clause in clauses):
                raise TypeError(f"Expected `extractor` to give lists of texts, but got {clauses!r:.60} at row {row}.")
        return [
            tuple(dict.fromkeys(clause.strip() for clause in clauses if clause.strip()))[:MOST] for clauses in found
        ]


_CUT = re.compile(
    r"\s*(?:[,;:()\[\]/–—]|[.!?](?=\s|$)|\s-+>?\s|(?<!\w)(?:and|or|nor|but|while|whereas|which|so|because|since|as|"
    r"suggesting|indicating|pointing|meaning|hence|thus|therefore|und|oder|aber|y|o|pero|et|ou|mais|e|ma|и|или|но)"
    r"(?!\w))\s*",
    re.IGNORECASE,
)
_OR = re.compile(r"\W*(?:or|nor|oder|ou|или)\W*", re.IGNORECASE)
_AND = re.compile(r"\W*(?:and|und|y|et|e|и)\W*", re.IGNORECASE)
_NEGATION = re.compile(r"(?:^|\s)(no|not|without|never|neither|kein\w*|ohne|sin|sans|senza|без|нет)\s", re.IGNORECASE)
_SAYS_NOTHING = """
    a an the in of from near to for at is are was be been found common typical like as by most only this that it its
    these those we i think suggest suggests indicate indicates point points mean means likely probably possibly here
    there have has fits fit expects expect known country region area part parts both also very quite seen visible can
    may might could would rather than not sure rules rule out drop drops style usual used use uses required something
    close same what one again mark scheme combination exist exists happen happens less leaves they
"""
_EMPTY = frozenset(_SAYS_NOTHING.split())
# What a point says of itself, not of the scene: "such walls", "as in the Mid North", "typical for farms inland"
_ASIDE = re.compile(
    r"(?:such|that|this|these|those)(?:\s\w+){0,3}|(?:again |also |still )?(?:an? |the )?(?:best known )?(?:very )?"
    r"(?:typical|characteristic|common|usual|known|mark|sign|hallmark|look)\s(?:for|of|in)\s.*",
    re.IGNORECASE,
)
_THIS = re.compile(r"(?:this|that)\s(?:is|are)\s", re.IGNORECASE)
_LIKE = re.compile(r"\s*as\s*", re.IGNORECASE)
_WHERE = re.compile(r"(?:in|on|at|around|across|throughout|from|over)\s", re.IGNORECASE)
_SO = re.compile(r"\W*(?:so|suggesting|indicating|pointing|meaning|hence|thus|therefore)\W*", re.IGNORECASE)


def split_clauses(texts: list[str]) -> list[list[str]]:
    """Take points apart by rules: at commas and conjunctions, place names dropped, negations kept.

    A part that says nothing beyond places and words such as "typical of" is left out; "no A or B" is "no A" and "no
    B". Of more than three parts those with the most words stay. A rough stand-in for an extractor that understands.

    Args:
        texts: the points.

    Returns:
        For each one to three clauses, in its own words; the point without its places where nothing else is left.

    Example:
        >>> split_clauses(["Red soil and wooden poles, typical of Kenya.", "No kerbs or centre line in Ghana"])
        [['Red soil', 'wooden poles'], ['No kerbs', 'No centre line']]
    """
    return [_clauses(text) for text in texts]


def _clauses(text: str) -> list[str]:
    masked = evidence(text)
    found: list[str] = []
    start, denial, before = 0, "", ""
    for cut in [*_CUT.finditer(masked), None]:
        begin, end, joint = (cut.start(), cut.end(), cut.group()) if cut else (len(masked), len(masked), "")
        shown = _bare(masked[start:begin])
        if _AND.fullmatch(joint) and shown and len(masked[start:begin].split()) == 1:
            continue  # "red and white flags" is one thing
        denied = _NEGATION.search(f"{masked[start:begin]} ")
        if _says(shown) and not _aside(shown, before):
            found.append(f"{denial} {shown}" if denial and not denied else shown)
        # "no kerbs or lines" denies both
        denial = (denied[1] if denied else denial) if _OR.fullmatch(joint) else ""
        start, before = end, joint
    if not found:
        whole = " ".join(masked.replace(MASK, " ").split())
        return [whole if any(map(str.isalnum, whole)) else text.strip()]
    longest = sorted(range(len(found)), key=lambda at: -len(found[at].split()))[:MOST]
    return [found[at] for at in sorted(longest)]


def _bare(part: str) -> str:
    """A part without its places, and without the words that led to them."""
    part = " ".join(part.split()).strip("\"'“”‘’«». ")
    while (at := part.find(MASK)) >= 0:
        before = part[:at].split()
        while before and before[-1].casefold() in _EMPTY - {"not"}:
            before.pop()
        part = f"{' '.join(before)} {part[at + len(MASK) :].strip('- ')}".strip()
    return part


def _aside(part: str, joint: str) -> bool:
    """Whether a clause behind a joint says nothing of the scene itself."""
    shows = not {*EVIDENCE, "geology"}.isdisjoint(name for name, _, _ in mentions(part))
    if (_SO.fullmatch(joint) or _THIS.match(part)) and not shows:
        return True  # "so the western half is likelier", "this is the best known mark"
    return bool(_ASIDE.fullmatch(part) or (_LIKE.fullmatch(joint) and _WHERE.match(part)))


def _says(part: str) -> bool:
    """Whether a clause holds a word that can be seen in a picture."""
    words = re.findall(r"\w+", part.casefold())
    return any(word not in _EMPTY for word in words)


class LLMExtractor:
    """Asks a chat model for the key clauses of a point, as a JSON list.

    Answers are generated greedily, each distinct point once. An answer that is no JSON list of texts gives no clauses,
    which the judge counts as a failure of that point.

    Args:
        model: name or folder of a chat model of transformers, or a live ``(model, tokenizer)``.
        max_new_tokens: length of an answer; a longer one is cut off and then no list.
        batch_size: points a forward pass.
        device: None for this rank's GPU, else the CPU; a live model stays where it is.

    Raises:
        TypeError: if ``model`` is of another type, or when an extractor with a live model is pickled.
        ValueError: if ``max_new_tokens`` or ``batch_size`` is below 1, or ``device`` is given with a live model.
        ImportError: on first use without transformers, naming the extra.

    Example:
        >>> LLMExtractor.read('Here you are: ["red soil", "wooden poles"]')
        ['red soil', 'wooden poles']
        >>> LLMExtractor.read('["red soil", "woo')
        []
    """

    task = (
        "Take a statement about a street-level photo apart. Copy out its key clauses: one to three short phrases, in "
        "the statement's own words, each naming one thing that can be seen. Keep an adjective with its noun, and keep "
        "words such as no or without. Leave out names of countries, regions and cities, and what the statement "
        'concludes. Answer with a JSON list of strings and nothing else, such as ["phrase one", "phrase two"].'
    )

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        *,
        max_new_tokens: int = 96,
        batch_size: int = 16,
        device: str | None = None,
    ) -> None:
        self._live = not isinstance(model, (str, Path))
        if self._live and not (isinstance(model, tuple) and len(model) == 2):
            raise TypeError(
                f"Expected `model` to be a name, a folder or a pair (model, tokenizer), but got {type(model).__name__}."
            )
        refuse_placing(self._live, device=device)
        for name, value in (("max_new_tokens", max_new_tokens), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"Expected `{name}` of at least 1, but got {value}.")
        self.model = model
        self.max_new_tokens = max_new_tokens
        self.batch_size = batch_size
        self.device = device
        self._loaded: tuple[Any, Any] | None = model if isinstance(model, tuple) else None

    def __call__(self, texts: list[str]) -> list[list[str]]:
        """Clauses of each text; an empty list where the answer was none."""
        model, tokenizer = self._load()
        distinct = list(dict.fromkeys(texts))
        answers: dict[str, list[str]] = {}
        with isolated(model.device, model):
            for start in range(0, len(distinct), self.batch_size):
                batch = distinct[start : start + self.batch_size]
                answers.update(zip(batch, map(self.read, self._generate(model, tokenizer, batch)), strict=True))
        return [answers[text] for text in texts]

    @staticmethod
    def read(answer: str) -> list[str]:
        """The clauses in an answer: its first JSON list, if that is one of texts; else none."""
        start = answer.find("[")
        try:
            found = json.JSONDecoder().raw_decode(answer, start)[0] if start >= 0 else None
        except (ValueError, RecursionError):
            return []
        if not isinstance(found, list) or not all(isinstance(clause, str) for clause in found):
            return []
        return [clause.strip() for clause in found if clause.strip()]

    def _generate(self, model: Any, tokenizer: Any, batch: Sequence[str]) -> list[str]:
        rows = [tokenizer(self._prompt(tokenizer, text), add_special_tokens=False)["input_ids"] for text in batch]
        width = max(map(len, rows))
        fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
        ids = torch.tensor([[fill] * (width - len(row)) + row for row in rows], device=model.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=model.device)
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=self.max_new_tokens,
            do_sample=False,
            pad_token_id=fill,
        )
        return tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)

    def _prompt(self, tokenizer: Any, text: str) -> str:
        asked = f"{self.task}\n\nStatement: {inert(text, control_pattern(tokenizer))}"
        if getattr(tokenizer, "chat_template", None):
            return tokenizer.apply_chat_template(
                [{"role": "user", "content": asked}], tokenize=False, add_generation_prompt=True
            )
        return f"{asked}\nJSON list:"

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            library = import_extra("transformers")
            device = local_device(self.device)
            with isolated(device):
                tokenizer = library.AutoTokenizer.from_pretrained(self.model)
                model = library.AutoModelForCausalLM.from_pretrained(self.model).to(device).eval()
            self._loaded = model, tokenizer
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        refuse_live_pickle(self, self._live)
        return {name: getattr(self, name) for name in ("model", "max_new_tokens", "batch_size", "device")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
