"""A plan as a notebook: the same numbers as on the page, from the calls that make them."""

from __future__ import annotations

import json

from rangebound.release.output.fact_sheet import markdown_text
from rangebound.release.plan.model import Plan

_STEPS = (
    (
        "What the plan costs and how exact its numbers will be. Nothing is read for it.",
        "print(explain(plan))\nfor each in forecast(plan):\n    print(*each.cells(), sep='  ')",
    ),
    (
        "What an attacker gains from all numbers together.",
        "risk = plan_risk(plan, prepare(plan).allocation)\nprint(plan_odds(plan, prepare(plan).allocation))\n"
        "print('advantage', risk.advantage(), ' mu', risk.gdp())",
    ),
    (
        "The table on made-up rows: noise and intervals are as they would be; the answers are not.",
        "print(made_up_trial(plan))",
    ),
)
_IMPORTS = """from rangebound.web.explorer.plan_tables import made_up_trial
from rangebound.release import explain, forecast, parse_plan
from rangebound.release.output.plan_risk import plan_odds, plan_risk
from rangebound.release.prepare import prepare
"""


def notebook(plan: Plan) -> str:
    """The text of a notebook (.ipynb, format 4) that shows a plan, its risk and a table of made-up rows.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> [each["cell_type"] for each in json.loads(notebook(plan))["cells"]][:3]
    ['markdown', 'code', 'markdown']
    """
    title = markdown_text(plan.title or "A plan")
    cells = [
        _cell(0, "markdown", f"# {title}\n\nThe plan as the explorer had it, and the calls behind its numbers."),
        _cell(1, "code", f"{_IMPORTS}\nplan = parse_plan({_quoted(plan.to_toml())})"),
    ]
    for words, code in _STEPS:
        cells += [_cell(len(cells), "markdown", words), _cell(len(cells) + 1, "code", code)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    data = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _quoted(text: str) -> str:
    """A text as a literal over many lines where that is the same text, else on one."""
    plain = "\\" not in text and "'''" not in text and not text.endswith("'")
    return f"'''{text}'''" if plain else repr(text)


def _cell(number: int, kind: str, text: str) -> dict[str, object]:
    lines = text.splitlines(keepends=True)
    code: dict[str, object] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": f"step-{number}", "metadata": {}, "source": lines, **code}
