"""The certificate of a release: what was published, by which mechanisms, at what cost; and the check of all that."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rangebound.accounting.chain import Kind
from rangebound.accounting.ledger import Ledger
from rangebound.accounting.rule import Cost
from rangebound.errors import ArgumentError, CertificateInvalid, RangeboundError
from rangebound.mechanism import Mechanism
from rangebound.privacy import worst_epsilon
from rangebound.release import rank
from rangebound.release.aggregate import Key
from rangebound.release.allocation import Allocation, allocate, spent
from rangebound.release.answer import Cell, parts, possible
from rangebound.release.mechanisms import Noise, noise_for
from rangebound.release.plan import Plan
from rangebound.release.question import RankQuestion
from rangebound.release.result import Release, plan_json, sha256
from rangebound.release.sql import Block, blocks
from rangebound.release.words import mechanism_name

FORMAT = "rangebound release certificate 1"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Where the ledger keeps the charge: the account, the request, and the ledger's head once it was published."""

    account: str
    request: str
    head: str


def write_certificate(
    release: Release, allocation: Allocation, noises: Mapping[int, Noise | None], entry: Entry | None
) -> str:
    """The certificate of a release as JSON."""
    return json.dumps(_stated(release, allocation, noises, entry), indent=1, sort_keys=True)


def _stated(
    release: Release, allocation: Allocation, noises: Mapping[int, Noise | None], entry: Entry | None
) -> dict[str, Any]:
    """All that a certificate says; but for the entry, it follows from the published bytes."""
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
    return {
        "format": FORMAT,
        "plan": sha256(plan_json(plan).encode()),
        "published": sha256(release.to_bytes()),
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "queries": parts,
        "selections": selections,
        "ledger": vars(entry) if entry else None,
    }


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check of a certificate has found to be true."""

    epsilon: float
    delta: float
    numbers: int
    entry: Entry | None


def check_certificate(certificate: str, published: bytes) -> Checked:
    """Check a certificate against the bytes that were published, the .json form of a table.

    The published bytes must be those of a release, to the last one. The certificate must be the one that is written
    for them: the budget, split again from the plan, gives its shares, sensitivities and mechanisms. Each mechanism must
    be as private as its share says, by its own worst case. The table must have exactly the rows that the plan asks for,
    where keys are public, and every number must be one that its question can give.

    Guarantee: raises `CertificateInvalid` unless all of that holds. It cannot see the data: that the numbers were drawn
    from them by these mechanisms is what the custodian says; `check_entry` checks the charge.
    """
    entry = _entry(certificate)
    try:
        release = Release.from_bytes(published)
        same = release.to_bytes() == published
        plan, allocation = release.plan, allocate(release.plan)
        noises = {index: noise_for(plan, index, allocation) for index in range(len(plan.query))}
    except (RangeboundError, ValueError, RecursionError):
        raise CertificateInvalid("published: is no release that could be made; verify the .json form") from None
    _demand(same, "published", "are not the bytes that a release is written in")
    stated = json.loads(certificate)
    for name, fact in _stated(release, allocation, noises, entry).items():
        _demand(stated.get(name) == fact, name, "is not what the published table and its plan give")
    whole = write_certificate(release, allocation, noises, entry)
    _demand(whole == certificate.strip(), "certificate", "is not in the form in which it was written")
    total, budget = spent(plan, allocation), plan.budget
    _demand(total[0] <= Fraction(budget.epsilon) and total[1] <= Fraction(budget.delta), "epsilon", "is overspent")
    for index, noise in noises.items():
        _check_noise(index, noise, allocation)
    _check_table(release, allocation, noises)
    return Checked(epsilon=budget.epsilon, delta=budget.delta, numbers=len(release.cells), entry=entry)


def _entry(certificate: str) -> Entry | None:
    try:
        entry = json.loads(certificate)["ledger"]
        found = Entry(**entry) if entry else None
        if found and not all(isinstance(each, str) for each in vars(found).values()):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CertificateInvalid("certificate: cannot be read; give the JSON file that --certificate wrote") from None
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
    try:
        ledger.verify(head=entry.head)
        stored, history = ledger.published(entry.request), ledger.history(entry.account)
    except ArgumentError as reason:  # a made-up entry may name what no ledger can have
        raise CertificateInvalid(f"ledger: {reason}") from None
    _demand(stored == published, "ledger", "has not published these bytes for the request")
    cost = Cost(epsilon=repr(checked.epsilon), delta=repr(checked.delta))
    charges = [each for each in history if each.request == entry.request]
    paid = [each.cost for each in charges if each.kind is Kind.SPEND]
    _demand(paid == [cost], "ledger", "has not charged the account with the budget of the plan")


def _check_noise(index: int, noise: Noise | None, allocation: Allocation) -> None:
    if noise is None:
        return
    share, place, mechanism = allocation.questions[index], f"queries[{index}]", noise.mechanism
    reach = mechanism.query.sensitivity if isinstance(mechanism, Mechanism) else mechanism.sensitivity
    _demand(Fraction(reach) >= allocation.sensitivities[index].cell, place, "has a sensitivity that is too small")
    if isinstance(mechanism, Mechanism):  # the upper end of an enclosure holds even where the search ended open
        loss = worst_epsilon(mechanism.setting, share.delta).upper
    else:
        loss = mechanism.epsilon()
    _demand(loss <= share.epsilon * (1 + 1e-6), place, "has a mechanism that is less private than it says")


def _check_table(release: Release, allocation: Allocation, noises: Mapping[int, Noise | None]) -> None:
    """Refuse a table that its plan cannot give: with other rows, names or costs, or with impossible numbers."""
    plan, cells = release.plan, release.cells
    names = tuple(mechanism_name(noises[index]) for index in range(len(plan.query)))
    _demand(release.mechanisms == names, "mechanisms", "are not those of the plan")
    expected = [place for block in blocks(plan) for place in _places(plan, block, cells)]
    _demand([(each.question, each.key, each.part) for each in cells] == expected, "cells", "are not those of the plan")
    for cell in cells:
        question: Any = plan.query[cell.question]
        share, place = allocation.questions[cell.question], f"queries[{cell.question}]"
        _demand((cell.epsilon, cell.delta) == (share.epsilon, share.delta), place, "has numbers at another cost")
        _demand(possible(question, cell.value), place, "has published a number that it cannot give")
        hull = question.allowed.hull
        _demand(hull.lower <= cell.lower and cell.upper <= hull.upper, place, "has an interval that leaves its support")
        _demand(cell.lower <= cell.value <= cell.upper, place, "has published a number outside its interval")
        error = None
        if isinstance(question, RankQuestion):
            speed = rank.rate(float(cell.part), allocation.sensitivities[cell.question].cell, share.drawn)
            error = rank.rank_error(question, speed, plan.level)
        near = math.isclose(cell.rank_error or 0.0, error or 0.0, rel_tol=1e-9)
        _demand(
            near and (cell.rank_error is None) == (error is None), place, "has another rank error than the plan gives"
        )


def _places(plan: Plan, block: Block, cells: Sequence[Cell]) -> list[tuple[int, Key, str]]:
    """Whose numbers a block has, in order; where keys were selected, those of its first question must be everywhere."""
    keys: Sequence[Key] | None = block.keys
    if keys is None:
        keys = sorted({each.key for each in cells if each.question == block.questions[0]})
        _demand(all(len(key) == len(block.by) for key in keys), "cells", "have keys of another length than the plan's")
    return [(index, key, part) for index in block.questions for key in keys for part in parts(plan.query[index])]


def _demand(holds: bool, place: str, otherwise: str) -> None:
    if not holds:
        raise CertificateInvalid(f"{place}: {otherwise}")
