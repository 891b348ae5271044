"""The SQL of Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from rangebound.errors import EngineError
from rangebound.release.engine.dialect import Dialect

SUBSTITUTED = "${"
"""Spark puts settings and variables of its machine here, before it reads a statement."""
_PLAIN = re.compile(r"[A-Za-z0-9 .:_+-]*")


class _Spark(Dialect):
    name = "spark"
    wide = "DECIMAL(28, 0)"
    most_whole = 10**38 - 1
    timestamp = "TIMESTAMP_NTZ"

    def written(self, tree: exp.Expr) -> str:
        found = tree.transform(_spelled).sql(self.name)
        if SUBSTITUTED in found:
            raise EngineError(f"statement: must not hold {SUBSTITUTED!r}, which Spark replaces; rename the column")
        return found

    def misfit(self, name: str) -> str:
        rule = f"the name of a column must not hold {SUBSTITUTED!r}, which Spark replaces"
        return rule if SUBSTITUTED in name else ""

    def hexadecimal(self, digits: exp.Expr) -> exp.Expr:
        return exp.cast(exp.Anonymous(this="CONV", expressions=[digits, _whole(16), _whole(10)]), "BIGINT")

    def start(self, day: exp.Expr, period: str) -> exp.Expr:
        return exp.Anonymous(this="TRUNC", expressions=[day, exp.Literal.string(period)])

    def unfolded(
        self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str, count: int | None
    ) -> exp.Select:
        lists: list[exp.Expr] = []
        if count is not None:
            lists.append(exp.Anonymous(this="SEQUENCE", expressions=[_whole(0), _whole(count - 1)]))
        lists += [_split(each, separator) for each in texts]
        zipped = exp.Anonymous(this="ARRAYS_ZIP", expressions=lists)
        rows = exp.Anonymous(this="INLINE", expressions=[zipped])
        return exp.select(exp.Aliases(this=rows, expressions=list(names)), copy=False)

    def item(self, numbers: Sequence[str], place: exp.Expr, *, whole: bool) -> exp.Expr:
        kind = "ARRAY<DECIMAL(38, 0)>" if whole else "ARRAY<DOUBLE>"
        listed = exp.cast(_split(" ".join(numbers), " "), kind)
        return exp.Anonymous(this="ELEMENT_AT", expressions=[listed, place])


def _spelled(tree: exp.Expr) -> exp.Expr:
    """A text by its bytes unless it is plain: how Spark reads quotes, backslashes and dollars depends on settings."""
    if not (isinstance(tree, exp.Literal) and tree.is_string) or _PLAIN.fullmatch(tree.this):
        return tree
    return exp.cast(exp.HexString(this=tree.this.encode().hex()), "TEXT")


def _split(text: str, separator: str) -> exp.Expr:
    return exp.Anonymous(this="SPLIT", expressions=[exp.Literal.string(text), exp.Literal.string(separator)])


def _whole(value: int) -> exp.Expr:
    return exp.Literal.number(str(value))


SPARK = _Spark()
