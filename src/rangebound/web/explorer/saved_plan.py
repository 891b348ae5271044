"""A plan that is written back to the file that it was read from: whole or not at all, and never over other changes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from rangebound.errors import ArgumentError


def save_plan(path: Path, text: str, *, opened: str) -> None:
    """Write the text of a plan over its file; `opened` is what the file said when the page read or saved it last.

    Guarantee: the file has the old text or the new one at every moment, also if the machine stops, and keeps its
    rights, its line ends and, behind a link, its place. A file that says something else than `opened`, or cannot be
    read or written, is left alone, and an `ArgumentError` says so.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "plan.toml")
    ...     _ = file.write_text("# ours")
    ...     save_plan(file, "# yours", opened="# ours")
    ...     print(file.read_text())
    # yours
    """
    try:
        real = path.resolve(strict=True)
        with real.open("r+b") as file:  # a file that must not be written could be replaced all the same
            found = file.read()
        if _read(found) != opened:
            raise ArgumentError(f"{path.name}: has changed since this page read it, and is left as it is; {_WAYS}")
        plain = _read(text.encode("utf-8"))
        _replace(real, plain.replace("\n", "\r\n") if b"\r\n" in found else plain)
    except (OSError, UnicodeError) as reason:
        raise ArgumentError(f"{path.name}: cannot be saved ({reason}); save a copy instead") from None


_WAYS = "save a copy instead, or load this page again to begin with what the file says now"


def read_text(path: Path) -> str:
    """The text of a plan file, with line ends as the page has them."""
    return _read(path.read_bytes())


def _read(data: bytes) -> str:
    return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _replace(real: Path, text: str) -> None:
    """Put a new file in the place of another, once all of it is on the disk."""
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(real, name)
        os.replace(name, real)
    except BaseException:
        os.unlink(name)
        raise
