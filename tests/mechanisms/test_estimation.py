"""Estimates out of many published numbers: the posterior by hand, the fit by another route, gains and coverage."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import rangebound as rb
from rangebound.mechanisms import estimation

QUERY = rb.Query(range=rb.Interval(0, 1000), sensitivity=1.0)


def mechanism(epsilon, bounding=rb.RECTIFY):
    return rb.calibrate(noise=rb.Laplace, query=QUERY, bounding=bounding, epsilon=epsilon)


def truths(kind, chance):
    match kind:
        case "365 days":
            return chance.poisson(8, 365)
        case "1000 cells":
            return np.where(chance.random(1000) < 0.7, 0, chance.geometric(0.2, 1000))
        case "52 weeks":
            return chance.poisson(60, 52)
    return chance.binomial(50, chance.beta(2, 2, 100))


def published(m, true, chance):
    """Drawn by quantiles, so that a test is the same every time."""
    law = m.law(true.astype(float))
    return law.quantile(chance.random(true.size))


def test_a_posterior_is_that_of_bayes_rule():
    m = mechanism(0.5)
    found = rb.estimate(m, [0.0, 4.0, 30.0], prior={0.0: 1.0, 3.0: 2.0, 20.0: 1.0})
    scale = m.noise.scale
    for number, guess in zip(found.published, found.estimate, strict=True):
        likely = [
            0.5 * math.exp(-t / scale) if number == 0.0 else math.exp(-abs(number - t) / scale) / (2 * scale)
            for t in (0.0, 3.0, 20.0)
        ]
        joint = np.array(likely) * [1.0, 2.0, 1.0]
        assert guess == pytest.approx(joint @ [0.0, 3.0, 20.0] / joint.sum(), rel=1e-12)
    middle = rb.estimate(m, [4.0], prior={0.0: 1.0, 3.0: 2.0, 20.0: 1.0}, objective="mae")
    assert middle.estimate.tolist() == [3.0]
    assert str(middle).splitlines()[0].split() == ["published", "estimate", "lower", "upper"]
    assert repr(found) == "<Estimates: 3 numbers beside the published>"
    listed = rb.estimate(m, [100.0, 900.0], prior=[2.0, 0.0, 2.0])  # of evenly spaced answers
    named = rb.estimate(m, [100.0, 900.0], prior={0.0: 1.0, 500.0: 0.0, 1000.0: 1.0})
    assert listed.estimate.tolist() == named.estimate.tolist()


def test_a_fit_has_the_likelihood_that_an_optimizer_finds():
    chance = np.random.default_rng(5)
    m, true = mechanism(0.5), chance.poisson(4, 200)
    numbers = published(m, true, chance)
    found = rb.estimate(m, numbers, prior="fit")
    edges = estimation._edges(numbers)
    below = np.vstack([np.zeros(found.candidates.size), m.law(found.candidates).cdf(edges[:, None])])
    chances = np.diff(np.vstack([below, np.ones(found.candidates.size)]), axis=0)
    counts = np.bincount(np.searchsorted(edges, numbers), minlength=chances.shape[0]) / numbers.size
    weights = estimation._maximised(counts, chances, np.full(chances.shape[1], 1 / chances.shape[1]), None)

    def lost(logits):
        parts = np.exp(logits - logits.max())
        parts /= parts.sum()
        slope = -(counts / (chances @ parts)) @ chances
        return -counts @ np.log(chances @ parts), parts * (slope - parts @ slope)

    best = minimize(lost, np.zeros(chances.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 5000}).fun
    short = numbers.size * (-counts @ np.log(chances @ weights) - best)
    assert -0.01 < short < 0.5  # of the log-likelihood of all numbers


GAINS = {
    ("365 days", 0.1): 0.45,
    ("365 days", 0.5): 0.85,
    ("1000 cells", 0.1): 0.5,
    ("1000 cells", 0.25): 0.75,
    ("100 shares", 0.1): 0.85,
    ("52 weeks", 0.1): 0.8,
    ("52 weeks", 0.5): 1.02,
}
"""Root mean squared errors of the estimates over those of the published numbers, at most."""


@pytest.mark.few(2)
@pytest.mark.parametrize(("kind", "epsilon"), GAINS)
def test_estimates_gain_and_their_intervals_cover(kind, epsilon):
    chance, m = np.random.default_rng(11), mechanism(epsilon)
    before, after, covered = [], [], []
    for _ in range(8):
        true = truths(kind, chance)
        numbers = published(m, true, chance)
        found = rb.estimate(m, numbers, prior="fit")
        assert (found.published == numbers).all()
        before.append(np.mean((numbers - true) ** 2))
        after.append(np.mean((found.estimate - true) ** 2))
        covered.append(np.mean((found.lower <= true) & (true <= found.upper)))
        assert (found.lower <= found.estimate).all()
        assert (found.estimate <= found.upper).all()
        assert ((found.estimate >= 0) & (found.estimate <= 1000)).all()
    assert math.sqrt(np.mean(after) / np.mean(before)) < GAINS[kind, epsilon]
    assert np.mean(covered) > 0.92


def test_control_intervals_of_the_fit_alone_cover_less():
    """Without refits the uncertainty of the prior is left out: with few numbers that shows."""
    chance, m, covered = np.random.default_rng(2), mechanism(0.1), {True: [], False: []}
    for _ in range(8):
        true = truths("52 weeks", chance)
        numbers = published(m, true, chance)
        for refits in covered:
            candidates, priors = estimation._fitted(m, numbers, (0.0, 1000.0, 0.0), refits)
            _, lower, upper = estimation._posteriors(m, numbers, candidates, priors, estimation.Center.MSE, 0.95)
            covered[refits].append(np.mean((lower <= true) & (true <= upper)))
    assert np.mean(covered[True]) > 0.92 > np.mean(covered[False])


WHOLE = rb.Query(range=rb.Grid(step=1, within=rb.Interval(0, 200)), sensitivity=1.0)
ON_LATTICES = {
    "half-line": rb.DiscreteLaplace.calibrated(epsilon=0.25, support=rb.Interval(0, math.inf)),
    "interval": rb.DiscreteLaplace.calibrated(epsilon=0.25, support=rb.Interval(0, 200)),
    "rounded": rb.calibrate(noise=rb.Laplace, query=WHOLE, bounding=rb.QUANTIZE, epsilon=0.25),
}


@pytest.mark.parametrize("name", ON_LATTICES)
def test_whole_answers_are_estimated(name):
    m, chance = ON_LATTICES[name], np.random.default_rng(12)
    true = truths("1000 cells", chance)
    noise = chance.geometric(1 - math.exp(-0.25), (2, true.size))
    numbers = np.clip(true + noise[0] - noise[1], 0, m.support.hull.upper).astype(float)
    found = rb.estimate(m, numbers if name != "rounded" else published(m, true, chance), prior="fit")
    assert (found.candidates % 1 == 0).all()
    assert np.mean((found.estimate - true) ** 2) < 0.6 * np.mean((found.published - true) ** 2)
    assert np.mean((found.lower <= true) & (true <= found.upper)) > 0.92


def test_the_same_numbers_have_the_same_estimates_in_any_shape_and_order():
    chance, m = np.random.default_rng(4), mechanism(0.2)
    numbers = published(m, chance.poisson(5, 60), chance)
    found = rb.estimate(m, numbers, prior="fit")
    other = rb.estimate(m, numbers[::-1].reshape(6, 10), prior="fit")
    assert other.estimate.shape == (6, 10)
    assert other.estimate.ravel()[::-1].tolist() == found.estimate.tolist()
    assert other.upper.ravel()[::-1].tolist() == found.upper.tolist()


def test_many_numbers_far_apart_are_fitted_in_bounded_room():
    chance = np.random.default_rng(9)
    query = rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0)
    m = rb.calibrate(noise=rb.Laplace, query=query, bounding=rb.RECTIFY, epsilon=0.1)
    true = np.where(chance.random(4000) < 0.998, 3.0, 500.0)
    numbers = published(m, true, chance)
    found = rb.estimate(m, numbers, prior="fit", level=0.9)
    assert found.candidates.size <= 2000
    assert np.mean((found.estimate - true) ** 2) < 0.4 * np.mean((numbers - true) ** 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"prior": "flat"}, "prior='flat': must be \"fit\""),
        ({"prior": {}}, "must have weights"),
        ({"prior": {1.0: -1.0, 2.0: 3.0}}, "weights from 0"),
        ({"prior": {-1.0: 1.0}}, "in the range"),
        ({"prior": "fit", "level": 1.5}, "level"),
        ({"prior": "fit", "objective": "bias"}, "objective"),
    ],
)
def test_wrong_calls_are_refused(given, words):
    with pytest.raises(rb.ArgumentError, match=words):
        rb.estimate(mechanism(1.0), np.linspace(0, 10, 40), **given)


def test_a_fit_is_refused_where_it_cannot_help():
    m = mechanism(1.0)
    for given in ("m", None, rb.Laplace(scale=1.0), QUERY):
        with pytest.raises(rb.ArgumentTypeError, match="must be a mechanism with a law"):
            rb.estimate(given, np.zeros(30), prior="fit")
    with pytest.raises(rb.Unsatisfiable, match="19 numbers; a prior is fitted to 20 or more"):
        rb.estimate(m, np.zeros(19), prior="fit")
    with pytest.raises(rb.Unsatisfiable, match="no estimate is better by 3 %"):
        rb.estimate(m, np.linspace(0, 1000, 50), prior="fit")
    with pytest.raises(rb.ArgumentError, match="at least one"):
        rb.estimate(m, [], prior={0.0: 1.0})
    narrow = rb.Mechanism(noise=rb.TruncatedLaplacian(scale=1.0, limit=5.0), query=QUERY, bounding=rb.RECTIFY)
    with pytest.raises(rb.ArgumentError, match="cannot publish"):
        rb.estimate(narrow, [50.0], prior={0.0: 1.0, 100.0: 1.0})
