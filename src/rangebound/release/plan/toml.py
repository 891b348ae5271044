"""Reading a plan: from TOML, with errors that point at the line and name the field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rangebound import arguments
from rangebound.errors import ArgumentTypeError, PlanError
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Part
from rangebound.release.plan.model import Budget, Plan, Source, Unit
from rangebound.release.plan.question import CutQuestion, Question

Place = tuple[str | int, ...]

_KINDS: dict[str, type[Part]] = {each.model_fields["kind"].default: each for each in get_args(get_args(Question)[0])}
_MADE = {kind: each for kind, each in _KINDS.items() if each in get_args(CutQuestion)}
"""The kinds that no plan can ask for: `report_clipping` makes them."""

_LARGEST = 10_000_000


def read_plan(path: str | Path) -> Plan:
    """The plan in a TOML file.

    Guarantee: wrong plans get one `PlanError` with the file, the line and the field of the first fault.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "plan.toml")
    ...     _ = file.write_text('budget = {epsilon = 0.5}\\nquery = [{name = "visits", kind = "count"}]')
    ...     print(read_plan(file).budget.epsilon)
    0.5
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as reason:
        raise PlanError(f"path={str(file)!r}: cannot be read ({reason.strerror})", field="path") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as reason:
        line = data.count(b"\n", 0, reason.start) + 1
        raise PlanError(f"{file}:{line}: must be UTF-8 text", field="path", line=line) from None
    return parse_plan(text, name=str(file))


def parse_plan(text: str, *, name: str = "plan") -> Plan:
    """The plan in a TOML text.

    >>> parse_plan('''[budget]
    ... epsilon = "1"
    ... [[query]]
    ... name = "visits"
    ... kind = "count"
    ... ''')
    Traceback (most recent call last):
    rangebound.errors.PlanError: plan:2: budget.epsilon='1': must be a number, without quotation marks
    """
    arguments.instance("text", text, str, "the text of a plan")
    if len(text) > _LARGEST:
        raise PlanError(f"{name}: must have at most {_LARGEST} characters", field="text")
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as reason:
        found = re.search(r"at line (\d+)", str(reason))
        line = int(found[1]) if found else max(text.count("\n"), 1)
        raise PlanError(f"{name}:{line}: not valid TOML: {reason}", field="text", line=line) from None
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        raise plan_error(error, name, lines(text)) from None


def make_plan(data: Mapping[str, Any]) -> Plan:
    """The plan in plain data, with the same errors as a file's, but for the line."""
    if not isinstance(data, Mapping):
        raise ArgumentTypeError(f"data={arguments.shown(data)}: must be a mapping, as a TOML file would give it")
    try:
        return Plan.model_validate(dict(data))
    except ValidationError as error:
        raise plan_error(error, "plan", {}) from None


def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan as it can be written, for editors and checkers.

    >>> sorted(plan_schema()["required"])
    ['budget', 'query']
    """
    schema = Plan.model_json_schema(by_alias=True)
    kinds = schema["properties"]["query"]["items"]
    for kind, made in _MADE.items():
        del schema["$defs"][made.__name__]
        kinds["oneOf"].remove({"$ref": kinds["discriminator"]["mapping"].pop(kind)})
    return schema


@contextmanager
def pointing(path: str | Path) -> Iterator[None]:
    """Give faults that show only with the table at hand the file and line of their field, as `read_plan` does.

    Edge cases: a file that has changed since may point at another line; the field is right all the same.
    """
    try:
        yield
    except PlanError as error:
        if error.line is not None:
            raise
        try:
            where = lines(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise error from None
        words = re.findall(r"\w+", error.field)
        line = _line(tuple(int(each) if each.isdigit() else each for each in words), where)
        raise PlanError(f"{path}:{line}: {error}", field=error.field, line=line) from None


def _line(place: Place, where: dict[Place, int]) -> int | None:
    """The line of a place, or of the innermost table around it."""
    found = (where[place[:size]] for size in range(len(place), 0, -1) if place[:size] in where)
    return next(found, 1 if where else None)


def lines(text: str) -> dict[Place, int]:
    """The line of every key and table of a TOML text, counted from 1; those deeper than a plan can be are left out.

    The text is cut into statements, and the TOML reader itself says what is in each, so each is read once.

    >>> lines('a.b = 1\\n[[query]]\\nname = "x"')[("query", 0, "name")]
    3
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for line, statement in _statements(text):
        try:
            data = tomllib.loads(statement)
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        if statement.startswith("["):
            table = _numbered(_first_path(data), counts, many=statement.startswith("[["))
            found[table] = line
        else:
            for path in _paths(data, _DEEPEST):
                found.setdefault((*table, *path), line)
    return found


_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[][{}\n]''', re.DOTALL
)
_DEEPEST = 8  # levels of keys; a plan has five


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a TOML text with their lines: each ends with a line, outside of texts and of all brackets."""
    begin = depth = 0
    line = first = 1
    for token in _TOKEN.finditer(text + "\n"):
        piece = token[0]
        line += piece.count("\n")
        depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        if piece == "\n" and not depth:
            yield first, text[begin : token.start()].strip()
            begin, first = token.end(), line


def _first_path(data: Any) -> Place:
    """The path of a table header, read on its own."""
    path: Place = ()
    while isinstance(data, (dict, list)) and data and len(path) < _DEEPEST:
        if isinstance(data, dict):
            key, data = next(iter(data.items()))
            path = (*path, key)
        else:
            data = data[0]
    return path


def _numbered(path: Place, counts: dict[Place, int], *, many: bool) -> Place:
    """A header's path with the numbers of the tables in their arrays, which `counts` keeps."""
    place: Place = ()
    for depth, key in enumerate(path):
        place = (*place, key)
        count = counts.get(place, 0)
        if depth == len(path) - 1 and many:
            counts[place] = count + 1
            place = (*place, count)
        elif count:
            place = (*place, count - 1)
    return place


def _paths(data: Any, deepest: int) -> list[Place]:
    """The paths of the keys in a value, outer ones first."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    if not deepest:
        return []
    return [path for key, value in items for path in ((key,), *((key, *rest) for rest in _paths(value, deepest - 1)))]


def plan_error(error: ValidationError, name: str, where: dict[Place, int], made: type[Part] = Plan) -> PlanError:
    """The first fault of a plan, or of another part that is `made`, as one of our errors."""
    faults = error.errors(include_url=False)
    fault = next((each for each in faults if each["type"] == "extra_forbidden"), faults[0])  # a typo explains a gap
    place = _place(fault["loc"])
    message = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    rule = _rule(fault, place, made) or message
    inner = re.match(r"([a-z]+(?:\.\w+){0,2}): (.*)", rule, re.DOTALL) if fault["type"] == "value_error" else None
    if inner:  # a rule about several fields says itself which one is at fault
        place, rule = (*place, *(int(each) if each.isdigit() else each for each in inner[1].split("."))), inner[2]
    value = fault["input"]
    if fault["type"] == "union_tag_invalid":
        written = ", ".join(repr(each) for each in _KINDS if each not in _MADE)
        place, rule, value = (*place, "kind"), f"must be one of {written}", fault["ctx"]["tag"]
    ours = fault["loc"][:1] == ("query",) and set(fault["loc"][2:3]) & _MADE.keys()
    if ours:
        place, rule, value = (*place[:2], "kind"), "is made by report_clipping = true alone", fault["loc"][2]
    field = _field(place)
    whole = not ours and (inner or isinstance(value, dict) or fault["type"] in ("missing", "union_tag_not_found"))
    text = f"{field}: {rule}" if whole else f"{field}={arguments.shown(value)}: {rule}"
    line = _line(place, where)
    return PlanError(f"{name}:{line}: {text}" if line else f"{name}: {text}", field=field, line=line)


def _field(place: Place) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place).lstrip(".") or "plan"


_RULES = {
    "missing": "is missing",
    "tuple_type": "must be a list, in square brackets",
    "too_long": "must have at most %(max_length)s parts, and has %(actual_length)s",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most %(max_length)s characters",
    "string_type": "must be a text, in quotation marks",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "model_type": "must be a table of fields",
    "union_tag_not_found": 'needs a kind, such as kind = "count"',
}
_CONDITION = '{column = "age", is = ">=", value = 18}'
_CONDITIONS = {
    "tuple_type": f"must be a list of conditions, such as [{_CONDITION}]",
    "model_type": f"must be a condition, such as {_CONDITION}",
}


def _rule(fault: ErrorDetails, place: Place, made: type[Part]) -> str | None:
    """The broken rule in words of our own, where we have any."""
    kind = fault["type"]
    if kind == "extra_forbidden":
        fields = [each.alias or name for name, each in _model(fault["loc"][:-1], made).model_fields.items()]
        return f"is not known here; {arguments.similar(str(place[-1]), fields) or 'there are ' + ', '.join(fields)}"
    rules = _RULES | _CONDITIONS if {"where", "of"} & set(place[-2:]) else _RULES
    if kind not in rules:
        return None
    rule = rules[kind] % fault.get("ctx", {})
    quoted = kind in ("float_type", "int_type") and isinstance(fault["input"], str)
    return f"{rule}, without quotation marks" if quoted else rule


def _model(loc: tuple[str | int, ...], made: type[Part]) -> type[Part]:
    """The part at a place of what is made, as the checker names it: a query's place has its kind too."""
    parts: dict[str, type[Part]] = {"source": Source, "unit": Unit, "budget": Budget}
    match loc:
        case (*_, "where" | "of", int()):
            return Condition
        case ("query", int(), str(kind)):
            return _KINDS[kind]
    return parts.get(str(loc[0]), made) if loc else made


def _place(loc: tuple[str | int, ...]) -> Place:
    """A place without the tags and type names that the checker puts between the fields."""
    place: list[str | int] = []
    for depth, each in enumerate(loc):
        tag = depth == 2 and loc[0] == "query"
        if not tag and not (isinstance(each, str) and (each in _NOISE or "[" in each)):
            place.append(each)
    return tuple(place)


_NOISE = {"float", "int", "bool", "str", "date", "tuple"}
