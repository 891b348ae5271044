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
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, ArgumentTypeError, LedgerTampered, LedgerUnavailable, RangeboundError
from rangebound.ledger import Ledger, ledger_files
from rangebound.ledger.key import VARIABLE
from rangebound.ledger.rule import Cost
from tests.ledger.processes import PREAMBLE, environment, script
from tests.ledger.rules import EVERY_RULE, RULES, TENTH


def test_a_ledger_is_a_file_a_key_and_a_head_of_its_owner(ledger, path):
    key = path.with_name("test.ledger.key")
    for each in (key, path.with_name("test.ledger.head")):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}\n", key.read_text())
    ledger.close()
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "test.ledger",
        "test.ledger.head",
        "test.ledger.key",
    ]
    assert bytes.fromhex(key.read_text()) not in path.read_bytes()


def test_every_file_of_a_ledger_is_named(ledger, path, memory, monkeypatch):
    """Whatever lies beside it while it is in use is on the list; links lead to the same list."""
    link = memory / "link"
    link.symlink_to(path)
    ledger.reserve(account="people", request="1", cost=TENTH)
    files = ledger_files(path)
    assert files[0] == path
    with ledger._chain.store.writing() as transaction:
        transaction.append(ledger._chain.state.last._replace(seq=99, request=None))
        assert set(memory.iterdir()) - {link} <= set(files)
    assert ledger_files(link) == files
    assert memory / "k" in ledger_files(path, key=memory / "k")
    monkeypatch.setenv(VARIABLE, str(memory / "env"))
    assert memory / "env" in ledger_files(path)


def test_every_commit_is_synced(ledger, path):
    with ledger._chain.store.reading() as transaction:
        connection = transaction._connection
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 3  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


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


def test_a_ledger_begins_once(ledger, path):
    with pytest.raises(ArgumentError, match="must not exist yet"):
        Ledger.create(path)


def test_a_key_without_its_ledger_is_not_used_again(ledger, path):
    """Whoever loses the ledger does not get a fresh budget by accident."""
    ledger.close()
    path.unlink()
    with pytest.raises(ArgumentError, match="there was a ledger"):
        Ledger.create(path)
    path.write_bytes(b"")
    with pytest.raises(ArgumentError, match="there was a ledger"):
        Ledger.create(path)


def test_a_key_may_be_kept_elsewhere(memory, monkeypatch):
    elsewhere = memory / "keys"
    elsewhere.mkdir()
    with Ledger.create(memory / "a.ledger", key=elsewhere / "key") as ledger:
        ledger.open_account("people", epsilon=1)
    assert not (memory / "a.ledger.key").exists()
    with pytest.raises(LedgerUnavailable, match="without its key"):
        Ledger.open(memory / "a.ledger")
    monkeypatch.setenv(VARIABLE, str(elsewhere / "key"))
    Ledger.open(memory / "a.ledger").close()
    with Ledger.create(memory / "b.ledger") as second:  # one key may serve several ledgers
        second.open_account("people", epsilon=1)


def test_entries_of_one_ledger_do_not_pass_in_another_under_the_same_key(memory):
    for name in ("a", "b"):
        with Ledger.create(memory / name, key=memory / "key") as ledger:
            ledger.open_account("people", epsilon=1 if name == "a" else 100)
    connection = sqlite3.connect(memory / "a")
    connection.execute("ATTACH ? AS b", (str(memory / "b"),))
    connection.execute("DELETE FROM entries WHERE seq = 2")
    connection.execute("INSERT INTO entries SELECT * FROM b.entries WHERE seq = 2")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerTampered, match="entry 2"):
        Ledger.open(memory / "a", key=memory / "key")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604])
def test_a_key_that_others_may_touch_is_refused(ledger, path, mode):
    path.with_name("test.ledger.key").chmod(mode)
    with pytest.raises(LedgerUnavailable, match="chmod 600"):
        Ledger.open(path)


@pytest.mark.parametrize("text", ["", "0" * 63 + "\n", "0" * 64, "g" * 64 + "\n", "0" * 64 + "\n\n"])
def test_a_key_must_look_like_one(ledger, path, text):
    path.with_name("test.ledger.key").write_text(text)
    with pytest.raises(ArgumentError, match=r"^key="):
        Ledger.open(path)


@pytest.mark.parametrize("bad", ["", 3, None, b"x", "a\0b"])
def test_a_path_must_be_one(bad):
    for call in (Ledger.open, Ledger.create):
        with pytest.raises(ArgumentTypeError, match=r"^path="):
            call(bad)


@pytest.mark.parametrize("bad", ["", 3, b"x", "a\0b"])
def test_the_path_of_a_key_must_be_one(ledger, path, bad):
    with pytest.raises(ArgumentTypeError, match=r"^key="):
        Ledger.open(path, key=bad)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "1", True])
def test_patience_is_a_time(path, bad):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"^patience="):
        Ledger.create(path, patience=bad)
    assert not path.exists()


def test_what_is_not_a_ledger_is_refused(memory):
    for name, data in (("text", b"hello" * 1000), ("empty", b"")):
        (memory / name).write_bytes(data)
        (memory / f"{name}.key").write_text("0" * 64 + "\n")
        (memory / f"{name}.key").chmod(0o600)
        with pytest.raises((LedgerTampered, LedgerUnavailable)):
            Ledger.open(memory / name)
        assert (memory / name).read_bytes() == data
    with pytest.raises(LedgerUnavailable, match="no such file"):
        Ledger.open(memory / "missing")
    with pytest.raises(LedgerUnavailable, match="no such file"):
        Ledger.open(memory)
    with pytest.raises(ArgumentError, match="existing folder"):
        Ledger.create(memory / "no" / "folder")
    assert not (memory / "missing").exists()
    other = sqlite3.connect(memory / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(ArgumentError, match="must not exist yet"):
        Ledger.create(memory / "other.db")


def test_links_lead_to_one_ledger(ledger, path, memory):
    link = memory / "link"
    link.symlink_to(path)
    with Ledger.open(link) as other:
        other.reserve(account="people", request="1", cost=TENTH)
        assert ledger.account("people").spent == TENTH
    assert not (memory / "link-wal").exists()


def test_a_second_name_for_the_file_is_refused(ledger, path, memory):
    """Each name would have a log of its own, so each could spend the whole budget."""
    ledger.close()
    os.link(path, memory / "second.ledger")
    for name in (path, memory / "second.ledger"):
        with pytest.raises(LedgerUnavailable, match="more than one name"):
            Ledger.open(name, key=path.with_name("test.ledger.key"))
    os.unlink(memory / "second.ledger")
    Ledger.open(path).close()


@pytest.mark.parametrize("how", ["replaced", "removed"])
@pytest.mark.parametrize(
    "call",
    [
        lambda ledger: ledger.reserve(account="people", request="2", cost=TENTH),
        lambda ledger: ledger.reserve(account="people", request="1", cost=TENTH),
        lambda ledger: ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"another"),
        lambda ledger: ledger.account("people"),
        lambda ledger: ledger.published("1"),
        lambda ledger: ledger.head,
    ],
    ids=["new request", "known request", "known release", "account", "published", "head"],
)
def test_a_file_that_is_taken_away_from_a_running_process_is_noticed(ledger, path, memory, how, call):
    ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x")
    if how == "replaced":
        shutil.copy(path, memory / "copy")
        os.replace(memory / "copy", path)
    else:
        path.unlink()
    with pytest.raises((LedgerTampered, LedgerUnavailable)):
        call(ledger)


def test_a_file_that_is_taken_away_during_a_spend_is_noticed(ledger, path, memory, monkeypatch):
    ledger.reserve(account="people", request="1", cost=TENTH)
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
        ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: pytest.fail("computed"))


def test_many_make_the_same_ledger_and_one_succeeds(memory):
    code = """
    readable, writable = os.pipe()
    for _ in range(12):
        if not os.fork():
            try:
                Ledger.create(path).open_account("people", epsilon=1)
                os.write(writable, b"made\\n")
            except RangeboundError as error:
                os.write(writable, f"{type(error).__name__} {error}\\n".encode())
            finally:
                os._exit(0)
    os.close(writable)
    print(os.fdopen(readable).read())
    """
    for turn in range(5):
        lines = script(code, memory / f"{turn}.ledger").split("\n")
        assert lines.count("made") == 1, lines
        assert sum(line.startswith("ArgumentError") for line in lines) == 11, lines
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
        pid = os.fork()
        if not pid:
            Ledger.create(place)
            os._exit(0)
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
    done = threading.Event()
    def work(name):
        for i in range(100):
            ledger.reserve(account="people", request=f"{name}-{i}", cost=TENTH)
    threads = [threading.Thread(target=work, args=(f"parent{t}",)) for t in range(3)]
    for thread in threads: thread.start()
    children = []
    for c in range(4):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                for i in range(50):
                    ledger.reserve(account="people", request=f"child{c}-{i}", cost=TENTH)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    for thread in threads: thread.join()
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    assert ledger.account("people").spends == 500
    print(ledger.verify().entries)
    """
    assert script(code, path, rule).strip() == "502"


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_threads_share_one_ledger(ledger, rule):
    thousandth = Cost(epsilon="0.001")
    errors: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for i in range(20):
                ledger.release(account="people", request=f"{thread}-{i}", cost=thousandth, compute=lambda _: b"x")
        except RangeboundError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert ledger.account("people").spent.units == (160 * RULES[rule].units(thousandth)[0], 0)


def test_a_closed_ledger_opens_again_by_itself(ledger):
    ledger.close()
    ledger.close()
    ledger.reserve(account="people", request="1", cost=TENTH)
    assert ledger.account("people").spent == TENTH


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
        ledger.reserve(account="people", request="1", cost=TENTH)
    monkeypatch.undo()
    ledger.reserve(account="people", request="1", cost=TENTH)
    assert ledger.account("people").spent.units == RULES[rule].units(TENTH)
    assert ledger.verify().entries == 3


def test_paths_are_resolved_once(ledger, path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with Ledger.open(Path(path.name)) as relative:
        monkeypatch.chdir("/")
        relative.reserve(account="people", request="1", cost=TENTH)
    assert ledger.account("people").spent == TENTH


def test_a_backup_is_a_ledger(ledger, path, memory):
    """Taken with SQLite's own means while the ledger is in use; the head tells how far it goes."""
    ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x")
    source, target = sqlite3.connect(path), sqlite3.connect(memory / "backup")
    source.backup(target)
    source.close()
    target.close()
    key = path.with_name("test.ledger.key")
    with pytest.raises(LedgerTampered, match="adopt"):
        Ledger.open(memory / "backup", key=key)
    with Ledger.adopt(memory / "backup", key=key, head=ledger.head) as backup:
        assert backup.head == ledger.head
        assert backup.published("1") == b"x"
        backup.verify(head=ledger.head)


def statements(ledger, call):
    """The statements that a call sends to SQLite."""
    connection, found = ledger._chain.store._connection, []
    connection.set_trace_callback(lambda text: found.append(text.partition(" (")[0]))
    call()
    connection.set_trace_callback(None)
    return found


def test_who_spends_alone_asks_for_nothing_that_is_known(ledger):
    """What the speed of a spend rests on, counted rather than timed."""
    alone = ["BEGIN IMMEDIATE", "PRAGMA data_version", "INSERT INTO entries", "COMMIT"]
    ledger.reserve(account="people", request="1", cost=TENTH)
    assert statements(ledger, lambda: ledger.reserve(account="people", request="2", cost=TENTH)) == alone
    release = statements(
        ledger, lambda: ledger.release(account="people", request="3", cost=TENTH, compute=lambda _: b"x")
    )
    assert release == [*alone, *alone[:3], "INSERT INTO payloads", "COMMIT"]


def test_control_who_is_not_alone_looks_at_what_was_written(ledger, path):
    ledger.reserve(account="people", request="1", cost=TENTH)
    with Ledger.open(path) as other:
        other.reserve(account="people", request="2", cost=TENTH)
    found = statements(ledger, lambda: ledger.reserve(account="people", request="3", cost=TENTH))
    pragmas = [f"PRAGMA {name}" for name in ("data_version", "schema_version", "journal_mode")]
    assert found[:4] == ["BEGIN IMMEDIATE", *pragmas]
    assert found[4].startswith("SELECT seq, time")
    assert str(ledger.account("people").spent) == "epsilon 0.3"


def test_every_other_writer_is_noticed_whoever_it_is(ledger, path):
    """Another ledger of this process, a process that ended, a plain connection: the sums are those of all of them."""
    code = 'Ledger.open(path).reserve(account="people", request="theirs", cost=TENTH)'
    with Ledger.open(path) as other:
        for turn in range(3):
            ledger.reserve(account="people", request=f"a{turn}", cost=TENTH)
            other.reserve(account="people", request=f"b{turn}", cost=TENTH)
        assert str(ledger.account("people").remaining.epsilon) == "0.4"
    script(code, path)
    assert str(ledger.account("people").remaining.epsilon) == "0.3"
    plain = sqlite3.connect(path)
    plain.execute("UPDATE entries SET note = 'x' WHERE seq = (SELECT max(seq) FROM entries)")
    plain.commit()
    plain.close()
    with pytest.raises(LedgerTampered, match="has changed or gone"):
        ledger.reserve(account="people", request="c", cost=TENTH)
    with pytest.raises(LedgerTampered, match="has changed or gone"):  # and it stays so
        ledger.account("people")


def test_a_commit_waits_for_readers(ledger, path):
    """A reader holds a commit up; `patience` covers that too."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN")
    other.execute("SELECT * FROM entries").fetchall()
    ended = []
    end = threading.Timer(0.5, lambda: ended.append(other.execute("COMMIT")))
    end.start()
    ledger.reserve(account="people", request="1", cost=TENTH)
    assert ended
    end.join()
    other.close()
    assert ledger.verify().entries == 3
