"""Take the text of a chain apart into points and conclusions, whatever form a model has given it; never fails."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from judges.conclusions import EVIDENCE, is_place, only_concludes, says_where, with_conclusion
from judges.json_answers import Fragment, json_fragments
from judges.places import find_places
from judges.sentences import clean, is_talk, mentions, sentences, trim, words

_PIECE = re.compile(
    r"\n|\r|(?P<close></?)\s*(?P<tag>think|thinking|thought|reasoning|answer|final_answer|conclusion|guess|points?)"
    r"\b[^<>\n]{0,60}>",
    re.IGNORECASE,
)
# What starts lines in HTML and LaTeX, and what models put around their answers.
_LAYOUT = re.compile(
    r"<(?P<item>li|tr(?![^<>\n]{0,60}>\s*<th)|clue|observation|step|item)\b[^<>\n]{0,60}>\s*|\\(?P<latex_item>item)\b\s*|"
    r"<(?P<heading>h[1-6]|tr)\b[^<>\n]{0,60}>\s*|\\(?:sub){0,2}section\*?\{(?P<title>[^{}\n]{0,200})\}|"
    r"</t[dh]>\s*(?P<cell><t[dh]\b[^<>\n]{0,60}>)|"
    r"<(?P<detail>country|city|region|location|place|confidence)>|"
    r"(?P<line><br\b[^<>\n]{0,60}>|\\\\(?=\s)|(?-i:\\n(?![a-z])))|"
    r"</?(?:p|div|h[1-6]|[uo]l|li|tr|table|section|summary|caption|clues?|observations?|steps?|items?|evidence|analysis|"
    r"country|city|region|location|place|confidence)\b[^<>\n]{0,60}>|"
    r"(?P<think><\|(?:start_thinking|begin_of_thought)\|>|<\|channel\|>\s*analysis\s*<\|message\|>|◁think▷|\[THINK\])|"
    r"(?P<thought><\|(?:end_thinking|end_of_thought)\|>|<\|channel\|>\s*final\s*<\|message\|>|◁/think▷|\[/THINK\])|"
    r"(?P<box><\|begin_of_box\|>)|(?P<boxed><\|end_of_box\|>)|"
    r"(?:<\|(?:im_start|start|start_header_id)\|>|<start_of_turn>)\w*|<[|｜][^<>\n]{1,60}[|｜]>|"
    r"\\(?:begin|end)\s*\{\w{1,20}\*?\}(?:\[[^\[\]\n]{0,60}\])?",
    re.IGNORECASE,
)
_SHOWN = {
    "item": "\n- ", "latex_item": "\n- ", "heading": "\n# ", "cell": ": ", "line": "\n",
    "think": "<think>", "thought": "</think>",
    "box": "<answer>", "boxed": "</answer>",
}  # fmt: skip
_TURN = re.compile(r"[\r\n]+[ \t]*(?=[^\sa-zà-öø-ÿа-я])")
_EMOJI = "[\u2600-\u27bf\U0001f300-\U0001faff]"
_BULLET = re.compile(
    r"(?:>\s*)*(?:(?:[-*+•‣◦▪▫●○·∙–—➤►✓✔→]|[（(]?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)）])(?:\s+|$)|\d{1,3}[、）]|[①-⑳]|"
    rf"・|{_EMOJI}\ufe0f?)\s*(?:\[[ xX]\]\s*)?"
)
_ROW = re.compile(r"\|.*\||[^|]+(?:\|[^|]*){2,}")
_RULE = re.compile(r"[|\s:=+*_-]{3,}")
_ROUND = re.compile(r"\W*(?:round|step|runde|ronda|rodada|раунд|第)\s*\d+\W*(?:(?:轮|回合)\W*)?", re.IGNORECASE)
_NUMBERED = re.compile(r"\W*\w+ ?\d{1,2}\W*[:.)：–—-]\W*")
_FIRST, _SECOND = re.compile(r"\W*(?:1[.):、]|①)\s*"), re.compile(r"\b2[.):、]|②")
_KINDS = ("conclusion", "reasoning", "details", "confidence", "ranking", "others")
_JSON = re.compile(r"[{\[]\s*(?:[\"'{\[]|$)")


@lru_cache(1)
def _labels() -> re.Pattern[str]:
    """A label at the start of a line: what kind it is, and where the rest begins."""
    kinds = "|".join(
        f"(?P<{kind}>" + "|".join(sorted(map(re.escape, words()[kind]), key=len, reverse=True)) + ")" for kind in _KINDS
    )
    colon = r"[:：]|\s[-–—]\s|(?<=】)|(?<=[案论論])是|(?<=[え論])は"
    return re.compile(
        rf"(?:[\s#>*_\[【\ufe0f]|{_EMOJI})*(?:{kinds})[\s*_\]】]*(?:(?P<colon>{colon})[\s*_]*|$)", re.IGNORECASE
    )


@dataclass
class _Reader:
    """Goes through the lines and keeps what has been read."""

    text: str
    fragments: list[Fragment] = field(default_factory=list)
    section: str = "point"
    thought: bool = False
    thought_before: int = 0  # all fragments in front of this character are thought
    begin: int = -1  # of the open paragraph or item
    finish: int = -1
    role: str = "point"  # of the open paragraph or item
    item: bool = False
    cut: bool = False  # inside a JSON string

    def add(self, start: int, end: int, role: str, label: str = "") -> None:
        start, end = trim(self.text, start, end)
        shown = clean(self.text[start:end])
        if any(map(str.isalnum, shown)) or find_places(shown):  # a flag
            role = "conclusion" if "\\boxed" in self.text[start:end] else role
            self.fragments.append(Fragment(start, end, shown, role, self.thought, label))

    def flush(self) -> None:
        """End the open paragraph or item."""
        if self.begin >= 0:
            spans = [span for line in self.lines() for span in sentences(self.text, *line)]
            role, wholly = self.role, self.item
            if role in ("ranking", "others"):
                role, wholly = self.ranked(), True
            elif role == "answer":  # a short text inside <answer> is the guess, a list or a long one the whole chain
                whole = self.item or len(spans) > 3 or self.argues(spans)
                role = self.role = "point" if whole else "conclusion"
            if role == "conclusion":
                self.add(self.begin, self.finish, role)
            elif wholly and role == "point":
                end = self.finish
                if len(spans) > 1 and self.thought and only_concludes(clean(self.text[slice(*spans[-1])])):
                    end = spans[-1][0]
                self.add(self.begin, end, role)
                self.add(end, self.finish, role)
            elif role == "point":
                for span in spans:
                    self.labelled(*span)
        self.begin, self.item = -1, False

    def ranked(self) -> str:
        """What an entry of a list of guesses is: the first the conclusion, the others nothing, the rest points."""
        if self.role == "ranking":
            self.section = "others"
            return "conclusion"
        if self.item and find_places(clean(self.text[self.begin : self.finish])):
            return "others"
        self.section = "point" if not self.item else self.section
        return "point"

    def argues(self, spans: list[tuple[int, int]]) -> bool:
        """Whether sentences name evidence, and the last says where."""
        said = [clean(self.text[start:end]) for start, end in spans]
        named = [{name for name, _, _ in mentions(one)} for one in said[:-1]]
        return says_where(said[-1]) and any(map({*EVIDENCE, "geology"}.intersection, named))

    def lines(self) -> list[tuple[int, int]]:
        """The lines of the open paragraph; one that starts with a small letter goes on with the line before."""
        starts = [self.begin, *(turn.end() for turn in _TURN.finditer(self.text, self.begin, self.finish))]
        return list(zip(starts, [*starts[1:], self.finish], strict=True))

    def labelled(self, start: int, end: int) -> None:
        """A sentence, which may start with a label such as "Final answer:"."""
        label = _labels().match(self.text, start, end)
        if label and label["colon"] and label["reasoning"] is None:
            if label["others"] is None:
                self.add(label.end(), end, "conclusion")
        elif not self.text.endswith((":", "：", ":**", "：**"), start, end):  # what only leads to the list below it
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
            else:
                start += len(line) - len(line.lstrip("> "))  # a quotation
            self.words(start, end, bool(bullet))

    def words(self, start: int, end: int, item: bool) -> None:
        """Read the words of a line: a heading, a label with its text, a list item, or text that goes on."""
        line = self.text[start:end]
        if not line:
            return
        label = _labels().match(line)
        if label:
            self.flush()
            kind = next(name for name in _KINDS if label[name])
            rest = start + label.end()
            if rest >= end:
                self.section = {"reasoning": "point", "details": self.section, "confidence": self.section}.get(
                    kind, kind
                )
            elif kind == "ranking":
                self.guesses(rest, end)
            elif kind == "others":
                self.section = "others"
            elif kind in ("details", "confidence"):
                if kind == "details" or (self.fragments and self.fragments[-1].role == "conclusion"):
                    self.add(rest, end, "conclusion", kind)
            else:
                self.section = "point"
                self.open(rest, end, "conclusion" if kind == "conclusion" else "point", item and kind == "reasoning")
        elif self.heading(line, item):
            self.flush()
            self.section = "point"
            level = len(line) - len(line.lstrip("#"))
            if not _ROUND.fullmatch(line):
                self.add(
                    start, end, "heading", "#" * level or ("*" if line[-1] in "*_" and line[-3:-2] != ":" else ":")
                )
        elif self.begin >= 0:
            self.finish = end
        else:
            self.open(start, end, self.section, item)

    def heading(self, line: str, item: bool) -> bool:
        """Whether a line names what comes below it and says nothing itself."""
        if self.section in ("conclusion", "ranking", "others", "answer") and is_place(clean(line)):
            return False
        if line.startswith("#") or _ROUND.fullmatch(line):
            return True
        bold = self.section == "point" and re.fullmatch(r"(\*\*|__)[^*_]{1,120}(?<![.!?…。])\1\s*[:：]?", line)
        short = len(line) < 200 and len(line.split()) <= (8 if item or bold else 20)
        return short and (bool(bold) or (line.rstrip("*_ ").endswith((":", "：")) and len(sentences(line)) == 1))

    def guesses(self, start: int, end: int) -> None:
        """Guesses after one another in a line: the first is the conclusion."""
        first, second = _FIRST.match(self.text, start, end), _SECOND.search(self.text, start, end)
        start, end = (first.end() if first else start), (second.start() if second else end)
        self.add(start, start + len(self.text[start:end].rstrip(" ,;")), "conclusion")
        self.section = "others"

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

    def tag(self, name: str, closing: bool, at: int) -> None:
        self.flush()
        if name in ("think", "thinking", "thought"):
            if closing and not self.thought:  # the opening tag was in the prompt
                self.thought_before = at
            self.thought, self.section = not closing, "point"
        elif name in ("answer", "final_answer", "conclusion", "guess"):
            self.section = "point" if closing else "answer"
        else:
            self.section = "point"


def _laid_out(match: re.Match[str]) -> str:
    """The same in markdown, as long as it was, so that spans stay what they are."""
    length, kind = len(match.group()), match.lastgroup or ""
    shown = {"detail": f"\n{match['detail']}:", "title": f"\n# {match['title']}"}.get(kind, _SHOWN.get(kind, "\n\n"))
    if kind == "title":
        return f"{shown}\n".rjust(length)
    return shown.ljust(length)


_DEPTHS = {**{"#" * level: level for level in range(1, 7)}, "*": 7, ":": 8}


def _with_headings(parts: list[Fragment]) -> list[Fragment]:
    """Drop the headings, but not the only one that is a place, first or last, nor those without text below."""
    headings = [i for i, part in enumerate(parts) if part.role == "heading"]
    if not headings:
        return parts
    places = [i for i in headings if is_place(parts[i].text)]
    bare: dict[str, list[int]] = {}
    filled = set()
    for i in headings:
        style, below = parts[i].label, parts[i + 1] if i + 1 < len(parts) else None
        inner = below and below.role == "heading" and _depth(below.label) > _depth(style)
        if inner or (below and below.role == "point"):
            filled.add(style)
        elif i not in places:
            bare.setdefault(style, []).append(i)
    kept = {
        i: _NUMBERED.sub("", parts[i].text, count=1)
        for style, found in bare.items()
        if style not in filled and style != ":" and (len(found) > 1 or _NUMBERED.match(parts[found[0]].text))
        for i in found
    }
    if len(places) == 1 and not any(part.role == "conclusion" for part in parts):
        i = places[0]
        if i in (0, len(parts) - 1) or parts[i - 1].thought > parts[i].thought:
            kept[i] = parts[i].text
    return [
        replace(part, role="point", label="", text=kept.get(i) or part.text) if i in kept else part
        for i, part in enumerate(parts)
        if part.role != "heading" or i in kept
    ]


def _depth(style: str) -> int:
    return _DEPTHS.get(style, 6)


def _with_answer(text: str, parts: list[Fragment]) -> list[Fragment]:
    """Where all the evidence is in <think>, what is said behind it is the conclusion."""
    inside = [part for part in parts if part.thought]
    said = with_conclusion(text, [part for part in parts if not part.thought])
    if not any(part.role == "point" for part in inside) or any(part.role == "point" for part in said):
        return parts
    return sorted([*inside, *said], key=lambda part: part.start)


def fragments(text: str) -> tuple[list[Fragment], bool]:
    """The fragments of a text in their order, and whether it breaks off inside one."""
    reader = _Reader(_LAYOUT.sub(_laid_out, text))
    given, text = text, reader.text
    start, tries = 0, 8  # of JSON that is none
    for match in itertools.chain(_PIECE.finditer(text), [None]):
        end, after = match.span() if match else (len(text), len(text))
        if end < start:
            continue  # inside JSON
        line = text[start:end].lstrip()
        if tries and reader.begin < 0 and _JSON.match(line):
            read = json_fragments(given, end - len(line), reader.thought)
            tries -= read is None
            if read:
                reader.fragments += read[0]
                reader.cut, start = read[1] >= len(text) and read[2], read[1]
                continue
        reader.line(start, end)
        if match and match["tag"]:
            reader.tag(match["tag"].lower(), match["close"] == "</", end)
        start = after
    reader.flush()
    before = reader.thought_before
    parts = [replace(part, thought=part.thought or part.end <= before) for part in reader.fragments]
    parts = [part for part in _with_headings(parts) if part.role != "point" or not is_talk(part.text)]
    return _with_answer(given, parts), reader.cut
