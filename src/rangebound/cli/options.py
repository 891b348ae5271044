"""What commands have in common: options, and files that are written in time and never over a ledger, plan or table."""

from __future__ import annotations

import functools
import inspect
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
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
        help=words, invoke_without_command=True, add_completion=False, rich_markup_mode=None, context_settings=SETTINGS
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


_OWN = (
    "must be a separate file in an existing folder; "
    "the plan, the table, the ledger, its files, its key and other outputs are never overwritten"
)
_SQLITE = b"SQLite format 3"
_LOGS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")  # write-ahead log, journal
_BEGINNINGS = {
    ".json": (b"{",),
    ".html": (b"<",),
    ".parquet": (b"PAR1",),
    ".xlsx": (b"PK",),
    ".png": (b"\x89PNG",),
    ".svg": (b"<",),
    ".pdf": (b"%PDF",),
}
"""How files of a kind begin: an existing file is replaced only by its own kind. A .csv may begin with anything."""


def check_files(outputs: Iterable[Path], kept: Iterable[Path] = (), *, name: str = "path") -> None:
    """Refuse files that cannot be written, or that are something else, before anything is charged or computed.

    `kept` are the files that a command reads, whether or not they exist. Two files are the same by their path, whatever
    the links and whatever the case of its letters, or by their inode, so that a second name is detected too.

    Guarantee: nothing is written; a file that was not there is not there afterwards.
    Edge cases: another process may put a link there later, so a command asks again just before it writes.
    """
    taken = list(kept)
    for path in outputs:
        try:
            _check(path, taken, name)
        except OSError as reason:
            raise ArgumentError(f"{name}={str(path)!r}: cannot be written ({reason.strerror})") from None
        taken.append(path)


def _check(path: Path, taken: Iterable[Path], name: str) -> None:
    if any(_same(path, each) for each in taken) or path.is_dir() or not path.parent.is_dir():
        raise ArgumentError(f"{name}={str(path)!r}: {_OWN}")
    if _of_database(path) or not _alike(path):
        raise ArgumentError(f"{name}={str(path)!r}: is another kind of file, which is never overwritten")
    _try(Path(os.path.realpath(path)))


def _same(one: Path, other: Path) -> bool:
    if os.path.realpath(one).casefold() == os.path.realpath(other).casefold():
        return True
    try:
        return one.samefile(other)
    except OSError:  # one of them does not exist
        return False


def _of_database(path: Path) -> bool:
    """Whether a path is a file that SQLite, or a ledger, keeps beside a database."""
    from rangebound.ledger.head import ENDING
    from rangebound.ledger.sqlite import FILES

    real = Path(os.path.realpath(path))
    bases = [real.with_name(real.name.removesuffix(each)) for each in (*FILES[1:], ENDING, ".key")]
    return any(each != real and _begins(each, (_SQLITE,)) for each in bases if each.name)


def _alike(path: Path) -> bool:
    """Whether a file does not exist, or is empty, or is of the kind that its name states and not a database."""
    if not path.is_file() or not path.stat().st_size:
        return True
    kind = _BEGINNINGS.get(path.suffix.lower())
    return not _begins(path, (_SQLITE, *_LOGS)) and (kind is None or _begins(path, kind))


def _begins(path: Path, beginnings: tuple[bytes, ...]) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16).startswith(beginnings)
    except OSError:
        return False


def _try(path: Path) -> None:
    """Open a file for writing, and leave everything unchanged; of a device or a pipe only the status is read."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        path.open("xb").close()
        path.unlink()
        return
    if stat.S_ISREG(mode):
        path.open("ab").close()
    elif not os.access(path, os.W_OK):
        raise PermissionError(0, "permission denied")


def write_new(output: Path, text: str) -> None:
    """Write a file that does not exist yet: a mistyped name must not replace a plan or a ledger."""
    if _of_database(output):
        raise ArgumentError(f"output={str(output)!r}: belongs to the database beside it; choose another name")
    try:
        with output.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise ArgumentError(f"output={str(output)!r}: exists already; name a new file") from None
