"""Entries of a ledger and the seal on each: HMAC-SHA256 over the seal before it and every field.

The bytes under a seal are the format's name, the seal before (32 zero bytes for the first entry), then every field in
order: N; for None, I<decimal>; for an integer, F<repr>; for a float, T<length>: or B<length>: and the bytes for text
(UTF-8) and bytes. No two different entries have the same encoding.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

FORMAT = "rangebound ledger 1"
NO_SEAL = bytes(32)
_BLOCK = 64  # bytes of SHA-256's block

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
