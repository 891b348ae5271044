"""Entries of a ledger: their texts, who writes them, and the seal on each.

A seal is an HMAC-SHA256 over the seal before it and every field.

The bytes under a seal are the format's name, the seal before (32 zero bytes for the first entry), then every field in
order: N; for None, I<decimal>; for an integer, F<repr>; for a float, T<length>: or B<length>: and the bytes for text
(UTF-8) and bytes. No two different entries have the same encoding.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import re
import time
import unicodedata
from contextlib import suppress
from enum import StrEnum
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments

FORMAT = "rangebound ledger 1"
NO_SEAL = bytes(32)
_BLOCK = 64  # bytes of SHA-256's block
_NAME = 200  # characters of an account's name or a request's id
_PROSE = 10_000  # characters of a note
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_HEAD = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{64})", re.ASCII)
_LATEST = 2**63 // 1000  # microseconds since 1970: the last moment that a count of nanoseconds can hold

Field: TypeAlias = int | str | bytes | float | None


class EntryKind(StrEnum):
    """What an entry says."""

    LEDGER = "ledger"
    ACCOUNT = "account"
    SPEND = "spend"
    PUBLISH = "publish"
    FAIL = "fail"
    REQUEST = "request"
    APPROVE = "approve"
    REJECT = "reject"
    MOVE = "move"


BEARERS = frozenset({EntryKind.PUBLISH.value, EntryKind.REQUEST.value})
"""The kinds of entries that have bytes stored with them."""


class Head(NamedTuple):
    """The number and the seal of a ledger's last entry."""

    seq: int
    seal: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.seal.hex()}"


def parse_head(head: str) -> Head:
    """A head as `Ledger.head` gave it."""
    match = _HEAD.fullmatch(head) if type(head) is str else None
    if match is None:
        rule = "must be NUMBER:SEAL, as `rangebound ledger show` prints it and `Ledger.head` gives it"
        raise ArgumentError(f"head={arguments.shown(head)}: {rule}")
    return Head(int(match[1]), bytes.fromhex(match[2]))


class LedgerEntry(NamedTuple):
    """One line of a ledger, as it is stored; which fields are used depends on its kind.

    | kind | account | request | first, second | ref | digest | what |
    | --- | --- | --- | --- | --- | --- | --- |
    | ledger | | the ledger's own random id | | | | the format |
    | account | its name | | the totals, in units of 1e-12 | | | rule, epsilon, delta and terms, as JSON |
    | spend | its name | the request's id | the cost, in units | | | what is released |
    | publish | its name | the request's id | | the spend's seq | SHA-256 of the bytes | |
    | fail | its name | the request's id | | the spend's seq | | |
    | request | its name | the request's id | the cost, in units | | SHA-256 of the dry run | what is to be released |
    | approve, reject | its name | the request's id | | the request's seq | | |
    | move | | | | | | the kind of store that it goes to; the place is its note |
    """

    seq: int
    time: int  # microseconds since 1970, as the clock of the machine had it
    kind: str
    account: str | None = None
    request: str | None = None
    first: int | None = None
    second: int | None = None
    ref: int | None = None
    digest: bytes | None = None
    who: str = ""
    what: str = ""
    note: str = ""
    seal: bytes = b""

    @property
    def head(self) -> Head:
        """The head of a ledger whose last entry this is."""
        return Head(self.seq, self.seal)


def seal(key: bytes, before: bytes, entry: LedgerEntry) -> bytes:
    """The seal that belongs on an entry that follows the seal `before`."""
    fields = b"".join(map(_encoded, entry[:-1]))
    start, end = _keyed(key)
    inner, outer = start.copy(), end.copy()
    inner.update(before + fields)
    outer.update(inner.digest())
    return outer.digest()


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """The two hashes of HMAC (RFC 2104), with the key and the format's name in them: where every seal begins. With
    `hmac.digest`, which begins anew, a seal takes longer than all the rest of an entry."""
    block = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))
    inner.update(FORMAT.encode())
    return inner, outer


def sealed(key: bytes, before: bytes, entry: LedgerEntry) -> LedgerEntry:
    """The entry with its seal."""
    return LedgerEntry(*entry[:-1], seal(key, before, entry))


def holds(key: bytes, before: bytes, entry: LedgerEntry) -> bool:
    """Whether the seal on an entry is the one that belongs there."""
    return type(entry.seal) is bytes and hmac.compare_digest(entry.seal, seal(key, before, entry))


def _encoded(value: Field) -> bytes:
    """A field in bytes that no other value has."""
    if value is None:
        return b"N;"
    if type(value) is int:
        return b"I%d;" % value
    if type(value) is str:
        # Text that is not UTF-8 comes out of a damaged file as surrogates; it must be encoded to be found.
        data = value.encode("utf-8", "surrogateescape")
        return b"T%d:%b" % (len(data), data)
    if type(value) is bytes:
        return b"B%d:%b" % (len(value), value)
    if type(value) is float:  # never written: one that is read was put there by someone else, and is not an integer
        return b"F%b;" % repr(value).encode()
    raise TypeError(f"a field of an entry has the type {type(value).__name__}")


def plain_name(name: str, value: object) -> str:
    """`value` if it can serve as a name: names are compared letter by letter, so two that look alike must be alike."""
    if type(value) is not str:
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be a string")
    if not 0 < len(value) <= _NAME or not value.isprintable() or value != value.strip():
        raise ArgumentError(
            f"{name}={arguments.shown(value)}: must have 1 to {_NAME} printable characters, and no space at the ends"
        )
    if not unicodedata.is_normalized("NFC", value):
        raise ArgumentError(f"{name}={arguments.shown(value)}: must be in Unicode's normal form NFC")
    return value


def prose(name: str, value: object) -> str:
    """`value` if it is text that every database and every file can hold."""
    if type(value) is not str:
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be a string")
    if len(value) > _PROSE or _NO_TEXT.search(value):
        raise ArgumentError(f"{name}={arguments.shown(value)}: must be Unicode text of at most {_PROSE} characters")
    return value


def person(value: str | None) -> str:
    """Who did it: as told, else the user whose process this is."""
    return _user() if value is None else prose("who", value)


@cache
def _user() -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""


def may_be_one(one: str, other: str) -> bool:
    """Whether two names in a ledger may be those of one person.

    In a database a name is a login, or a login and another name that was stated: `service/anna`. Of one login, stated
    names are different people, as those of a service; a login is also anyone who states it elsewhere, and the same as
    itself with a stated name. Case, spaces and letters that are not seen make no difference.

    >>> may_be_one("anna", "service/anna"), may_be_one("anna", "anna/bob"), may_be_one("anna", " Anna")
    (True, True, True)
    >>> may_be_one("service/anna", "service/berta"), may_be_one("anna", "berta")
    (False, False)
    """
    (login, _, said), (second, _, told) = (folded(each).partition("/") for each in (one, other))
    if login == second and bool(said) == bool(told):
        return said == told
    return bool({login, said} & {second, told} - {""})


def login_of(who: str) -> str:
    """The login in a name of a ledger in a database, where another one may be stated behind it.

    >>> login_of("service/anna"), login_of("anna")
    ('service', 'anna')
    """
    return who.partition("/")[0]


def by_login(login: str, who: str) -> bool:
    """Whether a name in a ledger in a database is one of this login.

    >>> by_login("anna", "anna/bob"), by_login("anna", "service/anna")
    (True, False)
    """
    return f"{who}/".startswith(f"{login}/")


def folded(name: str) -> str:
    """A name without what makes no difference: case, spaces and letters that are not seen.

    >>> folded(" An\u200bna"), folded("unit/Anna")
    ('anna', 'unit/anna')
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(each for each in plain if each.isprintable() and not each.isspace())


def signed(login: str | None, who: str) -> str:
    """Who adds an entry: as stated, or on a server by the login, with another name that was stated after it.

    >>> signed(None, "anna"), signed("service", "anna"), signed("anna", "anna"), signed("service", "service/anna")
    ('anna', 'service/anna', 'anna', 'service/anna')
    """
    if login is None or who.startswith(f"{login}/"):
        return who
    return login if who in ("", login, person(None)) else f"{login}/{who}"


def now() -> int:
    """Microseconds since 1970 by the clock of this machine."""
    try:
        return time.time_ns() // 1000
    except OverflowError:  # a clock beyond the year 2262; times are for people, the order is by number
        return _LATEST
