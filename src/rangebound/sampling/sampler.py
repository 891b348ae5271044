"""The draw of a mechanism: floats where they are proved to suffice, ball arithmetic where they are not.

And releases of any size: one number, or an array of them in chunks, over several threads, with a progress bar.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.boundings import UNBOUNDED_SHAPE, Shape
from rangebound.laws.family import Curve, Noise
from rangebound.sampling import inversion
from rangebound.sampling.draw_plan import (
    NEAR,
    DrawFamily,
    DrawPlan,
    Lattice,
    default_lattice,
    farthest,
    largest,
    lattice_of,
    plan,
)
from rangebound.sampling.entropy import SECURE, WordSource
from rangebound.sampling.fallback import Fallback
from rangebound.values import arguments
from rangebound.values.array_types import Bools, Floats, Words, np, npt
from rangebound.values.extras import warn_of_slow_path
from rangebound.values.numeric import rounded_up
from rangebound.values.progress_line import is_shown
from rangebound.values.support import Query

try:
    from rangebound.sampling import _kernel
except ImportError:  # installed without a compiler
    _kernel = None  # type: ignore[assignment]

Estimate = Callable[[Words, Floats], tuple[Floats, Bools]]

# Scales from the support up to which log space reaches. A curve without a number has no formula in floats whose error
# is bounded: all its draws are made in ball arithmetic.
_WIDE = {Curve.LINEAR: 500.0, Curve.QUADRATIC: 30.0}
CHUNK = 1 << 15  # draws at a time: their words and numbers stay in the processor's cache


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Draws from the laws of one mechanism, rounded to one lattice.

    `estimate` gives numbers in floats and says which of them are undecided; `fallback` decides those. `plan` is what
    `estimate` goes by, where one plan says it all, and `compiled` the same in the kernel's terms, where it knows how.
    """

    query: Query
    estimate: Estimate
    fallback: Fallback
    compiled: tuple[int, Floats, Floats] | None
    plan: DrawPlan | None
    chunk: int

    @property
    def half_step(self) -> float:
        """How far rounding moves a number at most; nothing where the law lives on points."""
        lattice = self.fallback.lattice
        return 0.0 if lattice is None else rounded_up(lattice.step / 2)

    def draw(self, words: Words, answers: Floats, source: WordSource, out: Floats) -> None:
        """One number for every answer and word (contiguous arrays of one length, at most `chunk` long), into `out`."""
        if len(self.query.range.spans) > 1:
            answers = self.query.clip(answers)
        if self.compiled is not None:
            undecided = np.empty(len(words), dtype=np.bool_)
            if not _kernel.draw(*self.compiled, words, answers, out, undecided):
                return
        else:
            with np.errstate(all="ignore"):  # what overflows is undecided
                out[:], undecided = self.estimate(words, answers)
        for i in np.flatnonzero(undecided).tolist():
            answer = self.query.clip(answers[i]).item()
            out[i] = self.fallback(int(words[i]), answer, float(out[i]), source)

    def draw_one(self, answer: float, source: WordSource = SECURE) -> float:
        """One number for one finite answer."""
        word = source.word()
        if self.compiled is not None and len(self.query.range.spans) == 1:
            value: float | None = _kernel.draw_one(*self.compiled, word, answer)
            if value is not None:
                return value
            return self.fallback(word, self.query.clip(answer).item(), math.nan, source)
        out = np.empty(1)
        self.draw(np.array([word], dtype=np.uint64), np.array([answer]), source, out)
        return out.item()


def sampler_for(noise: Noise, shape: Shape, query: Query, step: float | None = None) -> Sampler:
    """The sampler of a mechanism, on its default lattice or on that of a user's step.

    Which formulas draw depends on public parameters alone, so that the time of a draw says nothing about its location.
    """
    if not shape.spans:
        if step is not None:
            raise ArgumentError(f"step={step}: must be left out, because the support is a Grid, which has its own")
        estimate, chunk, whole = _on_points(noise, shape, query)
        fallback = Fallback(noise, shape, None)
        return Sampler(query=query, estimate=estimate, fallback=fallback, compiled=None, plan=whole, chunk=chunk)
    lattice = default_lattice(noise, shape) if step is None else lattice_of(step)
    compiled = whole = None
    distance = farthest(noise, shape, query.spread) if shape.normalised else 0.0
    if noise.curve not in _WIDE:
        estimate, chunk = _unknown, CHUNK
    elif len(shape.spans) == 1 and (not noise.gaussian or distance <= NEAR):
        whole = plan(noise, shape, query.spread, lattice)
        estimate, chunk, compiled = partial(_rounded, whole), CHUNK, _compiled(whole)
    elif len(shape.spans) == 1:
        estimate, chunk = partial(_rounded_tail, plan(noise, shape, query.spread, lattice)), CHUNK
    elif distance <= _WIDE[noise.curve]:
        bound = largest((query.range.hull.lower, query.range.hull.upper))
        estimate = partial(inversion.between_gaps, noise, shape, lattice, bound)
        estimate, chunk = partial(_clipped, query, estimate), max(CHUNK // len(shape.spans), 1)
    else:
        estimate, chunk = _unknown, CHUNK
    fallback = Fallback(noise, shape, lattice)
    return Sampler(query=query, estimate=estimate, fallback=fallback, compiled=compiled, plan=whole, chunk=chunk)


def _compiled(whole: DrawPlan) -> tuple[int, Floats, Floats] | None:
    if _kernel is None:
        warn_of_slow_path("sampling")
        return None
    from rangebound.sampling.kernel_tables import (  # made when they are needed: they take their time
        laplace_tables,
        tables,
    )

    laplace = whole.family in (DrawFamily.LAPLACE, DrawFamily.PLAIN_LAPLACE)
    return int(whole.family), whole.packed(), laplace_tables() if laplace else tables()


def _rounded(whole: DrawPlan, words: Words, answers: Floats) -> tuple[Floats, Bools]:
    return inversion.rounded(whole, inversion.inverted(whole, words, answers))


def _rounded_tail(whole: DrawPlan, words: Words, answers: Floats) -> tuple[Floats, Bools]:
    return inversion.rounded(whole, inversion.inverted_tail(whole, words, answers))


def _clipped(query: Query, estimate: Estimate, words: Words, answers: Floats) -> tuple[Floats, Bools]:
    return estimate(words, query.clip(answers))


def _unknown(words: Words, answers: Floats) -> tuple[Floats, Bools]:
    """No estimate at all: only balls tell, because no formula in floats is known or the support is too far away."""
    return answers, np.ones(len(words), dtype=bool)


def _on_points(noise: Noise, shape: Shape, query: Query) -> tuple[Estimate, int, DrawPlan | None]:
    if noise.curve not in _WIDE:
        return _unknown, CHUNK, None
    if shape.cells:
        whole = plan(noise, UNBOUNDED_SHAPE, query.spread, Lattice(numerator=1, denominator=1))
        return partial(inversion.quantized, whole, shape), CHUNK, whole
    if noise.exponential:
        estimate = partial(inversion.weighed_laplace, noise, inversion.laplace_sums(noise, shape))
        return partial(_clipped, query, estimate), CHUNK, None
    estimate = partial(inversion.weighed_gaussian, noise, shape)
    return partial(_clipped, query, estimate), max((1 << 18) // inversion.window(noise, shape), 1), None


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
