"""The record of a release for the Differential Privacy Deployments Registry, as far as plan and ledger know it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rangebound.errors import ArgumentTypeError, plain
from rangebound.ledger.record import Account, Record
from rangebound.release.output.facts import PlanFacts, plan_facts, stated, stated_ranges
from rangebound.release.output.table import plan_json, sha256
from rangebound.release.plan.fields import bounds
from rangebound.release.plan.model import Plan
from rangebound.values import arguments
from rangebound.values.extras import need

OPEN = "OPEN: "
"""What a field begins with, or a part of one, that only people can fill in."""
_NOISE = "Nothing that is computed from the data is published without noise"
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
    facts = plan_facts(plan)
    title, promised = facts.plan.title, [_promise(account)] if account else []
    return {
        "url_slug": re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")[:80]
        or f"{OPEN}a short name for the address of the record",
        "deployment": {
            "basic": {
                "name": title or f"{OPEN}the name of the table",
                "data_curators": [
                    {
                        "data_curator_name": f"{OPEN}who publishes the table",
                        "data_curator_type": f"{OPEN}Government, Industry or Nonprofit",
                    }
                ],
                "description": _lines(
                    "A table of statistics with noise.", *(f"- {each.question.described()}" for each in facts.questions)
                ),
                "intended_use": f"{OPEN}what the table is for",
                "data_product_type": "Summary statistics",
                "data_product_region": f"{OPEN}which region the data describe",
                "data_product_sector": f"{OPEN}such as Government or Healthcare",
                "publication_date": entry.time.date().isoformat() if entry else f"{OPEN}the date of publication",
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if facts.plan.budget.delta else "Pure DP",
                "data_domain": _domain(facts.plan),
                "unprotected_quantities": _unprotected(facts.plan),
            },
            "privacy_loss": _privacy_loss(facts, promised),
            "deployment_model": _model(entry, account),
            "implementation": _implementation(facts, certificate, entry, promised),
            "administrative": {
                "evidence_sources": {
                    "publication": {
                        "evidence_source_type": f"{OPEN}such as Formal publication by the deploying organization",
                        "misc": {"title": plain(title) or f"{OPEN}title", "url": f"{OPEN}where it is published"},
                    }
                },
                "status": "Draft",
                "registry_authors": [f"{OPEN}who fills in this record"],
                "tier": 3,
            },
        },
    }


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


def _domain(plan: Plan) -> str:
    owner = plan.unit.column
    said = ["All tables with the columns that the plan names, whatever their rows."]
    said += [] if owner is None else [f"Rows without a value in {owner!r} do not count."]
    said += [f"Joined: {each.words}." for each in plan.join or ()]
    said += [] if plan.zone is None else [f"Timestamps with a time zone are read as local time in {plan.zone}."]
    return _lines(*said, f"{OPEN}what the rows are, and how they were gathered")


def _unprotected(plan: Plan) -> str:
    """What a plan states as public, and so does not protect, one line each."""
    said = [] if plan.unit.size is None else [f"the number of units, {plan.unit.size}"]
    for column in sorted(plan.listed_columns):
        keys = plan.columns((column,))[0]
        more = f" and {len(keys) - _MANY} more" if len(keys) > _MANY else ""
        said.append(f"the keys of {column!r}: {', '.join(map(repr, keys[:_MANY]))}{more}")
    said += [f"the range of {column!r}, {bounds(ends)}" for column, ends in stated_ranges(plan).items()]
    if not said:
        return f"{_NOISE}. The plan states neither a size nor keys nor ranges."
    head = f"{_NOISE}. Stated as public in the plan, and not protected:"
    return _lines(head, *(f"- {each}" for each in said))


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


def _privacy_loss(facts: PlanFacts, promised: list[str]) -> dict[str, object]:
    budget, unit = facts.plan.budget, facts.plan.unit
    named, whose = "A single row", f"{OPEN}what a row stands for, such as a visit or a person"
    same = "row"
    if unit.column is not None:
        named = f"The owner of rows, by column {unit.column!r}"
        whose = f"{OPEN}what {unit.column!r} names, such as a person, a household or a business"
        same = f"unit{'' if unit.replaced else ' more'}, with all rows that have its value in {unit.column!r},"
    elif not unit.replaced:
        same = "row more"
    change = f"Two tables are neighbours if one has one {same} than the other."
    if unit.replaced:
        change = f"Two tables are neighbours if they differ in one {same} of {unit.size}."
    return {
        "privacy_unit": plain(f"{named}. {whose}"),
        "privacy_unit_details": _lines(change, *_contribution_bounds(facts.plan)),
        "number_of_privacy_units": unit.size or f"{OPEN}about how many units the table has",
        "privacy_parameters": {"epsilon": budget.epsilon} | ({"delta": budget.delta} if budget.delta else {}),
        "privacy_parameters_details": _lines(
            "The noise was chosen in a Gaussian account, and epsilon and delta are converted from its mu."
            if facts.ready.allocation.mu
            else "The noise was chosen by epsilon and delta themselves, as plain sums.",
            str(facts.conversions),
            facts.odds,
            *promised,
        ),
    }


def _promise(account: Account | None) -> str:
    if account is None:
        return f"{OPEN}what the account of the budget promises in all, beyond this release"
    total = f"epsilon {account.epsilon}, delta {account.delta}"
    return account.weaker_promise or f"All releases of account {account.name!r} together are within {total}, for good."


def _model(entry: Record | None, account: Account | None) -> dict[str, object]:
    reset = account is not None and account.period is not None
    paid = [] if entry is None else [f"This release is request {entry.request!r}, charged on {entry.time.date()}."]
    if account is not None:
        paid.append(f"Account {account.name!r} has paid for {arguments.counted(account.spends, 'charge')} so far.")
    return {
        "model_name": "Central",
        "model_name_details": "The table stays where it is, and exact sums stay in the process that draws the noise.",
        "trust_assumptions": f"{OPEN}who may see the table itself, and why they are trusted",
        "actors": f"{OPEN}who has the table, who runs the release, who reads what is published",
        "release_type": "Many releases" if reset else f"{OPEN}One release or Many releases",
        "release_type_details": _lines(*paid, _promise(account), f"{OPEN}plans for further releases of these data"),
        "data_source_type": f"{OPEN}Static or Dynamic",
        "data_source_type_details": f"{OPEN}whether rows are added over time",
        "access_type": "Non-interactive",
        "access_type_details": "All questions were fixed in a plan before data were read; readers get the table.",
    }


def _implementation(facts: PlanFacts, certificate: str, entry: Record | None, promised: list[str]) -> dict[str, object]:
    plan, software = facts.plan, f"rangebound {import_module('rangebound').__version__}"  # it is above this room
    named = [(each.question.name, each) for each in facts.questions]
    composed = f"by sequential composition: epsilons and deltas add up to {plan.budget}."
    if facts.ready.allocation.mu:
        composed = f"in one Gaussian account: squares of mu add up, and become {plan.budget} in the end."
    after = ["Numbers that are made of several noisy ones, such as a mean of a sum and a count, are computed of these."]
    if plan.consistent:
        after.append("Counts that belong together were moved so that they add up, and quantiles into order.")
    shown = [repr(each.name) for each in plan.query if each.allowed.hull != each.natural]
    after += [f"Answers were moved into a support of their own: {', '.join(shown)}."] if shown else []
    proofs, published = [f"Plan: SHA-256 {sha256(plan_json(plan).encode())}."], stated(certificate, "published")
    if published and isinstance(published, str):
        proofs.append(f"Published bytes: SHA-256 {published}, as the certificate states.")
    if entry is not None:
        proofs.append(f"Ledger: account {entry.account!r}, request {entry.request!r}, entry {entry.head}.")
    return {
        "preprocessing_and_hyperparameter_tuning": _lines(
            "Before the noise, by the plan alone:",
            *(
                f"- {name}: {scope or 'every row counts as it is'}"
                for (name, _), scope in zip(named, facts.scopes, strict=True)
            ),
            f"{OPEN}whether ranges, keys, bounds or epsilon were chosen by looking at the data, and what that cost",
        ),
        "mechanisms": _lines(
            *(f"- {name}: {each.publisher.words()}" for name, each in named),
            *(
                f"- keys of {', '.join(map(repr, by))}: selected privately, with delta "
                f"{arguments.upwards(share.delta)} each"
                for by, share in facts.ready.allocation.selections.items()
            ),
            f"- {software}" + (", which has proved the claim of each number" if certificate else ""),
            "- floating point: sums are exact whole numbers, and noise is drawn exactly on a public lattice",
            "- random bits: AES-256 in counter mode, keyed by the operating system",
            "- time: that of a draw does not depend on the answer; that of a release is not hidden",
            f"- {OPEN}how the table itself is secured, and who has access to it",
        ),
        "composition": _lines(f"{arguments.counted(len(named), 'question')} {composed}", *promised),
        "post_processing": _lines(
            *after, "Every number lies in its public support; a bound on the bias of that is in the table."
        ),
        "justification": f"{OPEN}how epsilon, unit, ranges and bounds were chosen, by whom, and why",
        "utility": _lines("Expected errors, by the plan alone:", *(f"- {name}: {each.error}" for name, each in named)),
        "additional_information": _lines(*proofs, f"{OPEN}where plan, table and certificate are published"),
    }


def _lines(*said: str) -> str:
    """One line for each text, however it was written; a single one stays as it is."""
    lines = [plain(each) for each in said]
    return lines[0] if len(lines) == 1 else "".join(f"{line}\n" for line in lines)


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
