"""Grouping columns as keys: a row's value as the engine reads it, and the text of the key that a rule makes of it.

Both are trees over one row. So a key is a public function of the row alone, and truncation, sensitivities and partition
selection are those of any column of keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect
from rangebound.release.engine.term import Tree, term
from rangebound.release.plan.fields import canonical, number
from rangebound.release.plan.key_rule import KeyRule
from rangebound.release.plan.statistic import Values
from rangebound.release.plan.table_schema import Schema
from rangebound.release.sql.comparison import beyond_doubles
from rangebound.release.sql.expression import as_day, as_key, choice, column, day, double, is_there, text
from rangebound.release.sql.measured import among, value, whole_border
from rangebound.release.sql.relation import MANY, table_of


def key_value(name: str, rule: KeyRule | None, schema: Schema) -> Tree:
    """What a key is made of, NULL where it is missing: a text, a day or a number, as the rule reads the column."""
    if rule is None:
        return as_key(name, schema)
    if rule.span is not None:
        return as_day(name, schema)
    if rule.bins is None:
        return as_key(name, schema, kind=rule.kind)
    if _whole(name, rule, schema):
        return column(name)
    lower, upper = number(rule.bins[0]), number(rule.bins[-1])
    return value(Values(column=name, lower=lower, upper=upper, dated=rule.dated), schema)


def key_text(name: str, rule: KeyRule | None, schema: Schema, this: Tree, dialect: Dialect) -> Tree:
    """The key that a rule makes of such a value; NULL where the row has none.

    Guarantee: the same in every engine; where the rule is more than a list, only public keys are ever made.
    """
    if rule is None or rule.listed_alone:
        return this
    label = _label(name, rule, schema, this, dialect) if rule.public else this
    if rule.missing is None and rule.other is None:
        return label
    other, missing = (None if each is None else text(each) for each in (rule.other, rule.missing))
    return exp.Coalesce(this=label, expressions=[choice((is_there(this), other or exp.Null()), otherwise=missing)])


def _label(name: str, rule: KeyRule, schema: Schema, this: Tree, dialect: Dialect) -> Tree:
    """The key of a value that is listed, in a bin or on one of the days; NULL for another."""
    if rule.span is not None:
        first, last = map(day, rule.span)
        start = exp.cast(dialect.start(this.copy(), "WEEK" if rule.weeks else "MONTH"), "DATE")
        begin = "CASE WHEN :start < :first THEN :first ELSE :start END"
        inside = f"CASE WHEN :x BETWEEN :first AND :last THEN CAST({begin} AS TEXT) END"
        return term(inside, x=this, first=first, last=last, start=start)
    if rule.bins is not None:
        return _bin(name, rule, schema, this, dialect)
    if rule.fold is None:
        return choice((_one_of(this, rule.own_labels, dialect), this.copy()))
    listed = {label: [canonical(each) for each in some] for label, some in rule.fold.items()}
    return choice(*((_one_of(this, some, dialect), text(label)) for label, some in listed.items()))


def _one_of(this: Tree, texts: Sequence[str], dialect: Dialect) -> Tree:
    """Whether a text is one of some: of a table, where they are many and the engine can ask that in a choice."""
    if dialect.tables_in_choices and len(texts) > MANY:
        listed = table_of(["k"], [(each,) for each in texts], dialect)
        return exp.In(this=this.copy(), query=listed.subquery(copy=False))
    return exp.In(this=this.copy(), expressions=list(map(text, texts)))


def _bin(name: str, rule: KeyRule, schema: Schema, this: Tree, dialect: Dialect) -> Tree:
    """The name of the bin of a number, decided on the number itself, as for the bins of a histogram."""
    assert rule.bins is not None
    edges, names = [number(each) for each in rule.bins], list(map(text, rule.own_labels))
    most = dialect.most_whole if _whole(name, rule, schema) else None
    *lower, _ = (whole_border(edge, math.ceil, most) if most else double(edge) for edge in edges)
    upper = whole_border(edges[-1], math.floor, most) if most else double(edges[-1])
    found = {"first": lower[0], "last": upper, "bin": among(this, lower[1:], names)}
    return term("CASE WHEN :x >= :first AND :x <= :last THEN :bin END", x=this, **found)


def _whole(name: str, rule: KeyRule, schema: Schema) -> bool:
    """Whether whole numbers and not doubles are compared with the edges."""
    return beyond_doubles(name, [number(each) for each in rule.bins or ()], schema)
