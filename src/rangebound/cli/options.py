"""What commands have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from rangebound.errors import ArgumentError

# For an option without a value, `--help` included, Typer would load pydantic, which takes longer than the help.
SETTINGS = {"help_option_names": ["-h", "--help"], "default_map": {"help": False}}

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
