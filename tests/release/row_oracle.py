"""An independent evaluator of the language of made columns, for one row, in plain Python; and random expressions.

It evaluates the text of an expression by Python's own parser and exact fractions where they are the definition, and
shares nothing with the package but the grammar. A missing value is None.
"""

import ast
import datetime
import math
import random
import re
from fractions import Fraction

EPOCH = datetime.date(1970, 1, 1)
NUMERAL = re.compile(r" *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})? *")
WRITTEN_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?")


def finite(value):
    return value if value is not None and math.isfinite(value) else None


def nearest(exact):
    """The double nearest to a fraction, None where that overflows."""
    try:
        return finite(float(exact))
    except OverflowError:
        return None


def exactly(operation):
    def applied(x, y):
        return None if x is None or y is None else nearest(operation(Fraction(x), Fraction(y)))

    return applied


def divided(x, y):
    return None if x is None or y is None or y == 0 else nearest(Fraction(x) / Fraction(y))


def remainder(x, y):
    return None if x is None or y is None or y == 0 else float(x % y)


def floored(x):
    return None if x is None else float(math.floor(x))


def half_away(x):
    return None if x is None else math.copysign(float(math.floor(abs(Fraction(x)) + Fraction(1, 2))), x) + 0.0


def shifted(day, days):
    if day is None or days is None:
        return None
    try:
        return datetime.date.fromordinal(day.toordinal() + math.floor(days))
    except (ValueError, OverflowError):
        return None


def added(x, y):
    if isinstance(x, datetime.date) or isinstance(y, datetime.date):
        return shifted(*((x, y) if isinstance(x, datetime.date) else (y, x)))
    return exactly(lambda a, b: a + b)(x, y)


def less(x, y):
    if isinstance(x, datetime.date) and isinstance(y, datetime.date):
        return float((x - y).days)
    if isinstance(x, datetime.date):
        return shifted(x, None if y is None else -math.floor(y))
    return exactly(lambda a, b: a - b)(x, y)


def read_number(x):
    if x is None or isinstance(x, float):
        return x
    if isinstance(x, bool):
        return float(x)
    if NUMERAL.fullmatch(x):
        return finite(float(x))
    return {"true": 1.0, "false": 0.0}.get(x.strip(" ").lower() if x.isascii() else "")


def read_date(x):
    if x is None or isinstance(x, datetime.date):
        return x
    if not WRITTEN_DAY.fullmatch(x):
        return None
    try:
        return datetime.date.fromisoformat(x[:10])
    except ValueError:
        return None


def read_text(x):
    if isinstance(x, bool):
        return "true" if x else "false"
    return x.isoformat() if isinstance(x, datetime.date) else x


def binned(x, *edges):
    if len(edges) == 1:
        found = floored(divided(x, edges[0]))
        return None if found is None else exactly(lambda a, b: a * b)(found, edges[0])
    if x is None or not edges[0] <= x <= edges[-1]:
        return None
    return max(low for low in edges[:-1] if low <= x)


def unless_missing(function):
    return lambda *given: None if any(each is None for each in given) else function(*given)


FUNCTIONS = {
    "number": read_number,
    "text": read_text,
    "date": read_date,
    "missing": lambda x: x is None,
    "coalesce": lambda *given: next((each for each in given if each is not None), None),
    "floor": floored,
    "ceil": unless_missing(lambda x: float(math.ceil(x))),
    "round": half_away,
    "abs": unless_missing(abs),
    "min": unless_missing(min),
    "max": unless_missing(max),
    "clip": unless_missing(lambda x, low, high: min(max(x, low), high)),
    "bin": binned,
    "starts": unless_missing(lambda x, y: x.encode().startswith(y.encode())),
    "ends": unless_missing(lambda x, y: x.encode().endswith(y.encode())),
    "contains": unless_missing(lambda x, y: y.encode() in x.encode()),
    "year": unless_missing(lambda d: float(d.year)),
    "quarter": unless_missing(lambda d: float((d.month + 2) // 3)),
    "month": unless_missing(lambda d: float(d.month)),
    "week": unless_missing(lambda d: float(d.isocalendar().week)),
    "day": unless_missing(lambda d: float(d.day)),
    "weekday": unless_missing(lambda d: float(d.isoweekday())),
}
OPERATORS = {
    ast.Add: added,
    ast.Sub: less,
    ast.Mult: exactly(lambda a, b: a * b),
    ast.Div: divided,
    ast.FloorDiv: lambda x, y: floored(divided(x, y)),
    ast.Mod: remainder,
}
COMPARISONS = {
    ast.Eq: lambda x, y: x == y,
    ast.NotEq: lambda x, y: x != y,
    ast.Lt: lambda x, y: x < y,
    ast.LtE: lambda x, y: x <= y,
    ast.Gt: lambda x, y: x > y,
    ast.GtE: lambda x, y: x >= y,
    ast.In: lambda x, y: x in y,
    ast.NotIn: lambda x, y: x not in y,
}


def conjunction(values):
    return False if False in values else None if None in values else True


def disjunction(values):
    return True if True in values else None if None in values else False


def evaluate(text, row):
    """The value of an expression in a row, a mapping of names to values; None where it is missing."""
    return _value(ast.parse(text, mode="eval").body, row)


def _value(node, row):
    match node:
        case ast.Constant(value=value):
            return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        case ast.Name(id=name):
            return {"true": True, "false": False}[name] if name in ("true", "false") else row[name]
        case ast.List(elts=parts):
            return [_value(each, row) for each in parts]
        case ast.BinOp(left=left, op=sign, right=right):
            return OPERATORS[type(sign)](_value(left, row), _value(right, row))
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            found = _value(inner, row)
            return None if found is None else not found
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = _value(inner, row)
            return None if found is None else -found
        case ast.BoolOp(op=sign, values=parts):
            found = [_value(each, row) for each in parts]
            return conjunction(found) if isinstance(sign, ast.And) else disjunction(found)
        case ast.Compare(left=left, ops=signs, comparators=others):
            found, x = [], _value(left, row)
            for sign, other in zip(signs, others, strict=True):
                y = _value(other, row)
                found.append(None if x is None or y is None else COMPARISONS[type(sign)](x, y))
                x = y
            return conjunction(found)
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return _value(body if _value(test, row) is True else otherwise, row)
        case ast.Call(func=ast.Name(id="case"), args=parts):
            given = [_value(each, row) for each in parts]
            for at in range(0, len(given) - 1, 2):
                if given[at] is True:
                    return given[at + 1]
            return given[-1] if len(given) % 2 else None
        case ast.Call(func=ast.Name(id=name), args=parts):
            return FUNCTIONS[name](*(_value(each, row) for each in parts))
    raise AssertionError(ast.dump(node))


# Random expressions, by type: n numbers, t texts, b truth values, d dates. A column is named for its type.

NUMBERS = ["0", "1", "-1", "2", "0.5", "-2.5", "3", "10", "0.1", "1e308", "-1e300", "5e-324", "9007199254740993.0"]
TEXTS = ['""', '"a"', '"ab"', '"é"', '"1.5"', '"2025-01-31"', '"true"', '"🦆"', '"\\"\'"']
DATES = ['date("2025-01-31")', 'date("0001-01-01")', 'date("9999-12-31")', 'date("1969-12-31")', 'date("2024-02-29")']
LEAVES = {"n": ("n1", "n2", "i1"), "t": ("t1", "t2"), "b": ("b1", "b2"), "d": ("d1", "d2")}
CONSTANTS = {"n": NUMBERS, "t": TEXTS, "b": ["true", "false"], "d": DATES}
READ = {"n": "number", "t": "text", "d": "date"}


def leaf(kind, draw: random.Random):
    if draw.random() < 0.35:
        return draw.choice(CONSTANTS[kind])
    name = draw.choice(LEAVES[kind])
    return f"({name} == true)" if kind == "b" else f"{READ[kind]}({name})"


def expression(kind, depth, draw: random.Random):
    """A random expression of a type, of at most some depth."""
    if depth == 0 or draw.random() < 0.1:
        return leaf(kind, draw)

    def of(other):
        return expression(other, depth - 1, draw)

    any_kind = draw.choice("ntbd")
    listed = ", ".join(draw.sample(CONSTANTS[any_kind], 2))
    edges = sorted(draw.sample([-10.5, -1, 0, 0.5, 2, 18, 1e6], draw.randint(2, 4)))
    ways = {
        "n": [
            lambda: f"({of('n')} {draw.choice(['+', '-', '*', '/', '//', '%'])} {of('n')})",
            lambda: f"({of('n')} {draw.choice(['+', '-', '*', '/', '//', '%'])} {of('n')})",
            lambda: f"(-{of('n')})",
            lambda: f"{draw.choice(['floor', 'ceil', 'round', 'abs'])}({of('n')})",
            lambda: f"{draw.choice(['min', 'max'])}({of('n')}, {of('n')})",
            lambda: f"clip({of('n')}, {of('n')}, {of('n')})",
            lambda: f"bin({of('n')}, {draw.choice(['2', '0.1', '10'])})",
            lambda: f"bin({of('n')}, {', '.join(map(repr, edges))})",
            lambda: f"{draw.choice(['year', 'quarter', 'month', 'week', 'day', 'weekday'])}({of('d')})",
            lambda: f"({of('d')} - {of('d')})",
            lambda: f"number({of(draw.choice('tb'))})",
        ],
        "t": [lambda: f"text({of(draw.choice('tbd'))})"],
        "b": [
            lambda: f"({of('n')} {draw.choice(['<', '<=', '>', '>=', '==', '!='])} {of('n')})",
            lambda: f"({of('d')} {draw.choice(['<', '<=', '>', '>=', '==', '!='])} {of('d')})",
            lambda: f"({of('n')} < {of('n')} <= {of('n')})",
            lambda: f"({of(any_kind)} {draw.choice(['==', '!='])} {of(any_kind)})",
            lambda: f"({of('b')} {draw.choice(['and', 'or'])} {of('b')} {draw.choice(['and', 'or'])} {of('b')})",
            lambda: f"(not {of('b')})",
            lambda: f"({of(any_kind)} {draw.choice(['in', 'not in'])} [{listed}])",
            lambda: f"missing({of(any_kind)})",
            lambda: f"{draw.choice(['starts', 'ends', 'contains'])}({of('t')}, {of('t')})",
        ],
        "d": [
            lambda: f"({of('d')} {draw.choice('+-')} {of('n')})",
            lambda: f"({of('n')} + {of('d')})",
            lambda: f"{draw.choice(['min', 'max'])}({of('d')}, {of('d')})",
            lambda: f"clip({of('d')}, {of('d')}, {of('d')})",
            lambda: f"date(text({of('t')}))",
        ],
    }
    both = [
        lambda: f"case({of('b')}, {of(kind)}, {of('b')}, {of(kind)})",
        lambda: f"case({of('b')}, {of(kind)}, {of(kind)})",
        lambda: f"({of(kind)} if {of('b')} else {of(kind)})",
        lambda: f"coalesce({of(kind)}, {of(kind)})",
    ]
    return draw.choice([*ways[kind], *both] if draw.random() < 0.8 else both)()


VALUES = {
    "n1": [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 0.49999999999999994, 1e308, -1e308, 5e-324, 7.0],
    "n2": [None, 0.0, 2.0, -3.0, 0.1, 0.3, 1e-300, 4503599627370496.5, -0.5, 2.5, math.nan, 1e17, 18.0],
    "i1": [None, 0, 1, -1, 7, 2**53, -(2**53) - 1, 2**62, 10, 65, 18, 3, 2],
    "t1": [None, "", "a", "ab", "abc", "1.5", " 2 ", "1e999", "TRUE", "2025-01-31", "2025-02-30", "é", "🦆a"],
    "t2": [
        None,
        "b",
        "0",
        "-1e3",
        "nan",
        "inf",
        "1_000",
        "٣",
        "2025-01-31 10:00",
        "10000-01-01",
        "\n1",
        "false",
        "e\u0301",
    ],
    "b1": [None, True, False],
    "b2": [None, True, False],
    "d1": [None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(2025, 1, 31), EPOCH],
    "d2": [None, datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), datetime.date(2021, 1, 3), EPOCH],
}


def rows(draw: random.Random, count):
    """Random rows; each value of every column is there at least once."""
    return [
        {name: values[at] if at < len(values) else draw.choice(values) for name, values in VALUES.items()}
        for at in range(count)
    ]


def seen(row):
    """A row as expressions see it: what is not finite is missing, and whole numbers are doubles."""
    return {
        name: finite(float(value)) if name in ("n1", "n2", "i1") and value is not None else value
        for name, value in row.items()
    }
