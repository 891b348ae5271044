"""Tokens: random, stored as hashes, scoped to accounts and a role, with an end, and revocable."""

from __future__ import annotations

import base64
import hashlib
import os
import sqlite3
import time
from dataclasses import dataclass
from enum import Enum

from rangebound.errors import ArgumentError
from rangebound.ledger.chain import plain_name

PREFIX = "rb_"
_DAY = 86_400.0
_LONGEST_LIFE = 3660
_SET_BACK = 300.0  # seconds by which a clock may be set back without refusing the tokens made just before


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

    def valid(self, now: float) -> bool:
        """Whether it may be used."""
        return not self.revoked and self.made - _SET_BACK <= now < self.ends


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
        row = self._connection.execute("SELECT * FROM token WHERE hash = ?", [token_hash(token)]).fetchone()
        found = None if row is None else _token(row)
        return found if found is not None and found.valid(time.time()) else None

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
        return next(each for each in self.listed() if each.name == name)


def _token(row: tuple[str, str, str, str, float, float, int]) -> Token:
    hashed, who, role, accounts, made, ends, revoked = row
    return Token(
        name=hashed[:16],
        who=who,
        role=TokenRole(role),
        accounts=tuple(accounts.split("\n")),
        made=made,
        ends=ends,
        revoked=bool(revoked),
    )
