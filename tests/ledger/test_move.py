"""Moving a ledger between a file and PostgreSQL: the same chain, one place that takes charges, at every moment."""

import errno
import os
import shutil
import signal
from functools import partial

import psycopg
import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Ledger, export, verify
from rangebound.ledger.chain import EntryKind
from rangebound.ledger.export import move as moved
from rangebound.ledger.head import HEAD_VARIABLE
from rangebound.ledger.location import located
from tests.ledger.postgres import at_statement, fresh_address, kill_myself, schema_of
from tests.ledger.processes import forked
from tests.ledger.rules import never, opens, release


def spend(ledger, name):
    return release(ledger, name, lambda _: name.encode())


def rows(place):
    """Every entry and all bytes, as the store has them."""
    store = located(place, None, 5.0)[0]
    with store.reading() as transaction:
        entries = list(transaction.entries(1))
        found = [(entry, transaction.payload(entry.seq)) for entry in entries]
    store.close()
    return found


@pytest.mark.parametrize("elsewhere", [False, True], ids=["by default", "heads elsewhere"])
def test_there_and_back_the_chain_is_the_same_bit_for_bit(
    ledger, path, address, postgres, memory, tmp_path, monkeypatch, elsewhere
):
    spend(ledger, "1")
    ledger.close()
    if elsewhere:
        (tmp_path / "heads").mkdir()
        shutil.move(str(path) + ".head", tmp_path / "heads" / f"{ledger._chain.state.name}.head")
        monkeypatch.setenv(HEAD_VARIABLE, str(tmp_path / "heads"))
    before, back = rows(path), memory / "back.ledger"
    with moved(path, address, roles=True) as there:
        assert rows(path) == rows(address)
        assert rows(address)[:-1] == before
        spend(there, "2")
        assert there.published("1") == b"1"
    with psycopg.connect(postgres) as connection:  # the database enforces the roles
        found = connection.execute("SELECT count(*) FROM pg_policies WHERE schemaname = %s", (schema_of(address),))
        assert found.fetchone()[0] > 4
    with moved(address, back) as again:
        spend(again, "3")
        assert [each.request for each in again.history() if each.kind is EntryKind.PUBLISH] == ["1", "2", "3"]
        assert again.account("people").spends == 3
    assert rows(back)[: len(before)] == before
    for closed in (path, address):
        with pytest.raises(LedgerUnavailable, match="has moved to"):
            Ledger.open(closed)
        if not elsewhere:  # else the one head for both has gone on
            verify(closed)
    verify(back)


def test_a_process_that_has_the_old_place_open_and_an_old_copy_of_the_file_are_refused(ledger, path, address):
    spend(ledger, "1")
    old = path.read_bytes()
    moved(path, address).close()
    for call in (lambda: release(ledger, "2", never), ledger.accounts):
        with pytest.raises(LedgerUnavailable, match="has moved to"):
            call()
    path.write_bytes(old)
    with pytest.raises(LedgerTampered, match="rolled back"):
        Ledger.open(path)


def test_only_between_a_file_and_a_database_and_not_to_a_place_that_is_taken(ledger, path, address, memory, postgres):
    Ledger.create(address).close()
    ledger.close()
    for source, target, words in (
        (path, memory / "b", "^target: must be"),
        (address, fresh_address(postgres), "^target: must be"),
        (path, address, "something in the schema"),
    ):
        with pytest.raises(ArgumentError, match=words):
            moved(source, target)
    with Ledger.open(path) as again:  # nothing was closed
        spend(again, "1")


@pytest.mark.parametrize(("what", "words"), [("key", "another ledger"), ("head", "is not as it was written")])
def test_a_key_or_a_head_of_another_ledger_at_the_new_place_is_found_before_the_old_one_is_closed(
    address, memory, what, words
):
    Ledger.create(address).close()
    Ledger.create(memory / "lost.ledger").close()
    os.rename(memory / f"lost.ledger.{what}", memory / f"new.ledger.{what}")
    with pytest.raises((ArgumentError, LedgerTampered), match=words):
        moved(address, memory / "new.ledger")
    assert opens(address)
    os.unlink(memory / f"new.ledger.{what}")
    moved(address, memory / "new.ledger").close()


def test_a_move_needs_no_hard_links(address, memory, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    Ledger.create(address).close()
    monkeypatch.setattr(os, "link", refused)
    with moved(address, memory / "new.ledger") as ledger:
        ledger.verify()


def test_a_ledger_may_move_back_before_anything_is_added(path, memory, address):
    Ledger.create(path).close()
    moved(path, address).close()
    moved(address, memory / "back.ledger").close()
    assert [opens(each) for each in (path, address, memory / "back.ledger")] == [False, False, True]


def test_an_interrupted_move_goes_on_to_the_same_place_only(ledger, path, address, postgres, monkeypatch):
    spend(ledger, "1")
    ledger.close()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(export, "_stored_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            moved(path, address)
    with pytest.raises(LedgerUnavailable, match="has moved"):
        Ledger.open(path)
    with pytest.raises(ArgumentError, match="already"):
        moved(path, fresh_address(postgres))
    with moved(path, address) as there:
        spend(there, "2")
    with pytest.raises(ArgumentError, match="something in the schema"):
        moved(path, address)


def killed(number, path, address):
    with at_statement(number, True, kill_myself):
        moved(path, address).close()
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_move_killed_at_any_statement_leaves_one_place_and_can_be_finished(memory, postgres):
    """Before the last statement only the old place may take a charge, and never both."""
    for number in range(1, 200, 6):
        path, address = memory / f"{number}.ledger", fresh_address(postgres)
        with Ledger.create(path) as ledger:
            ledger.open_account("people", epsilon=1)
        ended = os.WTERMSIG(os.waitpid(forked(partial(killed, number, path, address)), 0)[1])
        usable = [place for place in (path, address) if opens(place)]
        assert len(usable) <= 1
        if address not in usable:
            moved(path, address).close()
        assert not opens(path)
        with Ledger.open(address) as ledger:
            spend(ledger, "1")
            ledger.verify()
        if ended == signal.SIGTERM:
            break
    assert ended == signal.SIGTERM
