"""Tables to publish: a plan, contribution bounds, exact aggregates in the engine, noise in the driver.

The names are loaded when they are first asked for, so that a plan is read without what draws and aggregates.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from rangebound.errors import ArgumentTypeError
from rangebound.values.extras import need

need("clarabel", "duckdb", "pydantic", "sqlglot")

if TYPE_CHECKING:  # what the table below says, for type checkers and editors; a test holds them together
    from rangebound.release.asked_in_sql import Answer, ask
    from rangebound.release.gaps import Suggestion, suggest
    from rangebound.release.output.deployment_record import (
        Requirement,
        fact_sheet,
        fact_sheet_text,
        record,
        record_text,
    )
    from rangebound.release.output.explain import explain
    from rangebound.release.output.forecast import MarginMet, Outlook, Solution, forecast, solve
    from rangebound.release.output.plan_facts import hazards, plan_risk
    from rangebound.release.output.plan_risk import Conversions
    from rangebound.release.output.table import Release
    from rangebound.release.output.table_certificate import Checked, check_certificate, check_entry
    from rangebound.release.plan.asking.translation import Translated, translate
    from rangebound.release.plan.condition import Condition
    from rangebound.release.plan.draft import draft
    from rangebound.release.plan.field_table import field_table
    from rangebound.release.plan.kinds.fractions import Mean, Share, StandardDeviation, Variance
    from rangebound.release.plan.kinds.histogram import Histogram
    from rangebound.release.plan.kinds.ranks import Bounds, CentralRange, Maximum, Median, Minimum, Quantiles
    from rangebound.release.plan.kinds.scalars import Count, CountOfUnits, DistinctCount, Sum
    from rangebound.release.plan.kinds.selections import Mode, TopK
    from rangebound.release.plan.kinds.summed_counts import Crosstab, Hierarchy, Level, Series
    from rangebound.release.plan.kinds.two_columns import Correlation, Line, Ratio
    from rangebound.release.plan.model import Plan, plan_schema
    from rangebound.release.plan.source import Source
    from rangebound.release.plan.toml import make_plan, parse_plan, read_plan
    from rangebound.release.plan.unit import Budget, Unit
    from rangebound.release.run import release

__all__ = [
    "Answer",
    "Bounds",
    "Budget",
    "CentralRange",
    "Checked",
    "Condition",
    "Conversions",
    "Correlation",
    "Count",
    "CountOfUnits",
    "Crosstab",
    "DistinctCount",
    "Hierarchy",
    "Histogram",
    "Level",
    "Line",
    "MarginMet",
    "Maximum",
    "Mean",
    "Median",
    "Minimum",
    "Mode",
    "Outlook",
    "Plan",
    "Quantiles",
    "Ratio",
    "Release",
    "Requirement",
    "Series",
    "Share",
    "Solution",
    "Source",
    "StandardDeviation",
    "Suggestion",
    "Sum",
    "TopK",
    "Translated",
    "Unit",
    "Variance",
    "ask",
    "check_certificate",
    "check_entry",
    "draft",
    "explain",
    "fact_sheet",
    "fact_sheet_text",
    "field_table",
    "forecast",
    "hazards",
    "make_plan",
    "parse_plan",
    "plan_risk",
    "plan_schema",
    "read_plan",
    "record",
    "record_text",
    "release",
    "solve",
    "suggest",
    "translate",
]

_NAMES = {
    "asked_in_sql": ("Answer", "ask"),
    "gaps": ("Suggestion", "suggest"),
    "output.deployment_record": ("Requirement", "fact_sheet", "fact_sheet_text", "record", "record_text"),
    "output.explain": ("explain",),
    "output.plan_facts": ("hazards", "plan_risk"),
    "output.forecast": ("MarginMet", "Outlook", "Solution", "forecast", "solve"),
    "output.plan_risk": ("Conversions",),
    "output.table": ("Release",),
    "output.table_certificate": ("Checked", "check_certificate", "check_entry"),
    "plan.asking.translation": ("Translated", "translate"),
    "plan.draft": ("draft",),
    "plan.field_table": ("field_table",),
    "plan.model": ("plan_schema",),
    "plan.toml": ("make_plan", "parse_plan", "read_plan"),
    "run": ("release",),
}
"""The names that are not parts of a plan, by their files from this folder on."""
_HOMES = {name: f"{__name__}.{home}" for home, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # a kind is found by its file, and so is its class; the parts of a plan are there too

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))
        parts = import_module(f"{__name__}.plan.model")
        left = [parts.Part]
        while left:
            each = left.pop()
            if each.__name__ == name:
                return each
            left += each.__subclasses__()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


class _Called(ModuleType):
    """This module, which says what to call in its place."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise ArgumentTypeError(
            "rb.release(...): is a module; rb.release_table(plan, ledger=...) publishes a table, and the method "
            "`release` of a mechanism a number"
        )


sys.modules[__name__].__class__ = _Called


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
