"""Tables to publish: a plan, contribution bounds, exact aggregates in the engine, noise in the driver."""

from __future__ import annotations

from rangebound.release.plan import Budget, Plan, Source, Unit
from rangebound.release.reading import parse_plan, plan_schema, read_plan

__all__ = ["Budget", "Plan", "Source", "Unit", "parse_plan", "plan_schema", "read_plan"]
