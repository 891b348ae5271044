"""Every published number is on the public lattice and in the support, whatever the parameters and the data."""

import math
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.sampling import Lattice, default_lattice, lattice_of
from tests.sampling.sources import mechanisms, name, random_mechanisms

INF = math.inf
DRAWS = 500


def allowed(m: rb.Mechanism, lattice: Lattice | None, y: float) -> bool:
    """Whether `y` is a point that is known without the data: an end of the support, or a rounded multiple inside."""
    inside = any(lower <= y <= upper for lower, upper in m.support.spans)
    if lattice is None:
        return inside and y in m.shape.points
    if any(y in span for span in m.support.spans):
        return True
    index = round(Fraction(y) / lattice.step)
    return inside and any(lattice.point(index + k) == y for k in (-1, 0, 1))


def lattice_for(m: rb.Mechanism, step: float | None) -> Lattice | None:
    if not m.shape.spans:
        return None
    return default_lattice(m.noise, m.shape) if step is None else lattice_of(step)


def draws(m: rb.Mechanism, step: float | None, count: int) -> np.ndarray:
    answers = np.random.default_rng(1).uniform(-1, 2, count) * 5 * m.noise.scale + m.query.range.hull.lower
    return m.release(answers, step=step)


@pytest.mark.parametrize(("m", "step"), random_mechanisms(50), ids=name)
def test_every_number_is_on_the_lattice_and_in_the_support(m, step):
    lattice = lattice_for(m, step)
    published = draws(m, step, DRAWS)
    assert all(allowed(m, lattice, y) for y in published.tolist())
    assert not np.signbit(published[published == 0.0]).any()


@pytest.mark.few(50)
@pytest.mark.parametrize("m", mechanisms(), ids=name)
def test_every_kind_of_mechanism_stays_on_its_lattice(m):
    lattice = lattice_for(m, None)
    assert all(allowed(m, lattice, y) for y in draws(m, None, 200).tolist())


def test_noise_in_floats_leaves_the_lattice():
    """The control: doubles as a float generator makes them are hardly ever on it."""
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    noisy = np.clip(5.0 + np.random.default_rng(0).laplace(0.0, 1.0, 200), 0, 10)
    lattice = default_lattice(m.noise, m.shape)
    assert sum(allowed(m, lattice, y) for y in noisy.tolist()) < 5


def test_the_default_step_follows_public_numbers():
    def step(noise, support):
        return float(default_lattice(noise, rb.Mechanism(noise=noise, query=QUERY, support=support).shape).step)

    assert step(rb.Laplace(scale=1.0), rb.Interval(0, 10)) == 2.0**-20
    assert step(rb.Laplace(scale=1.99), rb.Interval(0, 10)) == 2.0**-20
    assert step(rb.Gaussian(scale=2.0**30), rb.Interval(0, INF)) == 2.0**10
    assert step(rb.Gaussian(scale=8.0), rb.Interval(0, 1)) == 2.0**-20
    assert step(rb.TruncatedLaplacian(scale=8.0, limit=2.0), rb.Interval(-INF, INF)) == 2.0**-19


QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)


@pytest.mark.parametrize(
    ("step", "numerator", "denominator"),
    [
        (1, 1, 1),
        (0.01, 1, 100),
        (0.3, 3, 10),
        (25.0, 25, 1),
        (2.0**-30, 1, 2**30),
        (2.0**70, 2**70, 1),
        (1e15, 10**15, 1),
    ],
)
def test_a_step_means_the_decimal_that_it_prints_as(step, numerator, denominator):
    assert lattice_of(step) == Lattice(numerator=numerator, denominator=denominator)


def test_a_decimal_step_publishes_the_nearest_doubles():
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY)
    published = m.release(np.linspace(0, 10, 5000), step=0.01)
    assert all(y == float(f"{y:.2f}") for y in published.tolist())


@pytest.mark.parametrize("step", [0, -1, math.nan, INF, "1", True, None.__class__, [1.0], math.pi * 1e-3, 1 / 3])
def test_a_bad_step_is_refused_and_so_is_one_of_a_grid(step):
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY)
    with pytest.raises(rb.RangeboundError, match="step="):
        m.release(1.0, step=step)
    grid = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, support=rb.Grid(step=1, within=rb.Interval(0, 10)))
    with pytest.raises(rb.RangeboundError, match="step="):
        grid.release(1.0, step=0.5)


@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.RECTIFY])
def test_ends_that_are_no_multiples(bounding):
    """What falls beyond an end is published as the end, never as the multiple next to it."""
    query = rb.Query(range=rb.Interval(0.7, 5.2), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=bounding)
    published = m.release(np.full(20_000, 0.7), step=1)
    assert set(published.tolist()) <= {0.7, 1.0, 2.0, 3.0, 4.0, 5.0, 5.2}
    share = (published == 0.7).mean()
    expected = 0.5 if bounding is rb.RECTIFY else 0.0
    assert abs(share - expected) < 0.02
