"""Processes that spend while somebody without the key touches the files; then what was revealed is added up.

An account has a total of six spends. Each touch is tried in each order. For what nobody thought of, there are random
walks: three processes spend, are killed and begin anew while the file is put back as it was at any earlier moment, and
touched in every way that leaves the head alone.
"""

import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from rangebound.errors import RangeboundError
from rangebound.ledger import Ledger, verify
from tests.ledger.processes import forked
from tests.ledger.rules import open_for, release

TOTAL = 6


class Process:
    """A process of its own with the ledger open, which spends when it is told to and says how much it revealed."""

    def __init__(self, path: Path, name: str) -> None:
        down, self._down = os.pipe()
        self._up, up = os.pipe()
        self.pid = forked(lambda: self._obey(path, name, down, up))
        os.close(down)
        os.close(up)

    def spend(self, times: int) -> int:
        os.write(self._down, bytes([times]))
        return os.read(self._up, 1)[0]

    def close(self) -> None:
        """The process lets go of the file, and may open it again."""
        self.spend(255)

    def end(self, how: int = signal.SIGTERM) -> None:
        os.kill(self.pid, how)
        os.waitpid(self.pid, 0)
        os.close(self._down)
        os.close(self._up)

    def _obey(self, path: Path, name: str, down: int, up: int) -> None:
        os.close(self._down)  # so that the end of the other side ends this one
        ledger, count = None, 0
        while word := os.read(down, 1):
            revealed = 0
            with suppress(RangeboundError):
                ledger = ledger or Ledger.open(path, patience=2)
                if word[0] == 255:
                    ledger.close()
                for _ in range(word[0] % 255):
                    count += 1
                    release(ledger, f"{name}{count}")
                    revealed += 1
            os.write(up, bytes([revealed]))


class Place:
    """A ledger in a folder, with copies of all its files as they were before any spend, and after the first ones."""

    def __init__(self, folder: Path, rule: str) -> None:
        self.path = folder / "live" / "census.ledger"
        self.early, self.late = folder / "early", folder / "late"
        self.path.parent.mkdir(parents=True)
        with Ledger.create(self.path) as ledger:
            open_for(ledger, rule, TOTAL)
        self.copy(self.early)

    def copy(self, target: Path) -> None:
        shutil.copytree(self.path.parent, target)

    def beside(self, ending: str) -> Path:
        """The file beside the ledger with an ending, which for SQLite may be there or not."""
        return self.path.with_name(self.path.name + ending)

    def back(self, source: Path, *endings: str) -> None:
        """Old contents in the same files, as `cp` and `rsync --inplace` do; what the copy lacks is removed."""
        for ending in endings:
            if (source / self.beside(ending).name).exists():
                shutil.copyfile(source / self.beside(ending).name, self.beside(ending))
            else:
                self.beside(ending).unlink(missing_ok=True)

    def remove(self, *endings: str) -> None:
        for ending in endings:
            self.beside(ending).unlink(missing_ok=True)

    def grow(self, by: int) -> None:
        os.truncate(self.path, self.path.stat().st_size + by)

    def put(self, make: Callable[[Path, Path], object], source: Path) -> None:
        """Another file in the place of the ledger, made of a source."""
        make(source, self.path.with_name("new"))
        os.replace(self.path.with_name("new"), self.path)

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement).fetchall()


SQLITE = ("", "-wal", "-shm", "-journal")


def there_and_back(path: Path) -> None:
    path.rename(path.with_name("x")).rename(path)


def backup(source: Path, target: Path) -> None:
    """By SQLite's own means."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def old_file_under_the_same_counter(place: Place) -> None:
    """The header says which change the file is at; here it says what the running process expects."""
    header = place.path.read_bytes()[24:100]
    old = (place.early / place.path.name).read_bytes()
    with place.path.open("r+b") as file:
        file.write(old[:24] + header + old[100:])
        file.truncate()


def head_from_its_parts(place: Place) -> None:
    """The old file, and a head that says so, put together by somebody without the key."""
    place.back(place.early, *SQLITE)
    head = place.beside(".head")
    if head.exists():
        with closing(sqlite3.connect(place.path)) as connection:
            seq, seal = connection.execute("SELECT seq, seal FROM entries ORDER BY seq DESC").fetchone()
        words = head.read_text().split(" ")
        head.write_text(" ".join([*words[:-3], f"{seq:019d}", seal.hex(), words[-1]]))


def journal_of_an_old_state(place: Place) -> None:
    """A process was killed in the middle of a commit on a copy, and its journal is put beside the ledger."""
    place.copy(place.early.with_name("copy"))
    copy = place.early.with_name("copy") / place.path.name
    shutil.copyfile(place.early / place.path.name, copy)
    shutil.copyfile(journal_of(copy), place.beside("-journal"))


def journal_of(path: Path) -> Path:
    """The journal that a process leaves beside a ledger which it changes, and is killed in the middle of the commit."""

    def change() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA cache_size = 1")  # so that pages go to the file before the commit
        connection.execute("BEGIN")
        connection.execute("UPDATE entries SET note = note || 'x', request = request || 'x'")
        connection.execute("INSERT INTO payloads VALUES (1000, zeroblob(1000000))")
        os._exit(0)

    os.waitpid(forked(change), 0)
    journal = path.with_name(path.name + "-journal")
    assert journal.stat().st_size > 512
    return journal


def another_journal_mode(place: Place) -> None:
    """An administrator who thinks that a write-ahead log is faster."""
    with suppress(sqlite3.OperationalError):  # somebody else has the file
        place.sql("PRAGMA journal_mode = WAL", "SELECT count(*) FROM entries")


def old_folder(place: Place) -> None:
    place.path.parent.rename(place.path.parent.with_name("x"))
    shutil.copytree(place.early, place.path.parent)


def head_removed(place: Place) -> None:
    shutil.rmtree(os.environ.get("RANGEBOUND_HEAD", "/nowhere"), ignore_errors=True)
    place.remove(".head")


def old(place: Place) -> Path:
    return place.early / place.path.name


# In the words of docs/ledger.md, which says of each what happens then; a test compares.
TOUCHES: dict[str, dict[str, Callable[[Place], object]]] = {
    "does nothing": {"nothing": lambda place: None},
    "changes the times of the file, or moves it, or its folder, away and back": {
        "new times": lambda place: os.utime(place.path, (0, 0)),
        "file away and back": lambda place: there_and_back(place.path),
        "folder away and back": lambda place: there_and_back(place.path.parent),
    },
    "removes or empties files beside it that end in `-journal`, `-wal` or `-shm`": {
        "no log": lambda place: place.remove("-wal", "-journal"),
        "no log and index": lambda place: place.remove("-wal", "-shm", "-journal"),
        "empty log": lambda place: [each.write_bytes(b"") for each in place.path.parent.glob("*.ledger-*al")],
        "old log": lambda place: place.back(place.late, "-wal", "-shm"),
    },
    "writes something else to a file beside it that ends in `-journal`": {
        "junk": lambda place: place.beside("-journal").write_bytes(b"a,b\n1,2\n" * 1000)
    },
    "backs it up with SQLite": {"backup": lambda place: backup(place.path, place.early / "backup")},
    "makes it longer by zeros": {"longer": lambda place: place.grow(4096)},
    "copies old contents into the file (`cp`, `rsync --inplace`, SQLite's restore)": {
        "old file": lambda place: place.back(place.early, ""),
        "old file, no log": lambda place: (place.back(place.early, ""), place.remove(*SQLITE[1:])),
        "old files": lambda place: place.back(place.early, *SQLITE),
        "restored by SQLite": lambda place: backup(old(place), place.path),
    },
    "puts another file in its place (`mv`, `rsync`, a hard link)": {
        "renamed over": lambda place: place.put(shutil.copyfile, old(place)),
        "linked over": lambda place: place.put(os.link, old(place)),
    },
    "puts an old folder in the place of its folder": {"old folder": old_folder},
    "copies old contents into the file, and the header of the present ones": {
        "old file, new header": old_file_under_the_same_counter
    },
    "puts a journal of an old state beside it": {"old journal": journal_of_an_old_state},
    "removes its last entries with SQL": {  # those that are left are in order
        "last entries deleted": lambda place: place.sql(
            "BEGIN", "DELETE FROM payloads WHERE seq > 2", "DELETE FROM entries WHERE seq > 2", "COMMIT"
        )
    },
    "moves it away": {"away": lambda place: place.path.rename(place.path.with_name("x"))},
    "empties it or cuts it short": {
        "emptied": lambda place: place.grow(-place.path.stat().st_size),
        "cut in half": lambda place: place.grow(-place.path.stat().st_size // 2),
        "cut by a page": lambda place: place.grow(-4096),
    },
    "gives it a second name (a hard link)": {"second name": lambda place: os.link(place.path, place.early / "second")},
    "writes the same contents to a new file of its name": {  # as some editors and sync tools do
        "new file": lambda place: place.put(shutil.copyfile, place.path)
    },
    "gives it a write-ahead log, or vacuums it, with SQLite": {
        "log": another_journal_mode,
        "vacuum": lambda place: place.sql("VACUUM"),
    },
    "removes or replaces the key": {
        "key removed": lambda place: place.remove(".key"),
        "key replaced": lambda place: place.beside(".key").write_text("0" * 64 + "\n"),
    },
    "removes the head": {"head removed": head_removed},
    "puts back an old head": {"old head": lambda place: place.back(place.early, ".head")},
    "puts back the file, and removes the head or forges an old one": {
        "old files, no head": lambda place: (place.back(place.early, *SQLITE), place.remove(".head")),
        "old files, forged head": head_from_its_parts,
    },
    "puts back all files together, the head too": {  # what no ledger can find by itself
        "everything": lambda place: place.back(place.early, *SQLITE, ".head")
    },
}

ORDERS = {
    "A, touch, A, kill A, B": "a t a ka b",
    "A, touch, A, B, A": "a t a b a",
    "A, touch, B, A": "a t b a",
    "A, touch, kill A, B": "a t ka b",
    "A, close A, touch, A, B": "a ca t a b",
    "A, close A, touch, B, A": "a ca t b a",
    "A, kill A, touch, B": "a ka t b",
    "A and B, touch, B, A": "a b1 t b a",
}


def once(folder: Path, rule: str, touch: Callable[[Place], object], order: str) -> tuple[list[int], bool]:
    place = Place(folder, rule)
    first, second = Process(place.path, "A"), Process(place.path, "B")
    revealed: list[int] = []
    for step in order.split():
        match step:
            case "a":
                revealed.append(first.spend(2 * TOTAL if revealed else TOTAL // 2))
                if len(revealed) == 1:
                    place.copy(place.late)
            case "b" | "b1":
                revealed.append(second.spend(1 if step == "b1" else 2 * TOTAL))
            case "t":
                touch(place)
            case "ka":
                first.end(signal.SIGKILL)
            case "ca":
                first.close()
    for process in (first, second) if "ka" not in order else (second,):
        process.end()
    try:
        verify(place.path)
        passed = True
    except RangeboundError:
        passed = False
    return revealed, passed


def touched(folder: str, rule: str, orders: list[str], elsewhere: str = "") -> list[tuple[str, str, list[int], bool]]:
    """The touch, the order, the spends revealed in each step, and whether verify passed at the end."""
    found = []
    for touch, act in ((name, act) for group in TOUCHES.values() for name, act in group.items()):
        for number, name in enumerate(orders):
            if elsewhere:
                os.makedirs(elsewhere, exist_ok=True)
                os.environ["RANGEBOUND_HEAD"] = elsewhere
            found.append((touch, name, *once(Path(folder) / touch / str(number), rule, act, ORDERS[name])))
    return found


NOT_IN_WALKS = {
    *("head removed", "old head", "old files, no head", "old files, forged head", "everything", "old folder"),
    *("key removed", "key replaced"),
    *("old journal", "linked over"),  # they use up the copy
}


def walk(folder: Path, rule: str, chance: random.Random, *heads: str) -> tuple[int, int]:
    """What a random walk of thirty steps reveals, and how often somebody who asked for a spend got none."""
    place = Place(folder, rule)
    touches = [each for group in TOUCHES.values() for name, each in group.items() if name not in NOT_IN_WALKS]
    processes = [Process(place.path, f"{i}-") for i in range(3)]
    revealed = refused = 0
    place.copy(place.late)
    copies = [place.early]
    for step in range(30):
        chosen = chance.randrange(len(processes))
        match chance.choice(["spend", "spend", "spend", "end", "close", "copy", "back", "touch"]):
            case "spend":
                got = processes[chosen].spend(chance.randint(1, 2))
                revealed, refused = revealed + got, refused + (not got)
            case "end":
                processes[chosen].end(signal.SIGKILL)
                processes[chosen] = Process(place.path, f"new {step}-")
            case "close":
                processes[chosen].close()
            case "copy" if place.path.exists():
                copies.append(folder / f"copy {step}")
                place.copy(copies[-1])
            case "back":
                place.back(chance.choice(copies), *chance.choice([SQLITE, ("",), ("-journal",)]), *heads)
            case "touch" if place.path.exists() and place.path.stat().st_size > 8192:
                with suppress(sqlite3.Error, OSError):  # not all can be done in every state
                    chance.choice(touches)(place)
                (place.early / "second").unlink(missing_ok=True)
    for process in processes:
        process.end()
    return revealed, refused


def walks(folder: str, rule: str, count: int, seed: int, *heads: str) -> list[tuple[int, int]]:
    """What each walk revealed, and how often somebody was refused; with ".head" the head is put back with the file."""
    chance = random.Random(seed)
    return [walk(Path(folder) / str(number), rule, chance, *heads) for number in range(count)]
