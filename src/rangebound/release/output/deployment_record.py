"""What plan, certificate and ledger know of a release, for others who ask: a record and a fact sheet.

The record is for the Differential Privacy Deployments Registry; the fact sheet answers what NIST SP 800-226 asks for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import import_module
from importlib.resources import files
from typing import Any

from rangebound.errors import ArgumentTypeError, plain
from rangebound.ledger.record import Account, Record
from rangebound.release.output.plan_facts import (
    LARGE_EPSILON,
    PlanFacts,
    plan_facts,
    plan_json,
    sha256,
    stated,
    stated_ranges,
)
from rangebound.release.plan.fields import bounds
from rangebound.release.plan.model import Plan
from rangebound.values import arguments
from rangebound.values.extras import need

OPEN = "OPEN: "
"""What a field begins with, or a part of one, that only people can fill in."""
_MANY = 20  # keys of a column that a record lists; the plan has all
_HEAD = """\
# A record for the Differential Privacy Deployments Registry, by its schema, tier 3.
# Made of the plan{also}; what these do not know begins with OPEN and is for you to fill in.
# Open:
{fields}
"""


def record(
    plan: Plan | Mapping[str, object],
    *,
    certificate: str = "",
    entry: Record | None = None,
    account: Account | None = None,
) -> dict[str, object]:
    """The fields of the registry's schema, tier 3, as plain data; touches no data. [nanayakkara2025]

    `certificate` is the text of the release's certificate, `entry` the charge in the ledger, `account` the one that
    paid; each is optional, and what it alone knows is open without it.

    Guarantee: nothing is made up. A field that neither plan nor certificate nor ledger knows begins with `OPEN`, and
    one that they know in part has a line that does; `open_fields` names them. Texts of the plan are on one line each.
    Edge cases: where an open field is one of a few words (such as the curator's type), the record is valid by the
    registry's schema only once it is filled in.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> record(plan)["deployment"]["dp_variant"]["variant_name"]
    'Pure DP'
    """
    known = _known(plan_facts(plan), certificate, entry, account)

    def filled(field: Any) -> Any:
        if isinstance(field, dict):
            return {name: filled(each) for name, each in field.items()}
        if isinstance(field, list):
            return [filled(each) for each in field]
        if not isinstance(field, str):
            return field
        lines = [known[line[1:-1]] if line.startswith("{") else line for line in field.splitlines()]
        if not field.endswith("\n"):
            return lines[0]
        said = [plain(str(each)) for line in lines for each in (line if isinstance(line, list) else [line])]
        return said[0] if len(said) == 1 else "".join(f"{each}\n" for each in said)

    fields = files("rangebound.release.output") / "registry_record.toml"
    return {name: filled(field) for name, field in tomllib.loads(fields.read_text(encoding="utf-8")).items()}


def record_text(found: Mapping[str, object], *, also: str = "") -> str:
    """A record as YAML, with a comment on top that names the open fields.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> record_text(record(plan)).splitlines()[1]
    '# Made of the plan; what these do not know begins with OPEN and is for you to fill in.'
    """
    return _HEAD.format(also=also, fields="\n".join(f"#   {each}" for each in open_fields(found))) + yaml_text(found)


def open_fields(found: object, path: str = "") -> list[str]:
    """The paths of the fields that are open, wholly or in part, in the order of the record.

    >>> open_fields({"a": "OPEN: who", "b": [{"c": "known", "d": "known\\nOPEN: the rest\\n"}]})
    ['a', 'b.0.d']
    """
    if isinstance(found, str):
        return [path] if OPEN in found else []
    parts = found.items() if isinstance(found, Mapping) else enumerate(found) if isinstance(found, list) else ()
    return [each for name, part in parts for each in open_fields(part, f"{path}.{name}" if path else str(name))]


def _known(
    facts: PlanFacts, certificate: str, entry: Record | None, account: Account | None
) -> dict[str, str | int | list[str] | dict[str, float]]:
    """What plan, certificate and ledger know, by its name in the record: a list of lines, or a value."""
    plan, budget, unit, mu = facts.plan, facts.plan.budget, facts.plan.unit, facts.ready.allocation.mu
    domain = [f"Rows without a value in {unit.column!r} do not count."] if unit.column is not None else []
    domain += [f"Joined: {each.words}." for each in plan.join or ()]
    domain += [f"Timestamps with a time zone are read as local time in {plan.zone}."] if plan.zone is not None else []
    named, whose, same = "A single row", "what a row stands for, such as a visit or a person", "row"
    if unit.column is not None:
        named = f"The owner of rows, by column {unit.column!r}"
        whose = f"what {unit.column!r} names, such as a person, a household or a business"
        same = f"unit{'' if unit.replaced else ' more'}, with all rows that have its value in {unit.column!r},"
    elif not unit.replaced:
        same = "row more"
    change = f"they differ in one {same} of {unit.size}" if unit.replaced else f"one has one {same} than the other"
    by_itself = "The noise was chosen by epsilon and delta themselves, as plain sums."
    converted = "The noise was chosen in a Gaussian account, and epsilon and delta are converted from its mu."
    added_up = f"by sequential composition: epsilons and deltas add up to {budget}."
    squared = f"in one Gaussian account: squares of mu add up, and become {budget} in the end."
    fitted = "Counts that belong together were moved so that they add up, and quantiles into order."
    shown = [repr(each.name) for each in plan.query if each.allowed.hull != each.natural]
    promise = "" if account is None else account.weaker_promise
    if account is not None and not promise:
        total = f"epsilon {account.epsilon}, delta {account.delta}"
        promise = f"All releases of account {account.name!r} together are within {total}, for good."
    paid = [] if entry is None else [f"This release is request {entry.request!r}, charged on {entry.time.date()}."]
    if account is not None:
        paid.append(f"Account {account.name!r} has paid for {arguments.counted(account.spends, 'charge')} so far.")
    proofs, published = [f"Plan: SHA-256 {sha256(plan_json(plan).encode())}."], stated(certificate, "published")
    if published and isinstance(published, str):
        proofs.append(f"Published bytes: SHA-256 {published}, as the certificate states.")
    if entry is not None:
        proofs.append(f"Ledger: account {entry.account!r}, request {entry.request!r}, entry {entry.head}.")
    software = f"- rangebound {import_module('rangebound').__version__}"  # the package is above this room
    names = [(each.question.name, each) for each in facts.questions]
    slug = re.sub("[^a-z0-9]+", "-", plan.title.lower()).strip("-")[:80]
    return {
        "slug": slug or f"{OPEN}a short name for the address of the record",
        "title": plan.title or f"{OPEN}the name of the table",
        "published_title": plain(plan.title) or f"{OPEN}title",
        "publication_date": entry.time.date().isoformat() if entry else f"{OPEN}the date of publication",
        "described": [f"- {each.question.described()}" for each in facts.questions],
        "variant": "Approximate DP" if budget.delta else "Pure DP",
        "domain": domain,
        "unprotected": _unprotected(plan),
        "unit": plain(f"{named}. {OPEN}{whose}"),
        "neighbours": f"Two tables are neighbours if {change}.",
        "contribution_bounds": _contribution_bounds(plan),
        "size": unit.size or f"{OPEN}about how many units the table has",
        "parameters": {"epsilon": budget.epsilon} | ({"delta": budget.delta} if budget.delta else {}),
        "accounting": converted if mu else by_itself,
        "conversions": str(facts.conversions),
        "odds": facts.odds,
        "release_type": "Many releases" if account and account.period else f"{OPEN}One release or Many releases",
        "paid": paid,
        "promise": promise or f"{OPEN}what the account of the budget promises in all, beyond this release",
        "promised": [promise] if promise else [],
        "scopes": [
            f"- {name}: {scope or 'every row counts as it is'}"
            for (name, _), scope in zip(names, facts.scopes, strict=True)
        ],
        "mechanisms": [f"- {name}: {each.publisher.words()}" for name, each in names],
        "selections": [
            f"- keys of {', '.join(map(repr, by))}: selected privately, with delta {arguments.upwards(each.delta)} each"
            for by, each in facts.ready.allocation.selections.items()
        ],
        "software": software + (", which has proved the claim of each number" if certificate else ""),
        "composition": f"{arguments.counted(len(names), 'question')} {squared if mu else added_up}",
        "moved": [
            *([fitted] if plan.consistent else []),
            *([f"Answers were moved into a support of their own: {', '.join(shown)}."] if shown else []),
        ],
        "errors": [f"- {name}: {each.error}" for name, each in names],
        "proofs": proofs,
    }


def _unprotected(plan: Plan) -> list[str]:
    """What a plan states as public, and so does not protect, one line each."""
    noise = "Nothing that is computed from the data is published without noise"
    said = [] if plan.unit.size is None else [f"the number of units, {plan.unit.size}"]
    for column in sorted(plan.listed_columns):
        keys = plan.columns((column,))[0]
        more = f" and {len(keys) - _MANY} more" if len(keys) > _MANY else ""
        said.append(f"the keys of {column!r}: {', '.join(map(repr, keys[:_MANY]))}{more}")
    said += [f"the range of {column!r}, {bounds(ends)}" for column, ends in stated_ranges(plan).items()]
    if not said:
        return [f"{noise}. The plan states neither a size nor keys nor ranges."]
    return [f"{noise}. Stated as public in the plan, and not protected:", *(f"- {each}" for each in said)]


def _contribution_bounds(plan: Plan) -> list[str]:
    """How many rows and groups of a unit count, for the plan and for questions with bounds of their own."""
    if plan.per_unit is not None:
        return [f"All rows of a unit become one row, by {plan.unit.column!r}, before anything is counted."]
    if plan.counted_unit.column is None:
        return ["A unit is one row, so nothing has to be cut."]
    found: dict[str, list[str]] = {}
    for question in plan.query:
        own = plan.unit_of(question)
        groups, rows = arguments.counted(own.groups, "group"), arguments.counted(own.rows, "row")
        each = f" and {own.period}" if own.period else ""
        found.setdefault(f"at most {groups} of a unit and {rows} in each{each} count", []).append(repr(question.name))
    return [f"{bound}: {', '.join(names)}." for bound, names in found.items()]


def yaml_text(data: Mapping[str, object]) -> str:
    """Mappings, lists, texts, numbers and truth values as YAML, in their order.

    Guarantee: a text is read back as it is, whatever is in it: it stands in double quotes with escapes, or, where it
    has several lines of printable letters, as a block that people can edit. No text is taken for a number, a date, a
    truth value or a comment. Numbers are written with a point, which readers of YAML 1.1 need.

    >>> print(yaml_text({"name": "no", "delta": 1e-06, "of": ["a: b", "# c"], "said": "one\\ntwo\\n"}), end="")
    name: "no"
    delta: 1.0e-06
    of:
    - "a: b"
    - "# c"
    said: |
      one
      two
    """
    need("yaml", what="a record in YAML")
    import yaml

    def written(dumper: Any, text: str) -> Any:
        block = text.count("\n") > 1 and text.endswith("\n") and text.replace("\n", "").isprintable()
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else '"')

    def mapping(dumper: Any, data: Mapping[str, object]) -> Any:
        node = dumper.represent_mapping("tag:yaml.org,2002:map", list(data.items()))
        for name, _ in node.value:
            if str(name.value).isprintable():
                name.style = None  # in quotation marks only where it must be
        return node

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, written)
    dumper.add_representer(dict, mapping)
    try:
        found = str(yaml.dump(dict(data), Dumper=dumper, sort_keys=False, allow_unicode=True, width=float("inf")))
    except yaml.representer.RepresenterError as reason:
        kind = type(reason.args[-1]).__name__
        raise ArgumentTypeError(f"value of type {kind}: must be a mapping, a list, a text or a number") from None
    return "".join(each if each.isprintable() or each == "\n" else f"\\u{ord(each):04x}" for each in found)


class Verdict(StrEnum):
    """Whether a requirement is met; `OPEN` where what would say so is not at hand."""

    YES = "yes"
    NO = "no"
    OPEN = "open"


@arguments.brief
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

    The arguments are those of `record`.

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
    plan = plan_facts(plan).plan  # what cannot be released has no sheet
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
    published, said = stated(certificate, "published"), "there is no certificate before the release"
    if proved := isinstance(published, str) and bool(published):
        said = f"certificate of the published bytes, SHA-256 {published}; rangebound verify checks it, and the page "
        said += "verifier/index.html of the documentation compares the bytes in a browser"
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
