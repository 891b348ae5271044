"""Rates: a minute's requests at once, then as many as come back."""

from rangebound.serve.rate import RateLimit


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
