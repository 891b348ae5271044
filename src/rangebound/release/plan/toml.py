"""Reading a plan: from TOML, with errors that point at the line and name the field; and one of version 0.2 upgraded."""

from __future__ import annotations

import codecs
import copy
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentTypeError, PlanError
from rangebound.release.plan.expressions.reading import Grammar, expression_places, in_one_grammar, readings
from rangebound.release.plan.faults import Place, line_of, reported
from rangebound.release.plan.model import Plan
from rangebound.release.plan.source import files_in
from rangebound.release.plan.toml_text import toml_text
from rangebound.values import arguments

_LARGEST = 10_000_000
_MARK = "\ufeff"


def read_plan(path: str | Path) -> Plan:
    """The plan in a TOML file; public files that it names are relative to its folder.

    Guarantee: wrong plans get one `PlanError` with the file, the line and the field of the first fault.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "plan.toml")
    ...     _ = file.write_text('budget = {epsilon = 0.5}\\nquery = [{name = "visits", kind = "count"}]')
    ...     print(read_plan(file).budget.epsilon)
    0.5
    """
    return parse_plan(read_text(path), name=str(Path(path)), folder=Path(path).parent)


def read_text(path: str | Path) -> str:
    """The text of a plan's file, in UTF-8 or, with a byte-order mark, UTF-16; a `PlanError` if it cannot be read.

    The mark, with which some editors begin a file, is left out.
    """
    file = Path(path)
    try:
        data = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as reason:
        raise PlanError(f"path={str(file)!r}: cannot be read ({reason.strerror})", field="path") from None
    try:
        return data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8")
    except UnicodeDecodeError as reason:
        line = data.count(b"\n", 0, reason.start) + 1
        raise PlanError(f"{file}:{line}: must be UTF-8 text", field="path", line=line) from None


def parse_plan(text: str, *, name: str = "plan", folder: str | Path = ".") -> Plan:
    """The plan in a TOML text; public files that it names are relative to `folder`.

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
    text = text.removeprefix(_MARK)
    data = toml_data(text, name)
    with files_in(folder), reported(name, lambda: lines(text), data):
        return Plan.model_validate(data)


def toml_data(text: str, name: str) -> dict[str, Any]:
    """The data of a TOML text; a `PlanError` with the line of the first fault, and with what to write instead."""
    if len(text) > _LARGEST:
        raise PlanError(f"{name}: must have at most {_LARGEST} characters", field="text")
    try:
        return tomllib.loads(text.removeprefix(_MARK))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as reason:
        found = re.search(r"at line (\d+)", str(reason))
        line = int(found[1]) if found else max(text.count("\n"), 1)
        way = _way_out(text.split("\n")[line - 1])
        raise PlanError(f"{name}:{line}: not valid TOML: {reason}{way}", field="text", line=line) from None


def make_plan(data: Mapping[str, Any], *, folder: str | Path | None = ".") -> Plan:
    """The plan in plain data, with the same errors as a file's, but for the line.

    Public files that it names are relative to `folder`; with None, for a plan that comes from elsewhere, none is read.

    >>> plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "visits", "kind": "count"}]})
    >>> plan.query[0].name
    'visits'
    """
    if not isinstance(data, Mapping):
        raise ArgumentTypeError(f"data={arguments.shown(data)}: must be a mapping, as a TOML file would give it")
    with files_in(folder), reported("plan", data=data):
        return Plan.model_validate(dict(data))


_BARE = re.compile(r"""\s*([\w."'-]+)\s*=\s*([^\W\d][^"'=\[\]{}#]*?)\s*(?:\#.*)?""")
_COMMA = re.compile(r"\s*[\w.-]+\s*=\s*(\d+),(\d+)\s*(?:\#.*)?")


def _way_out(line: str) -> str:
    """What to write instead, for the slips that are common in a line that is not valid TOML.

    >>> _way_out("kind = count of units  # people")
    '; a text stands in quotation marks: kind = "count of units"'
    >>> _way_out("range = [LOWER, 100]"), _way_out("epsilon = 0,5"), _way_out("[budget")
    ('; write numbers or dates in place of LOWER and UPPER', '; a number has a point: 0.5', '')
    """
    if re.search(r"\b(LOWER|UPPER)\b", line.partition("#")[0]):
        return "; write numbers or dates in place of LOWER and UPPER"
    if found := _COMMA.fullmatch(line):
        return f"; a number has a point: {found[1]}.{found[2]}"
    if found := _BARE.fullmatch(line):
        return f'; a text stands in quotation marks: {found[1]} = "{found[2]}"'
    return ""


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
            where = lines(read_text(path))
        except PlanError:
            raise error from None
        words = re.findall(r"\w+", error.field)
        line = line_of(tuple(int(each) if each.isdigit() else each for each in words), where)
        raise PlanError(f"{path}:{line}: {error}", field=error.field, line=line) from None


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
            table = _numbered(data, counts, many=statement.startswith("[["))
            found[table] = line
        else:
            for path in _paths(data, _DEEPEST):
                found.setdefault((*table, *path), line)
    return found


TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[][{}\n]''', re.DOTALL
)
"""What the statements of TOML are cut by: texts, comments, brackets and ends of lines."""
_DEEPEST = 8  # levels of keys; a plan has five


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a TOML text with their lines: each ends with a line, outside of texts and of all brackets."""
    begin = depth = 0
    line = first = 1
    for token in TOKEN.finditer(text + "\n"):
        piece = token[0]
        line += piece.count("\n")
        depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        if piece == "\n" and not depth:
            yield first, text[begin : token.start()].strip()
            begin, first = token.end(), line


def _numbered(data: Any, counts: dict[Place, int], *, many: bool) -> Place:
    """The path of a header, read on its own, with the numbers of the tables in their arrays, which `counts` keeps."""
    place: Place = ()
    while isinstance(data, dict) and data and len(place) < _DEEPEST:
        key, data = next(iter(data.items()))
        place, data = (*place, key), data[0] if isinstance(data, list) and data else data
        count = counts.get(place, 0)
        if not data and many:
            counts[place] = count + 1
            place = (*place, count)
        elif count:
            place = (*place, count - 1)
    return place


def _paths(data: Any, deepest: int) -> list[Place]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    if not deepest:
        return []
    return [path for key, value in items for path in ((key,), *((key, *rest) for rest in _paths(value, deepest - 1)))]


def upgraded(text: str, *, name: str = "plan") -> str:
    """The text of a plan with its expressions in SQL; everything else, comments too, stays as it is.

    An expression that means something else in SQL is taken as one of version 0.2, if no other one is in SQL alone.

    Guarantee: the two plans have the same fingerprint, so they ask the same; a `PlanError` for a text that is not TOML.

    >>> print(
    ...     upgraded('''budget = {epsilon = 1.0}
    ... [[query]]            # of the north
    ... name = "visits"
    ... kind = "count"
    ... where = 'region == "north" and not missing(age)'   # of known age
    ... ''')
    ... )
    budget = {epsilon = 1.0}
    [[query]]            # of the north
    name = "visits"
    kind = "count"
    where = "region = 'north' AND age IS NOT NULL"   # of known age
    <BLANKLINE>
    """
    data = toml_data(text, name)
    wanted = copy.deepcopy(dict(in_one_grammar(data, by_hand=True)))
    changed: dict[str, str] = {}
    for (before, field, _), (table, name_of, kind) in zip(
        expression_places(data), list(expression_places(wanted)), strict=True
    ):
        meant = table[name_of]
        if isinstance(meant, str):
            found = readings(meant, kind)
            table[name_of] = str(found.old) if found.grammar is Grammar.FORMER else meant
            if table[name_of] != before[field]:
                changed[before[field]] = table[name_of]
    edited = _replaced(text, changed)
    if toml_data(edited, name) != wanted:
        raise PlanError(
            f"{name}: a text of the plan stands twice, as an expression and as something else", field="text"
        )
    return edited


def _replaced(text: str, changed: dict[str, str]) -> str:
    """The text with other values for the fields that have one of these."""
    found, end = "", 0
    for token in TOKEN.finditer(text):
        if token[0][0] in "\"'" and text[: token.start()].rstrip(" \t").endswith("="):
            value = tomllib.loads(f"x = {token[0]}")["x"]
            if value in changed:
                found += text[end : token.start()] + _quoted(changed[value])
                end = token.end()
    return found + text[end:]


def _quoted(text: str) -> str:
    """A text as TOML has it, without escapes where that is possible."""
    plain = text.isprintable() and ('"' in text or "\\" in text)
    if plain and "'" not in text:
        return f"'{text}'"
    if plain and "'''" not in text and not text.endswith("'"):
        return f"'''{text}'''"
    return toml_text({"x": text}).partition("= ")[2].rstrip("\n")


def changes(before: str, after: str, name: str) -> str:
    """The lines that differ, as `diff -u` shows them."""
    one, other = (each.splitlines(keepends=True) for each in (before, after))
    lines = difflib.unified_diff(one, other, name, f"{name} (in SQL)", n=1)
    return "".join(each if each.endswith("\n") else f"{each}\n" for each in lines)
