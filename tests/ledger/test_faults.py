"""The fault table: kills, crowds, full disks, read-only files, locks, and the same request again and again."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import suppress

import pytest

from rangebound.errors import LedgerUnavailable, RequestFailed
from rangebound.ledger.book import Ledger
from rangebound.ledger.sqlite import PATIENCE
from tests.ledger.crowd import crowd
from tests.ledger.killed import NO_FAULTS, killed
from tests.ledger.processes import (
    PREAMBLE,
    check_full,
    environment,
    play,
    script,
    small_disk,
    spent_until_full,
    together,
)
from tests.ledger.rules import EVERY_RULE, never, open_for, release, reserve

pytestmark = pytest.mark.parametrize("rule", EVERY_RULE)


@pytest.mark.claim("kill")
@pytest.mark.parametrize(
    ("place", "rounds"),
    [
        ("memory", 10),
        pytest.param("memory", 50, marks=pytest.mark.slow),
        *(pytest.param(*each, marks=pytest.mark.long) for each in (("memory", 1000), ("tmp_path", 100))),
    ],
)
def test_many_kills(request, place, rounds, rule):
    """In memory, where much is done between two kills, and on a disk, where commits wait for it."""
    found = play(killed, request.getfixturevalue(place), rounds, 1, rule)
    assert found.items() >= {"rounds": rounds, **NO_FAULTS}.items()
    assert found["revealed"] > min(rounds, 50)
    assert found["dry"] > 0 or rounds < 50


def test_control_who_reveals_first_is_caught(memory, rule):
    found = play(killed, memory, 5, 1, rule, True)
    assert found["revealed without a spend"] > 0
    assert found["revealed other bytes than stored"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "times", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(10, marks=pytest.mark.long)]
)
def test_a_crowd_gets_exactly_what_there_is_every_time(memory, times, rule):
    spends, threads = (200, 16) if times == 1 else (1000, 64)
    assert play(crowd, memory, times, spends, threads, rule) == [[spends, spends]] * times


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
            for i in range(30):
                computed.clear()
                release(ledger, f"{room}-{i}", lambda _: computed.append(1) or b"x")
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
        release(ledger, f"{room}-after")
    print(failures)
    """
    assert int(script(code, path, rule)) > 5


@pytest.mark.slow
def test_a_disk_that_is_really_full(rule):
    with small_disk("512k") as place, Ledger.create(place / "x.ledger") as ledger:
        open_for(ledger, rule, 10_000)
        computed, revealed = spent_until_full(ledger, 1000)
        subprocess.run(["mount", "-o", "remount,size=8m", place], check=True)
        check_full(ledger, computed, revealed)


@pytest.mark.slow
def test_a_read_only_file_releases_nothing(ledger, path):
    """As a user who may read the file and no more."""
    ledger.close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    code = """
    from rangebound.errors import LedgerUnavailable
    if os.geteuid() == 0:
        os.chown(path.with_name(path.name + ".key"), 65534, 65534)
        os.setuid(65534)
    try:
        release(Ledger.open(path), "1", lambda _: print("COMPUTED") or b"x")
    except LedgerUnavailable as error:
        print(f"refused: {error}")
    """
    try:
        assert script(code, path).startswith("refused: ")
    finally:
        path.parent.chmod(0o755)
        path.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(path.with_name(path.name + ".key"), 0, 0)
    with Ledger.open(path) as again:
        assert again.account("people").spends == 0


@pytest.mark.parametrize("held", ["file", "head"])
def test_a_lock_gives_a_clear_error_in_time(ledger, path, held):
    """Of the file, or of the head, as by a process that is stopped while it writes; the others go on when it does."""
    other = sqlite3.connect(path, isolation_level=None)
    handle = os.open(path.with_name(path.name + ".head"), os.O_RDWR)
    if held == "file":
        other.execute("BEGIN IMMEDIATE")
    else:
        fcntl.flock(handle, fcntl.LOCK_EX)
    with Ledger.open(path, patience=0.3) as hasty:
        for _ in range(2):
            start = time.monotonic()
            with pytest.raises(LedgerUnavailable, match="locked by another process"):
                release(hasty, "1", never)
            assert time.monotonic() - start < 20 < PATIENCE < 30  # the patience by default
        assert hasty.account("people").spends == 0  # reading goes on
        os.close(handle)
        other.close()
        release(hasty, "1")


def test_threads_behind_a_lock_all_get_their_error_in_time(ledger, path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    hasty = Ledger.open(path, patience=0.5)

    def work(i: int) -> float:
        start = time.monotonic()
        with pytest.raises(LedgerUnavailable):
            reserve(hasty, f"{i}")
        return time.monotonic() - start

    assert max(together(40, work)) < 15.0  # one after the other they would take 20 s, on a quick machine
    hasty.close()
    other.close()


CALLS = "pwrite64,write,fdatasync,fsync,unlink,ftruncate,flock"


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("fault", ["signal=SIGKILL", "error=EIO", "error=ENOSPC"])
def test_a_fault_at_every_single_call_of_the_system(memory, fault, rule):
    """The first call fails or kills, then the second, and so on to the end of a release: whatever was revealed is
    charged and stored, and the ledger goes on."""
    code = """
    ledger = Ledger.open(path)
    os.write(1, b"revealed " + release(ledger, "1", lambda _: os.urandom(8).hex().encode()))
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
                again = release(ledger, "1", lambda _: b"later")
                assert not told or again == told, turn
            release(ledger, "2")
            assert ledger.account("people").spends == 2
            ledger.verify()
        if "INJECTED" not in trace.read_text() and "SIGKILL" not in trace.read_text():
            assert told  # the control: without a fault it reveals
            break
        steps += 1
    assert steps > 20
