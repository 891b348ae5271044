"""The certificate of a release: what was published, by which mechanisms, at what cost; and the check of all that."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rangebound.errors import ArgumentError, ArgumentTypeError, CertificateInvalid, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import AnyCost
from rangebound.mechanisms.coq_text import coq_claim, coq_numbers, coq_text, uncovered
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.release.budget_split import PlanParts, every_allocation
from rangebound.release.noise.allocation import Allocation, LossForm, is_within
from rangebound.release.noise.draw import Cell, Draw, Key
from rangebound.release.noise.forms import form_of
from rangebound.release.noise.marginal_publisher import MarginalPublisher
from rangebound.release.noise.noisy_coordinates import MechanismPublisher
from rangebound.release.noise.partition_selection import ThresholdSelection, partition_selection
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.output.agreement import consistent
from rangebound.release.output.ledger_entry import charges, covers, least_due, shortfall
from rangebound.release.output.plan_facts import drawn_by, plan_json, sha256
from rangebound.release.output.plan_risk import Conversions, conversions
from rangebound.release.output.table import Release
from rangebound.release.plan.groupings import Block, Workload, blocks
from rangebound.release.plan.kinds.ranks import RankKind
from rangebound.release.plan.kinds.selections import RankedCounts
from rangebound.release.prepare import Prepared, cells_of, impossible, prepare, prepared
from rangebound.values import arguments

FORMAT = "rangebound release certificate 1"
_TOLERANCE = 1e-9  # of calibrated scales, relative; see `rangebound.calibrate`
WORK = 1000.0
"""Steps that a check takes at most unless it is told otherwise: of about 10 milliseconds each, ten seconds in all."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Where the ledger keeps the charge: the account, the request, and the ledger's head once it was published.

    `promise` is what an account with periods promises, which is weaker than a budget for good; else None.
    """

    account: str
    request: str
    head: str
    promise: str | None = None

    def to_dict(self) -> dict[str, str]:
        """The entry as plain data, with a promise only where there is one."""
        return {name: value for name, value in vars(self).items() if value is not None}


def write_certificate(release: Release, ready: Prepared, entry: Entry | None) -> str:
    """The certificate of a release as JSON."""
    return json.dumps(_stated(release, ready, entry), indent=1, sort_keys=True)


def _stated(release: Release, ready: Prepared, entry: Entry | None) -> dict[str, object]:
    """All that a certificate says; but for the entry, it follows from the published bytes."""
    plan, allocation = release.plan, ready.allocation
    parts = [
        {"query": question.name, "mechanism": ready.publishers[index].to_dict(), **_share(allocation, index)}
        for index, question in enumerate(plan.query)
    ]
    selections = []
    for by, share in allocation.selections.items():
        said: dict[str, object] = {
            "by": list(by),
            "groups": share.groups,
            "epsilon": share.epsilon,
            "delta": share.delta,
        }
        selection = ready.selections[by]
        if isinstance(selection, ThresholdSelection):
            said |= {"query": plan.query[selection.question].name, "threshold": selection.threshold}
        selections.append(said)
    return {
        "format": FORMAT,
        "plan": sha256(plan_json(plan).encode()),
        "published": sha256(release.to_bytes()),
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "queries": parts,
        "selections": selections,
        "ledger": entry.to_dict() if entry else None,
        **({"mu": allocation.mu} if allocation.mu else {}),
        **({"workloads": [_workload(ready, each) for each in ready.workloads]} if ready.workloads else {}),
    }


def _workload(ready: Prepared, workload: Workload) -> dict[str, object]:
    """What a certificate says about counts that are measured together: which they are, and by which strategy."""
    first = ready.publishers[workload.questions[0]]
    assert isinstance(first, MarginalPublisher)
    return {
        "queries": [ready.plan.query[index].name for index in workload.questions],
        "columns": list(workload.columns),
        "mu": ready.allocation.questions[workload.questions[0]].mu,
        **first.workload_to_dict(),
    }


def _share(allocation: Allocation, index: int) -> dict[str, object]:
    """What a certificate says about the share of a question, and how far a unit can move its coordinates."""
    share, found = allocation.questions[index], allocation.sensitivities[index]
    gaussian = {"squared_l2_sensitivity": str(found.square), "mu": share.mu, "loss": share.loss.value}
    return {
        "sensitivity": str(found.cell),
        "groups": share.groups,
        "parts": share.parts,
        "epsilon": share.epsilon,
        "epsilon_of_each_interval_end": share.end,
        "delta": share.delta,
        **(gaussian if allocation.mu else {}),
    }


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check of a certificate has found to be true.

    `costs` is what the release is charged, in several ways; `terms` is the guarantee in terms of several definitions.
    """

    epsilon: float
    delta: float
    numbers: int
    entry: Entry | None
    costs: tuple[AnyCost, ...]
    terms: Conversions


def check_certificate(certificate: str, published: bytes, *, work: float = WORK) -> Checked:
    """Check a certificate against the bytes that were published, the .json form of a table.

    The published bytes must be those of a release, to the last one. The certificate must be the one that is written
    for them: the budget, split again from the plan, in plain sums or in a Gaussian account as the certificate says,
    gives its shares, sensitivities and mechanisms. All shares together must be proved to be within the budget, and each
    mechanism to be as private as its share says: by `rangebound.certify`, Gaussian noise in a Gaussian account by its
    scale and the L2 sensitivity, an exponential mechanism by its rates in exact arithmetic, a partition selection for
    every number of units in whole numbers, and so an optimal table, which is in the published bytes. Every draw must be
    a number that its mechanism can give. All else in the table is made again from the plan, the draws and privately
    selected keys, and must be the same to the last bit: rows and their order, names, numbers, intervals, rank errors,
    costs, and what consistency made of them.

    Guarantee: raises `CertificateInvalid` unless all of that holds. Nothing is compared with slack but calibrated
    scales: the stated one must be within a billionth of what is found here, and the claim is proved for the stated one.
    Assumes: what the table holds was drawn from the data by these mechanisms; that is what the custodian says, and no
    check without the data can see. `check_entry` checks the charge.
    Edge cases: a table that would take more than `work` steps is refused before they are taken, `work=math.inf` takes
    them: 50 and the square of its spans for each different mechanism, 1 for 100,000 bytes, for 400 letters of
    expressions in the plan, for 50 numbers, for 1,000 points of a quantile's grid, and for 4,000 numbers of units of a
    partition selection. Numbers are made again by this version of the library, so a table made by another one, or an
    interval made on a machine whose logarithm rounds otherwise, may be refused though it is genuine; none is accepted
    that is not.

    >>> import pyarrow
    >>> from rangebound.release import parse_plan, release
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> table = release(plan, pyarrow.table({"age": [41, 27]}), ledger=None)
    >>> checked = check_certificate(table.certificate, table.to_bytes())
    >>> checked.epsilon, checked.numbers
    (1.0, 1)
    """
    _demand_work((len(certificate) + len(published)) / _BYTES, work)
    stated, entry = _read(certificate)
    try:
        data = json.loads(published)
        _demand_work(_letters(data.get("plan") if isinstance(data, dict) else None) / _LETTERS, work)
        release = Release.from_bytes(published)
        same = release.to_bytes() == published
        plan = release.plan
        groups = sum(plan.groups(each.by) for each in plan.query if not plan.private(each.by))
        _demand_work(groups / _NUMBERS, work)  # before they are listed
        ways = list(every_allocation(plan))
        own = [way for way in ways if _is_stated(way, stated)]
        _demand_work(_steps(release, own or ways) + (len(certificate) + len(published)) / _BYTES, work)
        several = [_with_stated_noise(prepared(plan, way, release.tables), stated) for way in own]
        ready = drawn_by(several, release.cells) or (several[0] if several else prepare(plan))
        if not own and any(isinstance(each, TablePublisher) for each in ready.publishers):  # none is computed here
            raise CertificateInvalid("queries: are not those of this table and its plan; it may be of another table")
    except CertificateInvalid:
        raise
    except (RangeboundError, ValueError, RecursionError):
        raise CertificateInvalid("published: not a table of this version; verify the .json form") from None
    _demand(same, "published", "not in the form in which a release is written")
    _demand(entry is None or entry.account == plan.budget.account, "ledger", "is not the account of the plan")
    for name, fact in _stated(release, ready, entry).items():
        _demand(stated.get(name) == fact, name, "is not that of this table and its plan; it may be of another table")
    whole = write_certificate(release, ready, entry)
    _demand(whole == certificate.strip(), "certificate", "is not in the form in which it was written")
    budget = plan.budget
    _demand(is_within(ready.loss, ready.allocation.mu, budget.epsilon, budget.delta), "epsilon", "is overspent")
    _check_claims(ready)
    _check_table(release, ready)
    return Checked(
        epsilon=budget.epsilon,
        delta=budget.delta,
        numbers=len(release.cells),
        entry=entry,
        costs=charges(ready),
        terms=conversions(ready),
    )


def plan_to_coq(certificate: str) -> str:
    """The account of a checked certificate for the proof assistant Coq: its parts add up, to no more than the budget.

    Guarantee: the squares of mu of all parts are at most that of the account, as fractions, and no test of a number
    with Gaussian noise tells places that are mu scales apart better than the budget says. That parts together are as
    one, with the sum of the squares [dong2022], is the reader's premise.
    Edge cases: plans in plain sums, with a partition selection, or with a part that is not Gaussian, are refused.
    """
    data = json.loads(certificate)
    parts, together = data["queries"], {name for each in data.get("workloads", ()) for name in each["queries"][1:]}
    if "mu" not in data or data["selections"] or any(each["loss"] != LossForm.GAUSSIAN.value for each in parts):
        raise uncovered("plans but those of which all parts have Gaussian noise, in a Gaussian account")
    named = {f"mu_{index}": each["mu"] for index, each in enumerate(parts, 1) if each["query"] not in together}
    numbers = coq_numbers(epsilon=data["epsilon"], delta=data["delta"], mu=data["mu"], **named)
    squares = " + ".join(f"{name} ^ 2" for name in named)
    modules, body = coq_claim("plan", numbers, "Bell Bounds HockeyStick UnboundedGaussian", squares=squares)
    stated = f"the account of a release, {data['plan']}: ({data['epsilon']}, {data['delta']})-differential privacy"
    return coq_text(stated, modules, body)


def _is_stated(way: Allocation, stated: dict[str, Any]) -> bool:
    """Whether a certificate states the shares of this way to split the budget."""
    shares, parts = [_share(way, index) for index in way.questions], stated.get("queries")
    if not isinstance(parts, list) or not all(isinstance(each, dict) for each in parts):
        return False
    said = [{name: each.get(name) for name in own} for each, own in zip(parts, shares, strict=False)]
    return stated.get("mu", 0.0) == way.mu and said == shares


def _with_stated_noise(ready: Prepared, stated: dict[str, Any]) -> Prepared:
    """The same with the noise that a certificate states, where it is what calibration finds but for its tolerance.

    Machines whose logarithms round otherwise find scales that differ in their last bits; the check proves each claim
    for the noise that is stated.
    """
    publishers = list(ready.publishers)
    for index, publisher in enumerate(publishers):
        if isinstance(publisher, MechanismPublisher):
            own, said = publisher.to_dict(), stated["queries"][index].get("mechanism")
            same = isinstance(said, dict) and {**said, "noise": own["noise"]} == own
            if same and _is_close(said.get("noise"), own["noise"]):
                noise = Mechanism.from_dict(said).noise
                publishers[index] = replace(publisher, mechanism=replace(publisher.mechanism, noise=noise))
    return replace(ready, publishers=tuple(publishers))


def _is_close(said: object, own: object) -> bool:
    """Whether noise as plain data is the same but for the tolerance of a calibration."""
    if isinstance(said, dict) and isinstance(own, dict):
        return said.keys() == own.keys() and all(_is_close(said[name], own[name]) for name in own)
    if isinstance(said, float) and isinstance(own, float):
        return math.isclose(said, own, rel_tol=_TOLERANCE)
    return said == own


_BYTES, _LETTERS, _NUMBERS, _COUNTS = 100_000, 400, 50, 4000
_EXPRESSIONS = ("columns", "per_unit", "where", "of")


def _letters(data: Any, *, read: bool = False) -> int:
    """How many letters the expressions of a plan have, which takes long to read, as plain data."""
    match data:
        case str():
            return len(data) if read else 0
        case list():
            return sum(_letters(each, read=read) for each in data)
        case dict():
            return sum(
                _letters(each, read=read or name in _EXPRESSIONS)
                for name, each in data.items()
                if name != "value" or not isinstance(each, list)  # of a condition; these are compared, not read
            )
    return 0


def _steps(release: Release, ways: Sequence[Allocation]) -> float:
    """How much of a check follows from the plan: mechanisms are found again, grids and numbers made again."""
    made = {}
    for index, question in enumerate(release.plan.query):
        key, steps = form_of(question, release.plan.unit_of(question)).effort
        for way in ways:
            share, cell = way.questions[index], way.sensitivities[index].cell
            made[key, cell, share.epsilon, share.delta, share.mu] = steps
    selected = {
        (share.epsilon, share.delta) for way in ways for share in way.selections.values() if share.epsilon > 0.0
    }
    counts = sum(len(partition_selection(*share).probabilities) for share in selected)
    return sum(made.values()) + counts / _COUNTS + len(release.cells) / _NUMBERS


def _demand_work(steps: float, work: float) -> None:
    _demand(
        steps <= work,
        "published",
        f"takes {arguments.counted(f'{steps:.0f}', 'step')} to check, of about 10 milliseconds, where {work:g} are "
        "allowed; allow more by work=",
    )


def _read(certificate: str) -> tuple[dict[str, Any], Entry | None]:
    """What a certificate states, and its entry in a ledger."""
    try:
        stated = json.loads(certificate)
        entry = stated["ledger"]
        found = Entry(**entry) if entry else None
        if found and (found.to_dict() != entry or not all(isinstance(each, str) for each in entry.values())):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CertificateInvalid("certificate: cannot be read; give the JSON file that --certificate wrote") from None
    return stated, found


def check_entry(checked: Checked, published: bytes, ledger: Ledger) -> None:
    """Check the ledger entry of a certificate, which must have been checked itself, in the ledger at hand.

    The ledger must be whole and go on from the head that the certificate names; under its request it must hold one
    charge of the budget or more, in the terms of its account's rule, and the published bytes. If the account has
    periods, the certificate must state the weaker promise.

    Guarantee: raises `CertificateInvalid` unless all of that holds, and `LedgerTampered` for a ledger that was altered.
    """
    entry = checked.entry
    if entry is None:
        raise CertificateInvalid("ledger: this release was not charged to a ledger")
    try:
        ledger.verify(head=entry.head)
        stored, paid = ledger.published(entry.request), ledger.paid(entry.request)
        account = ledger.account(entry.account)
        cost = None if paid is None or paid.account != entry.account else paid.cost
        due = None if cost is None else least_due(account.rule, checked.costs, cost)
    except (ArgumentError, ArgumentTypeError) as reason:  # a made-up entry may name what no ledger can have
        raise CertificateInvalid(f"ledger: {reason}") from None
    _demand(stored == published, "ledger", "did not publish these bytes for the request")
    _demand(entry.promise == account.weaker_promise, "ledger", "does not promise for the account what it states")
    less = "did not charge the account with the budget of the plan"
    if cost is None or due is None:
        raise CertificateInvalid(f"ledger: {less}")
    _demand(covers(cost, due), "ledger", f"{less}: {shortfall(cost, due)}")


def _check_claims(ready: Prepared) -> None:
    """Refuse a publisher or a partition selection that is not proved to be as private as its share."""
    allocation, parts = ready.allocation, PlanParts(plan=ready.plan)
    for index, publisher in enumerate(ready.publishers):
        try:
            publisher.check(allocation.sensitivities[index], allocation.questions[index])
        except CertificateInvalid as reason:
            raise CertificateInvalid(f"queries[{index}]: {reason}") from None
    known = set()  # selections of equal shares are one object, and may be long
    for index, (by, share) in enumerate(allocation.selections.items()):
        selection, facts = ready.selections[by], (id(ready.selections[by]), share.epsilon, share.delta)
        try:
            if isinstance(selection, ThresholdSelection):
                rows, scale = parts.noisy_count(selection.question, ready.publishers[selection.question])
                selection.check(rows=rows, scale=scale, delta=share.delta)
            elif facts not in known:
                selection.check(share.epsilon, share.delta)
                known.add(facts)
        except CertificateInvalid as reason:
            raise CertificateInvalid(f"selections[{index}]: {reason}") from None


def _check_table(release: Release, ready: Prepared) -> None:
    """Refuse a table that its plan cannot give: all but draws and selected keys is made again from these."""
    plan, cells = release.plan, release.cells
    ranked = {index: question.k for index, question in enumerate(plan.query) if isinstance(question, RankedCounts)}
    draws = {(each.question, each.key, "" if each.question in ranked else each.part): each.draws for each in cells}
    keys: dict[int, Sequence[Key]] = {}
    drawn: dict[int, list[list[Draw]]] = {}
    for block in blocks(plan):
        first = next((index for index in block.questions if index not in ranked), None)
        selected = _keys(block, cells, block.questions if first is None else [first])
        for index in block.questions:
            own = keys[index] = _keys(block, cells, [index]) if index in ranked else selected
            if index in ranked:
                _demand(set(own) <= set(selected), "cells", "rank a key that was not selected")
                groups, found = (dict(Counter(key[:-1] for key in some)) for some in (selected, own))
                least = {group: min(ranked[index], count) for group, count in groups.items()}
                _demand(found == least, "cells", "have fewer ranks than selected keys, or more than k")
            labels = plan.query[index].labels(own)
            missing = any((index, *label) not in draws for group in labels for label in group)
            _demand(not missing, "cells", "are not those of the plan")
            drawn[index] = [[draws[index, *label] for label in group] for group in labels]
    wrong = impossible(ready, drawn)
    _demand(wrong is None, f"queries[{wrong}]", "has a draw that its mechanism cannot give")
    for selection in ready.selections.values():
        if isinstance(selection, ThresholdSelection):
            large = len(selection.named(drawn[selection.question])) == len(drawn[selection.question])
            _demand(large, f"queries[{selection.question}]", "names a key whose number is below the threshold")
    ranks = (each for each in plan.query if isinstance(each, RankKind) and each.can_be_whole)
    known = tuple(each.name for each in ranks if each.name in release.whole)
    _demand(release.whole == known, "whole", "names questions that are not quantiles, or cannot be whole")

    def remade(*, earlier: bool) -> list[Cell]:
        found = cells_of(ready, keys, drawn, earlier=earlier, whole=release.whole)
        return list(consistent(plan, found)) if plan.consistent else found

    made = remade(earlier=False)
    if made != list(cells):  # an earlier version may have made the table
        earlier = remade(earlier=True)
        made = earlier if earlier == list(cells) else made
    _demand(len(made) == len(cells), "cells", "are not those of the plan")
    for cell, again in zip(cells, made, strict=True):
        same = (cell.question, cell.key, cell.part) == (again.question, again.key, again.part)
        _demand(same, "cells", "are not those of the plan, in its order")
        _demand(
            cell == again, f"queries[{cell.question}]", "has numbers that do not follow from the plan and the draws"
        )
    said = ready.mechanisms
    _demand(release.mechanisms == said, "mechanisms", "are not those of the plan")
    whole = replace(release, cells=tuple(made), mechanisms=said, tables=ready.tables).to_bytes()
    _demand(whole == release.to_bytes(), "published", "contains numbers in another notation")  # such as -0.0


def _keys(block: Block, cells: Sequence[Cell], questions: Collection[int]) -> Sequence[Key]:
    """The keys of a block: the public ones, or those of some of its questions where they were selected."""
    if block.keys is not None:
        return block.keys
    keys = {each.key for each in cells if each.question in questions}
    _demand(all(len(key) == len(block.by) for key in keys), "cells", "have keys of another length than the plan's")
    _demand(not any(None in key for key in keys), "cells", "have a key without a text")
    return sorted(tuple(map(str, key)) for key in keys)


def _demand(holds: bool, place: str, otherwise: str) -> None:
    if not holds:
        raise CertificateInvalid(f"{place}: {otherwise}")
