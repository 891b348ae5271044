"""Which tests run when, in which order, and how much processor time they may take.

`make test` runs every test but those marked `slow` or `long`; `make test-all` all but the `long` ones. `few` leaves
most cases of a test with many to `make test-all`. A case of the default tier that takes more than `CASE` seconds guards
one of the `CLAIMS`, and its marker says which.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import mmap
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest

CLAIMS = {
    "sensitivity": "the sensitivity of every kind of question is as stated",
    "privacy": "an epsilon, a delta or a Renyi curve is never too small",
    "draw": "a draw has the law that is stated, exactly",
    "charge": "what is drawn was charged before, and no less than it costs",
    "forgery": "a forged or damaged certificate, ledger or export is refused",
    "interval": "an interval covers as often as it says",
    "kill": "a killed or interrupted process loses nothing and spends nothing twice",
    "neighbours": "neighbouring tables move nothing but what is charged, on every engine",
    "answer": "an answer is the one that somebody else's program gives",
    "range": "a published number lies in its range",
    "gradient": "a gradient is clipped and summed example by example",
    "optimum": "no table beats a limit, and the table said to be best is",
    "page": "what the pages tell a reader to type works",
}
"""What a slow case of the default tier may be there for."""

BUDGET = 800.0
"""Seconds of processor time for all cases of the default tier, on the machine on which `LOOP` was measured."""

CASE, NOISE = 2.0, 1.5
"""Seconds of processor time for a case without a claim, and how much more one takes with cold caches or by chance."""

WORK, PACE = (0.027, 0.027, 0.025), 15.0
"""Seconds that each part of `_work` takes on that machine; the seconds between two tries, which say how fast this is.

Between the cases, since two processes slow each other down: a try alone at the end says nothing of that. In parts:
a machine may be as fast with numbers and half as fast with memory and files, which tests use more.
"""

SHARED = ("spark", "postgres", "browser", "serve", "torch")
"""Fixtures and folders of tests that start or load something large, which one process then has for all of its tests."""

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_begun: pytest.StashKey[float] = pytest.StashKey()
_paced = [0.0]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rangebound")
    group.addoption("--budget", action="store_true", help="fail where the tests take more processor time than they may")
    group.addoption("--times", metavar="FILE", help="write the processor time of every case to a file")
    group.addoption("--plans", metavar="N", type=int, default=20, help="how many random plans a long test takes")
    group.addoption("--shuffled", metavar="SEED", help="run the tests in an order of chance")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(config), "rangebound-times")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded here stays to the end: the collector of cycles need not walk through it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.parent.name == "errata":  # what papers say, which no change of ours makes right or wrong
            item.add_marker(pytest.mark.slow)
        for mark in item.iter_markers("claim"):
            if not set(mark.args) <= CLAIMS.keys() or not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: claim{mark.args}: must be one of {', '.join(CLAIMS)}")
        if item.get_closest_marker("few") and not item.get_closest_marker("long"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        mark = cases[0].get_closest_marker("few")
        assert mark is not None
        kept = spread(len(cases), *mark.args) if mark.args else meeting([_values(case) for case in cases])
        for at, case in enumerate(cases):
            if at not in kept:
                case.add_marker(pytest.mark.slow)
    result = yield  # here pytest leaves out what is not asked for
    items[:] = placed(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), config.getoption("--shuffled"))
    return result


def _values(item: pytest.Item) -> list[Hashable]:
    """The value of each parameter with its name."""
    call = getattr(item, "callspec", None)
    return [] if call is None else [(name, _key(value)) for name, value in call.params.items()]


def _key(value: object) -> Hashable:
    """The same for equal values that can be compared, and for one and the same object otherwise."""
    return (type(value), value) if isinstance(value, Hashable) else id(value)


def spread(count: int, wanted: int) -> set[int]:
    """This many of a row of places, evenly, with the first and the last.

    >>> sorted(spread(10, 3)), spread(5, 1), sorted(spread(2, 3))
    ([0, 4, 9], {0}, [0, 1])
    """
    if wanted >= count:
        return set(range(count))
    return {round(at * (count - 1) / max(1, wanted - 1)) for at in range(wanted)}


def meeting(cases: list[list[Hashable]]) -> set[int]:
    """Few cases that together have every value that any case has.

    >>> sorted(meeting([["a", 1], ["a", 2], ["b", 1], ["b", 2]]))
    [0, 3]
    """
    missing, kept = set(itertools.chain(*cases)), {0}
    missing -= set(cases[0])
    while missing:
        best = max(range(len(cases)), key=lambda at: len(missing & set(cases[at])))
        kept.add(best)
        missing -= set(cases[best])
    return kept


def placed(items: list[pytest.Item], processes: int, seed: str | None) -> list[pytest.Item]:
    """The tests in an order in which one process alone needs each program that tests share.

    Each of several processes begins with a part of the list, and takes from the end of another's when it has no more
    (`--dist worksteal`). So those of one program come first in the part of one process, the next program's in the next.
    """
    groups: dict[str, list[pytest.Item]] = {name: [] for name in SHARED}
    others: list[pytest.Item] = []
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {}).values()
        names = {*getattr(item, "fixturenames", ()), *(each for each in values if isinstance(each, str))}
        names.update(item.nodeid.partition("::")[0].split("/"))
        groups.get(next((each for each in SHARED if each in names), ""), others).append(item)
    if seed is not None:
        for each in (others, *groups.values()):
            each.sort(key=lambda item: hashlib.sha256(f"{seed} {item.nodeid}".encode()).digest())
    first: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for at, name in enumerate(SHARED):
        first[at % processes] += groups[name]
    ordered: list[pytest.Item] = []
    for at, own in enumerate(first):
        room = len(items) * (at + 1) // processes - len(ordered) - len(own)
        ordered += own + others[: max(0, room)]
        del others[: max(0, room)]
    return ordered + others


def processor_seconds() -> float:
    """Processor time of this process, of those that it has waited for, and of its children that still run."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + waited.ru_utime + waited.ru_stime
    me = os.getpid()
    try:
        for child in Path(f"/proc/{me}/task/{me}/children").read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / _TICKS
    except OSError:
        pass  # it has ended, or this is not Linux
    return total


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_begun] = processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    report = yield
    before, item.stash[_begun] = item.stash[_begun], processor_seconds()
    report.processor = item.stash[_begun] - before
    report.claims = bool(item.get_closest_marker("claim")) or isinstance(item, pytest.DoctestItem)
    if report.when == "teardown" and item.config.getoption("--budget") and time.monotonic() >= _paced[0] + PACE:
        report.work, _paced[0] = _work(), time.monotonic()
    return report


class Times:
    """Adds up the processor time of all cases, in the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.cases: dict[str, float] = defaultdict(float)
        self.claims: set[str] = set()
        self.work: list[tuple[float, ...]] = []
        self.slower = 1.0
        self.parts: list[float] = []
        self.faults: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.cases[report.nodeid] += getattr(report, "processor", 0.0)
        if getattr(report, "claims", False):
            self.claims.add(report.nodeid)
        if hasattr(report, "work"):
            self.work.append(tuple(report.work))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        if self.config.getoption("--times"):
            rows = sorted(self.cases.items(), key=lambda row: -row[1])
            Path(self.config.getoption("--times")).write_text("".join(f"{s:.3f}\t{name}\n" for name, s in rows))
        if self.config.getoption("--budget"):
            tries = zip(*(self.work or [_work()]), strict=True)
            self.parts = [statistics.median(each) / usual for each, usual in zip(tries, WORK, strict=True)]
            self.slower = max(1.0, statistics.fmean(self.parts))
            marked = self.claims if self.config.getoption("--shuffled") is None else set(self.cases)
            self.run_again([name for name in over_budget(self.cases, marked, self.slower) if name in self.cases])
            self.faults = [f"{name}: {why}" for name, why in over_budget(self.cases, marked, self.slower).items()]
            if self.faults and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return result

    def run_again(self, names: list[str]) -> None:
        """Run these cases once more, alone, and keep the shorter time: by chance one pays for what others left."""
        if not 0 < len(names) <= 10:
            return
        with tempfile.TemporaryDirectory() as folder:
            times = Path(folder, "times.tsv")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--times={times}", *names]
            subprocess.run(command, cwd=self.config.rootpath, capture_output=True, check=False)
            for line in times.read_text().splitlines() if times.exists() else ():
                seconds, name = line.split("\t", 1)
                self.cases[name] = min(self.cases[name], float(seconds))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        result = yield  # the list of failed and skipped tests: what is over budget stands below it, where it is seen
        total = sum(self.cases.values())
        found = "numbers {:.2f}, objects {:.2f}, the system {:.2f}".format(*self.parts) if self.parts else ""
        pace = f"; plain work took {self.slower:.2f} times as long as the budget expects ({found})" if found else ""
        terminalreporter.write_line(f"{total:.0f} s of processor time in {len(self.cases)} cases{pace}")
        for line in self.faults:
            terminalreporter.write_line(f"over budget: {line}", red=True)
        return result


def over_budget(cases: dict[str, float], claims: set[str], slower: float) -> dict[str, str]:
    """What is over budget and why, on a machine that is this many times as slow as the one of the budget.

    >>> over_budget({"a": 9.0, "b": 9.0}, {"a"}, 1.0)
    {'b': '9.0 s of processor time; mark what it guards (claim), or leave it to make test-all (slow, few)'}
    >>> [len(over_budget({"a": 1.2 * BUDGET}, {"a"}, slower)) for slower in (1.0, 1.3)]
    [1, 0]
    """
    why = "s of processor time; mark what it guards (claim), or leave it to make test-all (slow, few)"
    most = CASE * NOISE * slower
    found = {name: f"{s:.1f} {why}" for name, s in cases.items() if s > most and name not in claims}
    total, allowed = sum(cases.values()), BUDGET * slower
    if total > allowed:
        found["all"] = f"{total:.0f} s of processor time, where {allowed:.0f} are allowed (tests/tiers.py)"
    return found


def _work() -> tuple[float, float, float]:
    """Seconds of processor time that plain work takes here: with numbers, with many small objects, by the system."""
    times = [time.process_time()]
    sum(each * each % 7 for each in range(300_000))
    times.append(time.process_time())
    sorted(str(each * 7919 % 1_000_003) for each in range(60_000))
    times.append(time.process_time())
    with mmap.mmap(-1, 4_000 * mmap.PAGESIZE) as pages, tempfile.TemporaryDirectory() as folder:
        for at in range(0, len(pages), mmap.PAGESIZE):
            pages[at] = 1
        for at in range(50):
            Path(folder, str(at)).write_text(str(at))
    times.append(time.process_time())
    numbers, objects, system = (after - before for before, after in itertools.pairwise(times))
    return numbers, objects, system
