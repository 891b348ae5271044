"""`rangebound ledger`: open accounts, show them, decide requests, check the file, export it."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import Json, NewFile, group, option, taking, write_new
from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable, MissingExtra, plain

if TYPE_CHECKING:
    from rangebound.ledger.rule import Rule
    from rangebound.release.output.ledger_entry import ChargeFinding

# The rooms below are loaded by the commands that need them, so that help is immediate.
app = group("Privacy budgets that outlive the process.")

File = Annotated[
    str, typer.Argument(metavar="LEDGER", help="The file of the ledger, or the address of a PostgreSQL database.")
]
Key = Annotated[
    Path | None, option("Its key file; default: RANGEBOUND_LEDGER_KEY, else LEDGER.key beside it, or the user's.")
]
OneAccount = Annotated[str | None, option("Only this account.")]
Note = Annotated[str, option("Anything worth knowing later.")]


@dataclass(frozen=True, kw_only=True)
class Place:
    """What most commands are asked: which ledger, its key, and whether JSON is wanted."""

    ledger: File
    key: Key = None
    json: Json = False

    def opened(self) -> AbstractContextManager[rb.Ledger]:
        """The ledger, which must be there."""
        return rb.Ledger.open(self.ledger, key=self.key)


@app.command()
def init(
    postgres: Annotated[str, typer.Option(metavar="ADDRESS", help="The database; ?schema= names the ledger in it.")],
    note: Note = "",
    key: Key = None,
    json: Json = False,
) -> None:
    """Make a ledger for a team in PostgreSQL, with its roles.

    The roles are owner, approver, analyst and auditor, and service for a server. Run it as a superuser; then grant each
    person one of the first four, and hand on the key file.
    """
    from rangebound.ledger.head import key_path, user_folder
    from rangebound.ledger.postgres_schema import ROLES, postgres_place

    schema = postgres_place(postgres).schema
    with rb.Ledger.create(postgres, key=key, note=note, roles=True) as book:
        place = key_path(user_folder("key") / (book.history()[0].request or ""), key)[0]
        made = [f"{schema}_{role}" for role in ROLES]
        words = [
            f"roles {', '.join(made)}: grant each person one of them",
            f"key {plain(str(place))}: hand a copy to everyone who uses the ledger",
            f"head {book.head}",
        ]
        printing.fact({"roles": made, "key": str(place), "head": book.head}, "\n".join(words), as_json=json)


@app.command("open")
@taking(Place)
def open_(
    at: Place,
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="The name of the new account.")],
    epsilon: Annotated[str, typer.Option(help="The total epsilon, an exact decimal.")],
    delta: Annotated[str, typer.Option(help="The total delta, an exact decimal.")] = "0",
    rule: Annotated[str | None, option("What the account adds up; default: sum.", metavar="sum|gaussian|renyi")] = None,
    spare: Annotated[str | None, option("For gaussian: the part of delta kept for releases that have one.")] = None,
    order: Annotated[str | None, option("For renyi, which it implies: the order of the divergences.")] = None,
    approval: Annotated[
        str | None,
        option(
            "Charge nothing before a request is approved: by another person, or by anyone.", metavar="others|anyone"
        ),
    ] = None,
    period: Annotated[
        str | None, option("Let the total be for each of them (UTC): a weaker promise.", metavar="month|quarter|year")
    ] = None,
    who: Annotated[str | None, option("Who opens it; default: the user.")] = None,
    note: Note = "",
) -> None:
    """Open an account, in a new ledger if there is no such file yet."""
    from rangebound.ledger.location import there_is

    chosen = _rule(rule, spare, order)
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "approval": approval or False, "period": period}
    with at.opened() if there_is(at.ledger) else rb.Ledger.create(at.ledger, key=at.key) as book:
        opened = book.open_account(account, rule=chosen, who=who, note=note, **terms)
        printing.accounts([opened], book.head, as_json=at.json)


@app.command("show")
@taking(Place)
def show_(at: Place, account: OneAccount = None) -> None:
    """Show the remaining budget of each account, and the head."""
    with at.opened() as book:
        printing.accounts(book.accounts() if account is None else [book.account(account)], book.head, as_json=at.json)


@app.command()
@taking(Place)
def history(
    at: Place,
    account: OneAccount = None,
    last: Annotated[int | None, option("Only this many entries, the last ones.", min=1)] = None,
) -> None:
    """Show who did what and when."""
    with at.opened() as book:
        printing.history(book.history(account)[-last if last else 0 :], as_json=at.json)


@app.command()
@taking(Place)
def requests(
    at: Place,
    account: OneAccount = None,
    request: Annotated[str | None, option("Only this request, with its dry run.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Show those that were decided too.")] = False,
) -> None:
    """Show the requests that wait for approval."""
    with at.opened() as book:
        found = book.requests(account)
        if request is None:
            shown = [each for each in found if every or each.status is rb.ledger.RequestStatus.WAITING]
            return printing.requests(shown, as_json=at.json)
        text = book.dry_run(request)
        own = next((each for each in found if each.request == request), None)
        if own is None:
            raise ArgumentError(f"request={request!r}: is of another account")
        return printing.filed(own, text, as_json=at.json)


Decided = Annotated[str, typer.Argument(metavar="REQUEST", help="The id of the request.")]
Who = Annotated[str | None, option("Who decides; default: the user.")]
Reason = Annotated[str, option("The reason.")]


@app.command()
@taking(Place)
def approve(at: Place, request: Decided, who: Who = None, note: Reason = "") -> None:
    """Approve a request: it may be charged once, as it was filed."""
    with at.opened() as book:
        printing.requests([book.approve(request, who=who, note=note)], as_json=at.json)


@app.command()
@taking(Place)
def reject(at: Place, request: Decided, who: Who = None, note: Reason = "") -> None:
    """Reject a request, for good; or withdraw your own."""
    with at.opened() as book:
        printing.requests([book.reject(request, who=who, note=note)], as_json=at.json)


@app.command()
def verify(
    ledger: Annotated[
        str | None,
        typer.Argument(
            metavar="[LEDGER]",
            help="The file of the ledger, or the address of a PostgreSQL database.",
            show_default=False,
        ),
    ] = None,
    export: Annotated[
        Path | None, option("An export (CSV or JSON lines) in place of the ledger; needs the key.")
    ] = None,
    head: Annotated[str | None, option("A head noted elsewhere, to detect a rollback.")] = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Check every entry and published byte of a ledger, or an export.

    The file itself is checked too. Other commands check the same when they open a ledger, except for published bytes
    that they do not show. Releases that version 0.2 charged too little are named, by their published bytes.
    """
    if (ledger is None) == (export is None):
        raise ArgumentError("ledger: must be named, or an export by --export; one of the two is checked")
    try:
        if ledger is not None:
            found = rb.ledger.verify(ledger, key=key, head=head)
            return printing.report(found, _undercharged(Place(ledger=ledger, key=key)), as_json=json)
        assert export is not None
        return printing.export_report(rb.ledger.verify_export(export, key=key, head=head), as_json=json)
    except LedgerTampered as error:
        if json:
            printing.data({"ok": False, "findings": list(error.findings)})
        raise


def _undercharged(at: Place) -> list[ChargeFinding] | None:
    """The releases of a ledger that were charged too little; None where that cannot be told: without the extra for
    tables, and in a place that the ledger has left, whose chain is compared where it is now."""
    try:
        from rangebound.release.output.ledger_entry import undercharged

        with at.opened() as book:
            return undercharged(book)
    except (MissingExtra, LedgerUnavailable) as reason:
        if isinstance(reason, LedgerUnavailable) and not str(reason).startswith("ledger: has moved to "):
            raise
        print(f"charges were not compared with published tables: {reason}", file=sys.stderr)
        return None


@app.command()
def move(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The ledger: a file or an address.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Where it goes: an address or a file.")],
    roles: Annotated[bool, typer.Option("--roles", help="Make the roles of a team in the database.")] = False,
    who: Annotated[str | None, option("Who moves it; default: the user.")] = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Move a ledger from a file to PostgreSQL or back.

    Its whole chain moves, and the old place is closed for good. If it is interrupted, the same command finishes it.
    """
    from rangebound.ledger.export import move as moved

    with moved(source, target, key=key, who=who, roles=roles) as book:
        printing.accounts(book.accounts(), book.head, as_json=json)


@app.command()
@taking(Place)
def adopt(
    at: Place, head: Annotated[str | None, option("The last head that you know, as `show` printed it.")] = None
) -> None:
    """Restore the missing head of a ledger, from one that you know.

    For a ledger that was moved without its head, or was made by version 0.1.
    """
    with rb.Ledger.adopt(at.ledger, key=at.key, head=head) as book:
        printing.accounts(book.accounts(), book.head, as_json=at.json)


@app.command()
@taking(Place)
def export(
    at: Place,
    output: NewFile = None,
    lines: Annotated[bool, typer.Option("--lines", help="Write JSON lines, one for each entry.")] = False,
) -> None:
    """Write the history as CSV or JSON lines, or everything as JSON."""
    if lines and at.json:
        raise ArgumentError("lines: --lines writes the history, and --json everything; give one of them")
    with at.opened() as book:
        text = (
            rb.ledger.to_json(book) if at.json else (rb.ledger.to_lines if lines else rb.ledger.to_csv)(book.history())
        )
    if output is None:
        sys.stdout.write(text)  # unchanged: typer.echo would drop what looks like a colour
        return
    write_new(output, text)


def _rule(name: str | None, spare: str | None, order: str | None) -> Rule:
    """The rule that the options name; an option of another rule is refused, not ignored."""
    match name, spare, order:
        case None | "sum", None, None:
            return rb.ledger.PlainSum()
        case "gaussian", None, None:
            return rb.ledger.GaussianFilter()
        case "gaussian", str(), None:
            return rb.ledger.GaussianFilter(spare=spare)
        case None | "renyi", None, str():
            return rb.ledger.RenyiFilter(order=order)
        case "renyi", _, None:
            raise ArgumentError("order: missing; a Renyi filter needs one, such as --order 16")
        case "sum" | "gaussian" | "renyi" | None, _, _:
            raise ArgumentError("rule: --spare belongs to --rule gaussian, and --order to --rule renyi")
    raise ArgumentError(f"rule={name!r}: must be sum, gaussian or renyi")
