"""The command line: parse, call, show; it contains no formula. Needs the extra `cli`."""

from __future__ import annotations

from rangebound.values.extras import need

need("rich", "typer")
