"""Remember results by content, within bounds."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

__all__ = ["Memo", "digest"]

Value = TypeVar("Value")


def digest(parts: Iterable[str]) -> bytes:
    """16 bytes that stand for a sequence of strings: keys of a memo that do not keep long texts alive.

    Args:
        parts: the strings; their number and order count.

    Returns:
        The key.

    Example:
        >>> from judges.memo import digest
        >>> digest(["a", "b"]) == digest(["a", "b"]), digest(["ab"]) == digest(["a", "b"])
        (True, False)
    """
    key = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        key.update(len(data).to_bytes(8, "little") + data)
    return key.digest()


class Memo(Generic[Value]):
    """A dictionary of at most ``size`` entries; the one unused for longest goes first.

    Args:
        size: the bound, at least 1.

    Example:
        >>> from judges.memo import Memo
        >>> memo = Memo(2)
        >>> memo["a"], memo["b"] = 1, 2
        >>> memo.get("a")
        1
        >>> memo["c"] = 3
        >>> memo.get("b"), len(memo)
        (None, 2)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: OrderedDict[bytes | str, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __setitem__(self, key: bytes | str, value: Value) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self.size:
            self._entries.popitem(last=False)

    def get(self, key: bytes | str) -> Value | None:
        """What was stored under the key, or None."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
