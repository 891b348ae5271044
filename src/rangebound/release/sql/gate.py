"""The gate before a charge: every statement is written, and tried on its engine without rows, before it is paid for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rangebound.errors import EngineError, PlanError
from rangebound.release.engine import Engine
from rangebound.release.engine.interface import Unrunnable


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Refuse a plan whose statements have more levels than Python goes down."""
    try:
        yield
    except RecursionError:
        rule = "the columns that the plan computes from each other have too many levels for a statement"
        way = "shorten their expressions, or store some of these columns in the table"
        raise PlanError(f"columns: {rule}; {way}", field="columns") from None


def try_statements(engine: Engine, asked: Iterable[tuple[str, str, str]]) -> None:
    """Try statements on their engine as if no private table had a row, and refuse one that it cannot run.

    Each comes with the field of the plan that it is made for, the name of what it answers, and its text.

    Guarantee: no row is read, so what it refuses reveals nothing about any. What passes is the text that will be run.
    """
    for field, name, text in asked:
        try:
            engine.rehearse(text)
        except Unrunnable:
            rule = f"the engine cannot run the statement for {name!r}, whatever the table holds; this costs nothing"
            way = "shorten expressions, or use fewer keys, bins and digits"
            raise PlanError(f"{field}: {rule}; {way}", field=field) from None
        except EngineError as reason:
            raise EngineError(f"{reason}; this costs nothing", away=reason.away) from None
