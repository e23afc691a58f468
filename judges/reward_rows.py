"""What a trainer hands to a reward, read into rows: texts of completions and prompts, references, true countries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.chains import ReasoningChain, parse_chain
from judges.memo import digest
from judges.places import country_code

__all__ = ["Row", "message_text", "read_rows"]

# A reference as strings only: ("text", the text) or ("points", its conclusion, point, point...).
Source = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One completion, and what it is held against.

    Attributes:
        text: the completion.
        prompt: what it answers.
        sources: its references, as strings.
        country: ISO alpha-2 code of the true country; None where unknown.

    Example:
        >>> row = Row("- Red soil.", "Where?", (("points", "Uganda", "Red soil."),), "UG")
        >>> row.chains()[0].conclusion.country, row.key == Row("- Red soil.", "Where?", row.sources, None).key
        ('UG', False)
    """

    text: str
    prompt: str
    sources: tuple[Source, ...]
    country: str | None

    @property
    def key(self) -> bytes:
        """Equal for equal rows."""
        counts = (str(len(source)) for source in self.sources)
        return digest(
            (self.text, self.prompt, self.country or "", *counts, *(part for one in self.sources for part in one))
        )

    @property
    def reference_text(self) -> str:
        """All that the references say."""
        return "\n".join(part for _, *parts in self.sources for part in parts)

    def chains(self) -> list[ReasoningChain]:
        """The references, parsed."""
        return [
            parse_chain(parts[0]) if kind == "text" else ReasoningChain.of(parts[1:], parts[0])
            for kind, *parts in self.sources
        ]


def read_rows(
    completions: Sequence[Any],
    prompts: Sequence[Any] | None,
    columns: Mapping[str, Any],
    *,
    reference: str,
    country: str | None,
) -> list[Row]:
    """Read what a trainer hands over.

    Args:
        completions: B texts or lists of messages.
        prompts: B texts or lists of messages; None for none.
        columns: of the data set, by name, B cells each.
        reference: name of the column with the references.
        country: name of the column with the true country; None where there is none.

    Returns:
        B rows.

    Raises:
        ValueError: if a column is missing, a length is not B, or a country is none.
        TypeError: if a cell is of a type that it cannot be.

    Example:
        >>> columns = {"reference": [{"points": ["Red soil."]}], "country": ["Ugandan"]}
        >>> read_rows(["- Tea."], None, columns, reference="reference", country="country")
        [Row(text='- Tea.', prompt='', sources=(('points', '', 'Red soil.'),), country='UG')]
    """
    rows = len(completions)
    if prompts is not None and len(prompts) != rows:
        raise ValueError(f"Expected {rows} `prompts`, one for each completion, but got {len(prompts)}.")
    references = _column(columns, reference, rows)
    countries = [None] * rows if country is None else _column(columns, country, rows)
    asked = [""] * rows if prompts is None else prompts
    return [
        Row(
            message_text(completions[row], f"`completions[{row}]`", only="assistant"),
            message_text(asked[row], f"`prompts[{row}]`"),
            _sources(references[row], f"`{reference}[{row}]`"),
            _country(countries[row], f"`{country}[{row}]`"),
        )
        for row in range(rows)
    ]


def _column(columns: Mapping[str, Any], name: str, rows: int) -> Sequence[Any]:
    if name not in columns:
        there = ", ".join(f"`{column}`" for column in columns) or "none"
        raise ValueError(f"Expected a column `{name}` in the data set, but got {there}.")
    cells = _plain(columns[name])
    if not isinstance(cells, (list, tuple)) or len(cells) != rows:
        got = f"{len(cells)} cells" if isinstance(cells, (list, tuple)) else type(cells).__name__
        raise ValueError(f"Expected `{name}` with {rows} cells, one for each completion, but got {got}.")
    return cells


def message_text(given: Any, where: str, only: str | None = None) -> str:
    r"""The text of a completion or a prompt.

    Args:
        given: a text, or a list of messages ``{"role": ..., "content": ...}`` whose content is a text or a list of
            parts ``{"type": "text", "text": ...}``; other parts say nothing. What a message thought
            (``"reasoning_content"``) comes before its content, inside ``<think>``.
        where: its name in errors.
        only: the role whose messages count; None for all.

    Returns:
        The text; messages are set apart by an empty line.

    Raises:
        TypeError: if it is neither.

    Example:
        >>> parts = [{"type": "image"}, {"type": "text", "text": "Where is this?"}]
        >>> message_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}], "`prompt`")
        'Be brief.\n\nWhere is this?'
    """
    given = _plain(given)
    if isinstance(given, str):
        # Half a surrogate pair cannot be encoded, and a model can write one.
        return given.encode("utf-8", "replace").decode("utf-8")
    messages = [given] if isinstance(given, Mapping) else given
    if not isinstance(messages, (list, tuple)) or not all(isinstance(message, Mapping) for message in messages):
        raise TypeError(f"Expected {where} to be a text or a list of messages, but got {_shown(given)}.")
    said = []
    for message in messages:
        if only is None or message.get("role", only) == only:
            thought = message.get("reasoning_content")
            said += [f"<think>\n{thought}\n</think>"] if thought else []
            said.append(_content(message.get("content"), where))
    return message_text("\n\n".join(filter(None, said)), where)


def _content(content: Any, where: str) -> str:
    content = _plain(content)
    if content is None or isinstance(content, str):
        return content or ""
    parts = [content] if isinstance(content, Mapping) else content
    if isinstance(parts, (list, tuple)) and all(isinstance(part, (str, Mapping)) for part in parts):
        texts = [part if isinstance(part, str) else part.get("text") for part in parts]
        return "\n".join(text for text in texts if isinstance(text, str))
    raise TypeError(f"Expected the content of {where} to be a text or a list of parts, but got {_shown(content)}.")


def _sources(cell: Any, where: str) -> tuple[Source, ...]:
    """The references that a cell holds; none if it is empty."""
    cell = _plain(cell)
    if cell is None:
        return ()
    if isinstance(cell, str):
        return (("text", cell),) if cell.strip() else ()
    if isinstance(cell, ReasoningChain):
        return (("points", cell.conclusion.text if cell.conclusion else "", *(point.text for point in cell.points)),)
    if isinstance(cell, Mapping):
        points, text = _plain(cell.get("points")), cell.get("text")
        if isinstance(points, (list, tuple)) and all(isinstance(point, str) for point in points):
            return (("points", str(cell.get("conclusion") or ""), *points),)
        if points is None and isinstance(text, str):
            return _sources(text, where)
        raise TypeError(f"Expected {where} with a list `points` or a text `text`, but got {_shown(dict(cell))}.")
    if isinstance(cell, (list, tuple)):
        return tuple(source for one in cell for source in _sources(one, where))
    raise TypeError(f"Expected {where} to be a text, a list of texts or a record, but got {_shown(cell)}.")


def _country(cell: Any, where: str) -> str | None:
    if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):  # NaN too
        return None
    if not isinstance(cell, str):
        raise TypeError(f"Expected {where} to be a country, but got {_shown(cell)}.")
    code = country_code(cell)
    if code is None:
        raise ValueError(f"Expected {where} to be a country, but got {cell!r:.60}.")
    return code


def _plain(cell: Any) -> Any:
    """Lists for arrays, which tables hold."""
    return cell.tolist() if hasattr(cell, "tolist") else cell


def _shown(cell: Any) -> str:
    return f"{type(cell).__name__} {cell!r:.60}"
