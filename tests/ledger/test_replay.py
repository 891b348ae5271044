"""The state that entries add up to: exact sums, and no entry that is not chained, sealed and within its account."""

import pytest

from rangebound.errors import LedgerTampered
from rangebound.ledger.amount import SCALE, rounded_down
from rangebound.ledger.chain import FORMAT, EntryKind, LedgerEntry
from rangebound.ledger.replay import Replay, terms
from rangebound.ledger.rule import PlainSum
from tests.ledger.memory_store import KEY, chained

EPSILON, DELTA = rounded_down("epsilon", 1), rounded_down("delta", "1e-6")


def account(name: str = "people", units: int = SCALE, what: str | None = None) -> LedgerEntry:
    what = terms(PlainSum(), EPSILON, DELTA) if what is None else what
    return LedgerEntry(0, 0, EntryKind.ACCOUNT.value, account=name, first=units, second=10**6, what=what)


def spend(units: int = SCALE // 4, request: str = "1", name: str = "people", delta: int = 0) -> LedgerEntry:
    return LedgerEntry(0, 0, EntryKind.SPEND.value, account=name, request=request, first=units, second=delta)


def state(*drafts: LedgerEntry) -> Replay:
    found = Replay(key=KEY)
    found.advance(iter(chained(*drafts)))
    return found


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
        [LedgerEntry(0, 0, EntryKind.MOVE.value)],
        [LedgerEntry(0, 0, EntryKind.MOVE.value, what="memory")],
        [LedgerEntry(0, 0, EntryKind.MOVE.value, what="postgres"), LedgerEntry(0, 0, "move", what="postgres")],
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


def test_terms_are_written_in_one_way():
    promise = '"promise": ["1", "0.000001"], "rule":'
    for words in (f'{promise} "gaussian", "spare": "0.25"', f'"order": "16", {promise} "renyi"'):
        assert state(account(what=f"{{{words}}}")).accounts


def test_control_a_move_and_one_back_are_no_breach():
    found = state(*(LedgerEntry(0, 0, EntryKind.MOVE.value, what=each, note=each) for each in ("postgres", "file")))
    assert (found.place, found.address) == ("file", "file")


def test_a_rule_of_a_later_version_is_refused_by_name():
    with pytest.raises(LedgerTampered, match=r"entry 2: .*'odometer'.*a rule of a later version needs that version"):
        state(account(what='{"promise": ["1", "0.000001"], "rule": "odometer"}'))
