"""`rangebound plan`: check a plan, say it in words, export its schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rangebound.cli.options import Json, group

# The rooms below are loaded by the commands that need them, so that help comes at once.
app = group("Plans of releases.")

File = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file.")]


@app.command()
def check(plan: File, json: Json = False) -> None:
    """Check a plan, and its table's columns; read no data."""
    from rangebound.cli import show
    from rangebound.release import explain as words
    from rangebound.release import read_plan
    from rangebound.release.engine.opened import opened
    from rangebound.release.reading import pointing
    from rangebound.release.schema import check_schema

    found = read_plan(plan)
    with pointing(plan):
        words(found)
        if found.source is not None:
            with opened(found.source, folder=plan.parent) as engine:
                check_schema(found, engine.schema())
    show.fact({"ok": True, "queries": len(found.query)}, f"ok: {len(found.query)} queries", as_json=json)


@app.command()
def explain(plan: File, json: Json = False) -> None:
    """Say a plan in words, with its cost and expected errors."""
    from rangebound.cli import show
    from rangebound.release import explain as words
    from rangebound.release import read_plan
    from rangebound.release.reading import pointing

    with pointing(plan):
        text = words(read_plan(plan))
    show.fact({"explained": text}, text, as_json=json)


@app.command()
def schema() -> None:
    """Print the JSON schema of plans."""
    import json

    from rangebound.release import plan_schema

    sys.stdout.write(json.dumps(plan_schema(), indent=1) + "\n")
