"""Files touched by others, under running processes and between them: what is revealed in all stays within the total."""

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Ledger, verify
from rangebound.ledger import head as heads
from tests.ledger.processes import play, script
from tests.ledger.rules import EVERY_RULE, RULES, TENTH, open_for
from tests.ledger.touched import ORDERS, TOTAL, TOUCHES

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
RUNNING, OPENING = "A, touch, A, kill A, B", "A, kill A, touch, B"
WORDS = {0: "refused", TOTAL // 2: "goes on", TOTAL: "**not found**"}  # by what is revealed after half of the total


@pytest.fixture(params=EVERY_RULE)
def rule(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def head_file(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def spend(ledger: Ledger, name: str) -> bytes:
    return ledger.release(account="people", request=name, cost=TENTH, compute=lambda _: b"x")


def rows_of_the_page() -> dict[str, tuple[str, str]]:
    """What docs/ledger.md says of each touch: what a running process does, and what the next one to open it does."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| somebody ...")) + 2
    end = next(i for i, line in enumerate(lines[start:], start) if not line.startswith("|"))
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[start:end]]
    return {name.strip(): (running, opening) for name, running, opening in cells}


# The files are the same for every rule: plain sums by default, the others with the long tests.
@pytest.mark.parametrize("elsewhere", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("rule", [pytest.param(each, marks=[pytest.mark.long] * (each != "sum")) for each in RULES])
def test_whoever_touches_the_files_reveals_no_more_than_the_total(memory, elsewhere, rule):
    """But for what the page says cannot be found, which is the control: the counts can tell."""
    found = play("touched.py", memory / "ledgers", rule, *([memory / "heads"] if elsewhere else []))
    assert len(found) == sum(map(len, TOUCHES.values())) * len(ORDERS)
    revealed = {(touch, order): steps for touch, order, steps, _ in found}
    page = rows_of_the_page()
    assert set(page) == set(TOUCHES)
    for words, touches in TOUCHES.items():
        for touch in touches:
            hidden = "**not found**" in page[words] and not elsewhere
            above = [order for order in ORDERS if sum(revealed[touch.__name__, order]) > TOTAL]
            assert bool(above) == hidden, (words, above)
            if not elsewhere:
                said = tuple(WORDS[revealed[touch.__name__, order][1]] for order in (RUNNING, OPENING))
                assert said == page[words], (words, touch.__name__)
    for touch, order, steps, passed in found:  # where nobody was refused, all is well
        if sum(steps) == TOTAL and not touch.startswith("key"):
            assert passed, (touch, order)


def random_walks(memory: Path, rule: str, *arguments: object) -> tuple[list[int], list[int]]:
    revealed, refused = zip(*play("touched.py", memory, rule, "random", *arguments), strict=True)
    return list(revealed), list(refused)


def test_random_walks_of_spends_kills_and_old_files_stay_within_the_total(memory, rule):
    revealed, refused = random_walks(memory, rule, 15, 1)
    assert max(revealed) <= TOTAL
    assert sum(revealed) > 50
    assert sum(refused) > 50


def test_control_random_walks_that_put_back_the_head_too_do_not(memory, rule):
    assert max(random_walks(memory, rule, 20, 1, "heads")[0]) > TOTAL


@pytest.mark.long
def test_many_random_walks_stay_within_the_total(memory, rule):
    assert max(random_walks(memory, rule, 1000, 2)[0]) <= TOTAL


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


def test_a_file_that_is_mounted_alone_is_refused(container, ledger):
    with pytest.raises(LedgerUnavailable, match="mount its folder"):
        Ledger.open(container)
    for i in range(TOTAL):
        spend(ledger, f"{i}")


def test_a_mount_that_goes_unnoticed_does_not_spend_twice(container, ledger, path, monkeypatch):
    """As on systems that do not list their mounts: there is one file, and its locks hold under both names."""
    monkeypatch.setattr("rangebound.ledger.sqlite._MOUNTS", Path("/nowhere"))
    with Ledger.open(container) as other:
        for i in range(TOTAL // 2):
            spend(ledger, f"host {i}")
            spend(other, f"container {i}")
        for each in (ledger, other):
            assert each.account("people").spends == TOTAL
    verify(path)


def test_a_folder_that_is_mounted_twice_is_one_ledger(path, memory, rule):
    """Two containers that share a folder, as they should; each is a process of its own."""
    (memory / "host").mkdir()
    (memory / "container").mkdir()
    mounted(memory / "host", memory / "container")
    code = """
    from rangebound.errors import BudgetExceeded
    with Ledger.create(path / "host" / "x.ledger") as ledger:
        open_for(ledger, rule, 20)
    def work(place):
        ledger, granted = Ledger.open(place), 0
        try:
            while True:
                ledger.release(account="people", request=f"{place} {granted}", cost=TENTH, compute=lambda _: b"x")
                granted += 1
        except BudgetExceeded:
            return granted
    children = []
    for name in ("host", "container"):
        pid = os.fork()
        if not pid:
            os._exit(work(path / name / "x.ledger"))
        children.append(pid)
    print(sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
    """
    try:
        assert int(script(code, memory, rule)) == 20
        assert verify(memory / "host" / "x.ledger").entries == 42
    finally:
        subprocess.run(["umount", memory / "container"], check=True)


def test_a_missing_head_is_refused_and_can_be_adopted_by_who_knows_one(ledger, path, memory):
    spend(ledger, "1")
    known = ledger.head
    spend(ledger, "2")
    ledger.close()
    old = memory / "old"
    shutil.copy(path, old)
    head_file(path).unlink()
    with pytest.raises(LedgerTampered, match="is missing"):
        Ledger.open(path)
    with pytest.raises(LedgerTampered, match="is missing"):
        verify(path)
    with pytest.raises(LedgerTampered, match="is missing"):  # also the process that had it open
        spend(ledger, "3")
    with pytest.raises(ArgumentError, match=r"the file as it is ends at 6:[0-9a-f]{64}"):
        Ledger.adopt(path)
    with pytest.raises(LedgerTampered, match="does not go on"):
        Ledger.adopt(path, head="3:" + "0" * 64)
    with Ledger.adopt(path, head=known) as adopted:
        spend(adopted, "3")
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
    ],
)
def test_a_head_that_is_not_as_written_is_refused(ledger, path, change):
    spend(ledger, "1")
    line = head_file(path).read_bytes()
    head_file(path).write_bytes(change(line))
    for call in (lambda: Ledger.open(path), lambda: verify(path), lambda: spend(ledger, "2")):
        with pytest.raises(LedgerTampered, match="not as it was written"):
            call()
    head_file(path).write_bytes(line)
    spend(ledger, "2")


def test_the_head_of_another_ledger_is_refused(ledger, path, memory):
    with Ledger.create(memory / "other", key=path.with_name(path.name + ".key")):
        shutil.copyfile(memory / "other.head", head_file(path))
    with pytest.raises(LedgerTampered, match="another ledger"):
        Ledger.open(path)


def test_nothing_is_charged_where_the_head_cannot_be_written(ledger, path):
    head_file(path).unlink()
    head_file(path).mkdir()
    with pytest.raises(LedgerUnavailable, match=r"^head="):
        spend(ledger, "1")
    assert ledger.account("people").spends == 0


def test_a_head_replaced_while_it_is_held_is_noticed(ledger, path, memory, monkeypatch):
    lock = heads.HeadFile._lock

    def replaced(self, handle):
        lock(self, handle)
        shutil.copy(head_file(path), memory / "copy")
        os.replace(memory / "copy", head_file(path))

    monkeypatch.setattr(heads.HeadFile, "_lock", replaced)
    with pytest.raises(LedgerTampered, match="replaced"):
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: pytest.fail("computed"))


def test_two_copies_with_one_folder_of_heads_are_found_at_once(memory, monkeypatch, rule):
    (memory / "heads").mkdir()
    monkeypatch.setenv(heads.VARIABLE, str(memory / "heads"))
    with Ledger.create(memory / "a", key=memory / "key") as first:
        open_for(first, rule, 10)
        first.close()
        shutil.copy(memory / "a", memory / "b")
        with Ledger.open(memory / "b", key=memory / "key") as second:
            spend(first, "1")
            with pytest.raises(LedgerTampered, match="another copy"):
                second.release(account="people", request="2", cost=TENTH, compute=lambda _: pytest.fail("computed"))
            spend(first, "3")
    assert not list(memory.glob("*.head"))
    monkeypatch.delenv(heads.VARIABLE)
    with pytest.raises(LedgerTampered, match="is missing"):
        Ledger.open(memory / "a", key=memory / "key")
    monkeypatch.setenv(heads.VARIABLE, str(memory / "nowhere"))
    with pytest.raises(ArgumentError, match="must be a folder that exists"):
        Ledger.open(memory / "a", key=memory / "key")


def test_a_head_never_goes_back(ledger, path):
    spend(ledger, "1")
    file, last = ledger._chain.head, ledger._chain.state.last
    with file.held() as held:
        held.advance(heads.Head(1, bytes(32)))
    assert file.read() == heads.head_of(last)


@pytest.mark.parametrize("where", ["reread", "advance"])
@pytest.mark.parametrize("stage", ["charge", "bytes"])
def test_an_interrupt_between_the_commit_and_the_head_loses_nothing(ledger, path, monkeypatch, where, stage):
    """The ledger is then ahead of its head, which is as it should be: nothing was revealed."""
    owner = ledger._chain.store if where == "reread" else heads.HeldHead

    def interrupt(*_):
        raise KeyboardInterrupt

    reservation = ledger.reserve(account="people", request="0", cost=TENTH) if stage == "bytes" else None
    with monkeypatch.context() as patched:
        patched.setattr(owner, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            spend(ledger, "1") if reservation is None else ledger.publish(reservation, b"drawn")
    if reservation is not None:
        assert spend(ledger, "0") == b"drawn"
    with Ledger.open(path) as other:
        assert spend(other, "1") == spend(ledger, "1") == b"x"
        assert other.head == ledger.head == str(ledger._chain.head.read())
        other.verify()


def test_a_second_name_made_while_it_is_in_use_is_noticed(ledger, path, memory):
    spend(ledger, "1")
    os.link(path, memory / "second")
    with pytest.raises(LedgerUnavailable, match="more than one name"):
        ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: pytest.fail("computed"))
    os.unlink(memory / "second")
    spend(ledger, "2")


def test_a_ledger_of_version_one_with_its_log_is_taken_over(ledger, path):
    """It had a write-ahead log and no head."""
    spend(ledger, "1")
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
        spend(adopted, "2")
        assert adopted.account("people").spends == 2
    assert path.read_bytes()[18:20] == b"\x01\x01"  # no write-ahead log
    verify(path)


def test_a_write_ahead_log_under_a_running_process_is_noticed(ledger, path):
    spend(ledger, "1")
    other = sqlite3.connect(path, isolation_level=None)
    assert other.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal"
    with pytest.raises(LedgerTampered, match="write-ahead log"):
        ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: pytest.fail("computed"))
    other.close()
    spend(ledger, "2")  # it is turned back when it is opened again
