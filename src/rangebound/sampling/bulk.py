"""Releases of any size: one number, or an array of them in chunks, over several threads, with a progress bar."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, Protocol

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.sampling.entropy import SECURE, WordSource
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Words, np, npt
from rangebound.values.progress_line import is_shown
from rangebound.values.query import Query

_LONG = 1000  # chunks: some seconds of work


class Drawer(Protocol):
    """What draws the numbers of a mechanism: the sampler of a law, or of a table."""

    @property
    def query(self) -> Query:
        """The query whose answers are published."""

    @property
    def chunk(self) -> int:
        """How many draws at a time stay in the processor's cache."""

    def draw(self, words: Words, answers: Floats, source: WordSource, out: Floats) -> None:
        """One number for every answer and word, at most `chunk` of them, into `out`."""

    def draw_one(self, answer: float) -> float:
        """One number for one finite answer."""


def release(sampler: Drawer, answer: object, *, out: object, threads: object, progress: object) -> Any:
    """Numbers for the true answers: a float for one, an array for many. All arguments are checked before any draw."""
    if type(answer) is float and out is None and math.isfinite(answer):
        return sampler.draw_one(answer)
    answers = _checked(answer, sampler.query)
    workers = _workers(threads)
    target = np.empty(answers.shape) if out is None else _target(out, answers.shape)
    shown = is_shown(progress) and (bool(progress) or answers.size > _LONG * sampler.chunk)
    if np.may_share_memory(target, answers):
        answers = answers.copy()
    with _bar(shown, answers.size) as advance:
        _fill(sampler, answers, target, workers, advance)
    if out is None and not isinstance(answer, np.ndarray) and not target.ndim:
        return target.item()
    return target


def _fill(sampler: Drawer, answers: Any, target: Floats, workers: int, advance: Callable[[int], object]) -> None:
    size, chunk = answers.size, sampler.chunk
    source = answers.reshape(-1) if answers.flags.c_contiguous else answers.flat
    direct = target.reshape(-1) if target.flags.c_contiguous else None

    def work(first: int) -> None:
        words = np.empty(min(chunk, size), dtype=np.uint64)
        try:
            for start in range(first * chunk, size, workers * chunk):
                here = np.ascontiguousarray(source[start : start + chunk], dtype=np.float64)
                part = words[: len(here)]
                SECURE.fill(part)
                drawn = np.empty(len(here)) if direct is None else direct[start : start + chunk]
                sampler.draw(part, here, SECURE, drawn)
                if direct is None:
                    target.flat[start : start + chunk] = drawn
                advance(len(here))
        finally:
            words[:] = 0

    workers = max(1, min(workers, -(-size // chunk)))
    if workers == 1:
        work(0)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))


def _checked(answer: object, query: Query) -> npt.NDArray[Any]:
    """The answers as an array of finite real numbers, without a copy if they are an array already.

    True answers are private, and messages end up in logs: an error says what is wrong and shows none of them.
    """
    hull = query.range.hull
    if not isinstance(answer, np.ndarray) or isinstance(answer, np.ma.MaskedArray) or answer.dtype.kind not in "iuf":
        return arguments.answers(answer, hull.lower, hull.upper)
    if answer.dtype.kind == "f" and answer.size:
        with np.errstate(invalid="ignore", over="ignore"):
            lowest, highest = float(np.min(answer)), float(np.max(answer))  # NaN wins in both
        if not (math.isfinite(lowest) and math.isfinite(highest)):
            raise ArgumentError(f"answer: {arguments.FINITE}")
    arguments.check_exact(answer, answer, hull.lower, hull.upper)
    return np.asarray(answer)


def _workers(threads: object) -> int:
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)):
        raise ArgumentTypeError(f"threads={arguments.shown(threads)}: must be a whole number")
    if threads < 1:
        raise ArgumentError(f"threads={threads}: must be at least 1")
    return int(threads)


def _target(out: object, shape: tuple[int, ...]) -> Floats:
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or not out.dtype.isnative:
        raise ArgumentTypeError(f"out={arguments.shown(out)}: must be an array of float64")
    if out.shape != shape or not out.flags.writeable or (out.size and 0 in out.strides):
        raise ArgumentError(f"out={arguments.shown(out)}: must be writeable and of the answers' shape {shape}")
    return out


def _bar(shown: bool, size: int) -> Any:
    """A progress bar on the error stream, as a context that gives the function to advance it with."""
    return _Bar(size) if shown else nullcontext(lambda count: None)


class _Bar:
    def __init__(self, size: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("drawing", total=size)

    def __enter__(self) -> Callable[[int], object]:
        self._progress.start()
        return lambda count: self._progress.advance(self._task, count)

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
