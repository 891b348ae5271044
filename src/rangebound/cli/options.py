"""What commands have in common."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rangebound.errors import ArgumentError

# For an option without a value, `--help` included, Typer would load pydantic, which takes longer than the help.
SETTINGS = {"help_option_names": ["-h", "--help"], "default_map": {"help": False}}


def option(words: str, *names: str, **more: Any) -> Any:
    """An option that may be left out, whose default the help does not show."""
    return typer.Option(*names, help=words, show_default=False, **more)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file.")]
NewFile = Annotated[Path | None, option("The file to write; default: standard output.", "--output", "-o")]
Request = Annotated[str | None, option("The id of this release; the same id is charged once.")]
LedgerFile = Annotated[str | None, option("The ledger, a file or an address; default: the one that the plan names.")]
KeyFile = Annotated[Path | None, option("The ledger's key file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show plan, errors and cost; read only the schema.")]


def taking(group: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `group` beside its own; its first argument is what `group` makes of them."""
    shared = inspect.signature(group, eval_str=True).parameters

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(list(inspect.signature(command, eval_str=True).parameters.items())[1:])
        options = [each.replace(kind=each.KEYWORD_ONLY) for each in (shared | own).values()]
        options.sort(key=lambda each: each.default is not each.empty)  # the help begins with those that are needed

        @functools.wraps(command)
        def run(**given: object) -> None:
            made = group(**{name: given[name] for name in shared})
            command(made, **{name: given[name] for name in own})

        # Typer derives the options from these.
        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in options}
        return run

    return decorated


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
