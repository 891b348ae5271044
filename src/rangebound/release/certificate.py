"""The certificate of a release: what was published, by which mechanisms, at what cost; and the check of all that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rangebound.accounting.chain import Kind
from rangebound.accounting.ledger import Ledger
from rangebound.accounting.rule import Cost
from rangebound.errors import CertificateInvalid, PlanError, RangeboundError
from rangebound.mechanism import Mechanism
from rangebound.release.aggregate import Key
from rangebound.release.allocation import Allocation, allocate, spent
from rangebound.release.answer import parts
from rangebound.release.mechanisms import Noise, noise_for
from rangebound.release.plan import Plan
from rangebound.release.question import RankQuestion
from rangebound.release.result import Release, plan_json, sha256
from rangebound.release.sql import blocks

FORMAT = "rangebound release certificate 1"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Where the ledger keeps the charge: the account, the request, and the ledger's head once it was published."""

    account: str
    request: str
    head: str


def write_certificate(
    release: Release, allocation: Allocation, noises: dict[int, Noise | None], entry: Entry | None
) -> str:
    """The certificate of a release as JSON."""
    plan = release.plan
    parts = []
    for index, question in enumerate(plan.query):
        share, noise, found = allocation.questions[index], noises[index], allocation.sensitivities[index]
        parts.append(
            {
                "query": question.name,
                "mechanism": noise.mechanism.to_dict() if noise else "exponential",
                "sensitivity": str(found.cell),
                "groups": share.groups,
                "parts": share.parts,
                "epsilon": share.epsilon,
                "epsilon_of_each_interval_end": share.end,
                "delta": share.delta,
            }
        )
    selections = [
        {"by": list(by), "groups": share.groups, "epsilon": share.epsilon, "delta": share.delta}
        for by, share in allocation.selections.items()
    ]
    data: dict[str, Any] = {
        "format": FORMAT,
        "plan": sha256(plan_json(plan).encode()),
        "published": sha256(release.to_bytes()),
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "queries": parts,
        "selections": selections,
        "ledger": vars(entry) if entry else None,
    }
    return json.dumps(data, indent=1, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check of a certificate has found to be true."""

    epsilon: float
    delta: float
    numbers: int
    entry: Entry | None


def check_certificate(certificate: str, published: bytes) -> Checked:
    """Check a certificate against the bytes that were published.

    The hashes must match; the budget, split again from the plan, must give the same shares and sensitivities; each
    mechanism must be as private as its share says, by its own worst case; the table must have the rows of the plan;
    every number must state its cost and lie in its support, and every interval within the ends of that.

    Guarantee: raises `CertificateInvalid` unless all of that holds. It cannot see the data: that the numbers were drawn
    from them by these mechanisms is what the custodian says.
    """
    try:
        data = json.loads(certificate)
        release = Release.from_bytes(published)
        stated = (data["format"], data["plan"], data["published"], data["epsilon"], data["delta"])
        queries, selections, entry = data["queries"], data["selections"], data["ledger"]
        found = Entry(**entry) if entry else None
    except (ValueError, KeyError, TypeError, RangeboundError):
        raise CertificateInvalid("certificate: cannot be read") from None
    plan = release.plan
    budget = plan.budget
    _demand(stated[0] == FORMAT, "format", "is not known here")
    _demand(stated[1] == sha256(plan_json(plan).encode()), "plan", "is not the plan of the published table")
    _demand(stated[2] == sha256(published), "published", "is not the hash of the published bytes")
    _demand(stated[3:] == (budget.epsilon, budget.delta), "epsilon", "is not the budget of the plan")
    try:
        allocation = allocate(plan)
    except PlanError as reason:
        raise CertificateInvalid(f"plan: {reason}") from None
    total = spent(plan, allocation)
    _demand(total[0] <= Fraction(budget.epsilon) and total[1] <= Fraction(budget.delta), "epsilon", "is overspent")
    _demand(isinstance(queries, list) and len(queries) == len(plan.query), "queries", "are not those of the plan")
    for index, part in enumerate(queries):
        _demand(isinstance(part, dict), f"queries[{index}]", "is no table")
        _check_part(plan, index, part, allocation)
    shares = [
        {"by": list(by), "groups": each.groups, "epsilon": each.epsilon, "delta": each.delta}
        for by, each in allocation.selections.items()
    ]
    _demand(selections == shares, "selections", "are not those of the plan")
    named = all(isinstance(each, str) for cell in release.cells for each in cell.key)
    places = [(cell.question, cell.key, cell.part) for cell in release.cells]
    _demand(named and places == _expected(release), "published", "has not the rows of the plan")
    for cell in release.cells:
        numbers = (cell.value, cell.lower, cell.upper)
        _demand(all(isinstance(each, float | int) for each in numbers), "published", "holds a cell without numbers")
        question: Any = plan.query[cell.question]
        share = allocation.questions[cell.question]
        stated_cost = (cell.epsilon, cell.delta) == (share.epsilon, share.delta)
        _demand(stated_cost, f"queries[{cell.question}]", "has published a number at another cost")
        inside = any(lower <= cell.value <= upper for lower, upper in question.allowed.spans)
        _demand(inside, f"queries[{cell.question}]", "has published a number outside its support")
        ordered = cell.lower <= cell.value <= cell.upper or not isinstance(question, RankQuestion)
        _demand(ordered, f"queries[{cell.question}]", "has published a quantile outside its interval")
        held = question.allowed.hull.lower <= cell.lower <= cell.upper <= question.allowed.hull.upper
        _demand(held, f"queries[{cell.question}]", "has published an interval that leaves its support")
    return Checked(epsilon=budget.epsilon, delta=budget.delta, numbers=len(release.cells), entry=found)


def _expected(release: Release) -> list[tuple[int, Key, str]]:
    """The rows of a table by its plan: all public keys, or the same selected ones for every query of a grouping."""
    found = []
    for block in blocks(release.plan):
        selected = {cell.key for cell in release.cells if cell.question == block.questions[0]}
        keys = sorted(selected) if block.keys is None else block.keys
        names = [(index, parts(release.plan.query[index])) for index in block.questions]
        found += [(index, key, part) for index, own in names for key in keys for part in own]
    return found


def check_entry(checked: Checked, published: bytes, ledger: Ledger) -> None:
    """Check the ledger entry of a certificate, which must have been checked itself, in the ledger at hand.

    The ledger must be whole and go on from the head that the certificate names; under its request it must hold one
    charge of the budget, to its account, and the published bytes.

    Guarantee: raises `CertificateInvalid` unless all of that holds, and `LedgerTampered` for a ledger that was altered.
    """
    entry = checked.entry
    if entry is None:
        raise CertificateInvalid("ledger: this release was charged to none")
    ledger.verify(head=entry.head)
    _demand(ledger.published(entry.request) == published, "ledger", "has not published these bytes for the request")
    cost = Cost(epsilon=repr(checked.epsilon), delta=repr(checked.delta))
    charges = [each for each in ledger.history(entry.account) if each.request == entry.request]
    paid = [each.cost for each in charges if each.kind is Kind.SPEND]
    _demand(paid == [cost], "ledger", "has not charged the account with the budget of the plan")


def _check_part(plan: Plan, index: int, part: dict[str, Any], allocation: Allocation) -> None:
    share, place = allocation.questions[index], f"queries[{index}]"
    cell = allocation.sensitivities[index].cell
    facts = {"sensitivity": str(cell), "groups": share.groups, "parts": share.parts}
    facts |= {"epsilon": share.epsilon, "delta": share.delta, "query": plan.query[index].name}
    facts |= {"epsilon_of_each_interval_end": share.end}
    _demand(all(part.get(name) == fact for name, fact in facts.items()), place, "is not what the plan gives")
    if isinstance(plan.query[index], RankQuestion):
        _demand(part.get("mechanism") == "exponential", place, "needs the exponential mechanism")
        return
    try:
        noise = noise_for(plan, index, allocation)
    except PlanError as reason:
        raise CertificateInvalid(f"plan: {reason}") from None
    assert noise is not None
    mechanism = noise.mechanism
    _demand(part.get("mechanism") == mechanism.to_dict(), place, "has another mechanism than the plan gives")
    reach = mechanism.query.sensitivity if isinstance(mechanism, Mechanism) else mechanism.sensitivity
    _demand(Fraction(reach) >= cell, place, "has a sensitivity that is too small")
    loss = mechanism.epsilon(share.delta) if isinstance(mechanism, Mechanism) else mechanism.epsilon()
    _demand(loss <= share.epsilon * (1 + 1e-6), place, "has a mechanism that is less private than it says")


def _demand(holds: bool, place: str, otherwise: str) -> None:
    if not holds:
        raise CertificateInvalid(f"{place}: {otherwise}")
