"""The state that entries add up to: exact sums, and no entry that is not chained, sealed and within its account."""

import pytest

from rangebound.errors import LedgerTampered
from rangebound.ledger.amount import SCALE, rounded_down
from rangebound.ledger.chain import FORMAT, NO_SEAL, EntryKind, LedgerEntry, sealed
from rangebound.ledger.replay import Replay, terms
from rangebound.ledger.rule import GaussianFilter, PlainSum, RenyiFilter

KEY = b"k" * 32
EPSILON, DELTA = rounded_down("epsilon", 1), rounded_down("delta", "1e-6")


def chain(*drafts: LedgerEntry) -> list[LedgerEntry]:
    """The entries with numbers and seals, behind a first one."""
    entries, before = [], NO_SEAL
    for seq, draft in enumerate(
        (LedgerEntry(1, 0, EntryKind.LEDGER.value, request="id", what=FORMAT), *drafts), start=1
    ):
        entries.append(sealed(KEY, before, draft._replace(seq=seq)))
        before = entries[-1].seal
    return entries


def account(name: str = "people", units: int = SCALE, what: str | None = None) -> LedgerEntry:
    what = terms(PlainSum(), EPSILON, DELTA) if what is None else what
    return LedgerEntry(0, 0, EntryKind.ACCOUNT.value, account=name, first=units, second=10**6, what=what)


def spend(units: int = SCALE // 4, request: str = "1", name: str = "people", delta: int = 0) -> LedgerEntry:
    return LedgerEntry(0, 0, EntryKind.SPEND.value, account=name, request=request, first=units, second=delta)


def state(*drafts: LedgerEntry) -> Replay:
    found = Replay(key=KEY)
    found.advance(iter(chain(*drafts)))
    return found


def test_spends_add_up_exactly():
    found = state(account(), spend(request="1"), spend(request="2"), spend(request="3", delta=5))
    balance = found.accounts["people"]
    assert balance.spent == (3 * SCALE // 4, 5)
    assert balance.spends == 3
    assert str(balance.remaining()) == "epsilon 0.25, delta 0.000000999995"
    assert set(found.pending) == {3, 4, 5}
    assert balance.admits((SCALE // 4, 10**6 - 5))
    assert not balance.admits((SCALE // 4 + 1, 0))
    assert not balance.admits((0, 10**6 - 4))


def test_published_and_failed_spends_are_no_longer_pending():
    published = LedgerEntry(0, 0, EntryKind.PUBLISH.value, account="people", request="1", ref=3, digest=bytes(32))
    failed = LedgerEntry(0, 0, EntryKind.FAIL.value, account="people", request="2", ref=4)
    found = state(account(), spend(request="1"), spend(request="2"), published, failed)
    assert (found.pending, found.failed) == ({}, {4})
    assert found.accounts["people"].spends == 2  # the charge stands in either case


def test_a_state_goes_on_from_the_last_entry_that_it_knows():
    entries = chain(account(), spend(request="1"), spend(request="2"))
    found = Replay(key=KEY)
    found.advance(iter(entries[:3]))
    found.advance(iter(entries[2:]))
    assert found.last == entries[-1]
    with pytest.raises(LedgerTampered, match="has changed or gone"):
        found.advance(iter(entries[1:]))


@pytest.mark.parametrize(
    "drafts",
    [
        [account(), account()],
        [account(), spend(units=SCALE + 1)],
        [account(), spend(units=3 * SCALE // 4), spend(units=SCALE // 4 + 1, request="2")],
        [account(), spend(delta=10**6 + 1)],
        [account(), spend(units=0)],
        [account(), spend(units=-1)],
        [spend()],
        [account(), spend(name="others")],
        [account(), spend()._replace(request=None)],
        [account(), LedgerEntry(0, 0, EntryKind.PUBLISH.value, ref=3, digest=bytes(32))],
        [account(), spend(), LedgerEntry(0, 0, EntryKind.PUBLISH.value, ref=3)],
        [account(), spend(), LedgerEntry(0, 0, EntryKind.FAIL.value)],
        [account(), LedgerEntry(0, 0, EntryKind.LEDGER.value, request="id", what=FORMAT)],
        [account(), LedgerEntry(0, 0, "gift", account="people")],
        [account(what='{"promise": ["1", "0"], "rule": "sum", "rule": "sum"}')],
        [account(what='{"promise": ["1.0", "0"], "rule": "sum"}')],
        [account(what="{}")],
        [account(what='{"promise": ["1", "0.000001"], "rule": "gaussian", "spare": "0.50"}')],
        [account()._replace(first=None)],
    ],
)
def test_a_sealed_entry_that_breaks_a_rule_is_refused(drafts):
    with pytest.raises(LedgerTampered, match="breaks the rules"):
        state(*drafts)


def test_entries_out_of_order_changed_or_missing_are_refused():
    entries = chain(account(), spend(request="1"), spend(request="2"))
    cheaper = entries[2]._replace(first=1)
    for wrong in (
        [entries[0], *entries[2:]],
        [*entries[:2], cheaper, entries[3]],
        [*entries[:2], entries[3]],
        entries[1:],
        [],
    ):
        with pytest.raises(LedgerTampered):
            Replay(key=KEY).advance(iter(wrong))
    with pytest.raises(LedgerTampered, match="the key is not this ledger's"):
        Replay(key=b"o" * 32).advance(iter(entries))


def test_a_rule_of_a_later_version_is_refused_by_name():
    with pytest.raises(LedgerTampered, match=r"entry 2: .*'odometer'.*a rule of a later version needs that version"):
        state(account(what='{"promise": ["1", "0.000001"], "rule": "odometer"}'))


def test_terms_are_written_in_one_way():
    assert (
        terms(GaussianFilter(), EPSILON, DELTA) == '{"promise": ["1", "0.000001"], "rule": "gaussian", "spare": "0.25"}'
    )
    assert (
        terms(RenyiFilter(order=16), EPSILON, DELTA) == '{"order": "16", "promise": ["1", "0.000001"], "rule": "renyi"}'
    )
