"""The command `rangebound` and its exit codes: an error is one line and exit code 2."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated

import typer
from typer.main import get_command

import rangebound
from rangebound.cli import (
    account_command,
    ledger_command,
    mechanism_commands,
    plan_command,
    release_command,
    serve_command,
    summary_command,
    verify_command,
)
from rangebound.cli.options import SETTINGS, Interrupted
from rangebound.errors import ApprovalNeeded, RangeboundError, plain
from rangebound.values.extras import kernel_lines

# Plain help: Rich would take longer to load than everything else.
app = typer.Typer(
    name="rangebound",
    help="Differential privacy whose answers stay in range.",
    epilog="Exit codes: 0 success, 1 an audit refuted a claim, 2 an error (one line), 3 a request waits for approval, "
    "130 or 143 a signal.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)
app.add_typer(ledger_command.app, name="ledger")
app.command("account")(account_command.account)
app.add_typer(plan_command.app, name="plan")
app.command()(release_command.release)
app.command()(summary_command.sql)
app.command()(summary_command.summary)
app.command()(verify_command.verify)
app.command()(release_command.demo)
app.command()(plan_command.dummy)
app.command()(serve_command.explore)
app.add_typer(serve_command.app, name="serve")
app.add_typer(mechanism_commands.plot_app, name="plot")
app.add_typer(mechanism_commands.audit_app, name="audit")

if TYPE_CHECKING:
    _MISUSE = typer.TyperException
else:  # before it had a Click of its own, Typer raised the errors of Click
    _MISUSE = getattr(typer, "TyperException", None) or importlib.import_module("click").ClickException
_WAITS = 3
_INTERRUPTED = 130  # as shells count it: 128 and the number of the signal


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and the kernels, and exit.")] = False,
) -> None:
    if version:
        print(f"rangebound {rangebound.__version__}", *kernel_lines(), sep="\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command line of this process, and end the process."""
    warnings.formatwarning = _one_line
    warnings.filterwarnings("default", ".* is an expression of version 0.2", DeprecationWarning)
    sys.exit(run(sys.argv[1:]))


@cache
def _command() -> Callable[..., object]:
    """All commands and options, which Typer would read from the annotations again in every call."""
    return get_command(app)


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return f"warning: {plain(str(message))}\n"


def run(arguments: list[str]) -> int:
    """Run one command; return 0 on success, 1 for a closed pipe or a refuted claim, 2 after an error, 3 where a request
    waits for approval."""
    try:
        code = _command()(arguments, prog_name="rangebound", standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return _failed("aborted")
    except BrokenPipeError:  # the reader, perhaps `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Interrupted as end:
        _failed(str(end))
        return end.code
    except ApprovalNeeded as error:
        return _failed(str(error), "waiting", _WAITS)
    except RangeboundError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"file={error.filename!r}: {error.strerror}" if error.filename else str(error))
    except _MISUSE as error:
        place = getattr(error, "ctx", None)
        said = error.format_message().rstrip()
        stop = "" if said.endswith((".", "?", ")")) else "."
        return _failed(f"{said}{stop}" + (f" See {place.command_path} --help." if place else ""))
    except Exception as error:  # its message may contain data, so it is not shown
        if sys.flags.dev_mode:
            raise
        return _failed(
            f"unexpected {type(error).__name__}; this is a bug, please report it. "
            "PYTHONDEVMODE=1 shows where it comes from"
        )
    if code == _INTERRUPTED:
        _failed("interrupted")
    return code if isinstance(code, int) else 0


def _failed(message: str, kind: str = "error", code: int = 2) -> int:
    print(f"{kind}: " + plain(" ".join(message.split())), file=sys.stderr)
    return code
