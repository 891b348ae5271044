"""A plan as the page changes it: in its text, where comments and order stay, and in what was moved beside the text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError
from rangebound.release.budget_split import LARGEST
from rangebound.release.noise.allocation import Allocation
from rangebound.release.output.forecast import part_of
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan
from rangebound.release.plan.toml import lines, make_plan, parse_plan
from rangebound.release.plan.toml_text import toml_text
from rangebound.web.explorer.question_forms import BOUNDS, PlanChanges, QuestionForm, kinds_asked

_LEAST = 0.001  # of the account: a question keeps that much while another is dragged

_Place = tuple[str | int, ...]


def adjusted(text: str, changes: PlanChanges, folder: Path) -> Plan:
    """The plan in a TOML text with changes, checked as a file would be.

    Edge cases: a question that gets a margin has no weight, which the margin stands for.

    >>> text = 'budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]'
    >>> adjusted(text, PlanChanges(epsilon=2.0), Path()).budget.epsilon
    2.0
    """
    found = _parsed(text, folder)
    if changes == PlanChanges():
        return found
    if changes == PlanChanges(epsilon=changes.epsilon) and 0.0 < (changes.epsilon or 0.0) <= LARGEST:
        return found.model_copy(update={"budget": found.budget.model_copy(update={"epsilon": changes.epsilon})})
    return make_plan(_changed(text, changes), folder=folder)


def adjusted_text(text: str, changes: PlanChanges) -> str:
    """The text of a plan with changes: its comments and the order of its lines stay.

    >>> print(adjusted_text("budget = {epsilon = 1.0} # a year", PlanChanges(epsilon=2.0)))
    budget = {epsilon = 2.0} # a year
    """
    return text if changes == PlanChanges() else with_values(text, _changed(text, changes))


def _changed(text: str, changes: PlanChanges) -> dict[str, Any]:
    """What the text says, with the changes."""
    data, given = tomllib.loads(text), changes.to_dict()
    data["budget"] |= {name: given[name] for name in ("epsilon", "delta") if name in given}
    data |= {"selection": given["selection"]} if "selection" in given else {}
    if bounds := {name: given[name] for name in BOUNDS if name in given}:
        data["unit"] = {**data.get("unit", {}), **bounds}
    for question in data.get("query", ()):
        name = question["name"]
        if name in changes.margins:
            question.pop("margin", None)
            if changes.margins[name] is not None:
                question["margin"] = changes.margins[name]
                question.pop("weight", None)
        if name in changes.weights and "margin" not in question:
            question["weight"] = changes.weights[name]
    return data


@lru_cache(maxsize=16)
def _parsed(text: str, folder: Path) -> Plan:
    """The plan as it is written, checked once; its errors name the line."""
    return parse_plan(text, folder=folder)


def kept(before: str, after: str, changes: PlanChanges, folder: Path) -> PlanChanges:
    """The changes that still hold once a plan's text was edited: where the text says something else than before, in
    the same field of the same question, the text wins. A question that is gone takes its changes along.

    >>> text = 'budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]'
    >>> kept(text, text.replace("visits", "stays"), PlanChanges(epsilon=2.0), Path()).epsilon
    2.0
    >>> kept(text, text.replace("1.0", "3.0"), PlanChanges(epsilon=2.0), Path()).epsilon
    """
    fields, questions = [], []
    for text in (before, after):
        _parsed(text, folder)
        data = tomllib.loads(text)
        unit, budget = data.get("unit", {}), data["budget"]
        own = {"selection": data.get("selection")} | {name: budget.get(name) for name in ("epsilon", "delta")}
        fields.append(own | {name: (unit.get("column"), unit.get(name)) for name in BOUNDS})
        questions.append({each["name"]: (each.get("margin"), each.get("weight")) for each in data["query"]})
    left = {name: getattr(changes, name) for name, said in fields[0].items() if fields[1][name] == said}
    same = {name for name, said in questions[1].items() if questions[0].get(name) == said}
    for name in ("weights", "margins"):
        left[name] = {query: value for query, value in getattr(changes, name).items() if query in same}
    return PlanChanges(**left)


def dragged(asked: Sequence[Kind], epsilon: float, allocation: Allocation, name: str, share: float) -> PlanChanges:
    """The weights with which a question has the part `share` of the account, and the others split the rest as before.

    Guarantee: what has a margin keeps its share. The weights are 1 on average, so that a question that is added later,
    which has the weight 1, gets an average share. Edge cases: a share above what the margins leave, or next to nothing,
    is moved to the nearest that leaves every question a thousandth of the account.

    >>> from rangebound.release.prepare import prepare
    >>> plan = parse_plan('''budget = {epsilon = 1.0}
    ... query = [{name = "a", kind = "count"}, {name = "b", kind = "count"}, {name = "c", kind = "count"}]''')
    >>> dict(dragged(plan.query, plan.budget.epsilon, prepare(plan).allocation, "a", 0.5).weights)
    {'a': 1.5, 'b': 0.75, 'c': 0.75}
    """
    free = {
        each.name: part_of(epsilon, allocation, allocation.questions[at])
        for at, each in enumerate(asked)
        if each.margin is None and not each.made and allocation.sensitivities[at].cell
    }
    if name not in free:
        raise ArgumentError(f"question={name!r:.80}: has no weight in this plan")
    for together in allocation.workloads:  # one share stands at each of its questions
        names = [asked[at].name for at in together]
        free |= {each: free[each] / len(names) for each in names if each in free}
    selections = [part_of(epsilon, allocation, each) for each in allocation.selections.values()]
    total = sum(free.values()) + sum(selections)
    others = total - free[name]
    if others <= 0.0:
        return PlanChanges(weights={name: 1.0})
    most = total - _LEAST * (len(free) - 1 + len(selections))
    own = min(max(share, _LEAST), max(most, _LEAST))
    scale = max(total - own, _LEAST) / others
    size = (len(free) + len(selections)) / total
    weights = {each: size * (own if each == name else max(part * scale, _LEAST)) for each, part in free.items()}
    selection = size * max(selections[0] * scale, _LEAST) if selections else None
    return PlanChanges(weights=weights, selection=selection)


def with_question(text: str, form: QuestionForm) -> str:
    """The text of a plan with one more question; whether it is a plan is for its reader to check.

    Edge cases: its name says what it is; where that is taken, it gets a number. Other keys for a column than the plan
    lists already are refused, since other questions have those.

    >>> text = 'budget = {epsilon = 1.0} # a year\\n[[query]]\\nname = "rows"\\nkind = "count"\\n'
    >>> form = QuestionForm(kind="mean", column="age", lower=0, upper=110, by="clinic", keys=("north", "south"))
    >>> print(with_question(text, form).partition("[keys]")[2])
    <BLANKLINE>
    clinic = ["north", "south"]
    <BLANKLINE>
    [[query]]
    name = "mean of age by clinic"
    kind = "mean"
    column = "age"
    range = [0, 110]
    by = ["clinic"]
    <BLANKLINE>
    """
    data = tomllib.loads(text)
    names = {each["name"] for each in data["query"]}
    by = ", ".join(form.by)
    listed = data.get("keys", {}).get(by)
    if form.keys and listed is not None and [str(each) for each in listed] != list(form.keys):
        said = ", ".join(map(str, listed)) if isinstance(listed, list) else "others"
        raise ArgumentError(f"keys: the plan has {said} for {by!r}; leave this empty to take them, or edit [keys]")
    has = kinds_asked()[form.kind]
    said = f"{form.kind}{f' of {form.column}' if has['column'] else ''}{f' by {by}' if by else ''}"
    name, number = said, 2
    while name in names:
        name, number = f"{said} {number}", number + 1
    question: dict[str, object] = {"name": name, "kind": form.kind}
    if has["column"]:
        question["column"] = form.column
    if has["range"] and None not in (form.lower, form.upper):
        question["range"] = [form.lower, form.upper]
    question |= {"by": list(form.by)} if by else {}
    question |= {} if form.groups is None else {"groups": form.groups}
    try:
        question |= tomllib.loads(form.more)
    except tomllib.TOMLDecodeError as reason:
        raise ArgumentError(f"more={form.more!r:.80}: not valid TOML: {reason}") from None
    return with_query(text, question, {by: form.keys} if len(form.by) == 1 and form.keys else {})


def with_query(text: str, question: Mapping[str, object], keys: Mapping[str, Sequence[str]]) -> str:
    """A plan's text with one more question at its end, and the keys of columns for which it lists none.

    Guarantee: the text says what the plan before said, and the question. Edge cases: where the questions stand in one
    value, as in `query = [...]`, the text is written anew, without its comments.

    >>> print(with_query('# ours\\n[[query]]\\nname = "a"\\n', {"name": "b"}, {}))
    # ours
    [[query]]
    name = "a"
    <BLANKLINE>
    [[query]]
    name = "b"
    <BLANKLINE>
    """
    data = tomllib.loads(text)
    more = {name: list(each) for name, each in keys.items() if name not in data.get("keys", {})}
    wanted = {**data, "query": [*data["query"], dict(question)]}
    if more:
        wanted["keys"] = {**data.get("keys", {}), **more}
    edited = f"{text.rstrip()}\n"
    for name, listed in more.items():
        example = f"# {toml_text({name: ['...', '...']}).strip()}"  # of a first plan
        rows = [each for each in _rows(edited) if not each.startswith(example)]
        edited = _with_value("".join(rows), ("keys", name), listed)
    return _checked(f"{edited.rstrip()}\n\n{toml_text({'query': [question]})}", wanted)


def without_query(text: str, name: str) -> str:
    """A plan's text without the question of a name, and without the keys that only this one is grouped by.

    Edge cases: comments between questions stay. The last question is refused, since a plan needs one.

    >>> print(without_query('[[query]]\\nname = "a"\\n\\n# more\\n[[query]]\\nname = "b"\\n', "a"), end="")
    # more
    [[query]]
    name = "b"
    """
    data = tomllib.loads(text)
    names = [each["name"] for each in data["query"]]
    if name not in names:
        raise ArgumentError(f"question={name!r:.80}: is not in the plan")
    if len(names) == 1:
        raise ArgumentError(f"question={name!r:.80}: is the only one, and a plan needs one; add another first")
    at = names.index(name)
    wanted = {**data, "query": [each for each in data["query"] if each["name"] != name]}
    used = {column for each in wanted["query"] for column in (*each.get("by", ()), each.get("column"))}
    own = data["query"][at].get("by", ())
    unused = [column for column in own if column in data.get("keys", {}) and column not in used]
    edited = _without(text, ("query", at))
    for column in unused:
        edited = _without(edited, ("keys", column))
    if unused:
        wanted["keys"] = {column: each for column, each in data["keys"].items() if column not in unused}
    return _checked(edited, wanted)


def with_values(text: str, wanted: Mapping[str, Any]) -> str:
    """A plan's text with other numbers or names: `wanted` is what it is to say, and has the same questions.

    Edge cases: what cannot be changed in its own line, such as an array of other length, is written anew, all of it and
    without comments.

    >>> print(with_values("[budget]\\nepsilon = 1.0 # a year\\n", {"budget": {"epsilon": 2.0, "delta": 1e-6}}))
    [budget]
    delta = 1e-06
    epsilon = 2.0 # a year
    <BLANKLINE>
    """
    edited = text
    for place, value in _differences(tomllib.loads(text), wanted):
        edited = _without(edited, place) if value is None else _with_value(edited, place, value)
    return _checked(edited, wanted)


def _differences(before: object, after: object, place: _Place = ()) -> Iterator[tuple[_Place, object]]:
    """Where two texts differ, and what the second has there; None where it has nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            inner = after.get(name)
            yield from _differences(before.get(name, {} if isinstance(inner, dict) else None), inner, (*place, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, pair in enumerate(zip(before, after, strict=True)):
            yield from _differences(*pair, (*place, at))
    elif before != after:
        yield place, after


def _with_value(text: str, place: _Place, value: object) -> str:
    """The text with a value at a place: in its line, else first in its table, which is made where there is none."""
    found, rows, name = lines(text), _rows(text), str(place[-1])
    line, table, said = found.get(place), found.get(place[:-1]), toml_text({name: value}).strip()
    if line is not None:
        own = re.compile(rf"(?<![\w-]){re.escape(name)}\s*=\s*(?:[-+\w.]+|\"[^\"]*\")")
        rows[line - 1] = own.sub(lambda _: said, rows[line - 1], count=1)
    elif len(place) == 1:
        rows.insert(0, f"{said}\n")
    elif table is None:
        rows.append(f"\n[{place[0]}]\n{said}\n")
    elif rows[table - 1].lstrip().startswith("["):
        after = found.get((*place[:-1], "name"), table)  # below the name of a question
        rows[after - 1] = f"{rows[after - 1].rstrip()}\n{said}\n"
    else:
        rows[table - 1] = rows[table - 1].replace("{", f"{{{said}, ", 1)
    return "".join(rows)


def _rows(text: str) -> list[str]:
    """The lines of a text of TOML, which end with a line feed alone, as `lines` counts them."""
    return [f"{each}\n" for each in text.split("\n")[:-1]] + [each for each in text.split("\n")[-1:] if each]


def _without(text: str, place: _Place) -> str:
    """The text without what stands at a place; blank lines and comments behind it stay."""
    found, rows = lines(text), _rows(text)
    own = [line for each, line in found.items() if each[: len(place)] == place]
    if not own:
        return text
    end = min((line for line in found.values() if line > max(own)), default=len(rows) + 1) - 1
    while end > max(own) and (not rows[end - 1].strip() or rows[end - 1].lstrip().startswith("#")):
        end -= 1
    begin = min(own) - 1
    while end < len(rows) and not rows[end].strip() and (begin == 0 or not rows[begin - 1].strip()):
        end += 1
    return "".join([*rows[:begin], *rows[end:]])


def _checked(edited: str, wanted: Mapping[str, Any]) -> str:
    """The edited text, if it says what is wanted; else that written anew."""
    try:
        same = tomllib.loads(edited) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    return edited if same else toml_text(wanted)
