"""Texts in SQL, parsed by sqlglot: tokens, trees, how a part is shown in an error, and what a plan calls each word."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.dialects import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_CUT = [[each, TokenType.TEXT, TokenType.L_PAREN] for each in (TokenType.ALIAS, TokenType.DCOLON)]
_SHOWN = 60  # characters of a part in an error


class Unreadable(ValueError):
    """Why a text is not SQL that can be read, and the place among its characters."""

    def __init__(self, rule: str, place: int = 0) -> None:
        super().__init__(rule)
        self.place = place


def tokens(text: str, deepest: int) -> list[Token]:
    """The tokens of a text with at most this many parts within each other; `Unreadable` says what is wrong."""
    try:
        found = list(DuckDB().tokenize(text))
    except (SqlglotError, ValueError, RecursionError):
        raise Unreadable("not valid SQL: a quotation mark or a comment does not end") from None
    depth = 0
    for at, each in enumerate(found):
        depth += (each.token_type in _OPEN) - (each.token_type in _CLOSE)
        if depth > deepest:
            raise Unreadable(f"has more than {deepest} parts within each other", each.start)
        if [one.token_type for one in found[at : at + 3]] in _CUT:  # the parser would leave the length out
            raise Unreadable("a type of texts must have no length; not every database cuts a text to it", each.start)
    return found


def trees(text: str, found: list[Token], into: type[exp.Expr] | None = None) -> list[exp.Expr | None]:
    """The trees of the statements of some tokens, or of what they are to be read `into`."""
    try:
        with _deep():
            parser: Any = DuckDB().parser(error_level=ErrorLevel.IMMEDIATE)
            read: list[exp.Expr | None] = (
                parser.parse(found, text) if into is None else parser.parse_into(into, found, text)
            )
    except ParseError as reason:
        first = reason.errors[0] if reason.errors else {}
        line, column = first.get("line") or 1, first.get("col") or 1
        words = str(first.get("description") or "").partition(" for <class")[0].rstrip(".") or "it cannot be read"
        place = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
        raise Unreadable(" ".join(f"not valid SQL: {words[0].lower()}{words[1:]}".split()), place) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        raise Unreadable("not valid SQL, or too many parts within each other") from None
    _no_and_left_out(read, found)
    return read


def _no_and_left_out(read: list[exp.Expr | None], found: list[Token]) -> None:
    """Refuse BETWEEN without its AND, which the parser would add: `x BETWEEN 0x10 AND b` is then from 0 to `x10`."""
    between = [each.start for each in found if each.token_type is TokenType.BETWEEN]
    stated = sum(each.token_type is TokenType.AND for each in found)
    nodes = (node for each in read if each for node in each.walk())
    if between and stated < sum(isinstance(node, (exp.And, exp.Between)) for node in nodes):
        raise Unreadable("not valid SQL: x BETWEEN y AND z has its AND between two values", between[0])


_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def _deep() -> Iterator[None]:
    """A block in which the parser has stack enough, about 25 frames for each of the parts within each other.

    It logs nothing there: a statement that it does not know is refused in our words.
    """
    log, nothing = logging.getLogger("sqlglot"), logging.Filter("nothing")
    with _ONE_AT_A_TIME:
        before = sys.getrecursionlimit()
        log.addFilter(nothing)
        sys.setrecursionlimit(before + 2500)
        try:
            yield
        finally:
            sys.setrecursionlimit(before)
            log.removeFilter(nothing)


def beyond(node: exp.Expr, *known: str) -> Iterator[tuple[exp.Expr, str]]:
    """The parts of a node that are not among those that are `known`, each with the rule that refuses it."""
    for name, value in node.args.items():
        if value and name not in known:
            part = value[0] if isinstance(value, list) else value
            word = name.strip("_").upper().replace("_", " ")
            yield (
                part if isinstance(part, exp.Expr) else node,
                f"{word} is not in the subset{_INSTEAD_OF_PART.get(name, '')}",
            )


_INSTEAD_OF_PART = {
    "distinct": "; GROUP BY the column and count, so that its keys are selected privately",
    "qualify": "; HAVING compares published numbers",
    "windows": "; a window would see single rows",
    "over": "; a window would see single rows",
    "sample": "; the plan's contribution bounds say which rows count",
    "using": "; write ON a.column = b.column",
    "laterals": "; name a made column in [columns] of the base plan",
    "offset": "; LIMIT alone cuts the published rows",
    "into": "; --output writes the table",
}


def fragment(node: exp.Expr) -> str:
    """A part of the text as an error and a name show it: in one line, cut short."""
    try:
        found = " ".join(node.sql(unsupported_level=ErrorLevel.IGNORE, comments=False).split())
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):  # a tree that it cannot write
        found = node.key.upper()
    return found if len(found) <= _SHOWN else found[: _SHOWN - 3] + "..."


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
    **dict.fromkeys((exp.DPipe, exp.Concat), "texts are not put together; group by both columns"),
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
    exp.DateDiff: "`later - earlier` is the number of days between two dates",
    exp.Star: "a column must be named; COUNT(*) alone takes a star",
    exp.DayOfWeek: "dialects count from different days; EXTRACT(ISODOW FROM x) counts from Monday, 1",
    exp.TimestampTrunc: "group by EXTRACT(YEAR FROM x) and EXTRACT(MONTH FROM x), or list months in [keys]",
    exp.DateTrunc: "group by EXTRACT(YEAR FROM x) and EXTRACT(MONTH FROM x), or list months in [keys]",
    **dict.fromkeys((exp.Rollup, exp.Cube), "a plan has the kind crosstab for cells with all their margins"),
    exp.GroupingSets: "ask for each grouping in a statement of its own",
    **dict.fromkeys(
        (exp.IgnoreNulls, exp.RespectNulls), "an aggregate leaves missing values out, and must not take single rows"
    ),
    **dict.fromkeys((exp.Placeholder, exp.Parameter), "a parameter must be written out"),
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
