"""Results of a long run, kept beside its output as they come, so that an interrupted run can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Unfinished", "replacing"]


class Unfinished:
    """A file of finished batches next to an output that is not there yet.

    Its first line holds a key; what was kept under another key is thrown away. Every other line is a batch. While one
    process holds it no other can, where the system knows locks; left without a batch, it goes.

    Args:
        out: the output.
        key: stands for the inputs and settings of the run.

    Attributes:
        path: the file.
        batches: how many batches it holds.
        replaced: whether a file of another key was there.

    Raises:
        ValueError: if another run is at work on the same output.

    Example:
        >>> import tempfile
        >>> out = Path(tempfile.mkdtemp()) / "scores.jsonl"
        >>> with Unfinished(out, "key") as first:
        ...     first.add([{"id": "a"}, {"id": "b"}])
        >>> with Unfinished(out, "key") as again:
        ...     again.batches, list(again.records())
        (1, [{'id': 'a'}, {'id': 'b'}])
    """

    def __init__(self, out: Path, key: str) -> None:
        self.path = out.with_name(f"{out.name}.unfinished")
        self.batches = 0
        self._head = json.dumps({"key": key}).encode() + b"\n"
        self._file = _open_alone(self.path, out)
        self._file.seek(0)
        head = self._file.readline()
        self.replaced = head not in (self._head, b"")
        end = self._file.tell()
        if head != self._head:
            self._file.truncate(0)
            self._file.write(self._head)
        else:
            for line in self._file:
                if not line.endswith(b"\n"):  # stopped while it was written
                    self._file.truncate(end)
                    break
                end += len(line)
                self.batches += 1
        self._file.flush()

    def add(self, batch: list[dict[str, Any]]) -> None:
        """Keep a finished batch."""
        self._file.write(json.dumps(batch, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        self._file.flush()
        self.batches += 1

    def records(self) -> Iterator[dict[str, Any]]:
        """All records, batch by batch; ValueError if the file was damaged."""
        with self.path.open("rb") as file:
            file.readline()
            for number, line in enumerate(file, start=2):
                try:
                    batch = json.loads(line)
                except ValueError:
                    raise ValueError(
                        f"Expected batches as an interrupted run leaves them, but got something else at {self.path}, "
                        f"line {number}: delete this file to start again."
                    ) from None
                yield from batch

    def remove(self) -> None:
        """Throw the file away."""
        if fcntl is None:  # Windows removes no open file
            self._file.close()
        self.path.unlink(missing_ok=True)  # before the lock ends: what comes later is another's
        self._file.close()

    def __enter__(self) -> Unfinished:
        return self

    def __exit__(self, *_: object) -> None:
        if not (self.batches or self._file.closed):
            self.remove()
        self._file.close()


def _open_alone(path: Path, out: Path) -> IO[bytes]:
    """The file, locked against other runs."""
    while True:
        file = path.open("a+b")
        if fcntl is None:
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise ValueError(
                f"Expected one run at a time for an output, but another is at work on {out} (it holds {path})."
            ) from None
        except OSError:  # a file system without locks
            return file
        try:
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        file.close()  # the run that held it has just removed it


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same folder, which takes the place of `path` when the block ends without an error.

    Args:
        path: the file to write or to replace; a link keeps pointing at it.

    Yields:
        The path to write to.

    Example:
        >>> import tempfile
        >>> out = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with replacing(out) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> out.read_text()
        'whole'
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
