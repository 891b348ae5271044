"""The plan of a release: where the data are, who is protected, what may be spent, what is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from rangebound.errors import ArgumentTypeError
from rangebound.release.plan.columns import Declarations, MadeColumn, PlanColumns, UnitColumn, UnitColumns, plan_columns
from rangebound.release.plan.condition import hidden_text
from rangebound.release.plan.expressions.nodes import ValueType
from rangebound.release.plan.expressions.reading import in_one_grammar
from rangebound.release.plan.faults import Place, fault, first_rule
from rangebound.release.plan.fields import Ends, Name, Part, Positive, Text, as_tuple
from rangebound.release.plan.key_rule import Combination, KeyRule, Keys, all_rules
from rangebound.release.plan.kinds import MADE, Question
from rangebound.release.plan.kinds.cuts import cut_questions
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.source import Joins, Source, Zone, current_folder, join_misfit, joined_rows
from rangebound.release.plan.toml_text import toml_text, written_fields
from rangebound.release.plan.unit import MOST_ROWS, Budget, Unit
from rangebound.values import arguments
from rangebound.values.data_frames import as_html
from rangebound.values.numeric import rounded_up

_MOST_GROUPS = 100_000


class Plan(Part):
    """A release, written down before any data are read.

    `zone` is the time zone in whose local time instants are read, such as "Europe/Paris". `keys` lists the public
    keys of grouping columns, by rules for many and with groups for what is missing or not listed (see `KeyRule`),
    and `combinations` those of several columns that occur together; the keys of a column that is in neither are
    selected privately, which needs a delta. With `only_listed`, a row counts for no question at all if one of the
    columns that have public keys has none of them in it. `columns` makes columns of others, and states public
    ranges of columns. `selection` is the weight of that selection beside the weights of the questions. Where no
    question has a weight, the budget is split so that the `objective` is least: the "total" of the variances, or
    that of the "relative" ones, which suits tables whose numbers are of very different size. A question with a
    `margin` gets the share that half the width of its interval asks for, and the others split the rest. With
    `joint` all intervals of the table hold at once with probability `level`, else each of them does. With
    `intervals` other than "table" a number has an interval for the population of its units as well. With
    `report_clipping` the part `clipping_share` of what the margins leave goes into questions about how much of the
    rows and values of the others is cut; these stand behind the others in `query`.

    Guarantee: a plan that was made is complete and free of contradictions; only the columns are still to be seen.

    In Python a plan is made of its parts, or of dicts in their place; `rangebound.release` has all of them.

    >>> from rangebound.release import Budget, Count, Unit
    >>> Plan(budget=Budget(epsilon=1), unit={"column": "person"}, query=[Count(name="visits")])
    Plan(unit=Unit(column='person'), budget=Budget(epsilon=1.0), query=(Count(name='visits'),))
    """

    title: Text = ""
    source: Source | None = None
    zone: Zone | None = None
    unit: Unit = Unit()
    budget: Budget
    join: Joins | None = None
    made_columns: Declarations = Field(default_factory=dict, alias="columns")
    per_unit: UnitColumns | None = None
    keys: dict[Name, Keys] = Field(default_factory=dict)
    combinations: Annotated[tuple[Combination, ...], Field(max_length=100), BeforeValidator(as_tuple)] | None = None
    only_listed: bool | None = None
    selection: Positive = 1.0
    objective: Literal["total", "relative"] | None = None
    level: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.95
    joint: bool | None = None
    intervals: Literal["table", "population", "both"] | None = None
    consistent: bool = False
    report_clipping: bool = False
    clipping_share: Annotated[float, Field(gt=0.0, le=0.5)] = 0.05
    query: Annotated[tuple[Question, ...], Field(min_length=1, max_length=1000), BeforeValidator(as_tuple)]

    _folder: Path | None = PrivateAttr(default=Path())
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    _found: PlanColumns = PrivateAttr(default=PlanColumns())
    _interval_level: float = PrivateAttr(default=0.0)
    _rules: dict[str, KeyRule] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Whether two plans have the same fields; all that is private follows from them, in whatever order they are."""
        return self.__dict__ == other.__dict__ if isinstance(other, Plan) else NotImplemented

    @model_validator(mode="before")
    @classmethod
    def _of_one_grammar(cls, data: object) -> object:
        return in_one_grammar(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _fits(self) -> Plan:
        self._folder = current_folder()
        self._fit_joins()
        self._make_columns()
        names = [each.name for each in self.query if not each.made]
        self._rules = all_rules(self.keys, self.combinations or ())
        if self.only_listed and not any(rule.public for rule in self._rules.values()):
            raise ValueError("only_listed: no keys are listed; list those of a grouping column in keys")
        if self.only_listed:  # still being made, so not yet frozen
            object.__setattr__(self, "unit", self.unit.with_unknown_rows())
        listed = {column: rule.labels for column, rule in self._rules.items()}
        object.__setattr__(self, "query", tuple(each.with_keys(listed) for each in self.query))
        twice = next((at for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise ValueError(f"query.{twice}: another query has the name {names[twice]!r} too; names must be unique")
        self._check_keys()
        for index, each in enumerate(self.query):
            private = self.private(each.by)
            if private and self.budget.delta == 0.0:
                unlisted = next(column for column in each.by if self.private((column,)))
                rule = f"must be positive to select the keys of {unlisted!r} privately; or list them in keys"
                raise ValueError(f"budget.delta: {rule}")
            if not private and self.groups(each.by) > _MOST_GROUPS:
                raise ValueError(f"keys: query {each.name!r} has over {_MOST_GROUPS} groups")
            if private and self.joint:
                rule = "how many intervals there are must be public; list the keys of all grouping columns in keys"
                raise ValueError(f"joint: {rule}")
            if misfit := self._misfit_of_bounds(index):
                raise ValueError(f"query.{index}.{misfit}")
            if misfit := each.misfit(self.unit_of(each)) or self._misfit_of_keys(each):
                raise ValueError(f"query.{index}: {misfit}")
            if self.consistent and each.agreement.counts and each.natural.lower < 0.0:
                raise ValueError(f"query.{index}.signed: counts that agree are not negative; ask for unbiased = true")
            if each.margin is not None and (refused := each.no_margin(self.unit_of(each))):
                raise ValueError(f"query.{index}.margin: {refused}")
        if self.of_population:
            epsilon = self.budget.epsilon / sum(not each.made for each in self.query)  # as before cuts are added
            found = tuple(each.for_population(self.unit_of(each), epsilon) for each in self.query)
            object.__setattr__(self, "query", found)
        self._add_cuts()
        self._interval_level = self.level
        if self.joint:
            numbers = sum(each.numbers(self.columns(each.by), self.groups(each.by)) for each in self.query)
            self._interval_level = rounded_up(1 - (1 - Fraction(self.level)) / Fraction(numbers))
        if self.interval_level == 1.0:
            raise ValueError("level: is too near to 1 for this many intervals at once; no double is between")
        return self

    def _fit_joins(self) -> None:
        """Refuse joins that do not fit, and take what follows of them for the unit."""
        if misfit := join_misfit(self.join or (), self.unit):
            raise ValueError(misfit)
        if any(each.how == "inner" for each in self.join or ()):  # still being made, so not yet frozen
            object.__setattr__(self, "unit", self.unit.with_unknown_rows())
        rows = joined_rows(self.join or (), self.unit)
        if rows is not None and self.per_unit is None and "rows" not in self.unit.model_fields_set:
            if rows > MOST_ROWS:
                raise ValueError(
                    f"unit.rows: the joins allow {arguments.counted(rows, 'row')} per unit; state how many are to count"
                )
            object.__setattr__(self, "unit", self.unit.model_copy(update={"rows": rows}))

    @property
    def of_population(self) -> bool:
        """Whether it asks for intervals for the population."""
        return self.intervals in ("population", "both")

    @property
    def folder(self) -> Path | None:
        """The folder that the paths of further tables are relative to; None for a plan that comes from elsewhere."""
        return self._folder

    def _check_keys(self) -> None:
        """Refuse keys that are listed twice, that no row can have, and those that look meant for another column."""
        truths = {name for name, each in self._found.known.items() if each.type is ValueType.TRUTH}
        for column in sorted(truths & self._rules.keys()):
            wrong = next((each for each in self._rules[column].listed if each not in ("true", "false")), None)
            if wrong is not None:
                words = f"the column is true or false, and never {wrong!r}; its keys are true and false"
                raise fault(words, ("keys", column) if column in self.keys else ("combinations",), {})
        for column, rule in self.keys.items():
            if rule.repeated:
                raise fault(f"a key is listed twice: {rule.repeated!r}", ("keys", column), {})
            if column in self.unused_keys:
                for at, each in enumerate(self.query):
                    for one in each.by:  # one that has no keys, and looks like one that has
                        if one not in self._rules and (guess := arguments.similar(one, self._rules)):
                            field = "column" if one == each.selected else "by"
                            raise ValueError(f"query.{at}.{field}: {one!r} has no keys; {guess}")
                if self.only_listed:
                    raise fault("no query is grouped by this column, and only_listed asks for it", ("keys", column), {})
        for index, those in enumerate(self.combinations or ()):
            if not any(set(those.columns) <= set(question.by) for question in self.query):
                raise ValueError(f"combinations.{index}: no query is grouped by {', '.join(map(repr, those.columns))}")

    def _misfit_of_keys(self, question: Kind) -> str:
        combined = self.combined(question.by)
        if question.together and combined:
            names = ", ".join(map(repr, combined[0].columns))
            return (
                f"by: the keys of {names} are listed as combinations, and kind {question.kind!r} adds up over every "
                "key of each column; list the keys of each in keys, or ask for a count"
            )
        return question.misfit_of_keys(self.columns(question.by))

    def _make_columns(self) -> None:
        """Find the types of made columns, and fill the ranges that follow from them into questions without one."""
        hidden: dict[str, Place] = {}
        for index, each in enumerate(self.query):
            for one in each.conditions:
                if hidden_text(one.column) is not None:
                    hidden.setdefault(one.column, ("query", index, "where" if one in each.where else "of"))
        if self.per_unit is not None:
            self._fit_step(self.per_unit)
        self._found = plan_columns(self.made_columns, self.per_unit, hidden)
        filled = []
        for index, each in enumerate(self.query):
            try:
                filled.append(each.filled(self.column_ranges))
            except ValidationError as reason:  # a field of it does not fit the range
                raise ValueError(f"query.{index}.{first_rule(reason)}") from None
            if filled[-1].lacking:
                raise ValueError(f"query.{index}.{self._lacking(filled[-1])}")
        object.__setattr__(self, "query", tuple(filled))  # still being made, so not yet frozen

    def _lacking(self, question: Kind) -> str:
        field, column = next(iter(question.lacking.items()))
        if column in (self.per_unit or {}):
            way = "that of its column in [per_unit], as visits = {value = 'COUNT(*)', range = [0, 50]}"
        elif column in self.made_columns and self.made_columns[column].value is not None:
            way = "that of the column beside its value in [columns], or those of the columns that it is made of"
        else:
            way = "that of its column in [columns], as age = {range = [0, 120]}"
        return f"{field if field == 'range' else f'{field}.range'}: is missing for {column!r}; state it, or {way}"

    def _fit_step(self, columns: Mapping[str, object]) -> None:
        if self.unit.column is None:
            raise ValueError("per_unit: the unit is the row already; name the owner's column in [unit]")
        for name in ("rows", "groups", "period"):
            if getattr(self.unit, name) not in (1, None):
                raise ValueError(f"unit.{name}: every unit has one row after [per_unit]; leave it out")
        taken = {each.casefold() for each in self.made_columns}
        for name in columns:
            if name.casefold() in taken:
                rule = "another column of the plan has this name (engines do not distinguish cases)"
                raise fault(f"{rule}; names must be unique", ("per_unit", name), {})
            taken.add(name.casefold())

    @property
    def early(self) -> tuple[MadeColumn, ...]:
        """The columns that are made of the rows of the table before they become one row per unit."""
        return self._found.early

    @property
    def of_unit(self) -> tuple[UnitColumn, ...]:
        """The columns of a unit; empty where the table is not one of one row per unit."""
        return self._found.of_unit

    @property
    def counted_unit(self) -> Unit:
        """The unit as the questions see it: after a step that makes one row per unit, the row.

        How many units have rows is not public, even where the number of units is.
        """
        if self.per_unit is None:
            return self.unit
        return Unit(neighbours=self.unit.neighbours, size=self.unit.size).with_unknown_rows()

    @property
    def unused_keys(self) -> tuple[str, ...]:
        """The columns whose keys are listed and that no question groups by; they change nothing."""
        used = {column for each in self.query for column in (*each.by, *each.keyed)}
        return tuple(column for column in self.keys if column not in used)

    @property
    def column_ranges(self) -> Mapping[str, Ends]:
        """The public ranges of columns that the plan states, or that follow from its expressions."""
        return self._found.ranges

    @property
    def made(self) -> tuple[MadeColumn, ...]:
        """The columns that expressions of the plan make, each after those that it uses."""
        return self._found.made

    def _add_cuts(self) -> None:
        """Put the questions of `report_clipping` behind the others; those of a plan that was written stand there."""
        asked = tuple(each for each in self.query if not each.made)
        there = self.query[len(asked) :]
        facts: dict[str, Any] = {"unit_of": self.unit_of, "groups": self.groups}
        made: tuple[Kind, ...] = cut_questions(asked, **facts) if self.report_clipping else ()
        if there and self.report_clipping and there == cut_questions(asked, **facts, apart=True):
            made = there  # of a table of version 0.2
        if there and there != made:
            first = next(at for at, each in enumerate(self.query) if each.made)
            raise ValueError(f"query.{first}.kind: {MADE}")
        if self.report_clipping and not made:
            rule = "nothing is cut; every row counts and no question has a range"
            missed = [each for each in asked if each.cut_uncounted and self.unit_of(each).column is not None]
            if missed:
                rule = f"{missed[0].cut_uncounted} are not counted, and nothing else is cut"
            raise ValueError(f"report_clipping: {rule}")
        for each in made:
            if each.name in {other.name for other in asked}:
                raise ValueError(f"query: report_clipping makes a query {each.name!r}; give that one another name")
        object.__setattr__(self, "query", (*asked, *made))  # still being made, so not yet frozen

    def unit_of(self, question: Kind) -> Unit:
        """The privacy unit as a question bounds it: who is protected, and how many of its rows and groups count.

        Edge cases: where a question is grouped by the days, weeks or months of the period itself, all rows of a group
        are in one period, so that `rows` is the bound of the group too.
        """
        unit = self.counted_unit
        period = question.period or unit.period
        alone = False
        if period is not None and period.column in question.counted_by:
            rule = self._rules.get(period.column)
            alone = rule is None or rule.within_one(period.each)
        return unit.bounded(question.rows, question.groups, question.period, one_period=alone)

    def _misfit_of_bounds(self, index: int) -> str:
        question = self.query[index]
        own = next((name for name in ("rows", "groups", "period") if getattr(question, name) is not None), None)
        if own is not None and self.counted_unit.column is None:
            return f"{own}: is not needed where the unit is the row; name unit.column to protect owners of rows"
        if question.rows is not None and question.no_rows:
            return f"rows: {question.no_rows}; leave it out"
        if question.groups is not None and not question.counted_by:
            return "groups: the query has no groups; leave it out, or name columns in by"
        if self.unit_of(question).misfit:
            return f"rows: {self.unit_of(question).misfit}"
        return self._misfit_of_selection(index)

    def _misfit_of_selection(self, index: int) -> str:
        """Why the keys of a question cannot be selected together with those of others; empty if they can."""
        question, unit = self.query[index], self.unit_of(self.query[index])
        alike = (each for each in self.query[:index] if not each.made and each.by == question.by)
        other = next(alike, None) if self.private(question.by) and not question.made else None
        for name in ("groups", "period") if other is not None else ():
            if other is not None and getattr(unit, name) != getattr(self.unit_of(other), name):
                return (
                    f"{name}: must be that of query {other.name!r}, which is by the same columns: their keys are "
                    "selected privately, once, among the groups in which a unit counts; or list the keys in keys"
                )
        return ""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        for name, value in super().__repr_args__():
            yield name, self._asked if name == "query" else value

    @property
    def _asked(self) -> tuple[Kind, ...]:
        """The questions that were asked: not those that `report_clipping` makes."""
        return tuple(each.as_written() for each in self.query if not each.made)

    def _repr_html_(self) -> str:
        who = "one row" if self.unit.column is None else f"all rows of one {self.unit.column!r}"
        keys = {f"keys of {column!r}": ", ".join(rule.labels) for column, rule in self.keys.items()}
        asked = {f"question {number}": each.described() for number, each in enumerate(self.query, 1)}
        return as_html(self.title or "Plan", {"protects": who, "spends": self.budget, **keys, **asked})

    def to_toml(self) -> str:
        """The plan as the text of a TOML file, without what is as by default.

        Guarantee: `parse_plan` makes the same plan of it. Keys that a rule stands for are listed.

        >>> print(Plan(budget={"epsilon": 1.0}, query=[{"name": "visits", "kind": "count"}]).to_toml())
        [budget]
        epsilon = 1.0
        <BLANKLINE>
        [[query]]
        kind = "count"
        name = "visits"
        <BLANKLINE>
        """
        found = written_fields(self) | {"query": [written_fields(each) for each in self._asked]}
        if self.join is not None and self.unit.column is not None:  # by default they would follow from the joins
            found["unit"] = {**written_fields(self.unit), "rows": self.unit.rows}
        return toml_text(found)

    def rule(self, column: str) -> KeyRule | None:
        """How rows get their keys in a grouping column; None where the value itself is the key, selected privately."""
        return self._rules.get(column)

    @property
    def listed_columns(self) -> tuple[str, ...]:
        """The columns whose keys are public."""
        return tuple(column for column, rule in self._rules.items() if rule.public)

    def combined(self, by: tuple[str, ...]) -> tuple[Combination, ...]:
        """The listed combinations of which a grouping has all columns; each stands for the product of its columns."""
        return tuple(each for each in self.combinations or () if set(each.columns) <= set(by))

    def groups(self, by: tuple[str, ...]) -> float:
        """How many groups a grouping has; what is not public is taken as infinitely many."""
        if self.private(by):
            return math.inf
        combined = self.combined(by)
        single = [column for column in by if not any(column in each.columns for each in combined)]
        return math.prod((*map(len, self.columns(tuple(single))), *(len(each.keys) for each in combined)))

    def columns(self, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """The public keys of each column of a grouping as texts, empty where they are selected privately.

        Edge cases: where some of the columns have listed combinations (`combined`), not every product is a group.
        """
        return tuple(self._rules[column].labels if column in self._rules else () for column in by)

    @property
    def interval_level(self) -> float:
        """How often the interval of each number holds, so that all of them hold as the plan asks for.

        With `joint`, 1 - (1 - level) / n for n numbers, rounded up: one of n intervals fails with at most the sum of
        their probabilities, whichever draws they share (Bonferroni). Independent draws would allow level^(1/n), whose
        tail is 2.6 % larger at most for level 0.95: intervals would be narrower by less than 1 %.
        """
        return self._interval_level

    def private(self, by: tuple[str, ...]) -> bool:
        """Whether the keys of a grouping are selected privately."""
        return not all(self.columns(by))


def as_plan(plan: object) -> Plan:
    """A plan as it is, or one of plain data; anything else is refused, and not shown, since it may be the data."""
    if isinstance(plan, Mapping) and "budget" in plan:  # as no table has it that was given in its place
        return Plan(**plan)
    if not isinstance(plan, Plan):
        raise ArgumentTypeError(
            f"plan of type {type(plan).__name__}: must be a Plan, as read_plan or parse_plan gives it, or a dict "
            "with a budget"
        )
    return plan


def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan as it can be written, for editors and checkers.

    >>> sorted(plan_schema()["required"])
    ['budget', 'query']
    """
    return Plan.model_json_schema(by_alias=True)
