"""`rangebound explore`: a page on this machine that shows what an epsilon buys."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer


def explore(
    plan: Annotated[
        Path | None,
        typer.Argument(metavar="[PLAN]", help="The plan, a TOML file; without one: one number.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is; 0 takes one that is free.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address; open no browser.")] = False,
) -> None:
    """Choose epsilon on a page in the browser; read no data."""
    from rangebound.values.extras import need

    need("starlette", "uvicorn", "duckdb", "pydantic", what="rangebound explore")
    from rangebound.web.explorer.page_server import explore as run

    def ready(address: str) -> None:
        sys.stdout.write(f"exploring at {address}\nCtrl-C ends it\n")
        sys.stdout.flush()
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    with suppress(KeyboardInterrupt):  # that is how it ends
        run(plan, port=port, ready=ready)
