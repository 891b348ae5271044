"""The language of made columns: a small part of Python's expressions, with types and public ranges.

`read` gives the tree of a text, `typed` its types, given what is known of the columns. Nothing is ever evaluated here:
the room `sql` compiles a typed expression.
"""

from __future__ import annotations

from rangebound.release.plan.expressions.nodes import Expression, columns_of
from rangebound.release.plan.expressions.reading import read
from rangebound.release.plan.expressions.typed import Known, Typed, typed
from rangebound.release.plan.expressions.value_type import Range, ValueType

__all__ = ["Expression", "Known", "Range", "Typed", "ValueType", "columns_of", "read", "typed"]
