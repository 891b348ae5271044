"""The SQL of DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect


class _DuckDB(Dialect):
    name = "duckdb"
    wide = "INT128"
    most_whole = 2**127 - 1
    timestamp = "TIMESTAMP"
    masks = True
    tables_in_choices = True

    def added(self, tree: exp.Expr) -> exp.Expr:
        return exp.Sum(this=tree)  # DuckDB adds into 128 bits by itself

    def hexadecimal(self, digits: exp.Expr) -> exp.Expr:
        return exp.cast(exp.DPipe(this=exp.Literal.string("0x"), expression=digits), "BIGINT")

    def start(self, day: exp.Expr, period: str) -> exp.Expr:
        return exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(period), day])

    def unfolded(
        self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str, count: int | None
    ) -> exp.Select:
        lists: list[exp.Expr] = [] if count is None else [exp.Anonymous(this="RANGE", expressions=[_whole(count)])]
        lists += [_split(each, separator) for each in texts]
        unnested = [exp.Anonymous(this="UNNEST", expressions=[each]) for each in lists]
        columns = [exp.alias_(each, name) for each, name in zip(unnested, names, strict=True)]
        return exp.select(*columns, copy=False)

    def item(self, numbers: Sequence[str], place: exp.Expr, *, whole: bool) -> exp.Expr:
        listed = exp.cast(_split(" ".join(numbers), " "), "INT128[]" if whole else "DOUBLE[]")
        return exp.Anonymous(this="LIST_EXTRACT", expressions=[listed, place])


def _split(text: str, separator: str) -> exp.Expr:
    return exp.Anonymous(this="STR_SPLIT", expressions=[exp.Literal.string(text), exp.Literal.string(separator)])


def _whole(value: int) -> exp.Expr:
    return exp.Literal.number(str(value))


DUCKDB = _DuckDB()
