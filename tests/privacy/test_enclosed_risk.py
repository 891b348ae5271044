"""Both ends of every risk: closed forms in balls, every kind of mechanism, the audit, and planted faults."""

import math

import numpy as np
import pytest
from flint import arb, ctx

import rangebound as rb
from rangebound.accounting import AllocatedEvent, FixedBatchEvent, SampledEvent
from rangebound.errors import ArgumentError
from rangebound.privacy.attack_risk import EnclosedRisk, ProfileRisk, guaranteed
from rangebound.privacy.tradeoff_curve import mirrored
from rangebound.values.ball import ball, precision
from tests.privacy.closed_forms import FAMILIES, RATES, ROWS, free, gaussian_curve, gaussian_delta, quantile, table

QUERY = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
PRIORS = (0.0, 1e-6, 0.1, 0.3, 0.5, 0.8, 1.0)


def contains(found, exact):
    return not (exact < found.lower or exact > found.upper)


@pytest.mark.few(3)
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("noise", FAMILIES)
def test_every_enclosure_contains_the_closed_form_and_is_narrow(noise, scale):
    (delta, curve), size = FAMILIES[noise], 1 / arb(scale)
    risk = free(noise(scale=scale)).enclosed
    exact = [(risk.advantage(), delta(arb(0), size))]
    exact += [(risk.tradeoff(each), curve(each, size)) for each in RATES]
    exact += [(risk.reconstruction(each), 1 - curve(each, size)) for each in RATES]
    for prior in PRIORS[1:-1]:
        small, large = sorted((arb(prior), 1 - arb(prior)), key=float)
        exact.append((risk.success(prior), large + small * delta((large / small).log(), size)))
        worst = 1 / (1 + (1 - arb(prior)) / arb(prior) * (-size).exp()) if noise is rb.Laplace else arb(1)
        exact.append((risk.posterior(prior), worst))
    mu = size if noise is rb.Gaussian else 2 * quantile((-size / 2).exp() / 2)
    exact.append((risk.gdp(), mu))
    assert [at for at, (found, value) in enumerate(exact) if not contains(found, value)] == []
    assert max(found.width for found, _ in exact) < 1e-6 * max(1.0, float(mu))


def test_a_closed_form_that_is_off_in_the_seventh_digit_is_not_contained():
    found = free(rb.Laplace(scale=1.0)).enclosed.advantage()
    exact = FAMILIES[rb.Laplace][0](arb(0), arb(1))
    assert contains(found, exact)
    assert not contains(found, exact * (1 + arb(1e-7)))
    assert not contains(found, exact * (1 - arb(1e-7)))


GRID = rb.Grid(step=1, within=rb.Interval(0, 4))


def made(noise, upper=4, **others):
    query = rb.Query(range=rb.Interval(0, upper), sensitivity=1.0)
    return rb.Mechanism(noise=noise(scale=1.0), query=query, **others)


KINDS = {
    "truncated Laplace": made(rb.Laplace),
    "truncated Gaussian": made(rb.Gaussian),
    "clamped Laplace": made(rb.Laplace, bounding=rb.RECTIFY),
    "clamped Gaussian": made(rb.Gaussian, bounding=rb.RECTIFY),
    "rounded Laplace": made(rb.Laplace, support=GRID, bounding=rb.QUANTIZE),
    "rounded Gaussian": made(rb.Gaussian, support=GRID, bounding=rb.QUANTIZE),
    "on a half-line": made(rb.Laplace, math.inf),
    "Gaussian on a half-line": made(rb.Gaussian, math.inf),
    "on a union": made(rb.Laplace, 7, support=rb.Union((0, 1), (6, 7))),
    "limited": free(rb.TruncatedLaplacian(scale=1.0, limit=7.0)),
    "discrete": rb.DiscreteLaplace(scale=2.0, sensitivity=3, support=rb.Interval(0, 9)),
    "staircase": rb.Staircase.calibrated(query=QUERY, epsilon=1.0, step=0.25),
    "table": table(ROWS[0]),
    "remapped": rb.remap(
        rb.Staircase.calibrated(query=rb.Query(range=rb.Interval(0, 2), sensitivity=1.0), epsilon=1.0, step=0.25)
    ),
    "guarantee": guaranteed(1.0, 0.0),
    "guarantee with delta": guaranteed(1.0, 1e-3),
}
SLOW = {"truncated Gaussian", "on a union", "Gaussian on a half-line"}
SHARP = {"truncated Laplace", "clamped Laplace", "on a half-line", "discrete", "staircase", "guarantee"}


def leaving_out(cases, *names):
    """All cases, these ones slow."""
    return [pytest.param(each, marks=[pytest.mark.slow] * (each in names)) for each in cases]


OTHERS = ("success", "posterior", "reconstruction")


def all_of(risk, rates=(0.05,), others=OTHERS, **keywords):
    inner = risk.enclosed
    found = {"advantage": (inner.advantage(), "upper", risk.advantage()), "gdp": (inner.gdp(), "upper", risk.gdp())}
    for each in rates:
        safe = risk.tradeoff(each, **keywords)
        found[f"tradeoff {each}"] = inner.tradeoff(each, **keywords), "lower", safe
        for name in others:
            found[f"{name} {each}"] = getattr(inner, name)(each), "upper", getattr(risk, name)(each)
    return found


@pytest.mark.few(5)
@pytest.mark.parametrize("name", leaving_out(KINDS, "truncated Gaussian", "on a union", "on a half-line"))
def test_both_ends_are_in_order_and_one_is_the_safe_bound(name):
    if name in SLOW:  # a reconstruction is a second trade-off
        found = all_of(KINDS[name], others=OTHERS[:2], tolerance=1e-4)
    else:
        found = all_of(KINDS[name], rates=(0.0, 0.05, 0.4, 1.0))
    assert [at for at, (each, _, _) in found.items() if not each.lower <= each.upper] == []
    assert [at for at, (each, end, safe) in found.items() if getattr(each, end) != safe] == []
    widest = max(each.width for each, _, _ in found.values())
    if name in SHARP:
        assert widest < 1e-6
    if name == "remapped":
        assert found["advantage"][0].lower == 0.0
        assert found["tradeoff 0.4"][0].upper >= 0.6  # what is attained without the output


def test_a_table_of_two_inputs_is_told_apart_by_the_test_that_is_best_for_the_pair():
    """Its two orders have different curves; the least of both is attained, in fractions of 16."""
    found = KINDS["table"].enclosed
    assert found.advantage().lower == pytest.approx(8 / 16, abs=1e-12)
    assert found.tradeoff(1e-9).upper == pytest.approx(1 - 3 / 16, abs=1e-6)
    assert found.posterior(0.5).lower == 1.0


COMPOSITIONS = {
    "nothing": rb.compose(),
    "20 Gaussian": rb.compose((free(rb.Gaussian(scale=5.0)), 20)),
    "sampled": rb.compose(SampledEvent(mechanism=free(rb.Gaussian(scale=1.0)), rate=0.05, times=50)),
    "one sample": rb.compose(SampledEvent(mechanism=free(rb.Gaussian(scale=1.0)), rate=0.05)),
    "one fixed batch": rb.compose(FixedBatchEvent(mechanism=free(rb.Gaussian(scale=1.0)), rate=0.05)),
    "fixed batches": rb.compose(FixedBatchEvent(mechanism=free(rb.Gaussian(scale=1.0)), rate=0.05, times=3)),
    "allocated": rb.compose(AllocatedEvent(mechanism=free(rb.Gaussian(scale=1.0)), batches=20, times=1)),
    "mixed": rb.compose((rb.DiscreteLaplace(scale=5.0), 5), free(rb.Gaussian(scale=3.0))),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", leaving_out(COMPOSITIONS, "20 Gaussian", "sampled", "fixed batches"))
def test_compositions_have_both_ends_in_order(name):
    found = all_of(COMPOSITIONS[name], others=OTHERS[:2], tolerance=1e-6)
    assert [at for at, (each, _, _) in found.items() if not each.lower <= each.upper] == []
    assert found["advantage"][0].lower > 0.0 or name == "nothing"
    if name not in ("one fixed batch", "fixed batches", "allocated"):
        assert max(found[at][0].width for at in ("advantage", "tradeoff 0.05", "success 0.05")) < 1e-3


@pytest.mark.slow
def test_a_composition_of_gaussians_is_one_gaussian():
    risk, mu = COMPOSITIONS["20 Gaussian"].enclosed, arb(20).sqrt() / 5
    assert contains(risk.advantage(), gaussian_delta(arb(0), mu))
    for each in (0.01, 0.3):
        found = risk.tradeoff(each, tolerance=1e-6)
        assert contains(found, gaussian_curve(each, mu))
        assert found.width < 1e-4
    assert contains(risk.gdp(), mu)
    assert risk.gdp().width < 1e-3


def coin(loss):
    e = ball(loss)
    return mirrored(lambda x: ((e.exp() - ball(x).exp()) / (e.exp() + 1)).max(0))


def planted(*, above=1.0, below=1.0):
    """A risk whose safe profile is `above` times the truth, and whose pair leaks `below` times it."""
    exact = guaranteed(1.0, 0.0)
    return ProfileRisk(
        profile=lambda x: above * exact.profile(x), pure=1.0, pairs=lambda _: (coin(below),), pure_below=lambda: below
    )


def test_a_safe_bound_that_is_too_small_is_found_by_the_other_end():
    """The control: with a tenth taken off the safe profile no enclosure is left."""
    right = planted().enclosed
    assert right.advantage().width < 1e-12
    assert right.tradeoff(0.1).width < 1e-8
    wrong = planted(above=0.9).enclosed
    over = planted(below=1.1).enclosed  # a pair that leaks more than the bound
    calls = [(wrong, name, 0.3) for name in ("success", "tradeoff", "reconstruction")]
    calls += [(over, "posterior", 0.3), (over, "tradeoff", 0.1)]
    calls += [(each, name) for each in (wrong, over) for name in ("advantage", "gdp")]
    for each, name, *given in calls:
        with pytest.raises(ArgumentError, match="the lower bound must not be above the upper"):
            getattr(each, name)(*given)


def test_a_risk_without_pairs_ends_where_nothing_is_published():
    found = EnclosedRisk(ProfileRisk(profile=lambda x: max(0.0, 0.25 * (1.0 - x)), pure=1.0))
    assert found.advantage().lower == found.gdp().lower == 0.0
    assert found.posterior(0.3).lower == pytest.approx(0.3, abs=1e-15)
    assert found.success(0.3).lower == pytest.approx(0.7, abs=1e-15)
    assert found.tradeoff(0.3).upper == pytest.approx(0.7, abs=1e-15)
    assert found.reconstruction(0.3).lower == pytest.approx(0.3, abs=1e-15)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["truncated Laplace", "clamped Gaussian", "discrete", "table", "guarantee with delta"])
def test_no_bit_depends_on_the_precision_that_a_caller_has_set(name):
    seen = []
    for bits in (24, 53, 300):
        with precision(bits):
            seen.append(
                {at: each for at, (each, _, _) in all_of(KINDS[name], others=OTHERS[:2], tolerance=1e-4).items()}
            )
            assert ctx.prec == bits
    assert seen[0] == seen[1] == seen[2]


def test_at_24_bits_a_ball_has_other_last_bits():
    """The control: the precision that is set does matter to balls elsewhere."""
    with precision(24):
        coarse = arb(2).exp()
    with precision(53):
        assert not np.isclose(float(coarse.rad()), float(arb(2).exp().rad()), rtol=0.5, atol=0.0)
