"""The command `rangebound`, and how it ends: an error is one line and exit code 2."""

from __future__ import annotations

import os
import sys

import typer

from rangebound.cli import account, audit, ledger, plan, plot, release
from rangebound.errors import RangeboundError

# Plain help: Rich would take longer to load than everything else.
app = typer.Typer(
    name="rangebound",
    help="Differential privacy whose answers stay in range.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(ledger.app, name="ledger")
app.command("account")(account.account)
app.add_typer(plan.app, name="plan")
app.command()(release.release)
app.command()(release.verify)
app.command()(release.demo)
app.add_typer(plot.app, name="plot")
app.add_typer(audit.app, name="audit")

_UsageError = typer.BadParameter.__mro__[2]  # the base of all errors in a command line; Typer has no public name for it


@app.callback()
def _root() -> None:
    """Differential privacy whose answers stay in range."""


def main() -> None:
    """Run the command line of this process, and end the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; return 0 if all is well, 1 if nobody reads on or a claim fell, 2 after an error."""
    try:
        code = app(arguments, prog_name="rangebound", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return _failed("aborted")
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (RangeboundError, OSError) as error:
        return _failed(str(error))
    except typer.TyperException as error:
        return _failed(error.format_message())


def _failed(message: str) -> int:
    from rangebound.arguments import plain

    print("error: " + plain(" ".join(message.split())), file=sys.stderr)
    return 2
