"""`rangebound dummy`: made-up rows for a plan, so that it can be tried without the data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rangebound.cli.options import PlanFile, option
from rangebound.errors import ArgumentError


def dummy(
    plan: PlanFile,
    rows: Annotated[int, typer.Option(help="How many rows.")] = 1000,
    output: Annotated[
        Path | None,
        option(
            "A new file, .csv or .parquet; a plan that reads it is written beside it. Default: standard output.",
            "--output",
            "-o",
        ),
    ] = None,
) -> None:
    """Make up rows for a plan, from the plan alone; read no data."""
    from rangebound.release import read_plan
    from rangebound.release.dummy.made_up_rows import made_up

    found = made_up(read_plan(plan), rows)
    if output is not None:
        *tables, written = found.write(output)
        sys.stdout.write(
            f"made up: {', '.join(map(str, tables))}; {written} reads {'it' if not tables[1:] else 'them'}\n"
        )
        return
    if found.joined:
        raise ArgumentError(
            "output: missing; the plan joins tables, which need files of their own, as -o trial/rows.csv"
        )
    sys.stdout.write(found.table.to_csv())
