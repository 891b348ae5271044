"""`rangebound serve`: the service for those who may not see the data, and its tokens; `explore`: a page for oneself."""

from __future__ import annotations

import datetime
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rangebound.cli import printing
from rangebound.cli.options import SETTINGS, Json, option
from rangebound.errors import ArgumentError
from rangebound.values.extras import need

if TYPE_CHECKING:
    from rangebound.web.service.job_store import TokenStore

# The rooms below are loaded by the commands that need them, so that help is immediate.
app = typer.Typer(
    help="A service: analysts submit plans and fetch tables.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)

Config = Annotated[Path, typer.Option(help="The settings of the server, a TOML file.")]


@app.callback()
def serve(
    context: typer.Context,
    config: Annotated[Path | None, option("The settings of the server, a TOML file.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve made-up data from a temporary folder.")] = False,
    port: Annotated[int, typer.Option(help="Where the demo listens.")] = 8800,
) -> None:
    """A service: analysts submit plans and fetch tables."""
    if context.invoked_subcommand is not None:
        return
    if demo == (config is not None):
        raise ArgumentError("config: missing; give --config server.toml, or --demo for made-up data")

    need("starlette", "uvicorn", "duckdb", "pydantic", what="rangebound serve")
    from rangebound.web.service.listener import serve as run

    if config is not None:
        run(config, ready=lambda url: _say(f"serving at {url}\n"))
        return
    from rangebound.web.service.listener import make_demo, what_to_type

    with tempfile.TemporaryDirectory(prefix="rangebound-demo-") as name:
        folder = Path(name)
        tokens = make_demo(folder, port)
        run(folder / "server.toml", ready=lambda url: _say(what_to_type(folder, url, tokens)))


@app.command()
def token(
    config: Config,
    who: Annotated[str, typer.Option(help="Whose token it is; the ledger notes this name.")],
    account: Annotated[list[str], typer.Option(help="An account that it is for; may be repeated.")],
    days: Annotated[float, typer.Option(help="How long it is valid.")] = 90,
    role: Annotated[
        str, typer.Option(metavar="analyst|approver", help="Whether it may ask for releases or approve them.")
    ] = "analyst",
) -> None:
    """Make a token, and print it this once."""
    from rangebound.web.service.job_store import TokenRole
    from rangebound.web.service.settings import read_settings

    server = read_settings(config)
    unknown = [each for each in account if each not in server.settings.accounts]
    if unknown:
        raise ArgumentError(
            f"account={unknown[0]!r}: is not in the settings; they have {list(server.settings.accounts)}"
        )
    if role not in [each.value for each in TokenRole]:
        raise ArgumentError(f"role={role!r}: must be analyst or approver")
    made = _tokens(config).make(who=who, role=TokenRole(role), accounts=tuple(dict.fromkeys(account)), days=days)
    _say(f"{made}\n")


@app.command()
def tokens(config: Config, json: Json = False) -> None:
    """List the tokens by their names; the tokens themselves are not stored."""
    facts = [
        {
            "token": each.name,
            "who": each.who,
            "role": each.role.value,
            "accounts": list(each.accounts),
            "ends": datetime.datetime.fromtimestamp(each.ends, datetime.UTC).isoformat(timespec="seconds"),
            "revoked": each.revoked,
        }
        for each in _tokens(config).listed()
    ]
    lines = [
        f"{each['token']}  {each['role']}  {each['who']}  until {each['ends']}{'  revoked' if each['revoked'] else ''}"
        for each in facts
    ]
    printing.fact({"tokens": facts}, "\n".join(lines) or "no tokens", as_json=json)


@app.command()
def revoke(
    config: Config,
    name: Annotated[str, typer.Argument(metavar="TOKEN", help="The name of the token, as `tokens` lists it.")],
) -> None:
    """End a token now."""
    ended = _tokens(config).revoke(name)
    _say(f"revoked: {ended.name}, {ended.role.value}, {ended.who}\n")


def explore(
    plan: Annotated[
        Path | None,
        typer.Argument(metavar="[PLAN]", help="The plan, a TOML file; without one: one number.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is; 0 takes one that is free.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address; open no browser.")] = False,
) -> None:
    """Choose epsilon on a page in the browser; read no data."""
    need("starlette", "uvicorn", "duckdb", "pydantic", what="rangebound explore")
    from rangebound.web.explorer.page_server import explore as run

    def ready(address: str) -> None:
        _say(f"exploring at {address}\nCtrl-C ends it\n")
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    with suppress(KeyboardInterrupt):  # that is how it ends
        run(plan, port=port, ready=ready)


def _tokens(config: Path) -> TokenStore:
    from rangebound.web.service.job_store import TokenStore, database
    from rangebound.web.service.settings import read_settings

    return TokenStore(database(read_settings(config).folder))


def _say(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()
