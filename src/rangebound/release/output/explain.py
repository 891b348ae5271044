"""A plan in words, with the expected error of every number and the cost: all that can be said without the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rangebound.errors import plain
from rangebound.ledger.record import Account
from rangebound.release.budget_split import first_names
from rangebound.release.noise.partition_selection import ThresholdSelection
from rangebound.release.output.agreement import obstacles
from rangebound.release.output.forecast import outlooks, part_of
from rangebound.release.output.plan_facts import PlanFacts, hazards, plan_facts
from rangebound.release.output.plan_risk import up
from rangebound.release.plan.columns import described
from rangebound.release.plan.fields import date
from rangebound.release.plan.kinds.cuts import WIDE
from rangebound.release.plan.kinds.facts import SampledCounts
from rangebound.release.plan.kinds.fractions import FractionKind
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import Prepared, PreparedQuestion, rehearse
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
    facts = plan_facts(plan)
    rehearse(facts.ready)
    return explained(facts, account)


def dry_run(plan: Plan | Mapping[str, object], *, account: Account | None = None) -> dict[str, object]:
    """All that can be said about a release before it is made, as plain data; touches no data, and approvers see it too.

    `explained` is what `explain` says, `privacy` the cost in several terms, `queries` what each question will look
    like, `warnings` are those of `hazards`.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> list(dry_run(plan))
    ['explained', 'privacy', 'queries', 'warnings']
    """
    facts = plan_facts(plan)
    rehearse(facts.ready)
    return rehearsed(facts, account)


def rehearsed(facts: PlanFacts, account: Account | None = None) -> dict[str, object]:
    """The same of a plan that was made ready and rehearsed."""
    return {
        "explained": explained(facts, account),
        "privacy": facts.conversions.to_dict(),
        "queries": [each.to_dict() for each in outlooks(facts)],
        "warnings": list(hazards(facts.plan, account=account)),
    }


def explained(facts: PlanFacts, account: Account | None = None) -> str:
    """The same of a plan that was made ready."""
    lines = [*_protected(facts.plan), *_spent(facts, account), *_keys(facts.ready)]
    for own, scope, limit in zip(facts.questions, facts.scopes, facts.limits, strict=True):
        dated = own.question.answers_dated
        lines += ["", f"{own.question.described()}.", *([f"  of: {scope}"] if scope else [])]
        lines.append(
            f"  published in {_spans(own.question.published_in(own.unit).spans, dated=dated)}, {_cost(own)}, by "
            f"{own.publisher.words()}"
        )
        lines += [f"  expected error: {own.error}", f"  {limit.words()}"]
        lines += [f"  interval for the population: {_population(own)}"] if facts.plan.of_population else []
        if own.question.margin is not None:
            lines.append(f"  margin: {own.question.margin:g}, half the width of its interval at most")
    unused = (f"the keys of {each!r} are listed, and no question groups by it" for each in facts.plan.unused_keys)
    for each in (*obstacles(facts.plan), *unused):
        lines += ["", f"Note: {each}."]
    return "\n".join(map(plain, lines))


def _population(own: PreparedQuestion) -> str:
    """How a question has an interval for the population, and what that costs; or why it has none."""
    found, question, rows = own.sampled, own.question, own.unit.most_rows
    if isinstance(found, str):
        return f"none; {found}"
    if isinstance(found, SampledCounts):
        wide = f", as if each of all rows were a unit of {rows} rows" if rows > 1 else ""
        return f"finite-sample, by {found.measured}{wide}; costs no budget"
    times = question.error_of_squares(own.unit) if isinstance(question, FractionKind) else 1.0
    times *= 4.0 / 3.0 if times > 1.0 and question.known_rows(own.unit) is not None else 1.0
    more = f", and makes the error up to {arguments.upwards(100 * (times - 1), 2)} % larger" if times > 1.0 else ""
    alike = f", as if all {rows} rows of a unit were alike" if rows > 1 and "unit" not in found.measured else ""
    return f"asymptotic, its variance from {found.measured}{alike}; costs no budget{more}"


def _protected(plan: Plan) -> Iterator[str]:
    """Who is protected, how much of each counts, and what is made of the rows first."""
    unit = plan.unit
    who = f"every owner of rows, by column {unit.column!r}" if unit.column else "every single row"
    change = f"one of {unit.size} is replaced" if unit.replaced else "one is added or removed"
    yield f"Protects {who}: {change}."
    if unit.column and plan.per_unit is None:
        groups, rows = arguments.counted(unit.groups, "group"), arguments.counted(unit.rows, "row")
        each = f"in each of them and each {unit.period}" if unit.period else "in each of them"
        own = any((each.rows, each.groups, each.period) != (None,) * 3 for each in plan.query)
        rest = " for queries without bounds of their own" if own else ""
        yield f"Of each, at most {groups} and {rows} {each} count{rest}."
    if plan.zone is not None:
        yield f"Timestamps with a time zone are read as local time in {plan.zone}."
    yield from (f"Joins {each.words}." for each in plan.join or ())
    if plan.per_unit is not None:
        columns = "; ".join(f"{name} = {each.words}" for name, each in plan.per_unit.items())
        yield f"Makes one row of all rows of each {unit.column!r}: {columns}."


def _spent(facts: PlanFacts, account: Account | None) -> Iterator[str]:
    """What is spent, from which account, on what beside the questions, and what an attacker gains."""
    plan, ready = facts.plan, facts.ready
    paid = f", from account {plan.budget.account!r}" if plan.budget.account else ""
    yield f"Spends {plan.budget} in all{paid}."
    if account is not None:
        yield from [account.weaker_promise] if account.weaker_promise else []
        yield from ["A person must approve the request before anything is read."] if account.approval else []
    yield from described(plan.made_columns)
    if plan.report_clipping:
        margins = any(each.margin is not None for each in plan.query)
        part = f"{100 * plan.clipping_share:g} % of {'what the margins leave' if margins else 'epsilon'}"
        yield f"Of this, {part} goes into how much is cut: rows dropped and values clipped."
        yield from _useful_cuts(facts)
        missed = [each for each in plan.query if each.cut_uncounted and plan.unit_of(each).column is not None]
        yield from (f"Not counted there: {each.cut_uncounted}, for {each.name!r}." for each in missed)
    if ready.allocation.mu:
        yield str(facts.conversions)
    yield facts.odds
    yield from _unused(ready)
    for number, workload in enumerate(ready.workloads, 1):
        whose = first_names([plan.query[index].name for index in workload.questions])
        rest = "; rows with other keys count as one more value of a column" if workload.others else ""
        mu = up(ready.allocation.questions[workload.questions[0]].mu)
        yield (
            f"Workload {number}: {whose} are marginals of one table, measured together by their residuals with "
            f"mu {mu}{rest}."
        )


def _useful_cuts(facts: PlanFacts) -> Iterator[str]:
    """How many rows the numbers of `report_clipping` need to be of use: for an interval narrower than `WIDE`."""
    needed: dict[float, str] = {}
    for each in facts.questions:
        if each.question.made and each.publisher.half_width is not None:
            needed.setdefault(2.0 * each.publisher.half_width / WIDE, each.question.name)
    if not needed:
        return
    numbers = sum(each.made for each in facts.plan.query)
    share = f"{arguments.counted(numbers, 'number')} {'shares' if numbers == 1 else 'share'} it"
    least, most = (f"{float(arguments.upwards(each, 2)):,.0f}" for each in (min(needed), max(needed)))
    also = f", and {most} for {needed[max(needed)]!r}" if most != least else ""
    way = "" if facts.plan.budget.delta else "state a delta, "
    yield (
        f"{share}: an interval narrower than {WIDE:g} takes {least} rows or more{also}; for tables with fewer rows, "
        f"{way}raise clipping_share or leave report_clipping out."
    )


def _unused(ready: Prepared) -> Iterator[str]:
    """A line where all questions have margins that leave a part of the budget, which nothing else can use."""
    asked = [at for at, each in ready.allocation.sensitivities.items() if each.cell]
    if ready.allocation.selections or not asked or any(ready.plan.query[at].margin is None for at in asked):
        return
    used = sum(part_of(ready.plan.budget.epsilon, ready.allocation, ready.allocation.questions[at]) for at in asked)
    if used <= _FULL:
        yield (
            f"The margins need {arguments.upwards(100 * used, 3)} % of it, and nothing uses the rest; "
            "rangebound plan solve finds the smallest epsilon that meets them."
        )


def _keys(ready: Prepared) -> Iterator[str]:
    """How rows get their keys, where these are more than a list, and how private ones are selected."""
    plan = ready.plan
    yield from filter(None, (plan.keys[column].words(column) for column in sorted(plan.keys)))
    for each in plan.combinations or ():
        columns = ", ".join(map(repr, each.columns))
        yield f"Keys of {columns}: {arguments.counted(len(each.keys), 'listed combination')}."
    for by, share in ready.allocation.selections.items():
        selection = ready.selections[by]
        way = f"selected by their number of owners, epsilon {up(share.epsilon)}"
        if isinstance(selection, ThresholdSelection):
            count = plan.query[selection.question].name
            way = f"those whose noisy number of {count!r} is at least {selection.threshold:g}"
        yield f"The keys of {', '.join(by)} are {way}, delta {up(share.delta)} for each."


def _cost(own: PreparedQuestion) -> str:
    """What the numbers of a question cost, and how many of them share that."""
    share = own.share
    if own.workload is not None:
        return f"in workload {own.workload}"
    if share.mu:
        return f"mu {up(share.mu)} for all its numbers together"
    if own.question.together:
        return f"epsilon {up(share.epsilon * share.groups)} for all its numbers together"
    ranked = own.question.selected is not None and len(own.question.parts) > 1
    whose = "for all ranks of a group together" if ranked else "for each number"
    return f"epsilon {up(share.epsilon)}{f', delta {up(share.delta)}' if share.delta else ''} {whose}"


def _spans(spans: Sequence[tuple[float, float]], *, dated: bool) -> str:
    """Where a number may lie, in words; many spans by their ends alone."""
    shown = [tuple(date(each).isoformat() if dated else f"{each:g}" for each in span) for span in spans]
    if len(shown) > _MANY:
        return f"{len(shown)} spans from {shown[0][0]} to {shown[-1][1]}"
    return " or ".join(f"[{lower}, {upper}]" for lower, upper in shown)
