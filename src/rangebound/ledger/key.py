"""The key under the seals, 32 random bytes in a file of their own; and the folders for the keys and heads of a user."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path

from rangebound.errors import ArgumentError, ArgumentTypeError, LedgerUnavailable
from rangebound.values import arguments

VARIABLE = "RANGEBOUND_LEDGER_KEY"
"""Environment variable with the path of the key file, where none is given."""

_PLACES = {"key": ("XDG_DATA_HOME", ".local/share"), "head": ("XDG_STATE_HOME", ".local/state")}
"""By the XDG Base Directory Specification: what must not be lost is data, what only this machine knows is state."""

_TEXT = re.compile(rb"[0-9a-f]{64}\n")
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}  # what file systems without hard links say


class Key(bytes):
    """The bytes of a key, which are never shown: not when printed, not in a traceback, not in a pickle.

    >>> Key(b"secret")
    Key(...)
    >>> f"{Key(b'secret')} {[Key(b'secret')]}"
    'Key(...) [Key(...)]'
    """

    def __repr__(self) -> str:
        return "Key(...)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("the key of a ledger cannot be pickled or copied to another process")

    def __reduce_ex__(self, protocol: object) -> str:
        return self.__reduce__()


def file_path(name: str, value: object) -> Path:
    """`value` as a path."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be the path of a file")
    return Path(text)


def key_path(ledger: Path, given: str | os.PathLike[str] | None) -> tuple[Path, bool]:
    """Where a ledger's key is, and whether that was specified: as given, else by the environment, else beside it."""
    chosen = os.environ.get(VARIABLE) or None if given is None else given
    if isinstance(chosen, str) and _TEXT.fullmatch(chosen.strip().lower().encode(errors="replace") + b"\n"):
        # Not shown: messages end up in logs.
        raise ArgumentError("key: must be the path of the key's file; this looks like the key itself")
    return (file_path("key", chosen), True) if chosen is not None else (ledger.with_name(ledger.name + ".key"), False)


def read_key(path: Path) -> Key:
    """The key in a file that only its owner may access."""
    if path.exists() and not path.is_file():
        raise LedgerUnavailable(f"key={arguments.shown(str(path))}: must be a file")  # a pipe could keep us waiting
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(66)
    except OSError as error:
        raise LedgerUnavailable(
            f"key={arguments.shown(str(path))}: cannot be read ({error.strerror}); without its key a ledger can "
            "neither be checked nor spent from"
        ) from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise LedgerUnavailable(f"key={arguments.shown(str(path))}: others may access it; restrict it with chmod 600")
    if not _TEXT.fullmatch(text):
        raise ArgumentError(f"key={arguments.shown(str(path))}: must hold 64 hexadecimal digits and a line feed")
    return Key(bytes.fromhex(text.decode()))


def make_key(path: Path, key: bytes | None = None) -> Key:
    """The key in a file, which is made (mode 0600, durable) if it is not there: with this `key`, else with a new one.
    Another process may be first; then it is the key of that."""
    if path.exists():
        return read_key(path)
    text = (os.urandom(32) if key is None else key).hex().encode() + b"\n"
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        try:
            _write(draft, text)
            # A link appears whole or not at all, and never replaces a key that is there.
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with contextlib.suppress(FileExistsError):  # a kill may leave half of it, which is refused as no key
                _write(path, text)
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerUnavailable(f"key={arguments.shown(str(path))}: cannot be made ({error.strerror})") from None
    return read_key(path)


def _write(path: Path, text: bytes) -> None:
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(handle, text)
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def user_folder(what: str) -> Path:
    """The folder for a user's keys (`what="key"`) or heads (`what="head"`) of ledgers in databases, whether or not it
    exists: there is no file for them to lie beside.

    >>> user_folder("key").name
    'rangebound'
    """
    variable, default = _PLACES[what]
    base = os.environ.get(variable, "") if os.name == "posix" else os.environ.get("LOCALAPPDATA", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / default
    return home / "rangebound"


def made_folder(path: Path) -> Path:
    """The folder, made if it is not there, for its owner alone."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerUnavailable(f"folder={arguments.shown(str(path))}: cannot be made ({error.strerror})") from None
    return path
