"""Tampering: every changed, removed, moved or doubled entry is found, and a rollback when the head is known."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import LedgerEntry
from rangebound.ledger.guarded_chain import examine
from rangebound.ledger.head import make_key, read_key
from rangebound.ledger.sqlite import SQLiteStore
from tests.ledger.rules import EVERY_RULE, edit, never, opens, release, reserve
from tests.ledger.touched import journal_of

SPENDS = 6
pytestmark = pytest.mark.parametrize("rule", EVERY_RULE)


@pytest.fixture
def used(ledger: Ledger, path: Path) -> Path:
    """A closed ledger with some history: one file, no log."""
    for i in range(SPENDS):
        release(ledger, f"t{i}", lambda _, i=i: f"answer {i}".encode())
    reserve(ledger, "pending")
    ledger.close()
    return path


def ask(path: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return connection.execute(query).fetchall()


def findings(path: Path, head: str | None = None) -> tuple[str, ...]:
    """What a full check says, by the ledger's own key."""
    with closing(SQLiteStore(path, patience=1.0)) as store:
        try:
            examine(store, read_key(path.with_name(path.name + ".key")), head=head)
        except LedgerTampered as error:
            return error.findings
    return ()


def refused(path: Path) -> bool:
    """Whether the ledger fails closed: it does not even open, or gives nothing."""
    try:
        with Ledger.open(path) as ledger:
            reserve(ledger, "new")
    except LedgerTampered:
        return True
    return False


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


@pytest.mark.few(5)
@pytest.mark.parametrize("field", LedgerEntry._fields)
def test_a_changed_field_of_any_entry_is_found_and_nothing_is_spent(used, field):
    assert findings(used) == ()
    clean = used.read_bytes()
    values = [row[0] for row in ask(used, f"SELECT {field} FROM entries ORDER BY seq")]
    changed = 0
    for seq, value in enumerate(values, start=1):
        used.write_bytes(clean)
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
    assert bool(findings(used)) == (kind != b"integer")  # SQLite itself turns some of them back into the integer


FIELDS = ", ".join(LedgerEntry._fields[1:])
DOUBLED = (
    f"INSERT INTO entries (seq, {FIELDS}) SELECT %d, {FIELDS.replace('request', 'NULL')} FROM entries WHERE seq = 3"
)
MOVED = {
    **{f"{seq} removed": [f"DELETE FROM entries WHERE seq = {seq}"] for seq in range(1, 2 * SPENDS + 2)},
    **{
        f"{seq} closed up": [
            f"DELETE FROM entries WHERE seq = {seq}",
            f"UPDATE entries SET seq = -seq WHERE seq > {seq}",
            "UPDATE entries SET seq = -seq - 1 WHERE seq < 0",
        ]
        for seq in (2, 3, 5)
    },
    "3 in the place of 5": [
        "UPDATE entries SET seq = 1000 WHERE seq = 3",
        "UPDATE entries SET seq = 3 WHERE seq = 5",
        "UPDATE entries SET seq = 5 WHERE seq = 1000",
    ],
    **{f"doubled at {place}": [DOUBLED % place] for place in (0, -3, 2 * SPENDS + 4, 99)},
    "2 with a larger total": ["UPDATE entries SET first = 1000000000000000 WHERE kind = 'account'"],
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE seq = NEW.seq; END"],
    "a table": ["CREATE TABLE more (x)"],
    "a view": ["CREATE VIEW v AS SELECT 1"],
    "no index": ["DROP INDEX requests"],
    "a column": ["ALTER TABLE entries ADD COLUMN more TEXT"],
    "another application": ["PRAGMA application_id = 7"],
}


@pytest.mark.parametrize("name", MOVED)
def test_what_was_removed_moved_doubled_or_added_is_found(used, name):
    edit(used, *MOVED[name])
    found, (number, _, how) = findings(used), name.partition(" ")
    assert found
    assert not number.isdigit() or any(line.startswith(f"entry {number}: ") for line in found)
    assert how != "removed" or f"entry {number}: is missing" in found
    assert refused(used)


def test_published_bytes_are_under_the_seal(used):
    for statement, word in (
        ("UPDATE payloads SET bytes = x'00' WHERE seq = 4", "not as they were stored"),
        ("DELETE FROM payloads WHERE seq = 4", "missing"),
    ):
        edit(used, statement)
        (found,) = findings(used)
        assert found.startswith("entry 4: its published bytes are ")
        with Ledger.open(used) as ledger, pytest.raises(LedgerTampered, match=word):
            release(ledger, "t0", never)
    edit(used, "INSERT INTO payloads VALUES (3, x'00')")
    assert len(findings(used)) == 2
    assert refused(used)


def test_a_trigger_added_under_a_running_process_is_noticed_before_anything_is_released(ledger, path):
    reserve(ledger, "1")
    edit(path, "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE seq = NEW.seq; END")
    for _ in range(2):
        with pytest.raises(LedgerTampered):
            release(ledger, "2", never)
    edit(path, "DROP TRIGGER t")
    reserve(ledger, "2")


def test_a_hidden_publication_is_not_computed_again(ledger, path):
    """Whoever removes the record of an answer does not get a second draw for one charge."""
    release(ledger, "1")
    reserve(ledger, "2")
    edit(path, "DELETE FROM entries WHERE kind = 'publish'", "DELETE FROM payloads")
    with pytest.raises(LedgerTampered, match="published bytes are missing"):
        release(ledger, "1", never)


def test_a_wrong_key_is_refused(used, memory):
    make_key(memory / "other.key")
    with pytest.raises(LedgerTampered, match="key is not this ledger's"):
        Ledger.open(used, key=memory / "other.key")


def test_an_old_copy_is_found_by_the_head_alone(used):
    old = used.read_bytes()
    with Ledger.open(used) as ledger:
        early = ledger.head
        reserve(ledger, "late")
        late = ledger.head
    assert findings(used, late) == findings(used, early) == ()
    used.write_bytes(old)
    assert findings(used, early) == ()
    assert findings(used) == ()  # the control: an old copy is a perfect ledger, but for the head
    assert "rolled back" in findings(used, late)[0]


@pytest.mark.parametrize("head", ["", "1", "x:y", "0:" + "0" * 64, 3, "1:" + "0" * 63, "1:" + "0" * 64 + "\n"])
def test_a_bad_head_is_refused(ledger, head):
    with pytest.raises(ArgumentError, match=r"^head="):
        ledger.verify(head=head)


def clone(place: Path, target: Path, journal: bytes | None = None) -> Path:
    for ending in ("", ".key", ".head"):
        shutil.copy(place.with_name(place.name + ending), target.with_name(target.name + ending))
    if journal is not None:
        target.with_name(target.name + "-journal").write_bytes(journal)
    return target


def interrupted(used: Path, place: Path) -> tuple[Path, bytes]:
    """A copy of a ledger as a process leaves it that is killed in the middle of a commit, and its journal."""
    journal = journal_of(clone(used, place))
    assert place.read_bytes()[: used.stat().st_size] != used.read_bytes()
    return place, journal.read_bytes()


def undone_or_found(place: Path, before: object) -> bool:
    """Whether an interrupted commit was undone without a trace; if not, it must be found."""
    if not opens(place):
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


@pytest.mark.slow
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


def content(path: Path) -> list[list[tuple]]:
    return [ask(path, f"SELECT * FROM {table} ORDER BY seq") for table in ("entries", "payloads")]


def restore(path: Path, data: bytes) -> None:
    for ending in ("-wal", "-shm"):  # a flipped bit of the header may ask for a log
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(data)


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
        return ask(path, "PRAGMA integrity_check")[0][0] == b"ok"
    except (sqlite3.Error, UnicodeDecodeError):
        return False


@pytest.mark.parametrize("name", [b"entries", b"payloads", b"requests"])
def test_a_damaged_name_that_is_no_text_is_found(used, name):
    """SQLite's own message is not valid text then either."""
    used.write_bytes(used.read_bytes().replace(b"CREATE", b"CRE\xf0TE").replace(name, name[:-2] + b"\xf0s"))
    assert findings(used)
    assert refused(used)


@pytest.mark.parametrize(
    "count", [150, pytest.param(500, marks=pytest.mark.slow), pytest.param(None, marks=pytest.mark.long)]
)
def test_flipped_bits_anywhere_in_the_file_are_found_or_change_nothing(used, count):
    """At some of the bytes, or every bit."""
    chance, data = random.Random(5), used.read_bytes()
    places = [place for place in range(len(data)) if data[place]]
    if count is not None:
        places = chance.sample(places, count) + chance.sample(range(len(data)), count // 10)
    found, _, missed_by_sqlite = flips(used, places, list(range(8)) if count is None else [3])
    assert found > (10_000 if count is None else 0.4 * count)
    assert missed_by_sqlite > (5_000 if count is None else 0.2 * count)  # the control: these would pass without seals


def test_bytes_published_outside_the_chain_are_found_before_others_are_stored(ledger, path):
    reservation = reserve(ledger, "1")
    reserve(ledger, "2")
    with ledger._chain.store.writing() as transaction:  # as one could who writes past SQLite's own notice
        ledger._chain._advance(transaction)
        transaction.append(ledger._chain.state.last._replace(seq=99, kind="publish", request="1"))
        transaction.commit()
    with pytest.raises(LedgerTampered, match="not in the chain"):
        ledger.publish(reservation, b"x")
