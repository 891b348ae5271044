"""Estimates out of many published numbers: how the true answers spread is read off the published ones.

One noisy number says little about its true answer; a thousand of them say how true answers are distributed, and that
says more about each. All of it is post-processing of what is public: it costs no privacy, and the published numbers
stay as they are.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rangebound.errors import ArgumentError, ArgumentTypeError, Unsatisfiable
from rangebound.values import arguments
from rangebound.values.array_types import Floats, np, npt
from rangebound.values.support import Grid, Query

_FEWEST = 20  # published numbers that a prior is fitted to
_FINE = 4.0  # candidates to a standard deviation of the noise
_NEAR = 6.0  # standard deviations from a published number within which candidates lie
_MOST_CANDIDATES = 2000
_MOST_CELLS = 500  # published numbers are counted in this many cells, where there are more of them
_SMALL = 0.25  # of the spread of the true answers: with less noise than that an estimate cannot gain 3 %
_ROUNDS = 200  # enough to be within half a unit of the largest log-likelihood, which numbers cannot tell apart
_CONVERGED = 1e-7  # gain of the mean log-likelihood in one round at which a fit ends
_REFITS = 32
_SMOOTH = 0.2  # of the noise: at least so much is a refit smoothed, since a fit to few numbers sits on few candidates
_AT_ONCE = 2**21  # numbers of one block of posteriors


class Distribution(Protocol):
    """What is asked of the law of a published number; every method broadcasts against an array of true answers."""

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """Probability of a number at most `x`."""
        ...

    def pdf(self, x: npt.ArrayLike) -> Floats:
        """Density at `x`."""
        ...

    def mass(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Probability of [lower, upper]."""
        ...

    @property
    def variance(self) -> Floats:
        """Variance of the number."""
        ...


class Publishes(Protocol):
    """What is asked of a mechanism: its law at an array of true answers, and where these may lie."""

    def law(self, answer: Floats, /) -> Distribution:
        """The law of the published number."""
        ...

    @property
    def query(self) -> Query:
        """Where true answers may lie."""
        ...


class Center(enum.Enum):
    """Which number of a posterior is the estimate: its mean (least squared error) or its median (least absolute)."""

    MSE = "mse"
    MAE = "mae"


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Estimates beside the published numbers they were made of, each with an interval, and the prior that made them.

    `candidates` are the true answers that were thought possible, `prior` their weights. `print` shows the columns.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.calibrate(noise=rb.Laplace, query=query, bounding=rb.RECTIFY, epsilon=0.2)
    >>> print(rb.estimate(m, [0.0, 12.0], prior={0.0: 0.7, 5.0: 0.3}))
    published  estimate  lower  upper
            0  0.680952      0      5
           12   2.69051      0      5
    """

    published: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    level: float
    candidates: Floats
    prior: Floats

    def __repr__(self) -> str:
        return f"<Estimates: {arguments.counted(self.estimate.size, 'number')} beside the published>"

    def __len__(self) -> int:
        return int(self.estimate.size)

    def __str__(self) -> str:
        head = ("published", "estimate", "lower", "upper")
        columns = (self.published, self.estimate, self.lower, self.upper)
        rows = [[f"{number:.6g}" for number in row] for row in zip(*(each.flat for each in columns), strict=True)]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        return "\n".join(
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in (head, *rows)
        )

    def to_dict(self) -> dict[str, list[float]]:
        """The columns as lists, for a data frame."""
        return {name: getattr(self, name).ravel().tolist() for name in ("published", "estimate", "lower", "upper")}


@arguments.guided
def estimate(
    mechanism: Publishes,
    published: npt.ArrayLike,
    *,
    prior: str | Mapping[float, float] | Sequence[float],
    objective: str | Center = Center.MSE,
    level: float = 0.95,
) -> Estimates:
    """Estimate the true answers behind many numbers that one mechanism published.

    With `prior="fit"` the distribution of the true answers is fitted to the published numbers by expectation and
    maximisation (EM), over candidates a quarter of a standard deviation of the noise apart [laird1978]; the estimate is
    the mean of the posterior (`objective="mae"`: its median). A prior of your own is a mapping of true answers to
    weights, or weights of evenly spaced true answers from one end of the range to the other. There is no default: a
    wrong prior makes estimates that are worse than the published numbers.

    Guarantee: post-processing, so it costs no privacy; the estimates lie in the range of the true answers. About
    `level` of the true answers lie in their intervals, taken over all numbers; rare true answers are covered less. The
    intervals allow for the uncertainty of the fit: the prior is fitted again to numbers drawn from it [laird1987].
    Assumes: each number was published by this mechanism from a true answer of its own, and their order says nothing:
    the estimates of numbers that follow a trend are drawn towards the middle of all.
    Edge cases: a fit to fewer than 20 numbers is refused, and so is noise below a quarter of the spread of the true
    answers, where an estimate cannot gain 3 %; up to once the spread the fit is smoothed. A published number that is
    impossible under the prior is refused.

    >>> import numpy as np, rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.calibrate(noise=rb.Laplace, query=query, bounding=rb.RECTIFY, epsilon=0.2)
    >>> found = rb.estimate(m, [0.0, 3.0, 12.0], prior={0.0: 0.7, 5.0: 0.3})
    >>> np.round(found.estimate, 2).tolist()
    [0.68, 1.72, 2.69]
    """
    if not (callable(getattr(mechanism, "law", None)) and isinstance(getattr(mechanism, "query", None), Query)):
        raise ArgumentTypeError(
            f"mechanism={arguments.shown(mechanism)}: must be a mechanism with a law, such as rb.calibrate makes"
        )
    numbers = arguments.reals("published", published)
    if not numbers.size:
        raise ArgumentError("published: must hold at least one number")
    level = arguments.probability("level", level)
    center = arguments.member("objective", objective, Center)
    low, high, step = _answers(mechanism)
    if isinstance(prior, str):
        if prior != "fit":
            raise ArgumentError(f'prior={prior!r}: must be "fit", or a mapping of true answers to weights')
        candidates, priors = _fitted(mechanism, numbers.ravel(), (low, high, step), bool(level))
    else:
        candidates, weights = _stated(prior, low, high)
        priors = weights[None, :]
    distinct, back = np.unique(numbers, return_inverse=True)
    found = np.empty((3, distinct.size))
    for some in np.array_split(np.arange(distinct.size), math.ceil(distinct.size * candidates.size / _AT_ONCE)):
        found[:, some] = _posteriors(mechanism, distinct[some], candidates, priors, center, level)
    estimated, lower, upper = (each[back].reshape(numbers.shape) for each in found)
    return Estimates(
        published=numbers,
        estimate=estimated,
        lower=lower,
        upper=upper,
        level=level,
        candidates=candidates,
        prior=priors[0],
    )


def _answers(mechanism: Publishes) -> tuple[float, float, float]:
    """The ends of the true answers and the step between them, 0 where they are real numbers."""
    place = mechanism.query.range
    step = place.step if isinstance(place, Grid) else getattr(mechanism, "step", 0.0)
    return place.hull.lower, place.hull.upper, step


def _stated(prior: Mapping[float, float] | Sequence[float], low: float, high: float) -> tuple[Floats, Floats]:
    """The candidates of a prior of the user's own, and weights that sum to 1."""
    if isinstance(prior, Mapping):
        candidates = arguments.reals("prior", list(prior))
        weights = arguments.reals("prior", list(prior.values()))
        order = np.argsort(candidates)
        candidates, weights = candidates[order], weights[order]
        if ((candidates < low) | (candidates > high)).any():
            raise ArgumentError(f"prior: must be of true answers in the range [{low:g}, {high:g}]")
    else:
        weights = arguments.reals("prior", prior).ravel()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ArgumentError(
                "prior: weights alone need a range with two ends; give a mapping of true answers to weights"
            )
        candidates = np.linspace(low, high, weights.size)
    if not weights.size or (weights < 0.0).any() or not 0.0 < weights.sum() < math.inf:
        raise ArgumentError("prior: must have weights from 0, not all of them 0")
    return candidates, weights / weights.sum()


def _fitted(
    mechanism: Publishes, numbers: Floats, ends: tuple[float, float, float], intervals: bool
) -> tuple[Floats, Floats]:
    """The candidates and priors on them: the one fitted to the numbers, then those fitted to numbers drawn from it."""
    if numbers.size < _FEWEST:
        raise Unsatisfiable(
            f"published: {arguments.counted(numbers.size, 'number')}; a prior is fitted to {_FEWEST} or more. "
            "Give the prior as a mapping of true answers to weights"
        )
    typical = np.clip(np.quantile(numbers, np.linspace(0.0, 1.0, 21), method="nearest"), ends[0], ends[1])
    noise = math.sqrt(float(np.mean(mechanism.law(typical).variance)))
    if noise == 0.0:
        raise Unsatisfiable("mechanism: adds no noise that an estimate could reduce")
    candidates = _candidates(numbers, ends, noise)
    law = mechanism.law(candidates)
    edges = _edges(numbers)
    below = np.vstack([np.zeros(candidates.size), law.cdf(edges[:, None]), np.ones(candidates.size)])
    chances = np.maximum(np.diff(below, axis=0), 0.0)  # of every cell, at every candidate
    counts = np.bincount(np.searchsorted(edges, numbers, side="left"), minlength=chances.shape[0]).astype(np.float64)
    flat = np.full(candidates.size, 1.0 / candidates.size)
    first = _maximised(counts, chances, flat, None)
    spread = math.sqrt(float(first @ (candidates - first @ candidates) ** 2))
    if noise < _SMALL * spread:
        raise Unsatisfiable(
            f"published: the noise (standard deviation {noise:.3g}) is below a quarter of the spread of the true "
            f"answers ({spread:.3g}), so that no estimate is better by 3 %; use the published numbers"
        )
    width = 0.5 * noise * min(max(2.0 - 2.0 * noise / spread, 0.0), 1.0) if spread else 0.0
    kernel = _kernel(candidates, width)
    found = [first if kernel is None else _maximised(counts, chances, flat, kernel)]
    chance = chances @ found[0]
    smooth = _kernel(candidates, max(width, _SMOOTH * noise))
    for number in range(_REFITS if intervals else 0):
        again = _drawn(chance, numbers.size, number)
        found.append(_maximised(again, chances, found[0], smooth))
    return candidates, np.array(found)


def _drawn(chances: Floats, size: int, number: int) -> Floats:
    """How many of this many draws fall into every cell: draws of a fixed text, so that intervals can be made again."""
    digits = hashlib.shake_256(b"rangebound: refit %d" % number).digest(8 * size)
    uniform = np.frombuffer(digits, dtype="<u8") / 2.0**64
    ends = np.cumsum(chances)
    cells = np.searchsorted(ends / ends[-1], uniform, side="right")
    return np.bincount(np.minimum(cells, chances.size - 1), minlength=chances.size).astype(np.float64)


def _candidates(numbers: Floats, ends: tuple[float, float, float], noise: float) -> Floats:
    """True answers near a published number, a quarter of the noise apart or a whole number of steps."""
    low, high, step = ends
    origin = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
    apart = noise / _FINE
    if step:
        apart = step * max(1, math.floor(apart / step))
    while True:
        reach = math.ceil(_NEAR * noise / apart)
        near = np.unique(np.round((np.clip(numbers, low, high) - origin) / apart))
        if near.size <= _MOST_CANDIDATES:
            places = np.unique(near[:, None] + np.arange(-reach, reach + 1))
            found = np.unique(np.clip(origin + apart * places, low, high))
            if found.size <= _MOST_CANDIDATES:
                return found
        apart *= 2.0


def _edges(numbers: Floats) -> Floats:
    """Between which the numbers are counted: half-way between distinct numbers, or quantiles of them."""
    distinct = np.unique(numbers)
    if distinct.size > _MOST_CELLS:
        distinct = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, _MOST_CELLS), method="nearest"))
    return distinct[:-1] / 2.0 + distinct[1:] / 2.0


def _maximised(counts: Floats, chances: Floats, start: Floats, kernel: Floats | None) -> Floats:
    """The weights of the candidates by expectation and maximisation, smoothed in every round if there is a kernel."""
    some = counts > 0.0
    counts, chances = counts[some] / counts.sum(), chances[some]
    weights, before = start, -math.inf
    for _ in range(_ROUNDS):
        predicted = chances @ weights
        reached = float(counts @ np.log(np.maximum(predicted, 1e-300)))
        if reached - before < _CONVERGED:
            break
        weights, before = weights * ((counts / np.maximum(predicted, 1e-300)) @ chances), reached
        if kernel is not None:
            weights = kernel @ weights
        weights = weights / weights.sum()
    return weights


def _kernel(candidates: Floats, width: float) -> Floats | None:
    """Gaussian weights of a candidate for its neighbours, each column summing to 1; None where nothing is smoothed."""
    if width <= 0.0 or candidates.size < 2:
        return None
    found: Floats = np.exp(-0.5 * ((candidates[:, None] - candidates[None, :]) / width) ** 2)
    found /= found.sum(axis=0)
    return found


def _posteriors(
    mechanism: Publishes, numbers: Floats, candidates: Floats, priors: Floats, center: Center, level: float
) -> Floats:
    """Estimates by the first prior; ends of intervals by the mean of the posteriors of all priors."""
    law, at = mechanism.law(candidates), numbers[:, None]
    chances = law.mass(at, at)  # of an atom; where no candidate has one, the density counts
    likely = np.where(chances.any(axis=1, keepdims=True), chances, law.pdf(at))
    totals = likely @ priors.T
    if not totals[:, 0].all():
        raise ArgumentError("published: holds a number that the mechanism cannot publish from any answer of the prior")
    own = likely * priors[0] / totals[:, :1]
    shares = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0.0)
    mixed = likely * (shares @ priors) / np.count_nonzero(totals, axis=1)[:, None]
    tail = (1.0 - level) / 2.0
    estimated = own @ candidates if center is Center.MSE else _quantiles(own, candidates, 0.5)
    lower, upper = (_quantiles(mixed, candidates, end) for end in (tail, 1.0 - tail))
    return np.stack([estimated, np.minimum(lower, estimated), np.maximum(upper, estimated)])


def _quantiles(weights: Floats, candidates: Floats, probability: float) -> Floats:
    """The smallest candidate up to which the weights of a row sum to the probability."""
    at = (np.cumsum(weights, axis=1) < probability - 1e-12).sum(axis=1)
    found: Floats = candidates[np.minimum(at, candidates.size - 1)]
    return found
