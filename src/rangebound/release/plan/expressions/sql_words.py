"""What each word and operator of SQL is called in a plan, and what to write in place of one that has no place there."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

CALLS: Mapping[type[exp.Expr], str] = {
    exp.Neg: "-x",
    exp.Abs: "abs",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Round: "round",
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeekIso: "weekday",
    exp.Hour: "hour",
    exp.StartsWith: "starts",
    exp.EndsWith: "ends",
    exp.Contains: "contains",
}
PARTS = {each.upper(): each for each in ("year", "quarter", "month", "week", "day", "hour")} | {"ISODOW": "weekday"}
BINARY: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
}
"""Operators of two sides, as a plan writes them."""
ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)
WHOLE = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT)
CLIP = "LEAST and GREATEST of a missing value are missing, as in SQL:2023; DuckDB and PostgreSQL would leave it out"
_ONE_QUERY = "a query inside another one is not in the subset; a CTE that is one row per unit is"
INSTEAD: Mapping[type[exp.Expr], str] = {
    exp.Mod: "the sign of a remainder differs between dialects; FLOOR_MOD(x, y) has that of y",
    exp.IntDiv: "how // rounds differs between dialects; FLOOR(x / y) says it",
    exp.Pow: "its last bits differ between engines; write x * x",
    exp.DPipe: "texts are not put together; group by both columns",
    exp.Concat: "texts are not put together; group by both columns",
    exp.Lower: "engines have different tables of letters; compare with each spelling, as x IN ('a', 'A')",
    exp.Upper: "engines have different tables of letters; compare with each spelling, as x IN ('a', 'A')",
    exp.ILike: "engines have different tables of letters; LIKE compares letter by letter",
    exp.RegexpLike: "engines read patterns differently; LIKE 'a%' compares the beginning of a text",
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Exists), _ONE_QUERY),
    exp.Window: "a window would see single rows; GROUP BY gives one number per group",
    exp.CurrentDate: "its value depends on the day on which it is asked; write DATE '2025-01-31'",
    exp.CurrentTimestamp: "its value depends on the moment at which it is asked; write DATE '2025-01-31'",
    exp.Rand: "a value must follow from its row",
    exp.Null: "NULL is compared by IS NULL",
    exp.Date: "a date is written DATE '2025-01-31', and CAST(x AS DATE) reads one",
    exp.Star: "a column must be named; COUNT(*) alone takes a star",
    exp.DayOfWeek: "dialects count from different days; EXTRACT(ISODOW FROM x) counts from Monday, 1",
    exp.TimestampTrunc: "group by EXTRACT(YEAR FROM x) and EXTRACT(MONTH FROM x), or list months in [keys]",
    exp.DateTrunc: "group by EXTRACT(YEAR FROM x) and EXTRACT(MONTH FROM x), or list months in [keys]",
    **dict.fromkeys((exp.Rollup, exp.Cube), "a plan has the kind crosstab for cells with all their margins"),
    exp.GroupingSets: "ask for each grouping in a statement of its own",
    **dict.fromkeys(
        (exp.IgnoreNulls, exp.RespectNulls), "an aggregate leaves missing values out, and must not take single rows"
    ),
    exp.Placeholder: "a parameter must be written out",
    exp.Parameter: "a parameter must be written out",
}
TIMES = "beside a date, a time counts as its day; in a database it is later than the beginning of that day"
SUBSET = "is not in the subset; an expression has columns, constants, arithmetic, comparisons, CASE, COALESCE, LIKE, "
SUBSET += "LEAST, GREATEST, ABS, FLOOR, CEIL, ROUND and parts of dates"
AGGREGATE = "an aggregate stands alone in SELECT, or in HAVING and ORDER BY; a plan asks a query for it, or [per_unit]"
OF_UNITS = ("COUNT", "SUM", "MIN", "MAX", "BOOL_OR", "BOOL_AND", "ARG_MIN", "ARG_MAX")
A_STEP = f"{', '.join(OF_UNITS[:-1])} or ARG_MAX of a column; compute with their results in [columns]"
COMPARING = (exp.EQ, exp.NEQ, *ORDERED, exp.In, exp.Between, exp.Is, exp.Like)
STEPS: Mapping[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalOr: "any",
    exp.LogicalAnd: "all",
}
