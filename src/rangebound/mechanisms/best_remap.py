"""The remap of a mechanism with the smallest error: Bayesian, or minimax by a linear program.

Bayesian remaps send a bin to the median or the mean of the true answers behind it; the minimax remap solves a linear
program, with columns (bin, value) and rows (true answer) made as they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite import Table
from rangebound.mechanisms.finite.weights import rounded
from rangebound.mechanisms.remapping import BASES, Base, Remapped, bin_masses, places_of, points_of, uniform_places
from rangebound.mechanisms.staircase import Staircase
from rangebound.values import arguments
from rangebound.values.array_types import Bools, Floats, Integers, np, npt
from rangebound.values.progress_line import Tell, progress_line
from rangebound.values.support import Interval

_MOST_MASSES = 2_500_000  # pairs of a law and a bin of outputs: some hundred megabytes
_USUAL, _MOST_BINS = 24, 400  # bins to a sensitivity, and in all over the range
_FAR = 12.0  # sensitivities beyond the range that noise is looked at, at most
_GAP = 2e-4  # relative: how far above its lower bound a minimax remap may be
_ROUNDS = 40
_FIRST_ROWS, _MORE_ROWS = 48, 24


@arguments.guided
def remap(
    mechanism: Base,
    *,
    objective: str = "mae",
    at: str | Sequence[float] | Floats = "worst",
    step: float | None = None,
    progress: bool | None = None,
) -> Remapped:
    """The remap of a mechanism that has the smallest error: post-processing, so it costs no privacy.

    With at="worst" it is the minimax remap, whose largest error over the range is the smallest; it is randomised. With
    at="average" it is the Bayesian remap for a uniform true answer, or with a sequence of weights for that prior, at
    equally spaced answers over the range (one for each answer of a grid): the median of the true answer given the bin
    (`objective="mae"`), or its mean (`"mse"`). Bins and values are `step` apart: 1/24 of the sensitivity, or what makes
    400 of them. `progress` shows how far a search of more than two seconds is (by default on a terminal).

    Clamped staircase noise is taken before it is clamped, since what falls beyond an end still says something.

    Guarantee: the privacy of the base. A minimax remap is at most 0.02 % above the best one for these bins and values.
    Edge cases: a range that is not bounded is refused; so are weights that are negative or all zero, and a base with
    more than 2,500,000 pairs of a law and a bin, such as staircase noise with a very fine step.

    >>> import rangebound as rb
    >>> m = rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 10))
    >>> round(m.worst_error().mae, 3), round(rb.remap(m).worst_error().mae, 3)
    (0.845, 0.803)
    """
    arguments.instance("mechanism", mechanism, tuple(BASES.values()), "a mechanism")
    if objective not in ("mae", "mse"):
        raise ArgumentError(f'objective={arguments.shown(objective)}: must be "mae" or "mse"')
    if not mechanism.query.range.bounded:
        raise ArgumentError(f"range={mechanism.query.range}: must be bounded for a remap")
    if isinstance(at, str) and at not in ("worst", "average"):
        raise ArgumentError(f'at={arguments.shown(at)}: must be "worst", "average" or a sequence of weights')
    base = _unclamped(mechanism)
    edges, values = _bins(base, step)
    answers = places_of(base)[0] if isinstance(at, str) and at == "worst" else uniform_places(base)
    if len(answers) * len(edges) > _MOST_MASSES:
        raise ArgumentError(
            f"mechanism: has {len(answers)} x {len(edges) + 1} pairs of a true answer and a bin of outputs, too "
            f"many for a remap, which takes {_MOST_MASSES}; give the noise or the remap a larger step"
        )
    if isinstance(at, str) and at == "worst":
        with progress_line("searching for the remap", progress) as tell:
            table = _minimax(base, edges, values, squared=objective == "mse", tell=tell)
    else:
        places, weights = _prior(base, at)
        values, table = _bayes(base, edges, places, weights, squared=objective == "mse")
    return Remapped(base=base, edges=tuple(edges.tolist()), values=tuple(values.tolist()), weights=rounded(table))


def _unclamped(mechanism: Base) -> Base:
    """Staircase noise with a support that is wider by what noise reaches, at most some sensitivities."""
    if not isinstance(mechanism, Staircase) or not isinstance(mechanism.support, Interval):
        return mechanism
    hull, far = mechanism.query.range.hull, math.ceil(min(_FAR, 2.0 + 8.0 / mechanism.epsilon()))
    cell = float(mechanism.width)
    reach = far * mechanism.steps * cell
    rest = hull.width / cell - math.floor((1.0 + 1e-9) * hull.width / cell)
    if rest > 1e-9 * hull.width / cell:  # the same from both ends: half of the game is enough
        reach += 0.5 * (1.0 - rest) * cell
    wide = Interval(min(hull.lower - reach, mechanism.support.lower), max(hull.upper + reach, mechanism.support.upper))
    return replace(mechanism, support=wide).with_claim(mechanism.claim)


def _bins(base: Base, step: float | None) -> tuple[Floats, Floats]:
    """The edges between the bins of what is published, and the values, which are the middles of bins in the range.

    Bins of staircase noise divide the sensitivity evenly, so that `_groups` finds those that say the same. Where the
    range is not a whole number of them, its ends are values too.
    """
    hull, sensitivity = base.query.range.hull, base.query.sensitivity
    points = values = points_of(base)
    if points is None or values is None:
        asked = sensitivity / _USUAL if step is None else arguments.positive("step", step)
        width = max(asked, hull.width / _MOST_BINS)
        points = values = np.linspace(hull.lower, hull.upper, max(round(hull.width / width), 1) + 1)
        if isinstance(base, Staircase) and width <= min(sensitivity, hull.width):
            width = sensitivity / math.floor((1.0 + 1e-9) * sensitivity / width)
            half = 0.5 * math.floor((1.0 + 1e-9) * hull.width / width)
            points = 0.5 * (hull.lower + hull.upper) + width * np.arange(-half, half + 0.5)
            if half * width < 0.5 * hull.width * (1.0 - 1e-9):
                values = np.concatenate([[hull.lower], points, [hull.upper]])
    if isinstance(base, (DiscreteLaplace, Table)):
        outputs = np.asarray(base.outputs) if isinstance(base, Table) else points
        return (outputs[:-1] + outputs[1:]) / 2.0, values
    gap = float(points[1] - points[0])
    beyond = 0.0
    if isinstance(base, Staircase) and isinstance(base.support, Interval):
        beyond = hull.lower - base.support.lower
    count = round(beyond / gap)
    outside = gap * np.arange(1.0, count + 1.0)
    middles = np.concatenate([points[0] - outside[::-1], points, points[-1] + outside])
    edges = (middles[:-1] + middles[1:]) / 2.0
    if isinstance(base, Staircase):  # moved a little outwards where they might be points of its lattice
        edges = edges + np.sign(edges - (hull.lower + hull.upper) / 2.0) * 0.25 * base.step
    return edges, values


def _prior(base: Base, at: str | Sequence[float] | Floats) -> tuple[Floats, Floats]:
    """True answers and their weights: all the same, or those given, at equal distances over the range."""
    places = uniform_places(base)
    if isinstance(at, str):
        return places, np.ones(len(places))
    weights, hull = arguments.reals("at", at).reshape(-1), base.query.range.hull
    if len(weights) < 2 or (weights < 0.0).any() or not weights.any():
        raise ArgumentError("at: must have at least two weights, none of them negative and not all zero")
    if points_of(base) is None:
        return np.linspace(hull.lower, hull.upper, len(weights)), weights
    if len(weights) != len(places):
        raise ArgumentError(f"at: must have one weight for each of the {len(places)} true answers")
    return places, weights


def _bayes(base: Base, edges: Floats, places: Floats, weights: Floats, *, squared: bool) -> tuple[Floats, Floats]:
    """Values and a table that sends each bin to the mean, or the median, of the true answer given the bin."""
    joint = bin_masses(base, places, edges) * (weights / weights.sum())[:, None]
    total = joint.sum(axis=0)
    if squared:
        found = (joint * places[:, None]).sum(axis=0) / np.maximum(total, 1e-300)
    else:
        found = places[(np.cumsum(joint, axis=0) < 0.5 * total).sum(axis=0).clip(0, len(places) - 1)]
    found = np.where(total > 0.0, found, places[len(places) // 2])
    values, which = np.unique(found, return_inverse=True)
    table = np.zeros((len(total), len(values)))
    table[np.arange(len(total)), which.reshape(-1)] = 1.0
    return values, table


def _minimax(base: Base, edges: Floats, values: Floats, *, squared: bool, tell: Tell) -> Floats:
    """The table whose largest error over all true answers is nearly the smallest."""
    places, ends = places_of(base)
    groups = _groups(base, edges)
    folded = np.zeros((len(places), int(groups.max()) + 1))
    np.add.at(folded.T, groups, bin_masses(base, places, edges).T)
    off = np.abs(np.concatenate(ends)[:, None] - values)
    game = Game(np.tile(folded, (len(ends), 1)), off**2 if squared else off)
    found: Floats = game.solved(tell)[groups]
    return found


def _groups(base: Base, edges: Floats) -> npt.NDArray[np.intp]:
    """Bins that say the same about the true answer: those beyond the range, a whole number of sensitivities apart.

    The noise there falls by the same factor for every true answer, so that one law on the values is enough for all.
    """
    bins, found = len(edges) + 1, np.arange(len(edges) + 1)
    beyond = int((edges < base.query.range.hull.lower).sum())
    if not isinstance(base, Staircase) or beyond < 2:
        return found
    exact = base.query.sensitivity / float(edges[1] - edges[0])
    period = round(exact)
    if abs(exact - period) > 1e-9 * period:
        return found
    for i in range(beyond - period - 1, -1, -1):
        found[i], found[bins - 1 - i] = found[i + period], found[bins - 1 - i - period]
    which: npt.NDArray[np.intp] = np.unique(found, return_inverse=True)[1].reshape(-1)
    return which


class Game:
    """Rows are true answers, columns pairs (bin, value): which table makes the largest risk smallest?

    Where bins and answers are their own mirror image, so is some best table: half of it is enough, and half the rows.
    """

    def __init__(self, masses: Floats, costs: Floats) -> None:
        count, self.bins = masses.shape
        mirrored = np.allclose(masses, masses[::-1, ::-1], atol=1e-12) and np.allclose(costs, costs[::-1, ::-1])
        self.mirrored = bool(mirrored)
        kept = np.arange((self.bins + 1) // 2 if mirrored else self.bins)
        self.costs = costs[: (count + 1) // 2] if mirrored else costs
        near = masses[: len(self.costs), kept]
        self.parts = [(near, self.costs)]  # masses of bins, and what each value costs there
        if mirrored:
            share = np.where(self.bins - 1 - kept != kept, 1.0, 0.5)
            far = masses[: len(self.costs), self.bins - 1 - kept]
            self.parts = [(near * share, self.costs), (far * share, self.costs[:, ::-1])]

    def prices(self, chances: Floats) -> Floats:
        """What each value of each bin costs where true answers have these probabilities."""
        found: Floats = np.sum([(masses * chances[:, None]).T @ costs for masses, costs in self.parts], axis=0)
        return found

    def risks(self, table: Floats) -> Floats:
        """The error at every true answer."""
        found: Floats = np.sum([((masses @ table) * costs).sum(axis=1) for masses, costs in self.parts], axis=0)
        return found

    def columns(self, rows: Integers, bins: Integers, values: Integers) -> Floats:
        """The part of single pairs in the error at some answers."""
        chosen = (masses[np.ix_(rows, bins)] * costs[np.ix_(rows, values)] for masses, costs in self.parts)
        found: Floats = np.sum(list(chosen), axis=0)
        return found

    def solved(self, tell: Tell) -> Floats:
        """Add columns that are worth something and rows that are violated, until the bounds meet."""
        count = len(self.costs)
        rows = np.unique(np.linspace(0, count - 1, min(_FIRST_ROWS, count)).astype(np.int64))
        active = self._around(self.prices(np.full(count, 1.0 / count)).argmin(axis=1), 3)
        lower, upper, best = -math.inf, math.inf, np.empty(0)
        for _ in range(_ROUNDS):
            bins, values = np.nonzero(active)
            chances, shares, value = _linear_program(self.columns(rows, bins, values), bins, len(active))
            table = np.zeros_like(active, dtype=np.float64)
            table[bins, values] = shares
            table /= table.sum(axis=1, keepdims=True)
            risks = self.risks(table)
            if risks.max() < upper:
                upper, best = float(risks.max()), table
            prior = np.zeros(count)
            prior[rows] = chances
            prices = self.prices(prior)
            lower = max(lower, float(prices.min(axis=1).sum()))
            if upper - lower <= _GAP * upper:
                break
            tell(f"at most {100.0 * (upper - lower) / upper:.2g} % above the best one")
            excess = prices[bins, values] - prices.min(axis=1)[bins]
            used = (shares > 1e-9) | (excess <= np.median(excess))
            active = self._around(prices.argmin(axis=1), 2)
            active[bins[used], values[used]] = True
            rows = np.unique(np.concatenate([rows, _apart(risks, value * (1.0 + _GAP / 4.0))]))
        return self._whole(best)

    def _around(self, centres: npt.NDArray[np.intp], wide: int) -> Bools:
        """Pairs of each bin with the values around one."""
        near: Bools = np.abs(np.arange(self.costs.shape[1]) - centres[:, None]) <= wide
        return near

    def _whole(self, table: Floats) -> Floats:
        if not self.mirrored:
            return table
        full = np.zeros((self.bins, table.shape[1]))
        half = len(table)
        full[:half] += table
        full[self.bins - half :] += table[::-1, ::-1]
        if self.bins % 2:
            full[half - 1] /= 2.0
        return full


def _apart(risks: Floats, limit: float) -> Integers:
    """Rows with the largest risks above a limit, none next to another."""
    found: list[int] = []
    for i in np.argsort(-risks):
        if risks[i] <= limit or len(found) >= _MORE_ROWS:
            break
        if all(abs(int(i) - each) > 2 for each in found):
            found.append(int(i))
    return np.asarray(found, dtype=np.int64)


def _linear_program(columns: Floats, bins: Integers, count: int) -> tuple[Floats, Floats, float]:
    """Chances of the rows, shares of the columns and the value of the game on some rows and columns, by HiGHS."""
    from scipy.optimize import linprog  # here, because it is not needed to import the package

    rows, number = columns.shape
    sums = np.zeros((count, number + 1))
    sums[bins, np.arange(number)] = 1.0
    solution = linprog(
        np.append(np.zeros(number), 1.0),
        A_ub=np.hstack([columns, -np.ones((rows, 1))]),
        b_ub=np.zeros(rows),
        A_eq=sums,
        b_eq=np.ones(count),
        method="highs",
    )
    if solution.status != 0 or solution.x is None or solution.fun is None:
        raise Unsatisfiable(f"mechanism: the linear program of its remap was not solved; {solution.message}")
    chances = np.maximum(-solution.ineqlin.marginals, 0.0)
    return chances / chances.sum(), np.maximum(solution.x[:-1], 0.0), float(solution.fun)
