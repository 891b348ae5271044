"""A fact sheet of a release on the topics of NIST SP 800-226: each question with evidence, a no, or what is open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from rangebound.errors import plain
from rangebound.ledger.record import Account, Record
from rangebound.release.output.deployment_record import (
    composition,
    contribution_bounds,
    neighbours,
    original,
    post_processing,
    published_hash,
    software,
    unprotected,
)
from rangebound.release.output.hazards import LARGE_EPSILON, is_odd, stated_ranges
from rangebound.release.output.plan_risk import plan_odds
from rangebound.release.output.scope import scopes
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.plan.words import bounds
from rangebound.release.prepare import Prepared, prepare
from rangebound.values import arguments


class Verdict(StrEnum):
    """Whether a requirement is met; `OPEN` where only people know."""

    YES = "yes"
    NO = "no"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One thing that the guide asks for: what it is about, what is asked, whether it holds, and the evidence."""

    topic: str
    asked: str
    verdict: Verdict
    evidence: str

    def to_dict(self) -> dict[str, str]:
        """The requirement as plain data."""
        return {name: str(value) for name, value in asdict(self).items()}


_Found = tuple[str, Verdict, str]


def fact_sheet(
    plan: Plan | Mapping[str, object],
    *,
    certificate: str = "",
    entry: Record | None = None,
    account: Account | None = None,
) -> tuple[Requirement, ...]:
    """Questions on the topics of the guide, each with an answer; touches no data. [near2025]

    They are in our words, and were not matched to its text clause by clause.

    The arguments are those of `rangebound.release.output.deployment_record.record`.

    Guarantee: a `yes` has its evidence in the plan, the certificate, the ledger or this library's tests; what none of
    these knows is `open`, and what is not met, or not promised, is a `no`.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> found = fact_sheet(plan)
    >>> print(len(found), *(each.asked for each in found if each.verdict == "no"), sep="\\n")
    39
    The claim of each number is proved, and can be checked
    The unit is a person, or another owner of rows
    The budget is kept by a ledger
    The time that a release takes is hidden
    """
    plan = as_plan(plan)
    ready = prepare(plan)
    parts = {
        "The guarantee": _guarantee(ready, certificate),
        "The unit of privacy": _unit(plan),
        "Composition": _composition(ready, entry, account),
        "What is not protected": _public(plan),
        "Utility and bias": _utility(ready),
        "Deployment": _deployment(),
    }
    return tuple(
        Requirement(topic=topic, asked=asked, verdict=verdict, evidence=plain(" ".join(evidence.split("\n"))).strip())
        for topic, found in parts.items()
        for asked, verdict, evidence in found
    )


def fact_sheet_text(found: tuple[Requirement, ...], title: str = "") -> str:
    """A fact sheet as Markdown.

    Guarantee: whatever the texts of the plan are, they are shown as they are: no markup of theirs is followed.

    >>> one = Requirement(topic="Unit", asked="It is stated", verdict=Verdict.YES, evidence="by '<b>|x'")
    >>> print(fact_sheet_text((one,), "*Visits*"), end="")
    # Fact sheet: \\*Visits\\*
    <BLANKLINE>
    Questions of our own on the topics of NIST SP 800-226, a self-assessment: 1 yes, 0 no, 0 open.
    <BLANKLINE>
    ## Unit
    <BLANKLINE>
    | asked | answer | evidence |
    | --- | --- | --- |
    | It is stated | yes | by '\\<b\\>\\|x' |
    """
    counts = ", ".join(f"{sum(each.verdict is one for each in found)} {one}" for one in Verdict)
    lines = [f"# Fact sheet: {markdown_text(title or 'a release')}", ""]
    lines.append(f"Questions of our own on the topics of NIST SP 800-226, a self-assessment: {counts}.")
    for topic in dict.fromkeys(each.topic for each in found):
        lines += ["", f"## {topic}", "", "| asked | answer | evidence |", "| --- | --- | --- |"]
        lines += [
            f"| {markdown_text(each.asked)} | {each.verdict} | {markdown_text(each.evidence)} |"
            for each in found
            if each.topic == topic
        ]
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|#~$&])", r"\\\1", plain(text))


def _guarantee(ready: Prepared, certificate: str) -> Iterator[_Found]:
    plan = ready.plan
    epsilon, delta, size = plan.budget.epsilon, plan.budget.delta, plan.unit.size
    yield "Epsilon is stated", Verdict.YES, f"{plan.budget} for all numbers together"
    small = epsilon <= LARGE_EPSILON
    yield f"Epsilon is at most {LARGE_EPSILON:g}", _yes(small), f"epsilon {arguments.upwards(epsilon)}"
    if not delta:
        yield "Delta is below 1 over the number of units", Verdict.YES, "delta is 0"
    elif size is not None:
        said = f"delta {arguments.upwards(delta)}, 1 over {arguments.counted(size, 'unit')} is {1 / size:.3g}"
        yield "Delta is below 1 over the number of units", _yes(delta * size < 1.0), said
    else:
        said = f"delta {arguments.upwards(delta)}; how many units there are is not public in the plan"
        yield "Delta is below 1 over the number of units", Verdict.OPEN, said
    variant = "approximate differential privacy" if delta else "pure differential privacy"
    yield "The variant is named", Verdict.YES, f"{variant}, with {plan.unit.neighbours} neighbours"
    yield (
        "The original parameters are given beside converted ones",
        Verdict.YES,
        " ".join(original(ready)[:2]),
    )
    yield "The guarantee is said in words for people", Verdict.YES, plan_odds(plan, ready.allocation)
    published = published_hash(certificate)
    proof = f"certificate of the published bytes, SHA-256 {published}; rangebound verify checks it"
    yield (
        "The claim of each number is proved, and can be checked",
        _yes(bool(published)),
        proof if published else "there is no certificate before the release",
    )


def _unit(plan: Plan) -> Iterator[_Found]:
    column = plan.unit.column
    named = "a single row" if column is None else f"all rows with the same value in {column!r}"
    yield "The unit is stated", Verdict.YES, named
    if column is None:
        yield "The unit is a person, or another owner of rows", Verdict.NO, "the unit is a single row"
    else:
        yield (
            "The unit is a person, or another owner of rows",
            Verdict.OPEN,
            f"what {column!r} names is for people to say",
        )
    yield "Neighbouring tables are stated", Verdict.YES, neighbours(plan)
    yield "Contribution bounds are stated", Verdict.YES, " ".join(contribution_bounds(plan))
    enforced = "rows and groups are cut, and values clipped, in the statement that sums them, before any noise"
    yield "Contribution bounds are enforced, not assumed", Verdict.YES, enforced
    cut = column is not None or bool(stated_ranges(plan))
    if cut:
        measured = (
            "report_clipping asks how much is cut, for a share of epsilon"
            if plan.report_clipping
            else "report_clipping is off"
        )
        yield "What contribution bounds and clipping cut is measured", _yes(plan.report_clipping), measured
    else:
        yield "What contribution bounds and clipping cut is measured", Verdict.YES, "nothing is cut"
    groups = "k units together: k times epsilon" + (
        ", and delta by the bound of group privacy" if plan.budget.delta else ""
    )
    yield "It is said what groups of people have", Verdict.YES, groups


def _composition(ready: Prepared, entry: Record | None, account: Account | None) -> Iterator[_Found]:
    plan = ready.plan
    yield "All numbers of a release are composed", Verdict.YES, " ".join(composition(plan, ready.allocation))
    if entry is not None:
        kept = f"account {entry.account!r}, request {entry.request!r}, entry {entry.head}"
        yield "The budget is kept by a ledger", Verdict.YES, f"charged before data were read: {kept}"
    elif plan.budget.account is not None:
        yield "The budget is kept by a ledger", Verdict.OPEN, f"account {plan.budget.account!r}, not charged yet"
    else:
        yield "The budget is kept by a ledger", Verdict.NO, "the plan names no account"
    if account is None:
        yield "Releases over time have one total", Verdict.OPEN, "the account is not at hand"
        yield "A release needs the approval of a person", Verdict.OPEN, "the account is not at hand"
    else:
        promise = account.weaker_promise
        total = f"account {account.name!r} has epsilon {account.epsilon}, delta {account.delta} for good"
        yield "Releases over time have one total", _yes(promise is None), promise or total
        approval = (
            "none is needed" if account.approval is None else f"the account asks for it, by {account.approval.value}"
        )
        yield "A release needs the approval of a person", _yes(account.approval is not None), approval
    others = "the ledger adds up one account; other accounts, and other releases of these data, are for people to know"
    yield "All releases about the same people are composed", Verdict.OPEN, others


def _public(plan: Plan) -> Iterator[_Found]:
    yield "Quantities that are not protected are listed", Verdict.YES, unprotected(plan)
    size = plan.unit.size
    count = "the number of units is protected too" if size is None else f"the number of units, {size}, is public"
    yield "It is said whether the size of the table is protected", Verdict.YES, count
    private = sorted({each for question in plan.query for each in question.by if plan.private((each,))})
    listed = ", ".join(map(repr, sorted(plan.listed_columns))) or "none"
    chosen = f"; keys of {', '.join(map(repr, private))} are selected privately, for a delta" if private else ""
    yield "Groups are public, or selected privately", Verdict.YES, f"public keys of: {listed}{chosen}"
    odd = [
        f"{column!r} {bounds(ends)}"
        for column, ends in stated_ranges(plan).items()
        if any(isinstance(end, float) and is_odd(end) for end in ends)
    ]
    looks = (
        f"looks taken from the data: {', '.join(odd)}"
        if odd
        else "no end has four digits or more, but for years, nines and powers of two; this proves nothing"
    )
    yield "Ranges do not look taken from the data", _yes(not odd), looks
    tuned = (
        "whether epsilon, ranges, keys or bounds were chosen by looking at the data is for people to say; "
        "rangebound plan suggest charges for it"
    )
    yield "What was tuned on the data was paid for", Verdict.OPEN, tuned


def _utility(ready: Prepared) -> Iterator[_Found]:
    plan = ready.plan
    said = "; ".join(f"{each.name}: {how}" for each, how in zip(plan.query, ready.mechanisms, strict=True))
    yield "The mechanism of each number is named", Verdict.YES, said
    errors = zip(plan.query, ready.forms, ready.publishers, strict=True)
    expected = "; ".join(f"{each.name}: {form.expected_error(publisher)}" for each, form, publisher in errors)
    yield "Expected errors are stated before data are read", Verdict.YES, expected
    joint = "all at once" if plan.joint else "each"
    yield "Numbers have intervals", Verdict.YES, f"at {plan.level:.0%}, {joint}, for the noise alone"
    bias = "numbers are kept in range, which moves them; the column bias bounds by how much"
    yield "Bias by the noise is stated", Verdict.YES, bias
    yield (
        "Bias before the noise is stated",
        Verdict.YES,
        "; ".join(dict.fromkeys(scopes(plan))) or "every row counts as it is",
    )
    small = "numbers whose interval is wider than the number are marked unreliable"
    yield "Numbers of small groups are marked where they say little", Verdict.YES, small
    fair = "whether errors fall on some groups of people more than on others, and what follows, is for people to judge"
    yield "Systemic and human bias were considered", Verdict.OPEN, fair
    yield "Post-processing is stated", Verdict.YES, " ".join(post_processing(plan))


def _deployment() -> Iterator[_Found]:
    trust = "central: the one who runs the release may see the table; who that is, and why, is for people to say"
    yield "The trust model is stated", Verdict.OPEN, trust
    exact = f"{software()}: sums of whole numbers are exact, noise is drawn exactly on a public lattice"
    yield "Floating point does not leak", Verdict.YES, exact
    yield (
        "Random bits are secure",
        Verdict.YES,
        "AES-256 in counter mode, keyed by the operating system, keyed anew after a fork",
    )
    time = "that of a draw does not depend on the answer, that of a release is not hidden; let nobody measure it"
    yield "The time that a release takes is hidden", Verdict.NO, time
    yield (
        "Errors and the number of rows reveal nothing",
        Verdict.YES,
        "neither depends on the data, but through partition selection",
    )
    yield (
        "Access to the table is controlled",
        Verdict.OPEN,
        "how the table is secured, logged and kept is for people to say",
    )
    yield (
        "As little as possible is gathered and kept",
        Verdict.OPEN,
        "the guarantee is for what is published, not for what is collected",
    )


def _yes(holds: bool) -> Verdict:
    return Verdict.YES if holds else Verdict.NO
