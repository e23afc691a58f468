"""From a pair to the tokens a causal model is asked, with nothing in them that the pair's author could steer."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from judges.rubrics import Rubric

_LABELS = (tuple("0123456789"), tuple("ABCDEFGHIJ"))
# Role markers that templates write as plain text, and the openings of those written as tokens.
_ROLES = (r"\b(?:system|user|assistant|human)\s*:", r"\[/?inst\]", r"<</?sys>>", r"#{2,}", r"<\|", r"\|>")
# Two contexts and statements with nothing in common, to find out what every prompt begins with.
_PROBES = (("Bb", ("Aa",)), ("_d", ("9%", "c")))


def control_pattern(tokenizer: Any, more: Sequence[str] = ()) -> re.Pattern[str]:
    """What must not appear in a text: the tokenizer's added tokens, role markers, and ``more``.

    Args:
        tokenizer: a tokenizer of transformers.
        more: further strings, such as the delimiters of a rubric.

    Returns:
        The pattern, case-insensitive, longest first; added tokens that are only white space are left out.

    Example:
        >>> from types import SimpleNamespace
        >>> from judges.scorers.prompts import control_pattern
        >>> token = SimpleNamespace(content="<eos>")
        >>> tokenizer = SimpleNamespace(added_tokens_decoder={0: token}, all_special_tokens=["<eos>"])
        >>> control_pattern(tokenizer).findall("red <EOS> soil")
        ['<EOS>']
    """
    added = {token.content for token in tokenizer.added_tokens_decoder.values()} | set(tokenizer.all_special_tokens)
    words = sorted((word for word in added | set(more) if word.strip()), key=lambda word: (-len(word), word))
    return re.compile("|".join([*map(re.escape, words), *_ROLES]), re.IGNORECASE)


def inert(text: str, controls: re.Pattern[str]) -> str:
    r"""The text on one line, each control string broken by a space after its first character.

    Args:
        text: a point, written by anybody.
        controls: from `control_pattern`.

    Returns:
        A text in which ``controls`` matches nowhere.

    Example:
        >>> import re
        >>> from judges.scorers.prompts import inert
        >>> inert("red soil<eos>\n score 9", re.compile("<eos>"))
        'red soil< eos> score 9'
    """
    # Some tokenizers normalise before they look for added tokens: full-width brackets become these.
    normal = unicodedata.normalize("NFKC", text)
    text = " ".join((normal if controls.search(normal) else text).split())
    text = controls.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
    while controls.search(text):  # not broken by a space, or made by breaking another: taken out
        text = controls.sub("", text)
    return text


def common_prefix(rows: Sequence[list[int]]) -> int:
    """Number of tokens with which all rows begin.

    Args:
        rows: at least one token list.

    Returns:
        The number.

    Example:
        >>> from judges.scorers.prompts import common_prefix
        >>> common_prefix([[1, 2, 3], [1, 2, 4, 5]])
        2
    """
    # What the smallest and the largest row share, all share.
    low, high = min(rows), max(rows)
    return next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


class Prompter:
    """Lays pairs out for one tokenizer and finds the tokens that answer them.

    Prompts are rendered whole with the chat template, if there is one, and tokenised whole: tokens cut from strings
    merge differently. The answer is opened with the rubric's cue, and each of ten labels must be one token after it:
    0..9, else A..J.

    Args:
        tokenizer: a tokenizer of transformers; not changed.
        rubric: the question.

    Attributes:
        labels: the answers, from the lowest level to the highest.
        label_ids: the token of each.
        start: the tokens with which every prompt begins.

    Raises:
        ValueError: if neither 0..9 nor A..J are single tokens, naming the tokenizer.
    """

    def __init__(self, tokenizer: Any, rubric: Rubric) -> None:
        self.tokenizer = tokenizer
        self.rubric = rubric
        self.controls = control_pattern(tokenizer, rubric.delimiters)
        self.labels, self.label_ids, self._cue = self._find_labels()
        self._chat = getattr(tokenizer, "chat_template", None) is not None
        parameters = inspect.signature(tokenizer.apply_chat_template).parameters
        self._sanitized = {"sanitize_control_tokens": True} if "sanitize_control_tokens" in parameters else {}
        probes = self.encode(_PROBES)
        self.start = probes[0][: common_prefix(probes)]

    def encode(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[int]]:
        """Token lists of the prompts.

        Args:
            pairs: (statement, context) each; blank points of a context are left out.

        Returns:
            One list each; the statement is the last thing that differs, the next token is the answer.
        """
        prompts = [
            self.rubric.prompt(
                [inert(point, self.controls) for point in context if point.strip()],
                inert(statement, self.controls),
                self.labels,
            )
            for statement, context in pairs
        ]
        if not self._chat:
            return [self._plain(prompt) + self._cue for prompt in prompts]
        rendered = self.tokenizer.apply_chat_template(
            [[{"role": "user", "content": prompt}] for prompt in prompts],
            add_generation_prompt=True,
            enable_thinking=False,
            tokenize=True,
            return_dict=False,
            **self._sanitized,
        )
        return [ids + self._cue for ids in rendered]

    def _plain(self, prompt: str) -> list[int]:
        ids = self.tokenizer(f"{prompt}\n")["input_ids"]
        return ids[:-1] if ids and ids[-1] in (self.tokenizer.eos_token_id, self.tokenizer.sep_token_id) else ids

    def _find_labels(self) -> tuple[tuple[str, ...], list[int], list[int]]:
        """Labels, the token of each, and the tokens of the cue before them."""
        for labels in _LABELS:
            written = [self._ids(f"{self.rubric.cue} {label}") for label in labels]
            for before in (
                self._ids(self.rubric.cue),
                self._ids(f"{self.rubric.cue} "),
            ):  # " 7" is one token, or " " and "7" are two
                found = [ids[-1] for ids in written if ids[:-1] == before]
                if len(set(found)) == len(labels):
                    return labels, found, before
        raise ValueError(
            "Expected a tokenizer that writes each of 0..9, or each of A..J, as one token of its own, but "
            f"{getattr(self.tokenizer, 'name_or_path', '') or type(self.tokenizer).__name__} does neither."
        )

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]
