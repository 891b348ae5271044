"""The draw of a mechanism: floats where they are proved to suffice, ball arithmetic where they are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import UNBOUNDED_SHAPE, Shape
from rangebound.laws.family import Curve, Noise
from rangebound.sampling import grid_laws, inversion
from rangebound.sampling.draw_plan import NEAR, DrawFamily, DrawPlan, farthest, largest, plan
from rangebound.sampling.entropy import SECURE, WordSource
from rangebound.sampling.fallback import Fallback
from rangebound.sampling.lattice import Lattice, default_lattice, lattice_of
from rangebound.values.array_types import Bools, Floats, Words, np
from rangebound.values.kernels import warn_of_slow_path
from rangebound.values.numeric import rounded_up
from rangebound.values.query import Query

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
        return partial(grid_laws.quantized, whole, shape), CHUNK, whole
    if noise.exponential:
        estimate = partial(grid_laws.weighed_laplace, noise, grid_laws.laplace_sums(noise, shape))
        return partial(_clipped, query, estimate), CHUNK, None
    estimate = partial(grid_laws.weighed_gaussian, noise, shape)
    return partial(_clipped, query, estimate), max((1 << 18) // grid_laws.window(noise, shape), 1), None
