"""Accounts, histories, reports and tables on standard output: as a table, or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import rangebound as rb
from rangebound.errors import plain
from rangebound.values.arguments import counted, upwards

if TYPE_CHECKING:
    from rangebound.ledger.rule import AnyCost, Rule
    from rangebound.release.output.ledger_entry import ChargeFinding
    from rangebound.release.output.plan_facts import PlanFacts

# What is slow to load is loaded where it is needed, so that help is immediate.
_APPROVERS = {"others": "another person than the one who asks", "anyone": "anyone"}
_TIME = "%Y-%m-%d %H:%M:%S"
_PIPE = 200  # columns, where there is no terminal
_FOUND = {
    "clock_set_back": "the clock was set back before entry",
    "by_another": "charged by one login and completed by another: entry",
    "taken_up": "approved for one login and spent by another: entry",
    "one_login": "approved by the login that asked, under another name: entry",
    "not_told": "spent or completed under another name, and no login tells by whom: entry",
}
"""What a report of a ledger, or of an export, names without calling it wrong."""


def accounts(found: Sequence[rb.ledger.Account], head: str, *, as_json: bool) -> None:
    """The state of the accounts."""
    if as_json:
        return data({"accounts": [each.to_dict() for each in found], "head": head})
    table: list[Sequence[object]] = [("account", "promise", "rule", "spent", "remaining", "spends")]
    for each in found:
        promise = f"epsilon {each.epsilon}, delta {each.delta}" + (f" each {each.period.value}" if each.period else "")
        table.append((each.name, promise, _rule(each.rule), each.spent, each.remaining, each.spends))
    words = [f"{plain(each.name)} has left: {each.left}" for each in found if each.left != str(each.remaining)]
    words += [f"{plain(each.name)} needs approval by {_APPROVERS[each.approval]}" for each in found if each.approval]
    for each in found:
        if each.weaker_promise and each.period:
            so_far = f"Spent in {counted(each.periods, each.period.value)} so far; what is left is of {each.current}."
            words.append(plain(f"{each.weaker_promise} {so_far}"))
    return _print(table, *words, f"head {head}")


def _rule(rule: Rule) -> str:
    name, *options = rule.to_dict().items()
    return ", ".join([name[1], *(f"{option} {value}" for option, value in options)])


def history(records: Sequence[rb.ledger.Record], *, as_json: bool) -> None:
    """Entries in their order."""
    if as_json:
        return data([record.to_dict() for record in records])
    table: list[Sequence[object]] = []
    table.append(("entry", "time (UTC)", "kind", "account", "request", "cost", "who", "what", "note"))
    for each in records:
        what = "" if each.kind in ("account", "ledger") else each.what
        whose = each.account, each.request, each.cost, each.who
        table.append((each.seq, f"{each.time:{_TIME}}", each.kind, *whose, what, each.note))
    return _print(table)


def requests(found: Sequence[rb.ledger.ApprovalRequest], *, as_json: bool) -> None:
    """Requests that wait for approval, or were decided."""
    if as_json:
        return data([each.to_dict() for each in found])
    table: list[Sequence[object]] = []
    table.append(("request", "account", "cost", "who", "filed (UTC)", "status", "decided by", "reason", "note"))
    for each in found:
        status = f"{each.status.value}, charged" if each.charged else each.status.value
        asked = each.request, each.account, each.cost, each.who, f"{each.filed:{_TIME}}"
        table.append((*asked, status, each.decided_by, each.reason, each.note))
    return _print(table)


def filed(found: rb.ledger.ApprovalRequest, dry_run: bytes, *, as_json: bool) -> None:
    """A request with the dry run that it was filed with: of a plan in words, of anything else as it is."""
    try:
        said = json.loads(dry_run)
    except ValueError:
        said = dry_run.decode(errors="replace")
    if as_json:
        return data({**found.to_dict(), "dry_run": said})
    requests([found], as_json=False)
    text = said.get("explained", said) if isinstance(said, dict) else said
    lines = text if isinstance(text, str) else json.dumps(text, indent=1, ensure_ascii=False)
    return _print("", *map(plain, lines.splitlines()))


def report(found: rb.ledger.Report, charges: Sequence[ChargeFinding] | None, *, as_json: bool) -> None:
    """A check that found nothing wrong with a ledger, and the `charges` of releases that were too small, if known."""
    if as_json:
        listed = None if charges is None else [each.to_dict() for each in charges]
        return data({"ok": True, **asdict(found), "charges": listed})
    return _print(*_checked(found), *(plain(f"warning: {each}") for each in charges or ()), f"head {found.head}")


def _checked(found: rb.ledger.Report | rb.ledger.ExportReport) -> list[str]:

    notes = {words: getattr(found, name, ()) for name, words in _FOUND.items()}
    said = [f"{words} {', '.join(map(str, entries))}" for words, entries in notes.items() if entries]
    return [f"ok: {counted(found.entries, 'entry', 'entries')}, all as written", *said]


def export_report(found: rb.ledger.ExportReport, *, as_json: bool) -> None:
    """A check of an export that found nothing wrong, and the accounts as they stood at its end."""
    if as_json:
        facts = {"entries": found.entries, "head": found.head, "clock_set_back": found.clock_set_back}
        return data({"ok": True, **facts, "accounts": [each.to_dict() for each in found.accounts]})
    _print(*_checked(found))
    if not all(isinstance(each.rule, rb.ledger.PlainSum) for each in found.accounts):
        _print("charges were not compared with published tables, which an export does not contain; verify the ledger")
    return accounts(found.accounts, found.head, as_json=False)


def fact(facts: Mapping[str, object], words: str, *, as_json: bool) -> None:
    """A few facts, in words or as JSON."""
    if as_json:
        return data(facts)
    sys.stdout.write(words + "\n")
    return None


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a release has cost: nothing more if its request was published before."""

    request: str
    before: bool
    account: rb.ledger.Account
    cost: AnyCost

    def to_dict(self) -> dict[str, object]:
        """The charge as plain data; `charged` is in the terms of the account."""
        charged, left = self.cost.to_dict(), self.account.remaining.to_dict()
        facts = {"account": self.account.name, "request": self.request, "before": self.before}
        return {**facts, "charged": charged, "remaining": left}

    def words(self, cost: str) -> str:
        """The charge in a line; `cost` is that of the plan, where the account adds no plain sums and has another."""
        spent = str(self.cost) if isinstance(self.cost, rb.Cost) else f"{cost}, charged as {self.cost}"
        again = f"request {self.request!r} was published before and costs nothing more"
        within = f" in {self.account.current}" if self.account.current else ""
        left = f"account {self.account.name!r} has {self.account.left} left{within}"
        return f"{again if self.before else f'spent {spent}'}; {left}"

    def lines(self, cost: str) -> list[str]:
        """The charge in a line, and what an account with periods promises in another."""
        promise = self.account.weaker_promise
        return [plain(each) for each in (self.words(cost), promise) if each is not None]


def charge(ledger: rb.Ledger, request: str, *, before: bool, account: str) -> Charge:
    """What a request was charged, as the ledger has it."""
    paid = ledger.paid(request)
    assert paid is not None
    assert paid.cost is not None
    return Charge(request=request, before=before, account=ledger.account(account), cost=paid.cost)


def forecast(
    found: PlanFacts, facts: Mapping[str, object], *, account: rb.ledger.Account | None = None, as_json: bool
) -> None:
    """A plan in words, and a table of what each question will look like; `account` is the one that would pay."""
    from rangebound.release.output.explain import explained, rehearsed
    from rangebound.release.output.forecast import COLUMNS, outlook_cells, outlooks
    from rangebound.release.prepare import rehearse

    rehearse(found.ready)
    if as_json:
        return data({**facts, **rehearsed(found, account)})
    warned = [f"warning: {each}" for each in rb.release.hazards(found.plan, account=account)]
    return _print(explained(found, account), "", [COLUMNS, *outlook_cells(outlooks(found))], *warned)


def solution(found: rb.release.Solution, *, as_json: bool) -> None:
    """The smallest epsilon that meets all margins, and what each question gets."""
    if as_json:
        return data({**found.to_dict(), "changed": False})
    table: list[Sequence[object]] = [("query", "margin", "half-width", "share")]
    for each in found.questions:
        margin = None if each.margin is None else f"{each.margin:g}"
        width = "by the data" if each.half_width is None else f"{each.half_width:.4g}"
        table.append((each.query, margin, width, f"{upwards(100 * each.share, 3)} %"))
    return _print(str(found), str(found.terms), table)


def table(release: rb.release.Release, charge: Charge, *, as_json: bool) -> None:
    """A published table, and what it has cost."""
    from rangebound.release.output.plan_facts import scope_lines
    from rangebound.release.output.rendering import briefly, shown

    rows, warned = release.rows(), list(rb.release.hazards(release.plan, account=charge.account))
    if as_json:
        notes = {"notes": list(release.notes)} if release.notes else {}
        notes |= {"warnings": warned} if warned else {}
        certificate = json.loads(release.certificate)
        privacy = {"privacy": release.facts.conversions.to_dict()} if release.facts else {}
        return data({"rows": rows, **notes, "charge": charge.to_dict(), **privacy, "certificate": certificate})
    shortened = briefly(rows)
    cells = [[shown(name, value) for name, value in row.items()] for row in shortened]
    said = [*scope_lines(release.plan), *(f"note: {plain(each)}" for each in release.notes)]
    said += [f"warning: {each}" for each in warned]
    return _print([list(shortened[0] if shortened else ()), *cells], *said, *charge.lines(str(release.plan.budget)))


def answer(found: rb.release.Answer, charge: Charge, *, as_json: bool) -> None:
    """The rows of a SELECT, and what they have cost."""
    release = found.release
    if as_json:
        facts = {"columns": list(found.columns), "answer": found.rows(), "notes": list(found.notes)}
        facts |= {"plan": found.asked.plan.to_toml(), "rows": release.rows(), "charge": charge.to_dict()}
        return data({**facts, "certificate": json.loads(release.certificate)})
    return _print(
        [list(map(plain, each)) for each in found.table()], *found.said(), *charge.lines(str(release.plan.budget))
    )


def data(facts: object) -> None:
    """Facts as JSON."""
    print(json.dumps(facts, indent=1, ensure_ascii=False))


def _print(*parts: str | Sequence[Sequence[object]]) -> None:
    """Lines, and tables whose first row has the names of the columns."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else _PIPE, highlight=False, markup=False, emoji=False)
    for part in parts:
        if isinstance(part, str):
            console.print(part, soft_wrap=True)
            continue
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in part[0]:
            table.add_column(str(column), overflow="fold")
        for row in part[1:]:
            table.add_row(*(Text("" if cell is None else plain(str(cell))) for cell in row))
        console.print(table, soft_wrap=False)
