"""The line appears late, only where someone can see it, and goes away."""

import io
import time

import pytest

import rangebound as rb
from rangebound.values import progress_line as module
from rangebound.values.progress_line import is_shown, progress_line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """The error stream as a terminal, on which a line appears at once (no fixture: pytest sets the stream after it)."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def wait(stream, words):
    end = time.monotonic() + 10.0
    while words not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)


def test_a_line_appears_on_a_terminal_and_says_what_it_is_told(monkeypatch):
    stream = terminal(monkeypatch)
    with progress_line("searching", None) as tell:
        tell("at most 3 % above")
        wait(stream, "above")
    assert "searching: at most 3 % above" in stream.getvalue()


@pytest.mark.parametrize("case", ["a file", "off", "too early"])
def test_nothing_is_shown_in_a_file_or_where_progress_is_off_or_before_two_seconds(monkeypatch, case):
    stream = terminal(monkeypatch)
    if case == "a file":
        monkeypatch.setattr("sys.stderr", stream := io.StringIO())
    if case == "too early":
        monkeypatch.setattr(module, "_PATIENCE", 60.0)
    progress = False if case == "off" else None
    assert is_shown(progress) == (case == "too early")
    with progress_line("searching", progress) as tell:
        tell("at most 3 % above")
        time.sleep(0.05)
    assert stream.getvalue() == ""


def fail(stream):
    with progress_line("searching", True):
        wait(stream, "searching")
        raise ZeroDivisionError


def test_a_line_ends_with_an_error(monkeypatch):
    stream = terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError):
        fail(stream)
    size = len(stream.getvalue())
    time.sleep(0.2)
    assert len(stream.getvalue()) == size > 0


def test_progress_is_a_truth_value_or_none():
    with pytest.raises(rb.ArgumentTypeError, match=r"^progress=1: must be True, False or None$"):
        is_shown(1)


QUERY = rb.Query(range=rb.Interval(0, 3), sensitivity=1.0)
SEARCHES = {
    "table": lambda: rb.optimal(query=QUERY, epsilon=1.0, shape="free"),
    "smooth table": lambda: rb.optimal(query=QUERY, epsilon=1.0),
    "limit": lambda: rb.limit(query=QUERY, epsilon=1.0),
    "remap": lambda: rb.remap(rb.Staircase.calibrated(query=QUERY, epsilon=1.0, step=1 / 8)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_shows_its_progress(monkeypatch, name):
    stream = terminal(monkeypatch)
    SEARCHES[name]()
    assert f"searching for the {name.split()[-1]}" in stream.getvalue()
