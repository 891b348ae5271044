"""Rates: a minute's requests at once, then as many as come back."""

import pytest

from rangebound.web.service.rate import RateLimit, peer_of


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
