"""Tables to publish: a plan, contribution bounds, exact aggregates in the engine, noise in the driver."""

from __future__ import annotations

from rangebound.extras import need

need("clarabel", "duckdb", "pydantic", "sqlglot")

from rangebound.release.output.conversion import Conversions
from rangebound.release.output.explain import explain
from rangebound.release.output.forecast import Outlook, forecast
from rangebound.release.output.solution import MarginMet, Solution, solve
from rangebound.release.output.suggestion import Suggestion
from rangebound.release.output.table import Release
from rangebound.release.output.table_certificate import Checked, check_certificate, check_entry
from rangebound.release.plan.draft import draft
from rangebound.release.plan.model import Budget, Plan, Source, plan_schema
from rangebound.release.plan.toml import make_plan, parse_plan, read_plan
from rangebound.release.plan.unit import Unit
from rangebound.release.run import release
from rangebound.release.suggest import suggest

__all__ = [
    "Budget",
    "Checked",
    "Conversions",
    "MarginMet",
    "Outlook",
    "Plan",
    "Release",
    "Solution",
    "Source",
    "Suggestion",
    "Unit",
    "check_certificate",
    "check_entry",
    "draft",
    "explain",
    "forecast",
    "make_plan",
    "parse_plan",
    "plan_schema",
    "read_plan",
    "release",
    "solve",
    "suggest",
]
