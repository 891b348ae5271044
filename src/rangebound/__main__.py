"""The command `rangebound`, also as `python -m rangebound`: without the extra `cli`, an error of one line."""

from __future__ import annotations

import sys

from rangebound.errors import MissingExtra


def main() -> None:
    """Run the command line of this process, and end the process."""
    try:
        from rangebound.cli import app
    except MissingExtra as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    app.main()


if __name__ == "__main__":
    main()
