"""What the ledger keeps of a release: its charge, whether that was enough, its one unit of privacy, and its bytes.

How many bytes a table has at most, its plan says, so what no ledger could keep is refused before the charge.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import ArgumentTypeError, BudgetExceeded, PlanError, RangeboundError, RequestConflict
from rangebound.ledger.book import PAYLOAD_LIMIT, Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.ledger.record import Account, Record
from rangebound.ledger.rule import AnyCost, Cost, GaussianCost, PlainSum, Rule, charged
from rangebound.release.noise.draw import Cell, Key, Summed
from rangebound.release.output.plan_facts import plan_json, sha256
from rangebound.release.output.table import Release
from rangebound.release.plan.groupings import Block, blocks
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import Prepared
from rangebound.values.arguments import upwards
from rangebound.values.data_frames import POPULATION

_RELEASE, _SUGGESTION, _UNIT = "release of plan ", "suggestion for plan ", ", unit "
_LONGEST = -1.7976931348623157e308  # no double has more characters


def charge_text(plan: Plan) -> str:
    """What a release is charged for: the hash of its plan, and the unit that it protects.

    The hash is whole: of half of it, two plans that share it can be found, one to be approved and one to be released.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> charge_text(plan).partition(", ")[2]
    'unit row, add or remove'
    """
    return f"{_RELEASE}{sha256(plan_json(plan).encode())}{_UNIT}{_unit(plan)}"


def _unit(plan: Plan) -> str:
    return f"{'row' if plan.unit.column is None else repr(plan.unit.column)}, {plan.unit.neighbours}"


def charges(ready: Prepared) -> tuple[AnyCost, ...]:
    """What a release is charged, in each way in which it can be stated: an account takes the first that it can hold.

    Where squares of mu or Renyi divergences add up, its mu, whichever way its own budget was split; where epsilons and
    deltas do, the budget of the plan, less the delta that no mechanism uses.

    >>> from rangebound.release import parse_plan
    >>> from rangebound.release.prepare import prepare
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> [str(each) for each in charges(prepare(plan))][1]
    'epsilon 1'
    """
    budget, loss = ready.plan.budget, ready.loss
    promised = Fraction(repr(budget.delta))
    delta = promised if ready.allocation.mu else min(promised, loss.delta)
    gaussian = GaussianCost(mu=Fraction(loss.mu), delta=loss.delta)
    return gaussian, Cost(epsilon=repr(budget.epsilon), delta=delta)


def agreed_charges(ready: Prepared, ledger: Ledger, account: str, request: str) -> tuple[AnyCost, ...]:
    """`charges`, or what this request was charged, or filed for, before, where that is for the same plan and no less.

    Another version may have charged a plan more than this one does; the same request again is still the same release.

    Edge cases: a request that was charged less than its plan costs raises `RequestConflict`.
    """
    costs, what = charges(ready), charge_text(ready.plan)
    filed = (each for each in ledger.requests(account) if each.request == request)
    known = ledger.paid(request) or next(filed, None)
    if known is None or known.cost is None or (known.account, known.what) != (account, what):
        return costs
    due = least_due(ledger.account(account).rule, costs, known.cost)
    if not covers(known.cost, due):
        raise RequestConflict(
            f"request={request!r}: was charged or filed before, for {shortfall(known.cost, due)}; a new release needs "
            "a new id"
        )
    return (known.cost,)


def least_due(rule: Rule, costs: Sequence[AnyCost], paid: AnyCost) -> AnyCost:
    """What an account must have been charged for a release at least, in its own terms.

    Each of the costs is true by itself, and so is enough; one that `paid` covers comes first. None of two need be the
    smaller one in both columns: with a small epsilon and a large delta, Gaussian noise has the larger mu and no delta.

    Edge cases: costs that the rule cannot hold raise `ArgumentTypeError`.
    """
    held = []
    for each in costs:
        with suppress(ArgumentTypeError):
            held.append(rule.cost(rule.units(each)))
    if not held:
        held.append(rule.cost(charged(rule, tuple(costs))[1]))
    return min(held, key=lambda each: (not covers(paid, each), each.units))


def covers(paid: AnyCost, due: AnyCost) -> bool:
    """Whether a charge is no less than what is due, both in the terms of one account."""
    return all(own >= least for own, least in zip(paid.units, due.units, strict=True))


def shortfall(paid: AnyCost, due: AnyCost) -> str:
    """What was charged and what was due, in words; and why, where version 0.2 may have charged it."""
    known = "" if isinstance(due, Cost) else "; version 0.2 charged crosstabs, hierarchies and series too little"
    return f"{paid}, where {due} is due{known}"


def opening_command(place: str, plan: Plan) -> str:
    """The command that opens the account of a plan for what the plan costs, and makes the ledger if there is none.

    >>> from rangebound.release import parse_plan
    >>> text = 'budget = {epsilon = 0.5, account = "people"}\\nquery = [{name = "visits", kind = "count"}]'
    >>> opening_command("our people.ledger", parse_plan(text))
    "rangebound ledger open 'our people.ledger' people --epsilon 0.5"
    """
    delta = f" --delta {upwards(plan.budget.delta)}" if plan.budget.delta else ""
    command = f"rangebound ledger open {shlex.quote(place)} {shlex.quote(plan.budget.account or 'ACCOUNT')}"
    return f"{command} --epsilon {upwards(plan.budget.epsilon)}{delta}"


def check_rule(ready: Prepared, account: Account) -> None:
    """Refuse a plan that its account cannot pay for, because its rule holds no delta."""
    try:
        charged(account.rule, charges(ready))
    except ArgumentTypeError:
        raise PlanError(
            f"budget.delta={ready.plan.budget.delta!r}: account {account.name!r} adds Renyi divergences and holds no "
            "delta; take an account that adds sums or squares of mu, or list the keys of all groupings and leave delta "
            "out",
            field="budget.delta",
        ) from None


def suggestion_text(plan: Plan, asked: object) -> str:
    """What a suggestion is charged for: the hash of the plan and of what it leaves out, and the unit."""
    left_out = sha256(f"{plan_json(plan)} {asked!r}".encode())
    return f"{_SUGGESTION}{left_out}{_UNIT}{_unit(plan)}"


def check_unit(plan: Plan, history: Iterable[Record]) -> None:
    """Refuse a plan whose account has paid for releases that protect another unit; `history` is the account's.

    Costs add up only if all are about the same neighbours: a release that protects single rows at epsilon 1 may reveal
    a person of a thousand rows.

    Assumes: a column of one name holds the same units in all tables of an account; other charges of the account, which
    do not name a unit, are about the same one.
    """
    own = _unit(plan)
    for each in history:
        head, named, other = each.what.partition(_UNIT)
        if each.kind is EntryKind.SPEND and head.startswith((_RELEASE, _SUGGESTION)) and named and other != own:
            raise PlanError(
                f"unit: is {own}, but account {each.account!r} has paid for unit {other}, and their costs do not add "
                "up; take the same unit, or an account of its own",
                field="unit",
            )


def without_delta(reason: BudgetExceeded, account: Account) -> BudgetExceeded:
    """The error about a budget, in plainer words where the account has no delta at all and the plan needs one."""
    cost = reason.requested
    if account.delta.units or not isinstance(cost, Cost) or not cost.delta.units:
        return reason
    return BudgetExceeded(
        f"budget.delta={cost.delta}: account {account.name!r} was opened without a delta and cannot pay for one; open "
        "an account that has one, or list the keys of all groupings and leave delta out; nothing was spent",
        account=reason.account,
        remaining=reason.remaining,
        requested=cost,
    )


@dataclass(frozen=True, kw_only=True)
class ChargeFinding:
    """An entry of a ledger that was charged less than is `due`; None where its published bytes do not say what is."""

    entry: int
    account: str
    request: str
    paid: AnyCost
    due: AnyCost | None

    def to_dict(self) -> dict[str, object]:
        """The finding as plain data, with costs in the terms of the account."""
        costs = {"paid": self.paid.to_dict(), "due": None if self.due is None else self.due.to_dict()}
        return {"entry": self.entry, "account": self.account, "request": self.request, **costs}

    def __str__(self) -> str:
        where = f"entry {self.entry} (account {self.account!r}, request {self.request!r})"
        if self.due is None:
            return f"{where}: what it costs is not known, since its published bytes are not a table of this version"
        return f"{where}: was charged {shortfall(self.paid, self.due)}"


def undercharged(ledger: Ledger) -> list[ChargeFinding]:
    """The releases of a ledger that were charged too little, and those of which that is not known.

    What a release costs is computed again from its published bytes. Plain sums of epsilon and delta were always right,
    and so were numbers that are drawn group by group, and workloads in which a unit is in one group: whatever sums it
    moves there lose its share together, and one coin of that was charged. A charge without published bytes has revealed
    nothing.

    Guarantee: names every release that was charged less than it costs, if its published bytes are of this format.
    """
    return [
        found
        for account in ledger.accounts()
        if not isinstance(account.rule, PlainSum)
        for record in ledger.history(account.name)
        if record.kind is EntryKind.SPEND and record.what.startswith(_RELEASE)
        for found in _found(ledger, record, account.rule)
    ]


def _found(ledger: Ledger, record: Record, rule: Rule) -> Iterator[ChargeFinding]:
    account, request, paid = record.account, record.request, record.cost
    published = None if request is None else ledger.published(request)
    if published is None or account is None or request is None or paid is None:
        return
    due: AnyCost | None = None
    with suppress(RangeboundError):
        release = Release.from_bytes(published)
        plan = release.plan
        shared = [at for at, each in enumerate(plan.query) if each.together and plan.unit_of(each).groups > 1]
        if not shared:
            return
        facts = release.facts
        if facts and all(facts.questions[at].publisher.words() == release.mechanisms[at] for at in shared):
            due = least_due(rule, charges(facts.ready), paid)  # else another version measured something else
    if due is None or not covers(paid, due):
        yield ChargeFinding(entry=record.seq, account=account, request=request, paid=paid, due=due)


def check_size(ready: Prepared, blank: Release | None = None) -> int:
    """Refuse a plan whose table might not go into the ledger; give the bytes that are left for keys selected privately.

    `blank` is the release without its cells, where more is known of it than the plan.

    Guarantee: looks at the plan alone. No table of a plan that passes is over the ledger's limit, if `fitting` has
    looked at its privately selected keys.

    >>> from rangebound.release import parse_plan
    >>> from rangebound.release.prepare import prepare
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> PAYLOAD_LIMIT - check_size(prepare(plan)) < 2000
    True
    """
    if blank is None:
        blank = Release(plan=ready.plan, cells=(), mechanisms=ready.mechanisms, tables=ready.tables)
    room = PAYLOAD_LIMIT - len(blank.to_bytes())
    for block in blocks(ready.plan):
        room -= sum(_bytes(ready, block, block.keys or ()))
        room -= sum(_together(ready, index, block.keys or ()) for index in block.questions)
    if room < 0:
        raise PlanError(
            f"query: the table may have {PAYLOAD_LIMIT - room} bytes, and a ledger keeps at most {PAYLOAD_LIMIT}; "
            "ask for fewer groups or fewer questions, and for the rest in another release",
            field="query",
        )
    return room


def fitting(ready: Prepared, cells: Sequence[Cell], room: int) -> list[Cell]:
    """The cells of as many privately selected keys as there is room for, in order, and all others.

    Guarantee: made of published numbers alone, so it costs nothing. Edge cases: a key without room is left out from
    every question of its grouping. Where keys are ranked, a group without room for all has its first ranks, as many as
    all rankings of its keys share, or `check_certificate` refuses it; and no other number of other keys.
    """
    plan, lost = ready.plan, set[tuple[int, Summed]]()
    longest = [_longest(ready, at) for at in range(len(plan.query))]

    def size(cell: Cell) -> int:
        if plan.query[cell.question].ranked:
            return _length(cell.stored()) + 1
        return longest[cell.question] + _length(cell.part) + sum(_length(text) + 1 for text in cell.key)

    for block in blocks(plan):
        ranked = [at for at in block.questions if plan.query[at].ranked]
        groups: dict[Summed, list[Cell]] = {}
        for each in cells:
            if block.keys is None and each.question in block.questions:
                groups.setdefault(each.key[:-1] if ranked else each.key, []).append(each)
        for own in groups.values():
            ranks = [[each.key for each in own if each.question == at] for at in ranked]
            kept = next(each for each in (own, *_shorter(own, ranks)) if sum(map(size, each)) <= room)
            room -= sum(map(size, kept))
            lost |= {(each.question, each.key) for each in own} - {(each.question, each.key) for each in kept}
    return [each for each in cells if (each.question, each.key) not in lost]


def _shorter(own: Sequence[Cell], ranks: Sequence[Sequence[Summed]]) -> Iterator[list[Cell]]:
    """The cells of a group by fewer and fewer first ranks that all of its rankings share; at last none."""
    for size in range(min(map(len, ranks), default=0), -1, -1):
        first = {frozenset(each[:size]) for each in ranks}
        if len(first) <= 1:
            yield [each for each in own if any(each.key in some for some in first)]


def _bytes(ready: Prepared, block: Block, keys: Iterable[Key]) -> Iterator[int]:
    """The most bytes that the questions of a block take for each of some keys, with their commas."""
    apart = [
        (index, ready.plan.query[index].parts) for index in block.questions if not ready.plan.query[index].together
    ]
    fixed = sum(len(parts) * _longest(ready, index) + sum(map(_length, parts)) for index, parts in apart)
    count = sum(len(parts) for _, parts in apart)
    return (fixed + count * sum(_length(text) + 1 for text in key) for key in keys)


def _together(ready: Prepared, index: int, keys: Sequence[Key]) -> int:
    """The most bytes of a question that publishes all groups together."""
    if not ready.plan.query[index].together:
        return 0
    labels = [label for group in ready.plan.query[index].labels(keys) for label in group]
    texts = sum(_length(text) + 1 for key, part in labels for text in (*key, part))
    return len(labels) * _longest(ready, index) + texts


def _longest(ready: Prepared, index: int) -> int:
    """The bytes of a cell of a question that is as long as any, but for its key and part, and of a comma."""
    draws = (_LONGEST,) * ready.publishers[index].width
    facts = dict.fromkeys(("value", "lower", "upper", "epsilon", "delta", "rank_error", "mu"), _LONGEST)
    facts |= dict.fromkeys(POPULATION, _LONGEST) if ready.plan.of_population else {}
    return _length(Cell(question=index, key=(), part="", draws=draws, **facts).stored()) + 1


def _length(data: object) -> int:
    return len(json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=True).encode())
