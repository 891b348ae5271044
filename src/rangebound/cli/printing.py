"""Accounts, histories and reports on standard output: as a table, or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rangebound.arguments import counted
from rangebound.errors import plain
from rangebound.ledger.record import Account, Record
from rangebound.ledger.rule import Rule
from rangebound.ledger.verification import Report

if TYPE_CHECKING:
    from rangebound.release.output.table import Release
    from rangebound.release.plan.model import Plan
    from rangebound.release.plan.table_schema import Schema

_PIPE = 200  # columns, where there is no terminal


def accounts(found: list[Account], head: str, *, as_json: bool) -> None:
    """The state of the accounts."""
    if as_json:
        return _print_json({"accounts": [each.to_dict() for each in found], "head": head})
    table = _table("account", "promise", "rule", "spent", "remaining", "spends")
    for each in found:
        promise = f"epsilon {each.epsilon}, delta {each.delta}"
        _add(table, each.name, promise, _rule(each.rule), each.spent, each.remaining, each.spends)
    words = [f"{plain(each.name)} has left: {each.left}" for each in found if each.left != str(each.remaining)]
    _print(table, *words, f"head {head}")


def history(records: list[Record], *, as_json: bool) -> None:
    """Entries in their order."""
    if as_json:
        return _print_json([record.to_dict() for record in records])
    table = _table("entry", "time (UTC)", "kind", "account", "request", "cost", "who", "what", "note")
    for each in records:
        time = each.time.strftime("%Y-%m-%d %H:%M:%S")
        what = "" if each.kind in ("account", "ledger") else each.what
        _add(table, each.seq, time, each.kind, each.account, each.request, each.cost, each.who, what, each.note)
    _print(table)


def report(found: Report, *, as_json: bool) -> None:
    """A check that found nothing wrong."""
    if as_json:
        return _print_json({"ok": True, **asdict(found)})
    back = ", ".join(map(str, found.clock_set_back))
    _print(
        f"ok: {counted(found.entries, 'entry', 'entries')}, all as written",
        *([f"the clock was set back before entry {back}"] if back else []),
        f"head {found.head}",
    )


def cautions(plan: Plan, schema: Schema) -> None:
    """Warnings before a charge, on standard error."""
    from rangebound.release.plan.table_schema import cautions as found

    for each in found(plan, schema):
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

    def to_dict(self) -> dict[str, object]:
        """The charge as plain data."""
        left = self.account.remaining.to_dict()
        return {"account": self.account.name, "request": self.request, "before": self.before, "remaining": left}

    def words(self, cost: str) -> str:
        """The charge in a line."""
        paid = (
            f"request {self.request!r} was published before and costs nothing more" if self.before else f"spent {cost}"
        )
        return f"{paid}; account {self.account.name!r} has {self.account.left} left"


def table(release: Release, charge: Charge, *, as_json: bool) -> None:
    """A published table, and what it has cost."""
    from rangebound.release.output.rendering import briefly, shown
    from rangebound.release.output.scope import scope_lines

    rows = release.rows()
    if as_json:
        notes = {"notes": list(release.notes)} if release.notes else {}
        certificate = json.loads(release.certificate)
        return _print_json({"rows": rows, **notes, "charge": charge.to_dict(), "certificate": certificate})
    shortened = briefly(rows)
    found = _table(*(shortened[0] if shortened else ()))
    for row in shortened:
        _add(found, *(shown(name, value) for name, value in row.items()))
    said = [*scope_lines(release.plan), *(f"note: {plain(each)}" for each in release.notes)]
    _print(found, *said, plain(charge.words(str(release.plan.budget))))


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
