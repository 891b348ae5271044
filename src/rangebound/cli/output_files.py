"""Files that a command writes: never over a ledger, its log, its key, a plan or a table; checked in time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from rangebound.errors import ArgumentError

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
