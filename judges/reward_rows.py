"""What a trainer hands to a reward, read into rows: texts of completions and prompts, references, true countries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judges.chains import ReasoningChain, parse_chain
from judges.memo import digest
from judges.places import country_code
from judges.records import disagreeing

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
        readable: whether the completion and the prompt hold nothing but text.

    Example:
        >>> row = Row("- Red soil.", "Where?", (("points", "Uganda", "Red soil."),), "UG")
        >>> row.chains()[0].conclusion.country, row.key == Row("- Red soil.", "Where?", row.sources, None).key
        ('UG', False)
    """

    text: str
    prompt: str
    sources: tuple[Source, ...]
    country: str | None
    readable: bool = field(default=True, repr=False, compare=False)

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
        ValueError: if a column is missing, a length is not B, a country is none, or a reference is in doubt.
        TypeError: if ``completions`` or ``prompts`` is no list, or a reference or a country of another type.

    Example:
        >>> columns = {"reference": [{"points": ["Red soil."]}], "country": ["Ugandan"]}
        >>> read_rows(["- Tea."], None, columns, reference="reference", country="country")
        [Row(text='- Tea.', prompt='', sources=(('points', '', 'Red soil.'),), country='UG')]
    """
    said = _listed(completions, "completions")
    rows = len(said)
    asked = [None] * rows if prompts is None else _listed(prompts, "prompts")
    if len(asked) != rows:
        raise ValueError(f"Expected {rows} `prompts`, one for each completion, but got {len(asked)}.")
    references = _column(columns, reference, rows)
    countries = [None] * rows if country is None else _column(columns, country, rows)
    found = []
    for row in range(rows):
        text, is_text = message_text(said[row], only="assistant")
        prompt, is_too = message_text(asked[row])
        sources = _sources(references[row], f"`{reference}[{row}]`")
        true = _country(countries[row], f"`{country}[{row}]`")
        found.append(Row(text, prompt, sources, true, readable=is_text and is_too))
    return found


def _listed(given: Any, name: str) -> Sequence[Any]:
    cells = _plain(given)
    if not isinstance(cells, Sequence) or isinstance(cells, (str, bytes)):
        raise TypeError(f"Expected `{name}` to be a list of texts or of lists of messages, but got {_shown(given)}.")
    return cells


def _column(columns: Mapping[str, Any], name: str, rows: int) -> Sequence[Any]:
    if name not in columns:
        there = ", ".join(f"`{column}`" for column in columns) or "none"
        raise ValueError(f"Expected a column `{name}` in the data set, but got {there}.")
    cells = _plain(columns[name])
    if not isinstance(cells, (list, tuple)) or len(cells) != rows:
        got = f"{len(cells)} cells" if isinstance(cells, (list, tuple)) else type(cells).__name__
        raise ValueError(f"Expected `{name}` with {rows} cells, one for each completion, but got {got}.")
    return cells


def message_text(given: Any, only: str | None = None) -> tuple[str, bool]:
    r"""The text of a completion or a prompt, whatever it is: what a model writes must not end a training.

    Args:
        given: a text, or a list of messages ``{"role": ..., "content": ...}`` whose content is a text or a list of
            parts ``{"type": "text", "text": ...}``; other parts say nothing. What a message thought
            (``"reasoning_content"``) comes before its content, inside ``<think>``. Lists may hold lists. None and NaN
            say nothing, and so does anything else.
        only: the role whose messages count; None for all.

    Returns:
        The text, in which messages are set apart by an empty line; and whether there was nothing else than the above.

    Example:
        >>> parts = [{"type": "image"}, {"type": "text", "text": "Where is this?"}]
        >>> message_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}])
        ('Be brief.\n\nWhere is this?', True)
        >>> message_text(None), message_text(["Red", b"soil"])
        (('', True), ('Red', False))
    """
    unread: list[Any] = []
    try:
        return _whole(_said(given, only, unread)), not unread
    except RecursionError:  # lists in lists in lists
        return "", False


def _said(given: Any, only: str | None, unread: list[Any]) -> str:
    """What is said in anything; what cannot be read is added to a list."""
    given = _plain(given)
    if isinstance(given, str):
        return given
    if _missing(given):
        return ""
    if _is_message(given):
        if only is not None and given.get("role", only) != only:
            return ""
        thought = _said(given.get("reasoning_content"), None, unread)
        content = _said(given.get("content"), None, unread)
        return "\n\n".join(filter(None, [thought and f"<think>\n{thought}\n</think>", content]))
    if isinstance(given, Mapping):  # a part, whose text may be a part again
        return _said(given.get("text", given.get("value")), None, unread)
    if isinstance(given, (list, tuple)):
        gap = "\n\n" if any(map(_is_message, given)) else "\n"
        return gap.join(filter(None, (_said(one, only, unread) for one in given)))
    unread.append(given)
    return ""


def _is_message(given: Any) -> bool:
    return isinstance(given, Mapping) and not given.keys().isdisjoint(("role", "content", "reasoning_content"))


def _whole(text: str) -> str:
    """The text without halves of surrogate pairs: they cannot be encoded, and models and JSON can write them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _sources(cell: Any, where: str) -> tuple[Source, ...]:
    """The references that a cell holds; none if it is empty."""
    cell = _plain(cell)
    if _missing(cell):
        return ()
    if isinstance(cell, str):
        return (("text", _whole(cell)),) if cell.strip() else ()
    if isinstance(cell, ReasoningChain):
        said = (cell.conclusion.text if cell.conclusion else "", *(point.text for point in cell.points))
        return (("points", *map(_whole, said)),)
    if isinstance(cell, Mapping):
        return _of_record(cell, where)
    if isinstance(cell, (list, tuple)):
        return tuple(source for one in cell for source in _sources(one, where))
    raise TypeError(f"Expected {where} to be a text, a list of texts or a record, but got {_shown(cell)}.")


def _of_record(cell: Mapping[Any, Any], where: str) -> tuple[Source, ...]:
    points = None if _missing(given := _plain(cell.get("points"))) else given
    text, conclusion = (_field(cell, name, where) for name in ("text", "conclusion"))
    if (points is None and text is None) or not _are_texts(points or ()):
        raise TypeError(f"Expected {where} with a list `points` or a text `text`, but got {_shown(dict(cell))}.")
    other = disagreeing(text, points, conclusion)
    if other:
        raise ValueError(
            f"Expected {where} with a `text`, or `points` and a `conclusion`, but got `text` and another `{other}`."
        )
    if points is None:
        return _sources(text, where)
    return (("points", *map(_whole, (conclusion or "", *points))),)


def _are_texts(points: Any) -> bool:
    return isinstance(points, (list, tuple)) and all(isinstance(point, str) for point in points)


def _field(cell: Mapping[Any, Any], name: str, where: str) -> str | None:
    value = _plain(cell.get(name))
    if _missing(value):
        return None
    if not isinstance(value, str):
        raise TypeError(f"Expected {where} with a text as `{name}`, but got {_shown(value)}.")
    return value


def _country(cell: Any, where: str) -> str | None:
    cell = _plain(cell)
    if _missing(cell) or (isinstance(cell, str) and not cell.strip()):
        return None
    if not isinstance(cell, str):
        raise TypeError(f"Expected {where} to be a country, but got {_shown(cell)}.")
    code = country_code(cell)
    if code is None:
        raise ValueError(f"Expected {where} to be a country, but got {cell!r:.60}.")
    return code


def _missing(cell: Any) -> bool:
    """Whether it is None, NaN, or the NA or NaT of pandas."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _plain(cell: Any) -> Any:
    """Lists for arrays, which tables hold."""
    return cell.tolist() if hasattr(cell, "tolist") else cell


def _shown(cell: Any) -> str:
    return f"{type(cell).__name__} {cell!r:.60}"
