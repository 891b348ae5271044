"""The lemmas, remarks and examples of [holohan2018] by brute force, each with a control that must fail."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

import rangebound as rb
from papers import __main__ as runner

SCALES = runner.load(runner.PAPERS / "holohan2018" / "scales.py")
CASES = [(1.0, 0.1), (1.0, 1.0), (10.0, 0.3), (10.0, 5.0), (3.0, 40.0)]  # width and scale


def mass(q, width, scale):
    """C_q of Lemma 3.2."""
    return 1.0 - 0.5 * (np.exp(-q / scale) + np.exp(-(width - q) / scale))


def ratio(q, z, width, scale):
    """C_{q+z} / C_q times e^(z/b)."""
    return mass(q + z, width, scale) / mass(q, width, scale) * np.exp(z / scale)


def bounded(width, scale):
    query = rb.Query(range=rb.Interval(0.0, width), sensitivity=min(1.0, width))
    return rb.Mechanism(noise=rb.Laplace(scale=scale), query=query)


@pytest.mark.parametrize(("width", "scale"), CASES)
def test_definition_3_1_and_lemma_3_2_the_density_is_that_of_laplace_over_its_mass(width, scale):
    for q in (0.0, 0.3 * width, width):
        inside = quad(lambda x, q=q: math.exp(-abs(x - q) / scale) / (2 * scale), 0.0, width, points=[q], limit=200)[0]
        assert mass(q, width, scale) == pytest.approx(inside, rel=1e-8)
        law = bounded(width, scale).law(q)
        x = np.linspace(0.0, width, 7)
        plain = np.exp(-abs(x - q) / scale) / (2.0 * scale)
        assert law.pdf(x) == pytest.approx(plain / inside, rel=1e-8)
        if q in (0.0, width):  # the control: without the factor it is another density
            assert law.pdf(x) != pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize(("width", "scale"), CASES)
def test_remarks_1_and_2_all_of_it_is_inside_and_shares_are_those_of_laplace(width, scale):
    line = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    plain = rb.Mechanism(noise=rb.Laplace(scale=scale), query=line, bounding=rb.UNBOUNDED).law(0.4 * width)
    law = bounded(width, scale).law(0.4 * width)
    assert law.mass(0.0, width) == pytest.approx(1.0, rel=1e-12)
    assert law.mass(-5.0 * width, -1e-9) == 0.0
    share = plain.mass(0.1 * width, 0.5 * width)
    assert law.mass(0.1 * width, 0.5 * width) == pytest.approx(share / plain.mass(0.0, width), rel=1e-9)
    assert plain.mass(-5.0 * width, -1e-9) > 0.0  # the control, and the remark of A.1: plain Laplace leaves the range


@pytest.mark.parametrize(("width", "scale"), CASES)
def test_lemmas_a4_and_a5_the_ratio_rises_with_the_distance_and_falls_with_the_position(width, scale):
    z, q = np.meshgrid(np.linspace(0.0, width, 60), np.linspace(0.0, width, 60))
    values = np.where(q + z <= width * (1.0 + 1e-12), ratio(q, z, width, scale), np.nan)
    along, across = np.diff(np.log(values), axis=1), np.diff(np.log(values), axis=0)
    assert (along[np.isfinite(along)] >= -1e-12).all()
    assert (across[np.isfinite(across)] <= 1e-12).all()
    beyond = ratio(0.9 * width, np.asarray([0.1, 0.2]) * width, width, scale)
    assert beyond[1] < beyond[0]  # the control: past the end of the range it falls again


@pytest.mark.parametrize(("width", "scale"), CASES)
@pytest.mark.parametrize("part", [0.1, 0.6, 1.0])
def test_lemma_3_3_the_worst_pair_begins_at_the_end(width, scale, part):
    sensitivity = part * width
    q, other = np.meshgrid(np.linspace(0.0, width, 201), np.linspace(0.0, width, 201))
    near = abs(q - other) <= sensitivity * (1.0 + 1e-12)
    values = mass(other, width, scale) / mass(q, width, scale) * np.exp(abs(q - other) / scale)
    worst = ratio(0.0, sensitivity, width, scale)  # Definition 3.4 times e^(sensitivity/b)
    assert values[near].max() == pytest.approx(worst, rel=1e-9)
    query = rb.Query(range=rb.Interval(0.0, width), sensitivity=sensitivity)
    assert rb.Mechanism(noise=rb.Laplace(scale=scale), query=query).epsilon() == pytest.approx(math.log(worst))
    inside = ratio(0.5 * (width - sensitivity), sensitivity, width, scale)
    assert (inside < worst * (1.0 - 1e-9)) == (part < 1.0)  # the control: a pair in the middle is not the worst


@pytest.mark.parametrize("width", [1.0, 2.0, 50.0])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 0.1), (4.0, 0.01)])
def test_lemmas_4_2_and_4_3_the_operator_begins_above_and_falls(width, epsilon, delta):
    start = 1.0 / (epsilon - math.log1p(-delta))

    def operator(b):
        return SCALES.operator(b, width, 1.0, epsilon, delta)

    values = np.asarray([operator(b) for b in start * np.geomspace(1.0, 50.0, 100)])
    if width == 1.0:  # the sensitivity spans the domain
        assert values == pytest.approx(start, rel=1e-12)
    else:
        assert values[0] > start * (1.0 + 1e-6)
        assert (np.diff(values) < 0.0).all()
    assert not (np.diff(values * np.geomspace(1.0, 50.0, 100)) < 0.0).all()  # the control: f(b) b does not fall


def test_examples_1_1_and_1_2_half_the_answers_are_negative_and_bounding_draws_again():
    line = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    plain = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=line, bounding=rb.UNBOUNDED)
    assert plain.law(0.0).cdf(0.0) == pytest.approx(0.5)
    query = rb.Query(range=rb.Interval(0.0, math.inf), sensitivity=1.0)
    clamped, again = (
        rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=each) for each in (rb.RECTIFY, rb.TRUNCATE)
    )
    assert clamped.law(0.0).mass(0.0, 0.0) == pytest.approx(0.5)
    assert again.law(0.0).mass(0.0, 0.0) == 0.0  # the control: drawing again leaves no atom
    drawn = np.asarray(again.release(np.zeros(2000)))
    assert (drawn >= 0.0).all()
    assert np.mean(drawn == 0.0) < 0.01


def test_definition_a3_clamping_costs_no_privacy():
    query = rb.Query(range=rb.Interval(0.0, 10.0), sensitivity=1.0)
    clamped, again = (
        rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query, bounding=each) for each in (rb.RECTIFY, rb.TRUNCATE)
    )
    assert clamped.epsilon() == pytest.approx(0.5)
    assert again.epsilon() > 0.7  # the control: drawing again does
