"""A plan in words, with the expected error of every number and the cost: all that can be said without the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rangebound.errors import plain
from rangebound.ledger.record import Account
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.threshold_selection import ThresholdSelection
from rangebound.release.output.consistency import obstacles
from rangebound.release.output.conversion import conversions
from rangebound.release.output.forecast import part_of
from rangebound.release.output.plan_limits import LimitedMean, plan_limits
from rangebound.release.output.plan_risk import plan_odds
from rangebound.release.output.scope import scope
from rangebound.release.plan.clipping_report import WIDE
from rangebound.release.plan.column_declaration import described
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.prepare import Prepared, prepare, rehearse
from rangebound.values import arguments

_MANY = 4  # spans that a line has room for
_FULL = 0.99  # of a budget: nothing worth mentioning is left


def explain(plan: Plan | Mapping[str, object], *, account: Account | None = None) -> str:
    """The plan in words; touches no data. `account` is the one that pays, where it is at hand: what it promises for
    each period, and whether it needs approval, is then said too.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> print(explain(plan).splitlines()[0])
    Protects every single row: one is added or removed.
    """
    plan = as_plan(plan)
    ready = prepare(plan)
    rehearse(ready)
    unit = plan.unit
    who = f"every owner of rows, by column {unit.column!r}" if unit.column else "every single row"
    change = f"one of {unit.size} is replaced" if unit.replaced else "one is added or removed"
    lines = [f"Protects {who}: {change}."]
    if unit.column and plan.per_unit is None:
        groups, rows = arguments.counted(unit.groups, "group"), arguments.counted(unit.rows, "row")
        each = f"in each of them and each {unit.period}" if unit.period else "in each of them"
        own = any((each.rows, each.groups, each.period) != (None,) * 3 for each in plan.query)
        rest = " for queries without bounds of their own" if own else ""
        lines.append(f"Of each, at most {groups} and {rows} {each} count{rest}.")
    if plan.zone is not None:
        lines.append(f"Timestamps with a time zone are read as local time in {plan.zone}.")
    lines += [f"Joins {each.words}." for each in plan.join or ()]
    if plan.per_unit is not None:
        columns = "; ".join(f"{name} = {each.words}" for name, each in plan.per_unit.items())
        lines.append(f"Makes one row of all rows of each {unit.column!r}: {columns}.")
    paid = f", from account {plan.budget.account!r}" if plan.budget.account else ""
    lines.append(f"Spends {plan.budget} in all{paid}.")
    lines += [] if account is None else _terms(account)
    lines += described(plan.made_columns)
    if plan.report_clipping:
        margins = any(each.margin is not None for each in plan.query)
        part = f"{100 * plan.clipping_share:g} % of {'what the margins leave' if margins else 'epsilon'}"
        lines.append(f"Of this, {part} goes into how much is cut: rows dropped and values clipped.")
        lines += _useful_cuts(ready)
        missed = [each for each in plan.query if each.cut_uncounted and plan.unit_of(each).column is not None]
        lines += [f"Not counted there: {each.cut_uncounted}, for {each.name!r}." for each in missed]
    if ready.allocation.mu:
        lines.append(str(conversions(ready)))
    lines.append(plan_odds(plan, ready.allocation))
    lines += _unused(ready)
    lines += [_together(ready, number) for number in range(len(ready.workloads))]
    lines += _keys(plan)
    for by, share in ready.allocation.selections.items():
        lines.append(f"The keys of {', '.join(by)} are {_selected(ready, by)}delta {_up(share.delta)} for each.")
    for index, limit in enumerate(plan_limits(ready)):
        lines += ["", *describe(ready, index, limit)]
    for each in obstacles(plan):
        lines += ["", f"Note: {each}."]
    return "\n".join(map(plain, lines))


def _useful_cuts(ready: Prepared) -> list[str]:
    """How many rows the numbers of `report_clipping` need to be of use: for an interval narrower than `WIDE`."""
    needed: dict[float, str] = {}
    for question, publisher in zip(ready.plan.query, ready.publishers, strict=True):
        if question.made and publisher.half_width is not None:
            needed.setdefault(2.0 * publisher.half_width / WIDE, question.name)
    if not needed:
        return []
    numbers = sum(each.made for each in ready.plan.query)
    share = f"{arguments.counted(numbers, 'number')} {'shares' if numbers == 1 else 'share'} it"
    least, most = (f"{float(arguments.upwards(each, 2)):,.0f}" for each in (min(needed), max(needed)))
    also = f", and {most} for {needed[max(needed)]!r}" if most != least else ""
    way = "" if ready.plan.budget.delta else "state a delta, "
    return [
        f"{share}: an interval narrower than {WIDE:g} takes {least} rows or more{also}; for tables with fewer rows, "
        f"{way}raise clipping_share or leave report_clipping out."
    ]


def _terms(account: Account) -> list[str]:
    """What an account asks for and promises beside its total."""
    needed = "A person must approve the request before anything is read." if account.approval else None
    return [each for each in (account.weaker_promise, needed) if each is not None]


def _keys(plan: Plan) -> list[str]:
    """How rows get their keys, where these are more than a list."""
    said = [plan.keys[column].words(column) for column in sorted(plan.keys)]
    for each in plan.combinations or ():
        columns = ", ".join(map(repr, each.columns))
        said.append(f"Keys of {columns}: {arguments.counted(len(each.keys), 'listed combination')}.")
    return [each for each in said if each]


def describe(ready: Prepared, index: int, limit: LimitedMean | None = None) -> list[str]:
    """One question in words: what is asked, where the answer lies, how it is made, and how far off it may be."""
    question, share, publisher = ready.plan.query[index], ready.allocation.questions[index], ready.publishers[index]
    spans = _spans(question.published_in(ready.plan.unit_of(question)).spans, dated=question.answers_dated)
    said, number = scope(ready.plan, index), ready.workload_number(index)
    cost = _cost(share, together=question.together) if number is None else f"in workload {number}"
    if question.selected is not None and len(question.parts) > 1:
        cost = cost.replace("for each number", "for all ranks of a group together")
    return [
        f"{question.described()}.",
        *([f"  of: {said}"] if said else []),
        f"  published in {spans}, {cost}, by {publisher.words()}",
        f"  expected error: {ready.forms[index].expected_error(publisher)}",
        *([] if limit is None else [f"  {limit.words()}"]),
        *(
            []
            if question.margin is None
            else [f"  margin: {question.margin:g}, half the width of its interval at most"]
        ),
    ]


def _together(ready: Prepared, number: int) -> str:
    """Which counts a strategy measures together, and what for."""
    workload = ready.workloads[number]
    names, share = [repr(ready.plan.query[index].name) for index in workload.questions], workload.questions[0]
    whose = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    rest = "; rows with other keys count as one more value of a column" if workload.others else ""
    return (
        f"Workload {number + 1}: {whose} are marginals of one table, measured together by their residuals with "
        f"mu {_up(ready.allocation.questions[share].mu)}{rest}."
    )


def _unused(ready: Prepared) -> list[str]:
    """A line where all questions have margins that leave a part of the budget, which nothing else can use."""
    asked = [at for at, each in ready.allocation.sensitivities.items() if each.cell]
    if ready.allocation.selections or not asked or any(ready.plan.query[at].margin is None for at in asked):
        return []
    used = sum(part_of(ready.plan, ready.allocation, ready.allocation.questions[at]) for at in asked)
    if used > _FULL:
        return []
    return [
        f"The margins need {arguments.upwards(100 * used, 3)} % of it, and nothing uses the rest; "
        "rangebound plan solve finds the smallest epsilon that meets them."
    ]


def _selected(ready: Prepared, by: tuple[str, ...]) -> str:
    selection = ready.selections[by]
    if isinstance(selection, ThresholdSelection):
        count = ready.plan.query[selection.question].name
        return f"those whose noisy number of {count!r} is at least {selection.threshold:g}, "
    return f"selected by their number of owners, epsilon {_up(ready.allocation.selections[by].epsilon)}, "


def _cost(share: BudgetShare, *, together: bool) -> str:
    if share.mu:
        return f"mu {_up(share.mu)} for all its numbers together"
    if together:
        return f"epsilon {_up(share.epsilon * share.groups)} for all its numbers together"
    return f"epsilon {_up(share.epsilon)}{f', delta {_up(share.delta)}' if share.delta else ''} for each number"


def _spans(spans: Sequence[tuple[float, float]], *, dated: bool) -> str:
    """Where a number may lie, in words; many spans by their ends alone."""
    shown = [tuple(date(each).isoformat() if dated else f"{each:g}" for each in span) for span in spans]
    if len(shown) > _MANY:
        return f"{len(shown)} spans from {shown[0][0]} to {shown[-1][1]}"
    return " or ".join(f"[{lower}, {upper}]" for lower, upper in shown)


def _up(value: float) -> str:
    return arguments.upwards(value, 4)
