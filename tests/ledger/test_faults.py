"""The fault table: kills, crowds, full disks, read-only files, locks, and the same request again and again."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import deque
from contextlib import suppress

import pytest

from rangebound.errors import LedgerUnavailable, RequestFailed
from rangebound.ledger.book import Ledger
from tests.ledger.processes import PREAMBLE, environment, play, script
from tests.ledger.rules import EVERY_RULE, TENTH, open_for

FAULTS = [
    "computed without a spend",
    "revealed without a spend",
    "revealed other bytes than stored",
    "charged twice",
    "overspent",
]


@pytest.fixture(params=EVERY_RULE)
def rule(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_fifty_kills(memory, rule):
    found = play("killed.py", memory, 50, 1, rule)
    assert found["rounds"] == 50
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0)
    assert found["revealed"] > 50
    assert found["dry"] > 0


@pytest.mark.long
@pytest.mark.parametrize(("place", "rounds"), [("memory", 1000), ("tmp_path", 100)])
def test_a_thousand_kills(request, place, rounds, rule):
    """In memory, where much is done between two kills, and on a disk, where commits wait for it."""
    found = play("killed.py", request.getfixturevalue(place), rounds, 2, rule)
    assert found["rounds"] == rounds
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0)


def test_control_who_reveals_first_is_caught(memory, rule):
    found = play("killed.py", memory, 10, 1, rule, "broken")
    assert found["revealed without a spend"] > 0
    assert found["revealed other bytes than stored"] > 0


@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.long)])
def test_a_crowd_gets_exactly_what_there_is_every_time(memory, times, rule):
    assert play("crowd.py", memory, times, rule) == [[1000, 1000]] * times


def test_the_same_request_across_kills_is_one_spend_and_one_answer(path, rule):
    code = """
    import random, secrets, signal
    with Ledger.create(path) as ledger:
        open_for(ledger, rule, 10)
    seen = path.with_suffix(".seen")
    chance = random.Random(4)
    for _ in range(25):
        children = []
        for _ in range(4):
            pid = os.fork()
            if not pid:
                ledger = Ledger.open(path)
                out = os.open(seen, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
                for _ in range(10):
                    answer = ledger.release(
                        account="people", request="one", cost=TENTH, compute=lambda _: secrets.token_hex(8).encode()
                    )
                    os.write(out, answer + b"\\n")
                os._exit(0)
            children.append(pid)
        time.sleep(chance.random() * 0.05)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    with Ledger.open(path) as ledger:
        for _ in range(1000):
            ledger.release(account="people", request="one", cost=TENTH, compute=lambda _: b"late")
        assert ledger.account("people").spends == 1
        answers = set(seen.read_bytes().splitlines()) if seen.exists() else set()
        assert answers <= {ledger.published("one")}, answers
        ledger.verify()
    """
    script(code, path, rule)


def test_a_full_disk_releases_nothing_and_recovers(path, rule):
    """The kernel refuses to let any file of the process grow, as a full disk does."""
    code = """
    import resource
    from rangebound.errors import LedgerUnavailable
    ledger = Ledger.create(path)
    open_for(ledger, rule, 10_000)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    failures = 0
    for room in [-4000, -1, 0, 1, 24, 1000, 4095, 4096, 4120, 5000, 8239, 8240, 8241]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path) + room, unlimited[1]))
        computed = []
        try:
            for i in range(60):
                computed.clear()
                compute = lambda _: computed.append(1) or b"x"
                ledger.release(account="people", request=f"{room}-{i}", cost=TENTH, compute=compute)
        except LedgerUnavailable as error:
            failures += 1
            assert "nothing was written" in str(error) or "disk" in str(error), error
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        with Ledger.open(path) as other:
            charged = other.account("people").spends
            released = sum(r.kind == "publish" for r in other.history())
            assert released <= charged <= released + failures
            assert not computed or charged > 0
            other.verify()
        ledger.release(account="people", request=f"{room}-after", cost=TENTH, compute=lambda _: b"x")
    print(failures)
    """
    assert int(script(code, path, rule)) > 5


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("mount"), reason="needs a disk of its own"
)
def test_a_disk_that_is_really_full(tmp_path, rule):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "none", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("may not mount")
    try:
        with Ledger.create(place / "x.ledger") as ledger:
            open_for(ledger, rule, 10_000)
            computed: list[str] = []
            revealed = []

            def release(name: str) -> None:
                compute = lambda _: computed.append(name) or b"x" * 1000  # noqa: E731
                ledger.release(account="people", request=name, cost=TENTH, compute=compute)
                revealed.append(name)

            names = map(str, range(10_000))
            with pytest.raises(LedgerUnavailable, match="disk"):
                deque(map(release, names), maxlen=0)
            subprocess.run(["mount", "-o", "remount,size=8m", place], check=True)
            charged = {record.request for record in ledger.history() if record.kind == "spend"}
            assert set(computed) <= charged
            assert all(ledger.published(name) == b"x" * 1000 for name in revealed)
            release("after")
            ledger.verify()
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_read_only_file_releases_nothing(ledger, path):
    """As a user who may read the file and no more."""
    ledger.close()
    folder, key = path.parent, path.with_name(path.name + ".key")
    path.chmod(0o444)
    folder.chmod(0o555)
    code = """
    from rangebound.errors import LedgerUnavailable
    import rangebound.ledger.key as keys
    if os.geteuid() == 0:
        os.chown(path.with_name(path.name + ".key"), 65534, 65534)
        os.setuid(65534)
    try:
        ledger = Ledger.open(path)
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: print("COMPUTED") or b"x")
        print("released")
    except LedgerUnavailable as error:
        print(f"refused: {error}")
    """
    try:
        out = script(code, path)
    finally:
        folder.chmod(0o755)
        path.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(key, 0, 0)
    assert out.startswith("refused: "), out
    with Ledger.open(path) as again:
        assert again.account("people").spends == 0


def test_a_lock_gives_a_clear_error_in_time(ledger, path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Ledger.open(path, patience=0.5) as hasty:
        for _ in range(2):
            start = time.monotonic()
            with pytest.raises(LedgerUnavailable, match="locked by another process"):
                hasty.release(account="people", request="1", cost=TENTH, compute=lambda _: pytest.fail("computed"))
            assert time.monotonic() - start < 20  # the patience by default is longer
        assert hasty.account("people").spends == 0  # reading goes on
        other.execute("ROLLBACK")
        hasty.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x")
    other.close()


def test_a_process_that_is_stopped_while_it_writes_keeps_others_waiting_and_no_more(ledger, path):
    """It holds the head, and perhaps the file: the others get an error in time, and go on when it does."""
    handle = os.open(path.with_name(path.name + ".head"), os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with Ledger.open(path, patience=0.3) as hasty:
        with pytest.raises(LedgerUnavailable, match="locked by another process"):
            hasty.release(account="people", request="1", cost=TENTH, compute=lambda _: pytest.fail("computed"))
        assert hasty.account("people").spends == 0
        os.close(handle)
        hasty.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x")


def test_threads_behind_a_lock_all_get_their_error_in_time(ledger, path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    hasty = Ledger.open(path, patience=0.5)
    errors = []

    def work(i: int) -> None:
        start = time.monotonic()
        with pytest.raises(LedgerUnavailable):
            hasty.reserve(account="people", request=f"{i}", cost=TENTH)
        errors.append(time.monotonic() - start)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 40
    assert max(errors) < 15.0  # one after the other they would take 20 s, on a quick machine
    hasty.close()
    other.close()


@pytest.mark.long
def test_a_lock_of_half_a_minute_and_more_is_an_error_within_a_minute(ledger, path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    with pytest.raises(LedgerUnavailable, match="locked"):
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: pytest.fail("computed"))
    assert time.monotonic() - start < 60
    other.close()


def test_the_patience_by_default_is_well_below_a_minute():
    from rangebound.ledger.sqlite import PATIENCE

    assert 2 * PATIENCE < 60


CALLS = "pwrite64,write,fdatasync,fsync,unlink,ftruncate,flock"


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("fault", ["signal=SIGKILL", "error=EIO", "error=ENOSPC"])
def test_a_fault_at_every_single_call_of_the_system(memory, fault, rule):
    """The first call fails or kills, then the second, and so on to the end of a release: whatever was revealed is
    charged and stored, and the ledger goes on."""
    code = """
    ledger = Ledger.open(path)
    answer = ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: os.urandom(8).hex().encode())
    os.write(1, b"revealed " + answer)
    """
    steps = 0
    for turn in range(1, 200):
        path, trace = memory / f"{turn}.ledger", memory / "trace"
        with Ledger.create(path) as ledger:
            open_for(ledger, rule, 10)
        inject = ["-e", f"trace={CALLS}", "-e", f"inject={CALLS}:{fault}:when={turn}", "-P", path]
        beside = [each for ending in ("-journal", ".head") for each in ("-P", f"{path}{ending}")]
        command = ["strace", "-f", "-o", trace, *inject, *beside, "-P", memory, sys.executable, "-c"]
        command += [PREAMBLE + textwrap.dedent(code), path]
        result = subprocess.run(command, capture_output=True, check=False, env=environment())
        if b"PTRACE" in result.stderr or b"ptrace" in result.stderr:
            pytest.skip("strace may not trace here")
        told = result.stdout.removeprefix(b"revealed ")
        with Ledger.open(path) as ledger:
            charged, stored = ledger.account("people").spends, ledger.published("1")
            assert not told or (charged, stored) == (1, told), turn
            with suppress(RequestFailed):
                again = ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"later")
                assert not told or again == told, turn
            ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: b"x")
            assert ledger.account("people").spends == 2
            ledger.verify()
        if "INJECTED" not in trace.read_text() and "SIGKILL" not in trace.read_text():
            assert told  # the control: without a fault it reveals
            break
        steps += 1
    assert steps > 20
