"""Tampering: every changed, removed, moved or doubled entry is found, and a rollback when the head is known."""

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import LedgerEntry
from tests.ledger.rules import EVERY_RULE, TENTH

SPENDS = 6


@pytest.fixture(params=EVERY_RULE)
def rule(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def used(ledger: Ledger, path: Path) -> Path:
    """A closed ledger with some history: one file, no log."""
    for i in range(SPENDS):
        ledger.release(
            account="people", request=f"t{i}", cost=TENTH, compute=lambda _, i=i: f"answer {i}".encode(), note=f"n{i}"
        )
    ledger.reserve(account="people", request="pending", cost=TENTH)
    ledger.close()
    return path


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def ask(path: Path, query: str) -> list[tuple]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def restore(path: Path, data: bytes) -> None:
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(data)


def findings(path: Path, head: str | None = None) -> tuple[str, ...]:
    """What a full check says, by the ledger's own key."""
    from rangebound.ledger.key import read_key
    from rangebound.ledger.sqlite import SQLiteStore
    from rangebound.ledger.verification import examine

    store = SQLiteStore(path, patience=1.0)
    try:
        examine(store, read_key(path.with_name(path.name + ".key")), head=head)
    except LedgerTampered as error:
        return error.findings
    finally:
        store.close()
    return ()


def refused(path: Path) -> bool:
    """Whether the ledger fails closed: it does not even open, or gives nothing."""
    try:
        with Ledger.open(path) as ledger:
            ledger.reserve(account="people", request="new", cost=TENTH)
    except LedgerTampered:
        return True
    return False


def opens(path: Path) -> bool:
    """Whether the ledger opens, with nothing spent: its head stays where it is."""
    try:
        Ledger.open(path).close()
    except RangeboundError:
        return False
    return True


CHANGES = {
    "seq": "seq + 100",
    "time": "time - 1",
    "kind": "'ledger'",
    "account": "'someone'",
    "request": "'x'",
    "first": "first - 1",
    "second": "1",
    "ref": "77",
    "digest": "x'00'",
    "who": "'mallory'",
    "what": "'x'",
    "note": "'x'",
    "seal": "zeroblob(32)",
}


def test_every_field_is_tried():
    assert set(CHANGES) == set(LedgerEntry._fields)


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_field_of_any_entry_is_found_and_nothing_is_spent(used, field):
    assert findings(used) == ()
    clean = used.read_bytes()
    values = [row[0] for row in ask(used, f"SELECT {field} FROM entries ORDER BY seq")]
    changed = 0
    for seq, value in enumerate(values, start=1):
        restore(used, clean)
        edit(used, f"UPDATE entries SET {field} = {CHANGES[field]} WHERE seq = {seq}")
        if ask(used, f"SELECT {field} FROM entries WHERE seq = {seq}") != [(value,)]:
            assert any(f"entry {seq}:" in line for line in findings(used)), seq
            assert refused(used)
            changed += 1
    assert changed >= SPENDS


@pytest.mark.parametrize("value", ["CAST(first AS REAL)", "CAST(first AS TEXT)", "CAST(first AS BLOB)"])
def test_a_number_stored_as_another_type_is_found(used, value):
    edit(used, f"UPDATE entries SET first = {value} WHERE seq = 3")
    kind = ask(used, "SELECT typeof(first) FROM entries WHERE seq = 3")[0][0]
    assert bool(findings(used)) == (kind != "integer")  # SQLite itself turns some of them back into the integer


SECOND_TO_LAST = 2 * SPENDS + 1


@pytest.mark.parametrize("seq", range(1, SECOND_TO_LAST + 1))
def test_a_removed_entry_is_found(used, seq):
    edit(used, f"DELETE FROM entries WHERE seq = {seq}")
    assert f"entry {seq}: is missing" in findings(used)
    assert refused(used)


@pytest.mark.parametrize("seq", [2, 3, 5])
def test_a_removed_entry_is_found_when_the_numbers_are_closed_up(used, seq):
    edit(
        used,
        f"DELETE FROM entries WHERE seq = {seq}",
        f"UPDATE entries SET seq = -seq WHERE seq > {seq}",
        "UPDATE entries SET seq = -seq - 1 WHERE seq < 0",
    )
    assert findings(used)
    assert refused(used)


def test_two_entries_that_changed_places_are_found(used):
    edit(
        used,
        "UPDATE entries SET seq = 1000 WHERE seq = 3",
        "UPDATE entries SET seq = 3 WHERE seq = 5",
        "UPDATE entries SET seq = 5 WHERE seq = 1000",
    )
    assert any("entry 3:" in line for line in findings(used))
    assert refused(used)


@pytest.mark.parametrize("place", [0, -3, 2 * SPENDS + 4, 99])
def test_a_doubled_entry_is_found(used, place):
    fields = ", ".join(LedgerEntry._fields[1:])
    edit(
        used,
        f"INSERT INTO entries (seq, {fields}) SELECT {place}, {fields.replace('request', 'NULL')} FROM entries "
        "WHERE seq = 3",
    )
    assert findings(used)
    assert refused(used)


def test_published_bytes_are_under_the_seal(used):
    edit(used, "UPDATE payloads SET bytes = x'00' WHERE seq = 4")
    assert findings(used) == ("entry 4: its published bytes are not as they were stored",)
    with Ledger.open(used) as ledger, pytest.raises(LedgerTampered, match="published bytes"):
        ledger.release(account="people", request="t0", cost=TENTH, compute=lambda _: b"again")


def test_removed_and_added_bytes_are_found(used):
    edit(used, "DELETE FROM payloads WHERE seq = 4", "INSERT INTO payloads VALUES (3, x'00')")
    assert len(findings(used)) == 2
    assert refused(used)
    edit(used, "DELETE FROM payloads WHERE seq = 3")
    with Ledger.open(used) as ledger, pytest.raises(LedgerTampered, match="missing"):
        ledger.release(account="people", request="t0", cost=TENTH, compute=lambda _: b"again")


def test_a_larger_total_is_found(used):
    edit(used, "UPDATE entries SET first = 1000000000000000 WHERE kind = 'account'")
    assert any("entry 2:" in line for line in findings(used))
    assert refused(used)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE seq = NEW.seq; END",
        "CREATE TABLE more (x)",
        "CREATE VIEW v AS SELECT 1",
        "DROP INDEX requests",
        "ALTER TABLE entries ADD COLUMN more TEXT",
        "PRAGMA application_id = 7",
    ],
)
def test_other_tables_triggers_and_indexes_are_refused(used, statement):
    edit(used, statement)
    assert findings(used)
    assert refused(used)


def test_changes_under_a_running_process_are_noticed(ledger, path):
    ledger.reserve(account="people", request="1", cost=TENTH)
    edit(path, "UPDATE entries SET first = 0 WHERE seq = 3")
    with pytest.raises(LedgerTampered, match="entry 3"):
        ledger.reserve(account="people", request="2", cost=TENTH)
    edit(path, "DELETE FROM entries WHERE seq = 3")
    with pytest.raises(LedgerTampered, match="entry 3"):
        ledger.account("people")


def test_a_trigger_added_under_a_running_process_is_noticed_before_anything_is_released(ledger, path):
    ledger.reserve(account="people", request="1", cost=TENTH)
    edit(path, "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE seq = NEW.seq; END")
    for _ in range(2):
        with pytest.raises(LedgerTampered):
            ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: pytest.fail("computed"))
    edit(path, "DROP TRIGGER t")
    ledger.reserve(account="people", request="2", cost=TENTH)


def test_a_hidden_publication_is_not_computed_again(ledger, path):
    """Whoever removes the record of an answer does not get a second draw for one charge."""
    ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"first")
    ledger.reserve(account="people", request="2", cost=TENTH)
    edit(path, "DELETE FROM entries WHERE kind = 'publish'", "DELETE FROM payloads")
    with pytest.raises(LedgerTampered, match="published bytes are missing"):
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"second")


def test_a_wrong_key_is_refused(used, memory):
    other = memory / "other.key"
    other.write_text("0" * 64 + "\n")
    other.chmod(0o600)
    with pytest.raises(LedgerTampered, match="key is not this ledger's"):
        Ledger.open(used, key=other)


def test_an_old_copy_is_found_by_the_head_alone(used):
    old = used.read_bytes()
    with Ledger.open(used) as ledger:
        early = ledger.head
        ledger.reserve(account="people", request="late", cost=TENTH)
        late = ledger.head
    assert findings(used, late) == findings(used, early) == ()
    used.write_bytes(old)
    assert findings(used, early) == ()
    assert findings(used) == ()  # the control: an old copy is a perfect ledger, but for the head
    assert "rolled back" in findings(used, late)[0]


def test_an_old_copy_is_found_by_a_process_that_runs(ledger, path, memory):
    ledger.reserve(account="people", request="1", cost=TENTH)
    ledger.close()
    shutil.copy(path, memory / "old")
    ledger.reserve(account="people", request="2", cost=TENTH)
    ledger.close()
    path.write_bytes((memory / "old").read_bytes())
    with pytest.raises(LedgerTampered, match="rolled back"):
        ledger.reserve(account="people", request="3", cost=TENTH)


def test_a_file_put_back_under_a_running_process_is_found(ledger, path):
    """Byte by byte, so that the file is the same to the system and only its contents are old."""
    ledger.reserve(account="people", request="1", cost=TENTH)
    old = path.read_bytes()
    ledger.reserve(account="people", request="2", cost=TENTH)
    with path.open("r+b") as file:
        file.write(old)
        file.truncate()
    for _ in range(2):
        with pytest.raises(LedgerTampered, match="rolled back"):
            ledger.reserve(account="people", request="3", cost=TENTH)


def test_a_split_is_found_by_the_head(used, memory):
    """Two copies that were both spent from: neither goes on from the other."""
    for ending in ("", ".head"):
        shutil.copy(used.with_name(used.name + ending), memory / f"copy.ledger{ending}")
    heads = []
    for place in (used, memory / "copy.ledger"):
        with Ledger.open(place, key=used.with_name(used.name + ".key")) as ledger:
            ledger.reserve(account="people", request="mine", cost=TENTH)
            heads.append(ledger.head)
    assert heads[0] != heads[1]
    assert findings(used, heads[0]) == ()
    assert findings(used, heads[1])


@pytest.mark.parametrize("head", ["", "1", "x:y", "0:" + "0" * 64, 3, "1:" + "0" * 63, "1:" + "0" * 64 + "\n"])
def test_a_bad_head_is_refused(ledger, head):
    with pytest.raises(ArgumentError, match=r"^head="):
        ledger.verify(head=head)


def interrupted(used: Path, place: Path) -> tuple[Path, bytes]:
    """A copy of a ledger as a process leaves it that is killed in the middle of a commit, and its journal."""
    for ending in ("", ".key", ".head"):
        shutil.copy(used.with_name(used.name + ending), place.with_name(place.name + ending))
    pid = os.fork()
    if not pid:
        connection = sqlite3.connect(place, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")  # so that pages go to the file before the commit
        connection.execute("BEGIN")
        connection.execute("UPDATE entries SET note = note || 'x', request = request || 'x'")
        connection.execute("INSERT INTO payloads VALUES (1000, zeroblob(1000000))")
        os._exit(0)
    os.waitpid(pid, 0)
    assert place.read_bytes()[: used.stat().st_size] != used.read_bytes()
    return place, place.with_name(place.name + "-journal").read_bytes()


def clone(place: Path, target: Path, journal: bytes | None) -> Path:
    for ending in ("", ".key", ".head"):
        shutil.copy(place.with_name(place.name + ending), target.with_name(target.name + ending))
    if journal is not None:
        target.with_name(target.name + "-journal").write_bytes(journal)
    return target


def undone_or_found(place: Path, before: object) -> bool:
    """Whether an interrupted commit was undone without a trace; if not, it must be found."""
    try:
        with Ledger.open(place):
            pass
    except (LedgerTampered, LedgerUnavailable):
        assert findings(place)
        return False
    assert findings(place) == ()
    assert content(place) == before
    return True


def test_a_journal_cut_short_anywhere_is_found_or_undoes_all(used, memory):
    place, journal = interrupted(used, memory / "killed")
    before = content(used)
    assert undone_or_found(clone(place, memory / "whole", journal), before)  # the control
    assert not undone_or_found(clone(place, memory / "none", None), before)
    chance = random.Random(3)
    for cut in sorted(
        {0, 28, 512, *range(512, len(journal), 4104), *(chance.randrange(len(journal)) for _ in range(40))}
    ):
        undone_or_found(clone(place, memory / f"cut{cut}", journal[:cut]), before)


def test_flipped_bytes_in_a_journal_are_found_or_harmless(used, memory):
    place, journal = interrupted(used, memory / "killed")
    before, chance, found = content(used), random.Random(6), 0
    for turn in range(150):
        data = bytearray(journal)
        data[chance.randrange(len(journal) if turn % 2 else 32)] ^= 1 << chance.randrange(8)
        found += not undone_or_found(clone(place, memory / f"flip{turn}", bytes(data)), before)
        for each in memory.glob(f"flip{turn}*"):
            each.unlink()
    assert found > 10


def content(path: Path) -> tuple[list[tuple], list[tuple]]:
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    try:
        entries = connection.execute("SELECT * FROM entries ORDER BY seq").fetchall()
        return entries, connection.execute("SELECT * FROM payloads ORDER BY seq").fetchall()
    finally:
        connection.close()


def flips(used: Path, places: list[int], bits: list[int]) -> tuple[int, int, int]:
    """How many flips were found, how many changed nothing that is read, and how many plain SQLite would have missed.
    Whatever a full check finds keeps a ledger from being opened, but for published bytes."""
    clean, before = used.read_bytes(), content(used)
    found = harmless = missed_by_sqlite = 0
    assert opens(used)
    for place in places:
        for bit in bits:
            data = bytearray(clean)
            data[place] ^= 1 << bit
            restore(used, bytes(data))
            try:
                lines = findings(used)
                passed = not lines
                assert passed or not opens(used) or all("published bytes" in line for line in lines), (place, bit)
            except RangeboundError:
                passed = False
            if not passed:
                found += 1
                missed_by_sqlite += sound(used)
                continue
            harmless += 1
            assert content(used) == before, f"byte {place}, bit {bit}: a changed record was not found"
    restore(used, clean)
    assert opens(used)  # so it was the flips that kept it from being opened
    return found, harmless, missed_by_sqlite


def sound(path: Path) -> bool:
    """Whether SQLite's own check is content."""
    try:
        connection = sqlite3.connect(path)
        try:
            return connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        finally:
            connection.close()
    except (sqlite3.Error, UnicodeDecodeError):
        return False


@pytest.mark.parametrize("name", [b"entries", b"payloads", b"requests"])
def test_a_damaged_name_that_is_no_text_is_found(used, name):
    """SQLite's own message then is no text either."""
    used.write_bytes(used.read_bytes().replace(b"CREATE", b"CRE\xf0TE").replace(name, name[:-2] + b"\xf0s"))
    assert findings(used)
    assert refused(used)


def test_flipped_bytes_anywhere_in_the_file_are_found_or_change_nothing(used):
    chance = random.Random(5)
    size = os.path.getsize(used)
    data = used.read_bytes()
    written = [place for place in range(size) if data[place]]
    found, _, missed_by_sqlite = flips(used, chance.sample(written, 500) + chance.sample(range(size), 50), [3])
    assert found > 200
    assert missed_by_sqlite > 100  # the control: without seals these would have passed


@pytest.mark.long
def test_every_flipped_bit_is_found_or_changes_nothing(used):
    data = used.read_bytes()
    written = [place for place in range(len(data)) if data[place]]
    found, _, missed_by_sqlite = flips(used, written, list(range(8)))
    assert found > 10_000
    assert missed_by_sqlite > 5_000


def test_bytes_published_outside_the_chain_are_found_before_others_are_stored(ledger, path):
    reservation = ledger.reserve(account="people", request="1", cost=TENTH)
    ledger.reserve(account="people", request="2", cost=TENTH)
    with ledger._chain.store.writing() as transaction:  # as one could who writes past SQLite's own notice
        ledger._chain._advance(transaction)
        transaction.append(ledger._chain.state.last._replace(seq=99, kind="publish", request="1"))
        transaction.commit()
    with pytest.raises(LedgerTampered, match="not in the chain"):
        ledger.publish(reservation, b"x")
