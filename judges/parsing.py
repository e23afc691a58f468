"""Take the text of a chain apart into points and conclusions, whatever form a model has given it; never fails."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from judges.json_answers import Fragment, json_fragments
from judges.sentences import clean, sentences, trim, words

_PIECE = re.compile(
    r"\n|\r|(?P<close></?)\s*(?P<tag>think|thinking|thought|reasoning|answer|final_answer|conclusion|guess|points?)"
    r"\b[^<>\n]{0,60}>",
    re.IGNORECASE,
)
_TURN = re.compile(r"[\r\n]+[ \t]*(?=[^\sa-zà-öø-ÿа-я])")
_BULLET = re.compile(
    r"(?:>\s*)*(?:(?:[-*+•‣◦▪▫●○·∙–—➤►✓✔→]|[（(]?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)）])(?:\s+|$)|\d{1,3}[、）]|[①-⑳])\s*"
)
_ROW = re.compile(r"\|.*\||[^|]+(?:\|[^|]*){2,}")
_RULE = re.compile(r"[|\s:=+*_-]{3,}")
_ROUND = re.compile(r"\W*(?:round|step|runde|ronda|rodada|раунд|第)\s*\d+\W*(?:轮|回合)?\W*", re.IGNORECASE)
_JSON = re.compile(r"[{\[]\s*(?:[\"{\[]|$)")


@lru_cache(1)
def _labels() -> re.Pattern[str]:
    """A label at the start of a line: what kind it is, and where the rest begins."""
    kinds = "|".join(
        f"(?P<{kind}>" + "|".join(sorted(map(re.escape, words()[kind]), key=len, reverse=True)) + ")"
        for kind in ("conclusion", "reasoning", "details", "confidence")
    )
    return re.compile(rf"[\s#>*_\[【]*(?:{kinds})[\s*_\]】]*(?:(?P<colon>[:：]|\s[-–—]\s)[\s*_]*|$)", re.IGNORECASE)


@dataclass
class _Reader:
    """Goes through the lines and keeps what has been read."""

    text: str
    fragments: list[Fragment] = field(default_factory=list)
    section: str = "point"
    thought: bool = False
    begin: int = -1  # of the open paragraph or item
    finish: int = -1
    role: str = "point"  # of the open paragraph or item
    item: bool = False
    cut: bool = False  # inside a JSON string

    def add(self, start: int, end: int, role: str, label: str = "") -> None:
        start, end = trim(self.text, start, end)
        shown = clean(self.text[start:end])
        if any(map(str.isalnum, shown)):
            role = "conclusion" if "\\boxed" in self.text[start:end] else role
            self.fragments.append(Fragment(start, end, shown, role, self.thought, label))

    def flush(self) -> None:
        """End the open paragraph or item."""
        if self.begin >= 0:
            spans = [span for line in self.lines() for span in sentences(self.text, *line)]
            role = self.role
            if role == "answer":  # a short text inside <answer> is the guess, a list or a long one the whole chain
                role = self.role = "point" if self.item or len(spans) > 3 else "conclusion"
            if self.item or role == "conclusion":
                self.add(self.begin, self.finish, role)
            else:
                for span in spans:
                    self.labelled(*span)
        self.begin, self.item = -1, False

    def lines(self) -> list[tuple[int, int]]:
        """The lines of the open paragraph; one that starts with a small letter goes on with the line before."""
        starts = [self.begin, *(turn.end() for turn in _TURN.finditer(self.text, self.begin, self.finish))]
        return list(zip(starts, [*starts[1:], self.finish], strict=True))

    def labelled(self, start: int, end: int) -> None:
        """A sentence, which may start with a label such as "Final answer:"."""
        label = _labels().match(self.text, start, end)
        if label and label["colon"] and label.lastgroup != "reasoning" and label["reasoning"] is None:
            self.add(label.end(), end, "conclusion")
        else:
            self.add(start, end, self.role)

    def open(self, start: int, end: int, role: str, item: bool = False) -> None:
        self.begin, self.finish, self.role, self.item = start, end, role, item

    def line(self, start: int, end: int) -> None:
        """Read one line."""
        start, end = trim(self.text, start, end)
        line = self.text[start:end]
        if not line or line.startswith(("```", "~~~")):
            self.flush()
        elif _RULE.fullmatch(line):
            self.rule(line)
        elif line.count("|") > 1 and _ROW.fullmatch(line):
            self.flush()
            self.row(start, end)
        else:
            bullet = _BULLET.match(line)
            if bullet:
                self.flush()
                start += bullet.end()
            self.words(start, end, bool(bullet))

    def words(self, start: int, end: int, item: bool) -> None:
        """Read the words of a line: a heading, a label with its text, a list item, or text that goes on."""
        line = self.text[start:end]
        if not line:
            return
        label = _labels().match(line)
        if label:
            self.flush()
            kind = next(name for name in ("conclusion", "reasoning", "details", "confidence") if label[name])
            rest = start + label.end()
            if rest >= end:
                self.section = {"conclusion": "conclusion", "reasoning": "point"}.get(kind, self.section)
            elif kind in ("details", "confidence"):
                if kind == "details" or (self.fragments and self.fragments[-1].role == "conclusion"):
                    self.add(rest, end, "conclusion", kind)
            else:
                self.section = "point"
                self.open(rest, end, "conclusion" if kind == "conclusion" else "point", item and kind == "reasoning")
        elif self.heading(line, item):
            self.flush()
            self.section = "point"
        elif self.begin >= 0:
            self.finish = end
        else:
            self.open(start, end, self.section, item)

    def heading(self, line: str, item: bool) -> bool:
        """Whether a line names what comes below it and says nothing itself."""
        if line.startswith("#") or _ROUND.fullmatch(line):
            return True
        bold = self.section == "point" and re.fullmatch(r"(\*\*|__)[^*_]{1,120}(?<![.!?…。])\1\s*[:：]?", line)
        short = len(line) < 200 and len(line.split()) <= (8 if item or bold else 20)
        return short and (bool(bold) or line.rstrip("*_ ").endswith((":", "：")))

    def rule(self, line: str) -> None:
        """A line that draws: the text above "---" or "===" is a heading, the table row above "|---|" too."""
        if "|" in line:
            if self.fragments and self.fragments[-1].label == "row":
                self.fragments.pop()
        elif self.begin >= 0 and not self.item and line[0] in "=-":
            above = self.text[self.begin : self.finish]
            if "\n" not in above and len(above.split()) <= 8:
                self.begin = -1
        self.flush()

    def row(self, start: int, end: int) -> None:
        """A row of a table is a point: its cells after one another."""
        cells = [clean(cell) for cell in self.text[start:end].strip("| \t").split("|")]
        label = _labels().fullmatch(cells[0])
        role = "conclusion" if self.section == "conclusion" or (label and not label["reasoning"]) else "point"
        shown = ": ".join(cell for cell in (cells[1:] if role == "conclusion" and label else cells) if cell)
        if any(map(str.isalnum, shown)):
            self.fragments.append(Fragment(start, end, shown, role, self.thought, "row"))

    def tag(self, name: str, closing: bool) -> None:
        self.flush()
        if name in ("think", "thinking", "thought"):
            if closing and not self.thought:  # the opening tag was in the prompt
                self.fragments = [replace(fragment, thought=True) for fragment in self.fragments]
            self.thought, self.section = not closing, "point"
        elif name in ("answer", "final_answer", "conclusion", "guess"):
            self.section = "point" if closing else "answer"
        else:
            self.section = "point"


def fragments(text: str) -> tuple[list[Fragment], bool]:
    """The fragments of a text in their order, and whether it breaks off inside one."""
    reader = _Reader(text)
    start, tries = 0, 8  # of JSON that is none
    for match in itertools.chain(_PIECE.finditer(text), [None]):
        end, after = match.span() if match else (len(text), len(text))
        if end < start:
            continue  # inside JSON
        line = text[start:end].lstrip()
        if tries and reader.begin < 0 and _JSON.match(line):
            read = json_fragments(text, end - len(line), reader.thought)
            tries -= read is None
            if read:
                reader.fragments += read[0]
                reader.cut, start = read[1] >= len(text) and read[2], read[1]
                continue
        reader.line(start, end)
        if match and match["tag"]:
            reader.tag(match["tag"].lower(), match["close"] == "</")
        start = after
    reader.flush()
    return reader.fragments, reader.cut
