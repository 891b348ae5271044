"""Tokens are random, stored as hashes, and end; a minute's requests come at once, then as many as come back."""

import hashlib
import sqlite3
import time

import pytest

from rangebound.errors import ArgumentError
from rangebound.web.service.job_store import RateLimit, TokenRole, TokenStore, peer_of, token_hash


@pytest.fixture
def tokens():
    with sqlite3.connect(":memory:") as connection:
        yield TokenStore(connection)
    connection.close()


GIVEN = {"who": "anna", "role": TokenRole.ANALYST, "accounts": ("people", "staff")}


def test_a_token_is_found_with_what_it_allows_has_256_random_bits_and_only_its_hash_is_kept(tokens):
    made = tokens.make(**GIVEN, days=90)
    found = tokens.find(made)
    assert (found.who, found.role, found.accounts) == ("anna", TokenRole.ANALYST, ("people", "staff"))
    assert found.ends == pytest.approx(time.time() + 90 * 86400, abs=60)
    assert tokens.find(made + "x") is tokens.find(token_hash(made)) is None
    made = {made} | {tokens.make(**GIVEN, days=1) for _ in range(50)}
    assert len(made) == 51
    assert all(len(each) == 3 + 43 for each in made)  # 32 bytes in base 64
    rows = tokens._connection.execute("SELECT hash FROM token").fetchall()
    assert {hash for (hash,) in rows} == {hashlib.sha256(each.encode()).hexdigest() for each in made}


def test_a_token_ends_and_is_revoked(tokens, monkeypatch):
    made, kept = tokens.make(**GIVEN, days=1), tokens.make(**GIVEN, days=3)
    tokens.revoke(token_hash(made)[:16])
    assert tokens.find(made) is None
    assert tokens.find(kept) is not None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * 86400)
    assert tokens.find(kept) is not None
    for moved, valid in ((4 * 86400, False), (-240, True), (-360, False)):  # a clock that is corrected, or set back
        monkeypatch.setattr(time, "time", lambda moved=moved: now + moved)
        assert (tokens.find(kept) is not None) is valid
    with pytest.raises(ArgumentError, match="no such token"):
        tokens.revoke("nobody")
    for days in (0, -1, float("nan"), float("inf"), 10**6):
        with pytest.raises(ArgumentError, match="days="):
            tokens.make(**GIVEN, days=days)


def test_a_client_has_a_bucket_of_its_own_that_fills_again_and_many_do_not_fill_the_memory():
    limit = RateLimit(10)
    assert [limit.allows("anna", 0.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert limit.allows("carl", 0.0)
    assert not limit.allows("anna", 5.9)
    assert limit.allows("anna", 6.1)
    assert not limit.allows("anna", 6.1)
    assert [limit.allows("anna", 1e6) for _ in range(11)] == [True] * 10 + [False]
    assert not limit.allows("anna", 5e5)  # a clock that goes back gives nothing
    for at in range(20_000):
        limit.allows(f"client {at}", 0.0)
    assert len(limit._left) == 10_000


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.7", "192.0.2.8", False),
        ("192.0.2.7", "::ffff:192.0.2.7", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("testclient", "", False),
    ],
)
def test_addresses_that_one_host_can_have_are_one_peer(one, other, same):
    assert (peer_of(one) == peer_of(other)) is same
