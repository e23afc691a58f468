"""Output files: refused before the work where they cannot be written, then written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def check_output(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """Return `path` if a file with one of these suffixes can be written there.

    Args:
        path: where a file is going to be written.
        suffixes: the endings that the writer knows, with their dot.

    Raises:
        ValueError: if the suffix is another, the folder is missing or not writable, or a folder has that name.

    Example:
        >>> check_output("scores.txt", [".json"])
        Traceback (most recent call last):
        ...
        ValueError: Expected an output file ending in .json, but got scores.txt.
    """
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"Expected an output file ending in {' or '.join(suffixes)}, but got {path}.")
    if not path.parent.is_dir():
        raise ValueError(f"Expected the folder of the output file {path} to exist, but got no folder {path.parent}.")
    if path.is_dir():
        raise ValueError(f"Expected a file name for the output, but got the folder {path}.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"Expected a folder that can be written to for {path}, but got no permission.")
    return path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path in the same folder, which takes the place of `path` when the block ends without an error.

    After an error nothing is left: `path` is as it was, and the temporary file is gone.

    Args:
        path: the file to write or to replace.

    Yields:
        The path to write to.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with replacing(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("whole")
        >>> [file.name for file in folder.iterdir()]
        ['a.txt']
    """
    target = Path(path).resolve()  # a link keeps pointing at the file, which is replaced
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
