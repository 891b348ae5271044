"""What a user keeps of a ledger in files of their own: the key under its seals, 32 random bytes, and its head.

The head says how far the ledger has come, so that an old copy is detected. Its file holds one line, which
is overwritten in place: the format, the ledger's id, the number and the seal of its last entry, and an HMAC-SHA256 of
all that with the ledger's key. It has one length, so that it is never half of one and half of another.

The head of a ledger in a file is the ledger's own: it is made with it, locked for every entry, and synced. That of a
ledger in a database is what one user of one machine has seen last. Who opens a ledger for the first time has none, and
trusts what is found; from then on a rollback is noticed. It is written when an entry was added, and when the ledger is
opened and closed; it is not synced. A process that is killed loses nothing of it; a loss of power may put it back by
some seconds, and the ledger itself, on the server, by nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rangebound.errors import ArgumentError, ArgumentTypeError, LedgerTampered, LedgerUnavailable
from rangebound.ledger.chain import Head
from rangebound.values import arguments

KEY_VARIABLE = "RANGEBOUND_LEDGER_KEY"
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
    chosen = os.environ.get(KEY_VARIABLE) or None if given is None else given
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


try:
    import fcntl
except ImportError:  # without it, two processes that store at once may leave the head one entry behind
    fcntl = None  # type: ignore[assignment]

HEAD_VARIABLE = "RANGEBOUND_HEAD"
"""Environment variable with a folder for the heads, where they shall not lie beside their ledgers."""

ENDING = ".head"

_FORMAT = "rangebound head 1"
_LINE = re.compile(rf"({_FORMAT} ([0-9a-f]{{32}}) (\d{{19}}) ([0-9a-f]{{64}})) ([0-9a-f]{{64}})\n", re.ASCII)
_LONG = 512  # bytes, more than a line has
_PAUSE, _LONGEST_PAUSE = 0.0002, 0.01  # seconds between two looks at a file that another process holds
_LOOKS = 5  # at a line that is being overwritten


def head_folder() -> Path | None:
    """The folder for heads that the environment names, or None: they lie beside their ledgers."""
    name = os.environ.get(HEAD_VARIABLE) or None
    if name is None:
        return None
    folder = Path(os.path.realpath(name))
    if not folder.is_dir():
        raise ArgumentError(f"{HEAD_VARIABLE}={arguments.shown(name)}: must be a folder that exists")
    return folder


def head_path(ledger: Path, name: str) -> Path:
    """Where the head of a ledger with the id `name` is: in the folder of the environment, else beside the ledger."""
    folder = head_folder()
    return ledger.with_name(ledger.name + ENDING) if folder is None else folder / f"{name}{ENDING}"


class HeldHead(NamedTuple):
    """The head as it was when it was taken, and how to move it to an entry that is durable; it never goes back."""

    head: Head
    advance: Callable[[Head], None]


class HeadFile:
    """The file with the head of one ledger: the ledger's own, or, `of_user`, what a user of a database has seen.

    Guarantee: it never goes back: the head that is read is the last one that was written, by whichever process (of a
    user's head: of that user). A line that was not written with the key, or for another ledger, is refused.
    """

    def __init__(self, path: Path, name: str, key: bytes, *, patience: float, of_user: bool = False) -> None:
        self.path = path
        self.of_user = of_user
        self._name = name
        self._key = key
        self._patience = patience
        self._shown = f"head={arguments.shown(str(path))}"

    def begin(self, head: Head) -> None:
        """Trust a head where a user knows none; a file without its head is refused."""
        if self.of_user and not self.path.exists():
            with suppress(ArgumentError):  # another process was first
                self.create(head)

    def follow(self, head: Head) -> None:
        """Move a user's head to an entry that is durable; that of a file is moved by those who add an entry."""
        if self.of_user:
            with self._locked() as held:
                held.advance(head)

    def create(self, head: Head) -> None:
        """Make the file, which must not be there; it is durable when this returns, unless it is a user's."""
        if self.of_user:
            made_folder(self.path.parent)
        try:
            handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                self._overwrite(handle, head)
            finally:
                os.close(handle)
            sync_folder(self.path.parent)
        except FileExistsError:
            raise ArgumentError(f"{self._shown}: exists already; a ledger has one head") from None
        except OSError as error:
            raise self._unavailable(error) from None

    def read(self) -> Head:
        """The head as it was last written."""
        for look in range(_LOOKS):
            try:
                handle = os.open(self.path, os.O_RDONLY)
                try:
                    return self._parsed(os.read(handle, _LONG))
                finally:
                    os.close(handle)
            except LedgerTampered:  # perhaps it is being overwritten
                if look == _LOOKS - 1:
                    raise
                time.sleep(_LONGEST_PAUSE)
            except OSError as error:
                raise self._unavailable(error) from None
        raise AssertionError("unreachable")

    @contextmanager
    def held(self) -> Iterator[HeldHead]:
        """The head while no other process can move it; that of a user is taken from others only to be moved."""
        if self.of_user:
            yield HeldHead(self.read(), self.follow)
            return
        with self._locked() as held:
            yield held

    @contextmanager
    def _locked(self) -> Iterator[HeldHead]:
        try:
            handle = os.open(self.path, os.O_RDWR)
        except OSError as error:
            raise self._unavailable(error) from None

        def advance(head: Head) -> None:
            if head.seq > found.seq:
                try:
                    self._overwrite(handle, head)
                except OSError as error:
                    raise self._unavailable(error) from None

        try:
            self._lock(handle)
            try:
                there = os.path.samestat(os.fstat(handle), os.stat(self.path))
            except OSError as error:
                raise self._unavailable(error) from None
            if not there:
                raise LedgerTampered(f"{self._shown}: was replaced while it was in use")
            found = self._parsed(os.read(handle, _LONG))
            yield HeldHead(found, advance)
        finally:
            os.close(handle)

    def _overwrite(self, handle: int, head: Head) -> None:
        line = f"{_FORMAT} {self._name} {head.seq:019d} {head.seal.hex()}"
        data = f"{line} {self._mac(line)}\n".encode()
        os.lseek(handle, 0, os.SEEK_SET)
        if os.write(handle, data) != len(data):
            raise OSError(None, "the disk is full")
        if not self.of_user:
            getattr(os, "fdatasync", os.fsync)(handle)

    def _parsed(self, data: bytes) -> Head:
        found = _LINE.fullmatch(data.decode("ascii", "replace"))
        if found is None or not hmac.compare_digest(found[5], self._mac(found[1])):
            raise LedgerTampered(f"{self._shown}: is not as it was written, or the key is not this ledger's")
        if found[2] != self._name:
            raise LedgerTampered(f"{self._shown}: is the head of another ledger")
        return Head(int(found[3]), bytes.fromhex(found[4]))

    def _mac(self, line: str) -> str:
        return hmac.digest(self._key, line.encode(), "sha256").hex()

    def _lock(self, handle: int) -> None:
        pause, end = _PAUSE, time.monotonic() + self._patience
        while fcntl is not None:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise LedgerUnavailable(f"{self._shown}: is locked by another process; try again") from None
            except OSError as error:
                raise self._unavailable(error) from None
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _unavailable(self, error: OSError) -> LedgerTampered | LedgerUnavailable:
        if isinstance(error, FileNotFoundError):
            return LedgerTampered(
                f"{self._shown}: is missing, and without it an old copy cannot be told from the ledger; bring it back, "
                "or give a head that you know to `rangebound ledger adopt`"
            )
        return LedgerUnavailable(f"{self._shown}: cannot be read or written ({error.strerror}); nothing was released")
