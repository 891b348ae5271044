"""Processes that spend while somebody without the key touches the files; then what was revealed is added up.

    python tests/ledger/touched.py FOLDER RULE [ELSEWHERE]
    python tests/ledger/touched.py FOLDER RULE random WALKS SEED [heads]

An account has a total of ten spends. Each touch is tried in each order; with ELSEWHERE, a folder for the heads, they
are kept there. Prints a list of [touch, order, spends revealed in each step, whether verify passed at the end] as JSON.

The second form is for what nobody thought of: three processes spend, are killed and begin anew while the file is put
back as it was at any earlier moment, and touched in every way that leaves the head alone. Prints a list of what each
walk revealed, and how often somebody was refused. With `heads` the head is put back with the file.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from rangebound.errors import RangeboundError
from rangebound.ledger import Ledger, verify
from tests.ledger.rules import TENTH, open_for

TOTAL = 10


class Process:
    """A process of its own with the ledger open, which spends when it is told to and says how much it revealed."""

    def __init__(self, path: Path, name: str) -> None:
        down, self._down = os.pipe()
        self._up, up = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._down)  # so that the end of the other side ends this one
            try:
                _obey(path, name, down, up)
            finally:
                os._exit(0)
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


def _obey(path: Path, name: str, down: int, up: int) -> None:
    ledger, count = None, 0
    while word := os.read(down, 1):
        revealed = 0
        try:
            ledger = ledger or Ledger.open(path, patience=2)
            if word[0] == 255:
                ledger.close()
            for _ in range(word[0] % 255):
                request, count = f"{name}{count}", count + 1
                ledger.release(account="people", request=request, cost=TENTH, compute=lambda _: b"x")
                revealed += 1
        except RangeboundError:
            pass
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

    def others(self, *endings: str) -> Iterator[Path]:
        """The files that SQLite keeps beside the ledger, where there are such."""
        for ending in endings or ("-wal", "-shm", "-journal"):
            each = self.path.with_name(self.path.name + ending)
            if each.exists():
                yield each

    def back(self, source: Path, *endings: str) -> None:
        """Old contents in the same files, as `cp` and `rsync --inplace` do; what the copy lacks is removed."""
        for ending in endings:
            name = self.path.name + ending
            if (source / name).exists():
                shutil.copyfile(source / name, self.path.with_name(name))
            else:
                self.path.with_name(name).unlink(missing_ok=True)


SQLITE = ("", "-wal", "-shm", "-journal")


def remove_log(place: Place) -> None:
    for each in place.others("-wal", "-journal"):
        each.unlink()


def remove_log_and_index(place: Place) -> None:
    for each in place.others():
        each.unlink()


def cut_log(place: Place) -> None:
    for each in place.others("-wal", "-journal"):
        os.truncate(each, 0)


def old_file(place: Place) -> None:
    shutil.copyfile(place.early / place.path.name, place.path)


def old_file_without_log(place: Place) -> None:
    old_file(place)
    remove_log_and_index(place)


def old_file_under_the_same_counter(place: Place) -> None:
    """The header says which change the file is at; here it says what the running process expects."""
    header = place.path.read_bytes()[24:100]
    old = (place.early / place.path.name).read_bytes()
    with place.path.open("r+b") as file:
        file.write(old[:24] + header + old[100:])
        file.truncate()


def renamed_over(place: Place) -> None:
    shutil.copyfile(place.early / place.path.name, place.path.with_name("new"))
    os.replace(place.path.with_name("new"), place.path)


def linked_over(place: Place) -> None:
    os.link(place.early / place.path.name, place.path.with_name("new"))
    os.replace(place.path.with_name("new"), place.path)


def second_name(place: Place) -> None:
    os.link(place.path, place.early / "second")


def moved_away_and_back(place: Place) -> None:
    os.rename(place.path, place.path.with_name("x"))
    os.rename(place.path.with_name("x"), place.path)


def moved_to_a_new_file(place: Place) -> None:
    """The same contents in another file, as some editors and sync tools write."""
    shutil.copyfile(place.path, place.path.with_name("new"))
    os.replace(place.path.with_name("new"), place.path)


def emptied(place: Place) -> None:
    os.truncate(place.path, 0)


def cut_in_half(place: Place) -> None:
    os.truncate(place.path, place.path.stat().st_size // 2)


def made_longer(place: Place) -> None:
    os.truncate(place.path, place.path.stat().st_size + 4096)


def cut_by_a_page(place: Place) -> None:
    os.truncate(place.path, place.path.stat().st_size - 4096)


def old_files(place: Place) -> None:
    place.back(place.early, *SQLITE)


def old_file_without_head(place: Place) -> None:
    old_files(place)
    place.path.with_name(place.path.name + ".head").unlink(missing_ok=True)


def old_head(place: Place) -> None:
    place.back(place.early, ".head")


def head_from_its_parts(place: Place) -> None:
    """The old file, and a head that says so, put together by somebody without the key."""
    old_files(place)
    head = place.path.with_name(place.path.name + ".head")
    if head.exists():
        connection = sqlite3.connect(place.early / place.path.name)
        seq, seal = connection.execute("SELECT seq, seal FROM entries ORDER BY seq DESC").fetchone()
        connection.close()
        words = head.read_text().split(" ")
        head.write_text(" ".join([*words[:-3], f"{seq:019d}", seal.hex(), words[-1]]))


def old_log(place: Place) -> None:
    place.back(place.late, "-wal", "-shm")


def journal_of_an_old_state(place: Place) -> None:
    """A process was killed in the middle of a commit on a copy, and its journal is put beside the ledger."""
    place.copy(place.early.with_name("copy"))
    copy = place.early.with_name("copy") / place.path.name
    shutil.copyfile(place.early / place.path.name, copy)
    pid = os.fork()
    if not pid:
        connection = sqlite3.connect(copy, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("UPDATE entries SET note = 'x'")
        connection.execute("INSERT INTO payloads VALUES (1000, zeroblob(1000000))")  # so that pages go to the disk
        os._exit(0)
    os.waitpid(pid, 0)
    assert (copy.with_name(copy.name + "-journal")).stat().st_size > 512
    shutil.copyfile(copy.with_name(copy.name + "-journal"), place.path.with_name(place.path.name + "-journal"))


def junk_journal(place: Place) -> None:
    place.path.with_name(place.path.name + "-journal").write_bytes(b"a,b\n1,2\n" * 1000)


def another_journal_mode(place: Place) -> None:
    """An administrator who thinks that a write-ahead log is faster."""
    connection = sqlite3.connect(place.path, timeout=0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT count(*) FROM entries").fetchone()
    except sqlite3.OperationalError:
        pass  # somebody else has the file
    finally:
        connection.close()


def vacuum(place: Place) -> None:
    connection = sqlite3.connect(place.path)
    connection.execute("VACUUM")
    connection.close()


def last_entries_deleted(place: Place) -> None:
    """What SQL can do without the key: the entries that are left are in order."""
    connection = sqlite3.connect(place.path)
    connection.execute("DELETE FROM payloads WHERE seq > 2")
    connection.execute("DELETE FROM entries WHERE seq > 2")
    connection.commit()
    connection.close()


def restored_by_sqlite(place: Place) -> None:
    source, target = sqlite3.connect(place.early / place.path.name), sqlite3.connect(place.path)
    source.backup(target)
    source.close()
    target.close()


def backed_up_by_sqlite(place: Place) -> None:
    source, target = sqlite3.connect(place.path), sqlite3.connect(place.early / "backup")
    source.backup(target)
    source.close()
    target.close()


def moved_away(place: Place) -> None:
    os.rename(place.path, place.path.with_name("x"))


def folder_moved_away_and_back(place: Place) -> None:
    os.rename(place.path.parent, place.path.parent.with_name("x"))
    os.rename(place.path.parent.with_name("x"), place.path.parent)


def old_folder(place: Place) -> None:
    os.rename(place.path.parent, place.path.parent.with_name("x"))
    shutil.copytree(place.early, place.path.parent)


def new_times(place: Place) -> None:
    os.utime(place.path, (0, 0))


def key_removed(place: Place) -> None:
    place.path.with_name(place.path.name + ".key").unlink()


def key_replaced(place: Place) -> None:
    place.path.with_name(place.path.name + ".key").write_text("0" * 64 + "\n")


def head_removed(place: Place) -> None:
    shutil.rmtree(os.environ.get("RANGEBOUND_HEAD", "/nowhere"), ignore_errors=True)
    place.path.with_name(place.path.name + ".head").unlink(missing_ok=True)


def nothing(place: Place) -> None:
    pass


def everything_and_the_head(place: Place) -> None:
    """What no ledger can find by itself: all files together are as they once were."""
    place.back(place.early, *SQLITE, ".head")


# In the words of docs/ledger.md, which says of each what happens then; a test compares.
TOUCHES: dict[str, tuple[Callable[[Place], None], ...]] = {
    "does nothing": (nothing,),
    "changes the times of the file, or moves it, or its folder, away and back": (
        *(new_times, moved_away_and_back, folder_moved_away_and_back),
    ),
    "removes or empties files beside it that end in `-journal`, `-wal` or `-shm`": (
        *(remove_log, remove_log_and_index, cut_log, old_log),
    ),
    "writes something else to a file beside it that ends in `-journal`": (junk_journal,),
    "backs it up with SQLite": (backed_up_by_sqlite,),
    "makes it longer by zeros": (made_longer,),
    "copies old contents into the file (`cp`, `rsync --inplace`, SQLite's restore)": (
        *(old_file, old_file_without_log, old_files, restored_by_sqlite),
    ),
    "puts another file in its place (`mv`, `rsync`, a hard link)": (renamed_over, linked_over),
    "puts an old folder in the place of its folder": (old_folder,),
    "copies old contents into the file, and the header of the present ones": (old_file_under_the_same_counter,),
    "puts a journal of an old state beside it": (journal_of_an_old_state,),
    "removes its last entries with SQL": (last_entries_deleted,),
    "moves it away": (moved_away,),
    "empties it or cuts it short": (emptied, cut_in_half, cut_by_a_page),
    "gives it a second name (a hard link)": (second_name,),
    "writes the same contents to a new file of its name": (moved_to_a_new_file,),
    "gives it a write-ahead log, or vacuums it, with SQLite": (another_journal_mode, vacuum),
    "removes or replaces the key": (key_removed, key_replaced),
    "removes the head": (head_removed,),
    "puts back an old head": (old_head,),
    "puts back the file, and removes the head or forges an old one": (old_file_without_head, head_from_its_parts),
    "puts back all files together, the head too": (everything_and_the_head,),
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


def once(folder: Path, rule: str, touch: Callable[[Place], None], order: str) -> tuple[list[int], bool]:
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


def main(folder: Path, rule: str, elsewhere: Path | None) -> None:
    found = []
    for touches in TOUCHES.values():
        for touch in touches:
            for number, (name, order) in enumerate(ORDERS.items()):
                if elsewhere is not None:
                    elsewhere.mkdir(exist_ok=True)
                    os.environ["RANGEBOUND_HEAD"] = str(elsewhere)
                found.append([touch.__name__, name, *once(folder / touch.__name__ / str(number), rule, touch, order)])
    print(json.dumps(found))


HEADS = {head_removed, old_head, old_file_without_head, head_from_its_parts, everything_and_the_head, old_folder}
KEYS = {key_removed, key_replaced}


def walk(folder: Path, rule: str, chance: random.Random, *heads: str) -> tuple[int, int]:
    """What a random walk of thirty steps reveals, and how often somebody who asked for a spend got none."""
    place = Place(folder, rule)
    once_only = {journal_of_an_old_state, linked_over}  # they use up the copy
    touches = [each for group in TOUCHES.values() for each in group if each not in HEADS | KEYS | once_only]
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


def main_random(folder: Path, rule: str, walks: int, seed: int, *heads: str) -> None:
    chance = random.Random(seed)
    print(json.dumps([walk(folder / str(number), rule, chance, *heads) for number in range(walks)]))


if __name__ == "__main__":
    place, law, *more = sys.argv[1:]
    if more[:1] == ["random"]:
        main_random(Path(place), law, int(more[1]), int(more[2]), *([".head"] if more[3:] else []))
    else:
        main(Path(place), law, Path(more[0]) if more else None)
