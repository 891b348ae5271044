"""What commands have in common."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rangebound.errors import ArgumentError

# For an option without a value, `--help` included, Typer would load pydantic, which takes longer than the help.
SETTINGS = {"help_option_names": ["-h", "--help"], "default_map": {"help": False}}

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _size(memory: str | None) -> str | None:
    """A size of memory as it is given, if it is one."""
    if memory is not None and not re.fullmatch(r"\d+(\.\d+)? ?([KMGT]i?)?B", memory, re.IGNORECASE):
        raise ArgumentError(f"memory={memory!r}: must be a size, such as 4GB")
    return memory


# Those of every command that releases a table.
Request = Annotated[
    str | None, typer.Option(help="The id of this release; the same id is charged once.", show_default=False)
]
LedgerFile = Annotated[
    str | None,
    typer.Option(help="The ledger, a file or an address; default: the one that the plan names.", show_default=False),
]
KeyFile = Annotated[Path | None, typer.Option(help="The ledger's key file.", show_default=False)]
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        help="A file to write: .csv, .csv-metadata.json, .parquet, .xlsx, .json or .html; may be repeated.",
        show_default=False,
    ),
]
RecordFile = Annotated[
    Path | None,
    typer.Option(
        "--record", help="Where to write the record for the registry of deployments, a .yaml file.", show_default=False
    ),
]
FactSheetFile = Annotated[
    Path | None,
    typer.Option(
        "--fact-sheet",
        help="Where to write the fact sheet on the topics of NIST SP 800-226, a .md file.",
        show_default=False,
    ),
]
CertificateFile = Annotated[Path | None, typer.Option(help="Where to write the certificate.", show_default=False)]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the engine.", show_default=False)]
Memory = Annotated[
    str | None, typer.Option(help="Memory limit of the engine, such as 4GB.", callback=_size, show_default=False)
]
SparkAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="The Spark Connect server, in place of the plan's: sc://host.", show_default=False
    ),
]
PostgresAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The PostgreSQL database, in place of the plan's: postgresql://host/database, or service=NAME.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="How long a statement of PostgreSQL may take.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show plan, errors and cost; read only the schema.")]


class Interrupted(Exception):
    """A command that a signal ended: its message and its exit code."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


def group(words: str) -> typer.Typer:
    """A group of commands, which does nothing by itself."""
    app = typer.Typer(
        help=words,
        invoke_without_command=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings=SETTINGS,
    )

    @app.callback()
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            names = ", ".join(context.command.list_commands(context))  # type: ignore[attr-defined]
            raise ArgumentError(f"{context.command_path}: needs a command, one of {names}; --help says more")

    return app


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on the error stream, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
