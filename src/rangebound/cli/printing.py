"""Accounts, histories and reports on standard output: as a table, or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rangebound.errors import plain
from rangebound.ledger.export import ExportReport
from rangebound.ledger.guarded_chain import Report
from rangebound.ledger.record import Account, ApprovalRequest, Record
from rangebound.ledger.replay import Approval
from rangebound.ledger.rule import AnyCost, Cost, PlainSum, Rule
from rangebound.values.arguments import counted, upwards

if TYPE_CHECKING:
    from rangebound.ledger.book import Ledger
    from rangebound.release.asked_in_sql import Answer
    from rangebound.release.output.ledger_entry import ChargeFinding
    from rangebound.release.output.solution import Solution
    from rangebound.release.output.table import Release
    from rangebound.release.plan.model import Plan
    from rangebound.release.sql.relation import View

_APPROVERS = {Approval.OTHERS: "another person than the one who asks", Approval.ANYONE: "anyone"}
_TIME = "%Y-%m-%d %H:%M:%S"
_PIPE = 200  # columns, where there is no terminal


def accounts(found: list[Account], head: str, *, as_json: bool) -> None:
    """The state of the accounts."""
    if as_json:
        return _print_json({"accounts": [each.to_dict() for each in found], "head": head})
    table = _table("account", "promise", "rule", "spent", "remaining", "spends")
    for each in found:
        promise = f"epsilon {each.epsilon}, delta {each.delta}" + (f" each {each.period.value}" if each.period else "")
        _add(table, each.name, promise, _rule(each.rule), each.spent, each.remaining, each.spends)
    words = [f"{plain(each.name)} has left: {each.left}" for each in found if each.left != str(each.remaining)]
    words += [f"{plain(each.name)} needs approval by {_APPROVERS[each.approval]}" for each in found if each.approval]
    words += [plain(f"{each.weaker_promise} {_so_far(each)}") for each in found if each.weaker_promise]
    _print(table, *words, f"head {head}")


def _so_far(account: Account) -> str:
    """How many periods an account has spent in, and what is left of which."""
    assert account.period is not None
    so_far = counted(account.periods, account.period.value)
    return f"Spent in {so_far} so far; what is left is of {account.current}."


def team_ledger(roles: list[str], key: str, head: str, *, as_json: bool) -> None:
    """A ledger that was made for a team."""
    if as_json:
        return _print_json({"roles": roles, "key": key, "head": head})
    _print(
        f"roles {', '.join(roles)}: grant each person one of them",
        f"key {plain(key)}: hand a copy to everyone who uses the ledger",
        f"head {head}",
    )


def history(records: list[Record], *, as_json: bool) -> None:
    """Entries in their order."""
    if as_json:
        return _print_json([record.to_dict() for record in records])
    table = _table("entry", "time (UTC)", "kind", "account", "request", "cost", "who", "what", "note")
    for each in records:
        time = f"{each.time:{_TIME}}"
        what = "" if each.kind in ("account", "ledger") else each.what
        _add(table, each.seq, time, each.kind, each.account, each.request, each.cost, each.who, what, each.note)
    _print(table)


def requests(found: list[ApprovalRequest], *, as_json: bool) -> None:
    """Requests that wait for approval, or were decided."""
    if as_json:
        return _print_json([each.to_dict() for each in found])
    table = _table("request", "account", "cost", "who", "filed (UTC)", "status", "decided by", "reason", "note")
    for each in found:
        status = f"{each.status.value}, charged" if each.charged else each.status.value
        decision = (status, each.decided_by, each.reason, each.note)
        _add(table, each.request, each.account, each.cost, each.who, f"{each.filed:{_TIME}}", *decision)
    _print(table)


def filed(found: ApprovalRequest, dry_run: bytes, *, as_json: bool) -> None:
    """A request with the dry run that it was filed with: of a plan in words, of anything else as it is."""
    try:
        data = json.loads(dry_run)
    except ValueError:
        data = dry_run.decode(errors="replace")
    if as_json:
        return _print_json({**found.to_dict(), "dry_run": data})
    requests([found], as_json=False)
    text = data.get("explained", data) if isinstance(data, dict) else data
    lines = text if isinstance(text, str) else json.dumps(text, indent=1, ensure_ascii=False)
    _print("", *map(plain, lines.splitlines()))


def report(found: Report, charges: Sequence[ChargeFinding] | None, *, as_json: bool) -> None:
    """A check that found nothing wrong with a ledger, and the `charges` of releases that were too small, if known."""
    if as_json:
        listed = None if charges is None else [each.to_dict() for each in charges]
        return _print_json({"ok": True, **asdict(found), "charges": listed})
    _print(*_checked(found), *(plain(f"warning: {each}") for each in charges or ()), f"head {found.head}")


def _checked(found: Report | ExportReport) -> list[str]:
    notes = {"the clock was set back before entry": found.clock_set_back}
    if isinstance(found, Report):
        notes["charged by one login and completed by another: entry"] = found.by_another
        notes["approved for one login and spent by another: entry"] = found.taken_up
        notes["approved by the login that asked, under another name: entry"] = found.one_login
        notes["spent or completed under another name, and no login tells by whom: entry"] = found.not_told
    said = [f"{words} {', '.join(map(str, entries))}" for words, entries in notes.items() if entries]
    return [f"ok: {counted(found.entries, 'entry', 'entries')}, all as written", *said]


def export_report(found: ExportReport, *, as_json: bool) -> None:
    """A check of an export that found nothing wrong, and the accounts as they stood at its end."""
    if as_json:
        facts = {"entries": found.entries, "head": found.head, "clock_set_back": found.clock_set_back}
        return _print_json({"ok": True, **facts, "accounts": [each.to_dict() for each in found.accounts]})
    _print(*_checked(found))
    if not all(isinstance(each.rule, PlainSum) for each in found.accounts):
        _print("charges were not compared with published tables, which an export does not contain; verify the ledger")
    accounts(list(found.accounts), found.head, as_json=False)


def cautions(plan: Plan, seen: View) -> None:
    """Warnings before a charge, on standard error."""
    from rangebound.release.plan.cautions import cautions as found

    for each in found(plan, seen.schema, seen.before_units):
        sys.stderr.write(f"warning: {plain(each)}\n")


def fact(data: Mapping[str, object], words: str, *, as_json: bool) -> None:
    """A few facts, in words or as JSON."""
    if as_json:
        return _print_json(data)
    sys.stdout.write(words + "\n")


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a release has cost: nothing more if its request was published before."""

    request: str
    before: bool
    account: Account
    cost: AnyCost

    def to_dict(self) -> dict[str, object]:
        """The charge as plain data; `charged` is in the terms of the account."""
        charged, left = self.cost.to_dict(), self.account.remaining.to_dict()
        facts = {"account": self.account.name, "request": self.request, "before": self.before}
        return {**facts, "charged": charged, "remaining": left}

    def words(self, cost: str) -> str:
        """The charge in a line; `cost` is that of the plan, where the account adds no plain sums and has another."""
        spent = str(self.cost) if isinstance(self.cost, Cost) else f"{cost}, charged as {self.cost}"
        again = f"request {self.request!r} was published before and costs nothing more"
        paid = again if self.before else f"spent {spent}"
        within = f" in {self.account.current}" if self.account.current else ""
        return f"{paid}; account {self.account.name!r} has {self.account.left} left{within}"

    def lines(self, cost: str) -> list[str]:
        """The charge in a line, and what an account with periods promises in another."""
        promise = self.account.weaker_promise
        return [self.words(cost), *([] if promise is None else [promise])]


def charge(ledger: Ledger, request: str, *, before: bool, account: str) -> Charge:
    """What a request was charged, as the ledger has it."""
    paid = ledger.paid(request)
    assert paid is not None
    assert paid.cost is not None
    return Charge(request=request, before=before, account=ledger.account(account), cost=paid.cost)


def forecast(plan: Plan, facts: Mapping[str, object], *, account: Account | None = None, as_json: bool) -> None:
    """A plan in words, and a table of what each question will look like; `account` is the one that would pay."""
    from rangebound.release import explain
    from rangebound.release import forecast as outlooks
    from rangebound.release.output.explain import dry_run
    from rangebound.release.output.forecast import COLUMNS, outlook_cells
    from rangebound.release.output.hazards import hazards

    if as_json:
        return _print_json({**facts, **dry_run(plan, account=account)})
    table = _table(*COLUMNS)
    for each in outlook_cells(outlooks(plan)):
        _add(table, *each)
    _print(explain(plan, account=account), "", table, *(f"warning: {each}" for each in hazards(plan, account=account)))


def solution(found: Solution, *, as_json: bool) -> None:
    """The smallest epsilon that meets all margins, and what each question gets."""
    if as_json:
        return _print_json({**found.to_dict(), "changed": False})
    table = _table("query", "margin", "half-width", "share")
    for each in found.questions:
        margin = None if each.margin is None else f"{each.margin:g}"
        width = "by the data" if each.half_width is None else f"{each.half_width:.4g}"
        _add(table, each.query, margin, width, f"{upwards(100 * each.share, 3)} %")
    _print(str(found), str(found.terms), table)


def table(release: Release, charge: Charge, *, as_json: bool) -> None:
    """A published table, and what it has cost."""
    from rangebound.release.output.facts import scope_lines
    from rangebound.release.output.hazards import hazards
    from rangebound.release.output.rendering import briefly, shown

    rows, warned = release.rows(), list(hazards(release.plan, account=charge.account))
    if as_json:
        notes = {"notes": list(release.notes)} if release.notes else {}
        notes |= {"warnings": warned} if warned else {}
        certificate = json.loads(release.certificate)
        privacy = {"privacy": release.facts.conversions.to_dict()} if release.facts else {}
        return _print_json({"rows": rows, **notes, "charge": charge.to_dict(), **privacy, "certificate": certificate})
    shortened = briefly(rows)
    found = _table(*(shortened[0] if shortened else ()))
    for row in shortened:
        _add(found, *(shown(name, value) for name, value in row.items()))
    said = [*scope_lines(release.plan), *(f"note: {plain(each)}" for each in release.notes)]
    said += [f"warning: {each}" for each in warned]
    _print(found, *said, *map(plain, charge.lines(str(release.plan.budget))))


def answer(found: Answer, charge: Charge, *, as_json: bool) -> None:
    """The rows of a SELECT, and what they have cost."""
    from rangebound.release.output.rendering import shown

    release = found.release
    if as_json:
        facts = {"columns": list(found.columns), "answer": found.rows(), "notes": list(found.notes)}
        facts |= {"plan": found.asked.plan.to_toml(), "rows": release.rows(), "charge": charge.to_dict()}
        return _print_json({**facts, "certificate": json.loads(release.certificate)})
    table = _table(*map(plain, found.columns))
    for row in found.rows():
        _add(table, *(shown("value", value) for value in row.values()))
    _print(table, *found.said(), *map(plain, charge.lines(str(release.plan.budget))))


def findings(found: tuple[str, ...]) -> None:
    """A check that found something wrong, as JSON."""
    _print_json({"ok": False, "findings": list(found)})


def _rule(rule: Rule) -> str:
    name, *options = rule.to_dict().items()
    return ", ".join([name[1], *(f"{option} {value}" for option, value in options)])


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*(Text("" if cell is None else plain(str(cell))) for cell in cells))


def _print(*parts: Table | str) -> None:
    console = Console(width=None if sys.stdout.isatty() else _PIPE, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


def _print_json(data: object) -> None:
    print(json.dumps(data, indent=1, ensure_ascii=False))
