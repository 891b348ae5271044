"""A plan of version 0.2 in the language of today: the same text, but for its expressions, which are in SQL."""

from __future__ import annotations

import copy
import difflib
import tomllib

from rangebound.errors import PlanError
from rangebound.release.plan.expressions.reading import Grammar, expression_places, in_one_grammar, readings
from rangebound.release.plan.toml import TOKEN, toml_data
from rangebound.release.plan.toml_text import toml_text


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
