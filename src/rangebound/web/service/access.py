"""Who may ask, and how often: tokens (random, stored as hashes, for accounts and a role, with an end), and rates."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import sqlite3
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import Enum

from rangebound.errors import ArgumentError
from rangebound.ledger.chain import plain_name

PREFIX = "rb_"
_DAY = 86_400.0
_LONGEST_LIFE = 3660
_SET_BACK = 300.0  # seconds by which a clock may be set back without refusing the tokens made just before
_MOST_CLIENTS = 10_000
_OWN_BITS = 64  # of an address of IPv6: whoever has one has all that begin with them


class TokenRole(Enum):
    """What the holder of a token may do: ask for releases, or decide on those that need approval."""

    ANALYST = "analyst"
    APPROVER = "approver"


@dataclass(frozen=True, kw_only=True)
class Token:
    """What a server knows of a token; the token itself it does not. `name` is for people, to list and revoke it."""

    name: str
    who: str
    role: TokenRole
    accounts: tuple[str, ...]
    made: float
    ends: float
    revoked: bool


def token_hash(token: str) -> str:
    """The SHA-256 of a token, which is all that is stored of it.

    A token has 256 random bits, so it cannot be guessed from its hash however quickly hashes are computed; a slow hash
    or a salt would protect passwords that people choose, and nothing here. A token is looked up by its hash: how long
    that takes depends on bits that nobody can steer towards a stored one.
    """
    return hashlib.sha256(token.encode()).hexdigest()


class TokenStore:
    """The tokens of a server, in its database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS token (hash TEXT PRIMARY KEY, who TEXT NOT NULL, role TEXT NOT NULL,"
            " accounts TEXT NOT NULL, made REAL NOT NULL, ends REAL NOT NULL, revoked INTEGER NOT NULL) STRICT"
        )

    def make(self, *, who: str, role: TokenRole, accounts: tuple[str, ...], days: float) -> str:
        """A new token, which is shown this once."""
        plain_name("who", who)
        if not 0.0 < days <= _LONGEST_LIFE:
            raise ArgumentError(f"days={days!r}: must be more than 0 and at most {_LONGEST_LIFE}")
        token, now = PREFIX + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("="), time.time()
        row = (token_hash(token), who, role.value, "\n".join(accounts), now, now + days * _DAY, 0)
        with self._connection:
            self._connection.execute("INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return token

    def find(self, token: str) -> Token | None:
        """What a token allows, if it is known, has not ended and is not revoked."""
        if not token.startswith(PREFIX) or not token.isascii() or len(token) > 100:
            return None
        now, which = time.time(), "hash = ? AND NOT revoked AND made <= ? AND ends > ?"
        values = [token_hash(token), now + _SET_BACK, now]
        row = self._connection.execute(f"SELECT * FROM token WHERE {which}", values).fetchone()
        return None if row is None else _token(row)

    def listed(self) -> list[Token]:
        """All tokens, in the order in which they were made."""
        return [_token(row) for row in self._connection.execute("SELECT * FROM token ORDER BY made, hash")]

    def revoke(self, name: str) -> Token:
        """End a token now, by the name that `listed` has."""
        found = [each for each in self.listed() if each.name == name]
        if len(found) != 1:
            raise ArgumentError(f"name={name!r}: no such token; `rangebound serve tokens` lists them")
        with self._connection:
            self._connection.execute("UPDATE token SET revoked = 1 WHERE substr(hash, 1, 16) = ?", [name])
        return replace(found[0], revoked=True)


def _token(row: tuple[str, str, str, str, float, float, int]) -> Token:
    hashed, who, role, accounts, made, ends, revoked = row
    own = {"name": hashed[:16], "role": TokenRole(role), "accounts": tuple(accounts.split("\n"))}
    return Token(**own, who=who, made=made, ends=ends, revoked=bool(revoked))  # type: ignore[arg-type]


def peer_of(host: str) -> str:
    """Who is counted as one: an address, or the network of 64 bits in which one of IPv6 lies.

    >>> peer_of("192.0.2.7"), peer_of("2001:db8:0:1:2:3:4:5"), peer_of("::ffff:192.0.2.7"), peer_of("")
    ('192.0.2.7', '2001:db8:0:1::', '192.0.2.7', '')
    """
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    own = found.ipv4_mapped or ipaddress.IPv6Network((int(found), _OWN_BITS), strict=False).network_address
    return str(own)


class RateLimit:
    """A bucket with the requests of one minute per client; clients that were not seen for long are forgotten.

    >>> limit = RateLimit(60)
    >>> [limit.allows("anna", 0.0) for _ in range(61)].count(True), limit.allows("anna", 1.0)
    (60, True)
    """

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str, now: float) -> bool:
        """Whether a client may make a request now; if so, it has made it."""
        left, last = self._left.pop(client, (self._most, now))
        left = min(self._most, left + max(0.0, now - last) * self._most / 60.0)
        allowed = left >= 1.0
        self._left[client] = (left - 1.0 if allowed else left), now
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return allowed
