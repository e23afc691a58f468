"""``python -m training`` and ``geobias-train``: the command line, or the extra that it lacks."""

from __future__ import annotations

import sys


def main() -> int:
    """Run ``geobias-train``; exits with 2 and one line where Lightning is not installed."""
    try:
        from training.cli import main as run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("airportsdata", "jsonargparse", "lightning"):
            raise
        print(f"error: geobias-train needs {package}: pip install 'geobias-torch[train]'", file=sys.stderr)
        return 2
    run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
