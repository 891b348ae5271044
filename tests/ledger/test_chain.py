"""Seals: the documented bytes, and no two entries alike."""

import hmac

from hypothesis import given
from hypothesis import strategies as st

from rangebound.ledger.chain import NO_SEAL, LedgerEntry, holds, seal, sealed

KEY = bytes(range(32))
BLANK = LedgerEntry(1, 0, "spend", None, None, None, None, None, None, "", "", "", b"")

values = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"])), st.binary()
)
rows = st.tuples(*[values] * 12)


def test_the_seal_is_what_the_documentation_says():
    """Written out by hand, with Python's own HMAC."""
    entry = BLANK._replace(seq=7, time=12, account="Zürich", first=5, digest=b"\x00;", note="I1;")
    fields = b"I7;I12;T5:spendT7:Z\xc3\xbcrichN;I5;N;N;B2:\x00;T0:T0:T3:I1;"
    assert seal(KEY, NO_SEAL, entry) == hmac.digest(KEY, b"rangebound ledger 1" + NO_SEAL + fields, "sha256")


@given(st.binary(max_size=200), st.binary(min_size=32, max_size=32))
def test_a_key_of_any_length_is_taken_as_hmac_takes_it(key, before):
    data = b"rangebound ledger 1" + before + b"I1;I0;T5:spendN;N;N;N;N;N;T0:T0:T0:"
    assert seal(key, before, BLANK) == hmac.digest(key, data, "sha256")


@given(rows, rows)
def test_different_entries_have_different_seals(first, second):
    same = [type(x) for x in first] == [type(x) for x in second] and first == second
    assert (seal(KEY, NO_SEAL, LedgerEntry(*first, b"")) == seal(KEY, NO_SEAL, LedgerEntry(*second, b""))) == same


@given(
    st.lists(st.text("IT1:;N", max_size=6), min_size=3, max_size=3),
    st.lists(st.text("IT1:;N", max_size=6), min_size=3, max_size=3),
)
def test_text_that_looks_like_the_encoding_changes_nothing(first, second):
    one = BLANK._replace(who=first[0], what=first[1], note=first[2])
    other = BLANK._replace(who=second[0], what=second[1], note=second[2])
    assert (seal(KEY, NO_SEAL, one) == seal(KEY, NO_SEAL, other)) == (first == second)


def test_a_seal_holds_for_its_place_and_key_only():
    entry = sealed(KEY, NO_SEAL, BLANK)
    assert holds(KEY, NO_SEAL, entry)
    assert not holds(KEY, hmac.digest(KEY, b"", "sha256"), entry)
    assert not holds(bytes(32), NO_SEAL, entry)
    assert not holds(KEY, NO_SEAL, entry._replace(seal=entry.seal.hex()))
    assert not holds(KEY, NO_SEAL, entry._replace(seal=None))
    assert not holds(KEY, NO_SEAL, entry._replace(note="\udcff"))
