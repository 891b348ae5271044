"""A table of made-up rows for a plan, published as the real one would be; nothing is charged."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rangebound.release.dummy.made_up_rows import made_up
from rangebound.release.engine.open_engine import opened
from rangebound.release.output.table import Release
from rangebound.release.plan.model import Plan
from rangebound.release.plan.toml import read_plan
from rangebound.release.run import release

ROWS = 2000


def made_up_trial(plan: Plan, rows: int = ROWS) -> Release:
    """The release of a plan on made-up rows: noise, intervals and cost are as they would be; the answers are not.

    Guarantee: made of the plan alone. No data are read, and no ledger is opened.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> len(made_up_trial(plan, rows=10).rows())
    1
    """
    with tempfile.TemporaryDirectory(prefix="rangebound-trial-") as name:
        *_, written = made_up(plan, rows).write(Path(name, "rows.csv"))
        found = read_plan(written)
        assert found.source is not None
        with opened(found.source, folder=written.parent) as engine:
            return release(found, engine, ledger=None)
