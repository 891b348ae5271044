"""Files touched by others, under running processes and between them: what is revealed in all stays within the total."""

import itertools
import os
import shutil
import sqlite3
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, BudgetExceeded, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Ledger, verify
from rangebound.ledger import head as heads
from tests.ledger.processes import forked, play
from tests.ledger.rules import EVERY_RULE, RULES, never, open_for, release, reserve
from tests.ledger.touched import ORDERS, TOTAL, TOUCHES, touched, walks

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
RUNNING, OPENING = "A, touch, A, kill A, B", "A, kill A, touch, B"
WORDS = {0: "refused", TOTAL // 2: "goes on", TOTAL: "**not found**"}  # by what is revealed after half of the total


@pytest.fixture(params=EVERY_RULE)
def rule(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def head_file(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def rows_of_the_page() -> dict[str, tuple[str, str]]:
    """What docs/ledger.md says of each touch: what a running process does, and what the next one to open it does."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| somebody ...")) + 2
    end = next(i for i, line in enumerate(lines[start:], start) if not line.startswith("|"))
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[start:end]]
    return {name.strip(): (running, opening) for name, running, opening in cells}


@pytest.mark.claim("forgery")
@pytest.mark.parametrize("orders", [[RUNNING, OPENING], pytest.param(list(ORDERS), marks=pytest.mark.slow)])
@pytest.mark.parametrize("elsewhere", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("rule", [pytest.param(each, marks=[pytest.mark.long] * (each != "sum")) for each in RULES])
def test_whoever_touches_the_files_reveals_no_more_than_the_total(memory, elsewhere, rule, orders):
    """But for what the page says cannot be found, which is the control: the counts can tell."""
    found = play(touched, memory / "ledgers", rule, orders, *([memory / "heads"] if elsewhere else []))
    assert len(found) == sum(map(len, TOUCHES.values())) * len(orders)
    revealed = {(touch, order): steps for touch, order, steps, _ in found}
    page = rows_of_the_page()
    assert set(page) == set(TOUCHES)
    for words, touches in TOUCHES.items():
        for touch in touches:
            hidden = "**not found**" in page[words] and not elsewhere
            above = [order for order in orders if sum(revealed[touch, order]) > TOTAL]
            assert bool(above) == hidden, (words, above)
            if not elsewhere:
                said = tuple(WORDS[revealed[touch, order][1]] for order in (RUNNING, OPENING))
                assert said == page[words], (words, touch)
    for touch, order, steps, passed in found:  # where nobody was refused, all is well
        if sum(steps) == TOTAL and not touch.startswith("key"):
            assert passed, (touch, order)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "seed"),
    [(8, 1), pytest.param(15, 1, marks=pytest.mark.slow), pytest.param(1000, 2, marks=pytest.mark.long)],
)
def test_random_walks_of_spends_kills_and_old_files_stay_within_the_total(memory, rule, count, seed):
    revealed, refused = zip(*play(walks, memory, rule, count, seed), strict=True)
    assert max(revealed) <= TOTAL
    assert 3 * min(sum(revealed), sum(refused)) > 10 * count


@pytest.mark.slow
def test_control_random_walks_that_put_back_the_head_too_do_not(memory, rule):
    assert max(revealed for revealed, _ in play(walks, memory, rule, 4, 1, ".head")) > TOTAL


def mounted(source: Path, target: Path) -> None:
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root may mount")
    if subprocess.run(["mount", "--bind", source, target], capture_output=True, check=False).returncode:
        pytest.skip("may not mount here")


@pytest.fixture
def container(ledger, path, memory):
    """A folder like that of a container, with the ledger alone mounted into it, and copies of its key and head."""
    place = memory / "with space" / "census.ledger"
    place.parent.mkdir()
    place.touch()
    for ending in (".key", ".head"):
        shutil.copy(path.with_name(path.name + ending), place.with_name(place.name + ending))
    mounted(path, place)
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_file_that_is_mounted_alone_is_refused_and_unnoticed_it_does_not_spend_twice(
    container, ledger, path, monkeypatch
):
    """As on systems that do not list their mounts: there is one file, and its locks hold under both names."""
    with pytest.raises(LedgerUnavailable, match="mount its folder"):
        Ledger.open(container)
    monkeypatch.setattr("rangebound.ledger.sqlite._MOUNTS", Path("/nowhere"))
    with Ledger.open(container) as other:
        for i in range(TOTAL // 2):
            release(ledger, f"host {i}")
            release(other, f"container {i}")
        for each in (ledger, other):
            assert each.account("people").spends == TOTAL
    verify(path)


def test_a_folder_that_is_mounted_twice_is_one_ledger(path, memory, rule):
    """Two containers that share a folder, as they should; each is a process of its own."""
    (memory / "host").mkdir()
    (memory / "container").mkdir()
    mounted(memory / "host", memory / "container")

    def work(name: str) -> None:
        with suppress(BudgetExceeded), Ledger.open(memory / name / "x.ledger") as ledger:
            for granted in itertools.count():
                release(ledger, f"{name} {granted}")
        os._exit(granted)

    try:
        with Ledger.create(memory / "host" / "x.ledger") as ledger:
            open_for(ledger, rule, 20)
        children = [forked(partial(work, name)) for name in ("host", "container")]
        assert sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children) == 20
        assert verify(memory / "host" / "x.ledger").entries == 42
    finally:
        subprocess.run(["umount", memory / "container"], check=True)


def test_a_missing_head_is_refused_and_can_be_adopted_by_who_knows_one(ledger, path, memory):
    release(ledger, "1")
    known = ledger.head
    release(ledger, "2")
    ledger.close()
    old = memory / "old"
    shutil.copy(path, old)
    head_file(path).unlink()
    for call in (Ledger.open, verify, lambda _: release(ledger, "3")):  # also the process that had it open
        with pytest.raises(LedgerTampered, match="is missing"):
            call(path)
    with pytest.raises(ArgumentError, match=r"the file as it is ends at 6:[0-9a-f]{64}"):
        Ledger.adopt(path)
    with pytest.raises(LedgerTampered, match="does not go on"):
        Ledger.adopt(path, head="3:" + "0" * 64)
    with Ledger.adopt(path, head=known) as adopted:
        release(adopted, "3")
        later = adopted.head
    with pytest.raises(ArgumentError, match="exists already"):
        Ledger.adopt(path, head=later)
    head_file(path).unlink()
    shutil.copyfile(old, path)
    with pytest.raises(LedgerTampered, match="does not go on"):
        Ledger.adopt(path, head=later)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: b"",
        lambda line: line[:-1],
        lambda line: line + b"\n",
        lambda line: line.replace(b"head 1", b"head 2"),
        lambda line: line[:60] + bytes([line[60] ^ 1]) + line[61:],
        lambda line: b"\xff" * len(line),
        lambda line: line.upper(),
        lambda line: line * 2,
        lambda line: line.replace(b" 000", b" 010"),
    ],
)
def test_a_head_that_is_not_as_written_is_refused(ledger, path, change):
    release(ledger, "1")
    line = head_file(path).read_bytes()
    head_file(path).write_bytes(change(line))
    for call in (lambda: Ledger.open(path), lambda: verify(path), lambda: release(ledger, "2")):
        with pytest.raises(LedgerTampered, match="not as it was written"):
            call()
    head_file(path).write_bytes(line)
    release(ledger, "2")


def test_the_head_of_another_ledger_is_refused_and_nothing_is_charged_where_it_cannot_be_written(ledger, path, memory):
    with Ledger.create(memory / "other", key=path.with_name(path.name + ".key")):
        shutil.copyfile(memory / "other.head", head_file(path))
    with pytest.raises(LedgerTampered, match="another ledger"):
        Ledger.open(path)
    head_file(path).unlink()
    head_file(path).mkdir()
    with pytest.raises(LedgerUnavailable, match=r"^head="):
        release(ledger, "1")
    assert ledger.account("people").spends == 0


def test_a_head_replaced_while_it_is_held_is_noticed(ledger, path, memory, monkeypatch):
    lock = heads.HeadFile._lock

    def replaced(self, handle):
        lock(self, handle)
        shutil.copy(head_file(path), memory / "copy")
        os.replace(memory / "copy", head_file(path))

    monkeypatch.setattr(heads.HeadFile, "_lock", replaced)
    with pytest.raises(LedgerTampered, match="replaced"):
        release(ledger, "1", never)


def test_two_copies_with_one_folder_of_heads_are_found_at_once(memory, monkeypatch, rule):
    (memory / "heads").mkdir()
    monkeypatch.setenv(heads.HEAD_VARIABLE, str(memory / "heads"))
    with Ledger.create(memory / "a", key=memory / "key") as first:
        open_for(first, rule, 10)
        first.close()
        shutil.copy(memory / "a", memory / "b")
        with Ledger.open(memory / "b", key=memory / "key") as second:
            release(first, "1")
            with pytest.raises(LedgerTampered, match="another copy"):
                release(second, "2", never)
            release(first, "3")
    assert not list(memory.glob("*.head"))
    monkeypatch.setenv(heads.HEAD_VARIABLE, str(memory / "nowhere"))
    with pytest.raises(ArgumentError, match="must be a folder that exists"):
        Ledger.open(memory / "a", key=memory / "key")


@pytest.mark.parametrize("where", ["reread", "_overwrite"])
@pytest.mark.parametrize("stage", ["charge", "bytes"])
def test_an_interrupt_between_the_commit_and_the_head_loses_nothing(ledger, path, monkeypatch, where, stage):
    """The ledger is then ahead of its head, which is as it should be: nothing was revealed."""
    owner = ledger._chain.store if where == "reread" else heads.HeadFile

    def interrupt(*_):
        raise KeyboardInterrupt

    reservation = reserve(ledger, "0")
    with monkeypatch.context() as patched:
        patched.setattr(owner, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            release(ledger, "1") if stage == "charge" else ledger.publish(reservation, b"drawn")
    assert release(ledger, "0") == (b"x" if stage == "charge" else b"drawn")
    with Ledger.open(path) as other:
        assert release(other, "1") == release(ledger, "1") == b"x"
        assert other.head == ledger.head == str(ledger._chain.head.read())
        other.verify()


def test_a_ledger_of_version_one_with_its_log_is_taken_over(ledger, path):
    """It had a write-ahead log and no head."""
    release(ledger, "1")
    head = ledger.head
    ledger.close()
    head_file(path).unlink()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal"
    connection.execute("SELECT count(*) FROM entries").fetchone()
    with pytest.raises(LedgerUnavailable, match="locked"):  # somebody still has it open, with the log
        Ledger.adopt(path, head=head, patience=0.2)
    connection.close()
    with Ledger.adopt(path, head=head) as adopted:
        release(adopted, "2")
        assert adopted.account("people").spends == 2
    assert path.read_bytes()[18:20] == b"\x01\x01"  # no write-ahead log
    verify(path)
