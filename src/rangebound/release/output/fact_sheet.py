"""A fact sheet of a release: what the plan, its certificate and the ledger prove of what NIST SP 800-226 asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from rangebound.errors import plain
from rangebound.ledger.record import Account, Record
from rangebound.release.output.facts import LARGE_EPSILON, stated, stated_ranges
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.prepare import prepare
from rangebound.values import arguments


class Verdict(StrEnum):
    """Whether a requirement is met; `OPEN` where what would say so is not at hand."""

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


def fact_sheet(
    plan: Plan | Mapping[str, object],
    *,
    certificate: str = "",
    entry: Record | None = None,
    account: Account | None = None,
) -> tuple[Requirement, ...]:
    """Eight questions on the topics of the guide whose answers follow from the plan, or from what is at hand beside it.

    They are in our words, and were not matched to its text clause by clause; it touches no data. [near2025] What the
    guide asks of people is not here: `record` leaves these fields open.

    The arguments are those of `rangebound.release.output.deployment_record.record`.

    Guarantee: a `yes` has its evidence in the plan, the certificate or the ledger; what would be in one that is not at
    hand is `open`, and what is not met is a `no`.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> found = fact_sheet(plan)
    >>> print(len(found), *(each.asked for each in found if each.verdict == "no"), sep="\\n")
    8
    The claim of each number is proved, and can be checked
    All rows of an owner are protected together
    The budget is kept by a ledger
    """
    plan = as_plan(plan)
    prepare(plan)  # what cannot be released has no sheet
    return (*_of_plan(plan, certificate), *_of_ledger(plan, entry, account))


def fact_sheet_text(found: tuple[Requirement, ...], title: str = "") -> str:
    """A fact sheet as Markdown.

    Guarantee: whatever the texts of the plan are, they are shown as they are: no markup of theirs is followed.

    >>> one = Requirement(topic="Unit", asked="It is stated", verdict=Verdict.YES, evidence="by '<b>|x'")
    >>> print(fact_sheet_text((one,), "*Visits*"), end="")
    # Fact sheet: \\*Visits\\*
    <BLANKLINE>
    Questions of our own on the topics of NIST SP 800-226: 1 yes, 0 no, 0 open.
    <BLANKLINE>
    ## Unit
    <BLANKLINE>
    | asked | answer | evidence |
    | --- | --- | --- |
    | It is stated | yes | by '\\<b\\>\\|x' |
    """
    counts = ", ".join(f"{sum(each.verdict is one for each in found)} {one}" for one in Verdict)
    lines = [f"# Fact sheet: {markdown_text(title or 'a release')}", ""]
    lines.append(f"Questions of our own on the topics of NIST SP 800-226: {counts}.")
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


def _required(topic: str, asked: str, met: bool | None, evidence: str) -> Requirement:
    """What is asked on a topic, whether it is met (None where that is open), and the evidence."""
    verdict = Verdict.OPEN if met is None else Verdict.YES if met else Verdict.NO
    return Requirement(topic=topic, asked=asked, verdict=verdict, evidence=plain(evidence))


def _of_plan(plan: Plan, certificate: str) -> Iterator[Requirement]:
    """What plan and certificate answer."""
    epsilon, delta, size, column = plan.budget.epsilon, plan.budget.delta, plan.unit.size, plan.unit.column
    topic = "The guarantee"
    said = f"{plan.budget} for all numbers together, {plan.unit.neighbours} neighbours"
    yield _required(topic, f"Epsilon is at most {LARGE_EPSILON:g}", epsilon <= LARGE_EPSILON, said)
    small: bool | None = None
    said = f"delta {arguments.upwards(delta)}; how many units there are is not public in the plan"
    if not delta:
        small, said = True, "delta is 0"
    elif size is not None:
        small = delta * size < 1.0
        said = f"delta {arguments.upwards(delta)}, 1 over {arguments.counted(size, 'unit')} is {1 / size:.3g}"
    yield _required(topic, "Delta is below 1 over the number of units", small, said)
    published = stated(certificate, "published")
    proved, said = isinstance(published, str) and bool(published), "there is no certificate before the release"
    if proved:
        said = f"certificate of the published bytes, SHA-256 {published}; rangebound verify checks it"
    yield _required(topic, "The claim of each number is proved, and can be checked", proved, said)
    topic, said = "The unit of privacy", "the unit is a single row"
    if column is not None:
        said = f"all rows with the same value in {column!r} are one unit; what the column names is for people to say"
    yield _required(topic, "All rows of an owner are protected together", False if column is None else None, said)
    measured, said = plan.report_clipping, "report_clipping is off"
    if column is None and not stated_ranges(plan):
        measured, said = True, "nothing is cut"
    elif measured:
        said = "report_clipping asks how much is cut, for a share of epsilon"
    yield _required(topic, "What contribution bounds and clipping cut is measured", measured, said)


def _of_ledger(plan: Plan, entry: Record | None, account: Account | None) -> Iterator[Requirement]:
    """What ledger and account answer, as far as these are at hand."""
    topic, said = "Composition", "the plan names no account"
    kept: bool | None = False
    if entry is not None:
        kept = True
        said = f"charged before data were read: account {entry.account!r}, request {entry.request!r}, {entry.head}"
    elif plan.budget.account is not None:
        kept, said = None, f"account {plan.budget.account!r}, not charged yet"
    yield _required(topic, "The budget is kept by a ledger", kept, said)
    total, approved = "Releases over time have one total", "A release needs the approval of a person"
    if account is None:
        yield _required(topic, total, None, "the account is not at hand")
        yield _required(topic, approved, None, "the account is not at hand")
        return
    whole = f"account {account.name!r} has epsilon {account.epsilon}, delta {account.delta} for good"
    yield _required(topic, total, account.weaker_promise is None, account.weaker_promise or whole)
    said = "none is needed" if account.approval is None else f"the account asks for it, by {account.approval.value}"
    yield _required(topic, approved, account.approval is not None, said)
