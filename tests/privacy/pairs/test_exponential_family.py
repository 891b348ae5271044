"""Series about a wide cell cover every position inside; the tilted form of Gaussian laws and the plain one."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb_series

import rangebound as rb
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.exact import family, stick
from rangebound.privacy.pairs.exponential_family import Tilted
from rangebound.privacy.pairs.integrals import Integrals, Plain
from rangebound.values.ball import ball, down, is_taylor, precision, span, taylor, up, value_of

INF = math.inf


PLACES = (-2000.0, -3.0, 0.1, 2.5, 40.0)
MOMENTS = [
    (lower, upper, place)
    for lower, upper in [(0.25, 3.0), (-2.0, -1.999), (-INF, -1.0), (0.5, INF)]
    for place in PLACES
    # Inside an endless span the plain form is used.
    if not (upper == INF and place > 3.0) and not (lower == -INF and place < -3.0)
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("lower", "upper", "place"), MOMENTS)
def test_moments_are_those_of_quadrature(lower, upper, place):
    from_below = upper == INF or lower == 0.25
    centre, scale = (lower if from_below else upper), 0.75
    with precision(128), mp.workdps(60):
        view = Tilted(ball(scale), ball(centre), from_below=from_below)
        theta = (mp.mpf(place) - centre) / scale
        low, high = ((mp.mpf(x) - centre) / scale for x in (lower, upper))
        peak = min(max(theta, low), high)
        cuts = sorted({low, high, peak, *(x for x in (peak - 1 / (1 + abs(theta)), peak + 1 / (1 + abs(theta))))})
        cuts = [x for x in cuts if low <= x <= high]
        for power in (0, 1, 2):
            got = view.mass(
                (ball(lower) if lower > -INF else None, ball(upper) if upper < INF else None), ball(place), power
            )
            want = mp.quad(lambda y: y**power * mp.exp(-y * y / 2 + y * theta), cuts)  # noqa: B023
            assert abs(mp.mpf(got.mid().str(60, radius=False)) / want - 1) < 1e-12 if want else got.contains(0)
            assert got.rel_accuracy_bits() > 80


@pytest.mark.parametrize("place", [-30.0, -1.0, 1.0, 9.0, 60.0])
def test_a_moving_end_gives_the_series_of_the_whole(place):
    """The tilted mass up to t(p), times the factor left out, is the plain mass up to t(p), in every coefficient."""
    noise = rb.Gaussian(scale=2.0)
    with precision(1024):
        kind = family(noise, rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, 5), sensitivity=1.0)).shape)
        p = taylor(ball(place), ORDER)
        event = ball(0.0), arb_series([1.5, 0.3, -0.1, 0.02, 0.005], prec=ORDER + 1)
        for centre, from_below in ((0.0, True), (5.0, False)):
            view = Tilted(ball(2.0), ball(centre), from_below=from_below)
            shared = (-(p - centre) * (p - centre) / 8).exp() / (2 * ball(math.pi).pi()).sqrt()
            plain = Plain(kind.noise)
            for got, want in (
                (view.mass(event, p) * shared, plain.mass(event, p)),
                (Integrals(view, p).slope([event]) - (p - centre) / 4, Integrals(plain, p).slope([event])),
            ):
                assert all(got[k].overlaps(want[k]) for k in range(ORDER + 1))
                assert all(got[k].rel_accuracy_bits() > 200 for k in range(ORDER + 1))


@pytest.mark.parametrize("place", [-9.0, -2.0, 0.5, 3.0, 21.0])
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.QUANTIZE])
def test_series_at_a_position_agree_with_differences_of_values(bounding, place):
    """The second route: central differences of values, which are computed in the plain form."""
    support = rb.Grid(step=0.5, within=rb.Interval(-1, 2)) if bounding is rb.QUANTIZE else rb.Union((-1, 0), (0.5, 2))
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=0.8), query=query, support=support, bounding=bounding)
    with precision(512):
        kind, d, order, h = family(m.noise, m.shape), ball(1.0), ball(4.0), ball(2.0**-60)
        series = kind.renyi(taylor(ball(place), ORDER), d, order)
        before, here, after = (kind.renyi(ball(place) + k * h, d, order) for k in (-1, 0, 1))
        assert series[0].overlaps(here)
        assert abs((after - before) / (2 * h) - series[1]) < 1e-25
        assert abs((after - 2 * here + before) / (2 * h * h) - series[2]) < 1e-25


ORDER = 4


class Cell:
    """A random mechanism with a cell of positions: often across the ends of its support, or of Gaussian noise `far`
    from the support or wide against it, where the tilted form is used."""

    def __init__(self, generator, far):
        width, lower = float(10.0 ** generator.uniform(-0.5, 1.0)), float(2.0 * generator.normal())
        scale = float((100.0 if far else 10.0) ** generator.uniform(-1.0, 1.0))
        limit = max(scale * float(generator.uniform(2.0, 9.0)), 3.0 * width)
        noise = 1 if far else generator.choice([0, 1, 2])
        self.noise = [
            rb.Laplace(scale=scale),
            rb.Gaussian(scale=scale),
            rb.TruncatedLaplacian(scale=scale, limit=limit),
        ][noise]
        support = [
            rb.Interval(lower, lower + width),
            rb.Interval(lower, INF),
            rb.Interval(-INF, lower),
            rb.Union((lower, lower + width), (lower + 1.3 * width, lower + 2.0 * width)),
            rb.Union((-INF, lower), (lower + 0.3 * width, lower + width)),
            rb.Grid(step=width / int(generator.integers(2, 9)), within=rb.Interval(lower, lower + width)),
        ][generator.integers(5 if noise == 2 else 6)]
        answers = rb.Interval(-INF, INF) if far else rb.Interval(lower - width, lower + 2.0 * width)
        rounded = far and isinstance(support, rb.Grid) and generator.uniform() < 0.7
        self.mechanism = rb.Mechanism(
            noise=self.noise,
            query=rb.Query(range=answers, sensitivity=width),
            support=support,
            bounding=rb.QUANTIZE if rounded else rb.TRUNCATE,
        )
        away = generator.uniform(-1.0, 1.0) * 10.0 ** generator.uniform(0.0, 4.0) if far else generator.uniform(-1, 2)
        self.start = lower + float(away) * width
        size = max(abs(self.start), width) if far else width
        self.end = self.start + float(size * 10.0 ** generator.uniform(-4.0, 0.0))
        self.d = ball(float(width * 10.0 ** generator.uniform(-3.0, 0.3)))
        self.epsilon = ball(float(generator.choice([0.0, 0.05, 0.5, 2.0])))
        self.slack = 1e-12 if far else 0.0  # two forms of one number

    def inside(self):
        for share in (0.0, 0.3, 0.5, 0.77, 1.0):
            yield ball(min(max(self.start + share * (self.end - self.start), self.start), self.end))

    def __str__(self):
        return f"{self.mechanism} {self.start} {self.end} {self.d} {self.epsilon}"


def cells(far, seed):
    generator = np.random.default_rng([162 if far else 161, seed])
    return (Cell(generator, far) for _ in range(75 if far else 125))


def covers(wide, exact):
    if not (is_taylor(wide) and is_taylor(exact) and wide[0].is_finite()):
        return not value_of(wide).is_finite() or bool(value_of(wide).overlaps(value_of(exact)))
    known = [k for k in range(ORDER) if wide[k].is_finite() and exact[k].is_finite()]
    return all(wide[k].overlaps(exact[k]) for k in known)


SEEDS = [*((False, seed) for seed in range(4)), *((True, seed) for seed in range(6))]


@pytest.mark.few(1)
@pytest.mark.parametrize(("far", "seed"), SEEDS)
def test_series_of_the_loss_and_the_renyi_divergence(far, seed):
    """Values at single positions come from the plain form, so this compares it with the tilted one as well."""
    with precision(128):
        for cell in cells(far, seed):
            kind = family(cell.noise, cell.mechanism.shape)
            for function in (lambda p: kind.loss(p, cell.d), lambda p: kind.renyi(p, cell.d, ball(3.0))):  # noqa: B023
                wide = function(taylor(span(cell.start, cell.end), ORDER))
                for p in cell.inside():
                    assert covers(wide, function(taylor(p, ORDER))), cell
                    assert not function(p) > up(value_of(wide)) * (1 + 1e-12) + 1e-25, cell


@pytest.mark.few(1)
@pytest.mark.parametrize(("far", "seed"), SEEDS)
def test_branches_of_the_hockey_stick(far, seed):
    with precision(128):
        for cell in (each for each in cells(far, seed) if each.mechanism.shape.normalised):
            kind = family(cell.noise, cell.mechanism.shape)
            wide = kind.sticks(taylor(span(cell.start, cell.end), ORDER), cell.d, cell.epsilon)
            top = max(0.0, *(up(value_of(each)) for each in wide.values()))
            for p in cell.inside():  # from which, on a grid, "no point" has those on its left, where it is not the best
                assert down(stick(kind, p, cell.d, cell.epsilon)) <= top * (1 + cell.slack) + 1e-13 * cell.slack, cell
                near, best = (kind.sticks(taylor(p, ORDER), cell.d, cell.epsilon, only) for only in (wide, ()))
                if not far and all(is_taylor(each) for each in itertools.chain(wide.values(), near.values())):
                    assert all(covers(wide[name], near[name]) for name in wide if name or name in best), cell


@pytest.mark.parametrize(
    ("scale", "spans", "inside", "beyond", "d"),
    [(1.0, ((-1, 2),), (0.0, 0.005, 0.01), 1.0, 0.5), (15.0, ((1, 2), (2.5, 2.6)), (400.0, 400.5, 401.0), 300.0, 0.04)],
    ids=["plain", "tilted"],
)
def test_a_cell_that_is_too_narrow_is_caught(scale, spans, inside, beyond, d):
    """A control: the series about a narrow cell does not cover what lies beyond it."""
    with precision(128):
        kind = family(rb.Gaussian(scale=scale), Shape(spans=spans, normalised=True))
        wide = kind.renyi(taylor(span(inside[0], inside[2]), ORDER), ball(d), ball(3.0))
        assert covers(wide, kind.renyi(taylor(ball(inside[1]), ORDER), ball(d), ball(3.0)))
        assert not covers(wide, kind.renyi(taylor(ball(beyond), ORDER), ball(d), ball(3.0)))
