"""The file: how it begins, who may touch it, what happens when it is copied, moved or shared."""

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable, RangeboundError
from rangebound.ledger import Ledger
from tests.ledger.processes import PREAMBLE, environment, forked, script
from tests.ledger.rules import EVERY_RULE, RULES, TENTH, edit, never, release, reserve


def test_a_ledger_is_a_file_a_key_and_a_head_of_its_owner(ledger, path):
    key = path.with_name("test.ledger.key")
    for each in (path, key, path.with_name("test.ledger.head")):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}\n", key.read_text())
    with ledger._chain.store.reading() as transaction:
        assert transaction.connection.execute("PRAGMA synchronous").fetchone()[0] == 3  # every commit: EXTRA
    ledger.close()
    assert sorted(os.listdir(path.parent)) == ["test.ledger", "test.ledger.head", "test.ledger.key"]
    assert bytes.fromhex(key.read_text()) not in path.read_bytes()


def test_nobody_else_reads_a_new_ledger_or_its_journal_and_one_that_is_there_keeps_its_mode(tmp_path):
    modes = []

    def seen(_):
        modes.extend(stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir())
        return b"x"

    old = os.umask(0)
    try:
        with Ledger.create(tmp_path / "a.ledger") as ledger:
            ledger.open_account("people", epsilon=1)
            with ledger._chain.writing():
                ledger._chain.store._connection.execute("UPDATE entries SET note = 'x' WHERE seq = 1")
                assert (tmp_path / "a.ledger-journal").exists()
                seen(None)
            release(ledger, "1", seen)
        (tmp_path / "b.ledger").touch(mode=0o640)
        Ledger.create(tmp_path / "b.ledger").close()
    finally:
        os.umask(old)
    assert len(modes) >= 7
    assert set(modes) == {0o600}
    assert stat.S_IMODE((tmp_path / "b.ledger").stat().st_mode) == 0o640
    (tmp_path / "a.ledger").chmod(0o644)
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        release(ledger, "2")
    assert stat.S_IMODE((tmp_path / "a.ledger").stat().st_mode) == 0o644


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_everything_is_synced_after_the_charge_and_before_the_computation(tmp_path):
    """As the kernel sees it: journal, then file, then the journal's end, then the head, each synced before the next;
    then the computation begins; then the same for the bytes, which are then revealed."""
    code = """
    with Ledger.create(path) as ledger:
        ledger.open_account("people", epsilon=1)
        def compute(cost):
            os.write(2, b"COMPUTE")
            return b"x"
        os.write(2, b"BEGIN")
        ledger.release(account="people", request="1", cost=TENTH, compute=compute)
        os.write(2, b"REVEAL")
    """
    trace = tmp_path / "trace"
    traced = ["strace", "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync,?unlink,unlinkat", "-o", str(trace)]
    command = [*traced, sys.executable, "-c", PREAMBLE + textwrap.dedent(code), str(tmp_path / "x.ledger")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment())
    if "ptrace" in result.stderr or "PTRACE" in result.stderr:
        pytest.skip("strace may not trace here")
    assert result.returncode == 0, result.stderr
    steps = []
    for line in trace.read_text().splitlines():
        mark = re.search(r'write\(2.*"(BEGIN|COMPUTE|REVEAL)"', line)
        steps += [mark[1]] if mark else []
        call = re.search(
            r"(write|sync|unlink)(?:64|at)?\(.*?" + re.escape(str(tmp_path)) + r'(?:/x\.ledger([-.]\w+)?)?[>"]', line
        )
        steps += [f"{call[1]} {(call[2] or 'file') if 'x.ledger' in line else 'folder'}"] if call else []
    part = steps[steps.index("BEGIN") + 1 :]
    before, after = part[: part.index("COMPUTE")], part[part.index("COMPUTE") + 1 : part.index("REVEAL")]
    for section in (before, after):
        last = {step: place for place, step in enumerate(section)}
        first = {step: place for place, step in reversed(list(enumerate(section)))}
        order = [
            *(last["write -journal"], last["sync -journal"], first["write file"], last["write file"]),
            *(last["sync file"], last["unlink -journal"], last["sync folder"], last["write .head"], last["sync .head"]),
        ]
        assert order == sorted(set(order)), section
        assert section[-1] == "sync .head"


def test_links_and_relative_paths_lead_to_one_ledger_and_are_resolved_once(ledger, path, memory, monkeypatch):
    (memory / "link").symlink_to(path)
    monkeypatch.chdir(memory)
    with Ledger.open(memory / "link") as other, Ledger.open(Path(path.name)) as relative:
        monkeypatch.chdir("/")
        reserve(other, "1")
        reserve(relative, "2")
        assert ledger.account("people").spends == 2
    assert not (memory / "link-journal").exists()


@pytest.mark.parametrize("how", ["replaced", "removed"])
@pytest.mark.parametrize(
    "call",
    [
        lambda ledger: reserve(ledger, "2"),
        lambda ledger: reserve(ledger, "1"),
        lambda ledger: release(ledger, "1", lambda _: b"another"),
        lambda ledger: ledger.account("people"),
        lambda ledger: ledger.published("1"),
        lambda ledger: ledger.head,
    ],
    ids=["new request", "known request", "known release", "account", "published", "head"],
)
def test_a_file_that_is_taken_away_from_a_running_process_is_noticed(ledger, path, memory, how, call):
    release(ledger, "1")
    if how == "replaced":
        shutil.copy(path, memory / "copy")
        os.replace(memory / "copy", path)
    else:
        path.unlink()
    with pytest.raises((LedgerTampered, LedgerUnavailable)):
        call(ledger)


def test_a_file_that_is_taken_away_during_a_spend_is_noticed(ledger, path, memory, monkeypatch):
    reserve(ledger, "1")
    stat_before, calls = os.stat, []

    def replaced(place, *rest, **more):
        if str(place) == str(path):
            calls.append(1)
            if len(calls) == 1:  # after the commit
                shutil.copy(path, memory / "copy")
                os.replace(memory / "copy", path)
        return stat_before(place, *rest, **more)

    monkeypatch.setattr(os, "stat", replaced)
    with pytest.raises(LedgerTampered, match="replaced"):
        release(ledger, "2", never)


@pytest.mark.slow
def test_many_make_the_same_ledger_and_one_succeeds(memory):
    def make(path: Path) -> None:
        try:
            Ledger.create(path).open_account("people", epsilon=1)
        except ArgumentError:
            os._exit(9)

    for turn in range(3):
        children = [forked(partial(make, memory / f"{turn}.ledger")) for _ in range(12)]
        ended = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children)
        assert ended == [0] + [9] * 11
        with Ledger.open(memory / f"{turn}.ledger") as ledger:
            assert ledger.verify().entries == 2
    assert not [each for each in memory.iterdir() if re.search(r"key\.", each.name)]


def test_a_kill_while_a_ledger_is_made_leaves_one_or_none(memory):
    """Never half of one: what is left opens, or says that a ledger was there, or can be made again."""
    code = """
    import random, signal
    chance, about = random.Random(7), 0.006
    for turn in range(40):
        place = path / f"{turn}.ledger"
        pid = forked(lambda: Ledger.create(place))
        time.sleep(chance.random() * 2 * about)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        about *= 1.5  # as long as it takes here and now: shorter after one that was made, longer after one that was not
        try:
            with Ledger.open(place) as ledger:
                assert ledger.verify().entries == 1
            about *= 0.4
            print("whole")
        except LedgerUnavailable:
            try:
                Ledger.create(place).close()
                print("again")
            except ArgumentError as error:
                assert "there was a ledger" in str(error), error
                print("key")
    """
    words = script("from rangebound.errors import *\n" + textwrap.dedent(code), memory).split()
    assert len(words) == 40
    assert len(set(words)) > 1


@pytest.mark.parametrize("what", ["key", "ledger"])
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(ledger, path, memory, within, what):
    pipe = memory / "pipe"
    os.mkfifo(pipe, 0o600)
    call = (lambda: Ledger.open(path, key=pipe)) if what == "key" else (lambda: Ledger.create(pipe))
    with within(5), pytest.raises(RangeboundError):
        call()


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_fork_may_go_on_spending_on_both_sides(path, rule):
    """Also while other threads of the parent spend."""
    code = """
    ledger = Ledger.create(path)
    open_for(ledger, rule, 1000)
    def work(name, count):
        for i in range(count):
            reserve(ledger, f"{name}-{i}")
    threads = [threading.Thread(target=work, args=(f"parent{t}", 100)) for t in range(3)]
    for thread in threads: thread.start()
    children = [forked(lambda: work(f"child{c}", 50)) for c in range(4)]
    for thread in threads: thread.join()
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    assert ledger.account("people").spends == 500
    print(ledger.verify().entries)
    """
    assert script(code, path, rule).strip() == "502"


@pytest.mark.parametrize("name", ["with space", "per%cent", "que?ry#x", "Zürich", "a'b"])
def test_odd_file_names_work(memory, name):
    with Ledger.create(memory / name) as ledger:
        ledger.open_account("people", epsilon=1)
    assert sorted(os.listdir(memory)) == sorted([name, f"{name}.key", f"{name}.head"])
    Ledger.open(memory / name).close()


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_spend_interrupted_by_the_user_leaves_the_ledger_usable(ledger, monkeypatch, rule):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger._chain.state, "add", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt):
        reserve(ledger, "1")
    monkeypatch.undo()
    reserve(ledger, "1")
    assert ledger.account("people").spent.units == RULES[rule].units(TENTH)
    assert ledger.verify().entries == 3


def statements(ledger, call):
    """The statements that a call sends to SQLite."""
    connection, found = ledger._chain.store._connection, []
    connection.set_trace_callback(lambda text: found.append(text.partition(" (")[0]))
    call()
    connection.set_trace_callback(None)
    return found


def test_who_spends_alone_asks_for_nothing_that_is_known_and_control_who_is_not_looks_at_what_was_written(ledger, path):
    """What the speed of a spend rests on, counted rather than timed."""
    alone = ["BEGIN IMMEDIATE", "PRAGMA data_version", "INSERT INTO entries", "COMMIT"]
    reserve(ledger, "1")
    assert statements(ledger, lambda: reserve(ledger, "2")) == alone
    both = [*alone, *alone[:3], "INSERT INTO payloads", "COMMIT"]
    assert statements(ledger, lambda: release(ledger, "3")) == both
    with Ledger.open(path) as other:
        reserve(other, "4")
    found = statements(ledger, lambda: reserve(ledger, "5"))
    pragmas = [f"PRAGMA {name}" for name in ("data_version", "schema_version", "journal_mode")]
    assert found[:4] == ["BEGIN IMMEDIATE", *pragmas]
    assert found[4].startswith("SELECT seq, time")
    assert str(ledger.account("people").spent) == "epsilon 0.5"


def test_every_other_writer_is_noticed_whoever_it_is(ledger, path):
    """Another ledger of this process, a process that ended, a plain connection: the sums are those of all of them."""
    with Ledger.open(path) as other:
        for turn in range(3):
            reserve(ledger, f"a{turn}")
            reserve(other, f"b{turn}")
        assert str(ledger.account("people").remaining.epsilon) == "0.4"
    os.waitpid(forked(lambda: reserve(Ledger.open(path), "theirs")), 0)
    assert str(ledger.account("people").remaining.epsilon) == "0.3"
    edit(path, "UPDATE entries SET note = 'x' WHERE seq = (SELECT max(seq) FROM entries)")
    for _ in range(2):  # it stays so
        with pytest.raises(LedgerTampered, match="has changed or gone"):
            reserve(ledger, "c")


def test_a_commit_waits_for_readers(ledger, path):
    """A reader holds a commit up; `patience` covers that too."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN")
    other.execute("SELECT * FROM entries").fetchall()
    ended = []
    end = threading.Timer(0.5, lambda: ended.append(other.execute("COMMIT")))
    end.start()
    reserve(ledger, "1")
    assert ended
    end.join()
    other.close()
    assert ledger.verify().entries == 3
