"""The line appears late, only where someone can see it, and goes away."""

import io
import time

import pytest

import rangebound as rb
from rangebound import progress_line as module
from rangebound.progress_line import is_shown, progress_line


class Terminal(io.StringIO):
    """An error stream that says it is a terminal."""

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
    """Wait until a stream has some words, at most ten seconds."""
    end = time.monotonic() + 10.0
    while words not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)


def test_a_line_appears_on_a_terminal_and_says_what_it_is_told(monkeypatch):
    stream = terminal(monkeypatch)
    with progress_line("searching", None) as tell:
        tell("at most 3 % above")
        wait(stream, "above")
    assert "searching: at most 3 % above" in stream.getvalue()


def test_nothing_is_shown_before_two_seconds(monkeypatch):
    stream = terminal(monkeypatch)
    monkeypatch.setattr(module, "_PATIENCE", 60.0)
    with progress_line("searching", None) as tell:
        tell("at most 3 % above")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_if_the_error_stream_is_a_file_or_progress_is_off(monkeypatch, progress):
    stream = terminal(monkeypatch)
    if progress is None:
        monkeypatch.setattr("sys.stderr", stream := io.StringIO())
    assert not is_shown(progress)
    with progress_line("searching", progress) as tell:
        tell("at most 3 % above")
        time.sleep(0.05)
    assert stream.getvalue() == ""


def fail(stream):
    """Fail once a line has appeared."""
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


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_shows_its_progress(monkeypatch, name):
    stream = terminal(monkeypatch)
    SEARCHES[name]()
    assert f"searching for the {name.split()[-1]}" in stream.getvalue()
