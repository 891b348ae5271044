"""Tables to publish: a plan, contribution bounds, exact aggregates in the engine, noise in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rangebound.values.extras import need

need("clarabel", "duckdb", "pydantic", "sqlglot")

from rangebound.release.asked_in_sql import Answer, ask
from rangebound.release.output.deployment_record import record, record_text
from rangebound.release.output.explain import explain
from rangebound.release.output.fact_sheet import Requirement, fact_sheet, fact_sheet_text
from rangebound.release.output.forecast import Outlook, forecast
from rangebound.release.output.hazards import hazards
from rangebound.release.output.plan_risk import Conversions, plan_risk
from rangebound.release.output.solution import MarginMet, Solution, solve
from rangebound.release.output.table import Release
from rangebound.release.output.table_certificate import Checked, check_certificate, check_entry
from rangebound.release.plan.asking import Translated, translate
from rangebound.release.plan.budget import Budget
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.draft import draft
from rangebound.release.plan.field_table import field_table
from rangebound.release.plan.fields import Part
from rangebound.release.plan.kinds.bounds import Bounds
from rangebound.release.plan.kinds.central_range import CentralRange
from rangebound.release.plan.kinds.correlation import Correlation
from rangebound.release.plan.kinds.count import Count
from rangebound.release.plan.kinds.count_of_units import CountOfUnits
from rangebound.release.plan.kinds.crosstab import Crosstab
from rangebound.release.plan.kinds.distinct_count import DistinctCount
from rangebound.release.plan.kinds.hierarchy import Hierarchy, Level
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.line import Line
from rangebound.release.plan.kinds.maximum import Maximum
from rangebound.release.plan.kinds.mean import Mean
from rangebound.release.plan.kinds.median import Median
from rangebound.release.plan.kinds.minimum import Minimum
from rangebound.release.plan.kinds.mode import Mode
from rangebound.release.plan.kinds.quantiles import Quantiles
from rangebound.release.plan.kinds.ratio import Ratio
from rangebound.release.plan.kinds.series import Series
from rangebound.release.plan.kinds.share import Share
from rangebound.release.plan.kinds.standard_deviation import StandardDeviation
from rangebound.release.plan.kinds.sum import Sum
from rangebound.release.plan.kinds.top_k import TopK
from rangebound.release.plan.kinds.variance import Variance
from rangebound.release.plan.model import Plan, plan_schema
from rangebound.release.plan.source import Source
from rangebound.release.plan.toml import make_plan, parse_plan, read_plan
from rangebound.release.plan.unit import Unit
from rangebound.release.run import release
from rangebound.release.suggest import Suggestion, suggest

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

if not TYPE_CHECKING:  # a kind is found by its file, and so is its class; the parts of a plan are there too

    def __getattr__(name: str) -> object:
        left = [Part]
        while left:
            each = left.pop()
            if each.__name__ == name:
                return each
            left += each.__subclasses__()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
