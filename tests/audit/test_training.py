"""Trainings audited in one run: honest ones pass, planted faults do not, and a bound comes near to what is claimed."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from benchmarks.audits import DELTA, FAULTS, HONEST, audited, gaussian, one_step
from rangebound.audit import Reading, training, trainings
from rangebound.audit.right_guesses import Count, Curve, is_refuted
from rangebound.audit.training import Threshold, at_once, features, in_turn, tossed

QUICK = ("noise x 0.8", "noise in float16", "bias forgotten in the noise")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAULTS]
)
def test_a_planted_fault_is_refuted(name):
    assert audited(FAULTS[name], seed=2).refutes


@pytest.mark.parametrize(
    "name", [name if name == "one step" else pytest.param(name, marks=pytest.mark.slow) for name in HONEST]
)
def test_an_honest_training_is_not_and_most_of_its_claim_is_found(name):
    found = audited(HONEST[name], seed=3, confidence=0.95)
    assert not found.refutes
    assert found.epsilon > (0.85 if name == "one step" else 0.6) * found.claimed


@pytest.mark.parametrize(("epsilon", "canaries"), [(1.0, 60_000), (4.0, 10_000), (10.0, 10_000)])
def test_most_of_a_gaussian_claim_is_found(epsilon, canaries):
    m = rb.calibrate(noise=rb.Gaussian, query=gaussian(1.0).query, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=DELTA)
    draw = np.random.default_rng(4)
    found = training(  # on a grid, or the last bits of the sum tell more
        lambda coins: np.round(coins + m.noise.scale * draw.normal(size=len(coins)), 9),
        canaries=canaries,
        claim=(epsilon, DELTA),
        event=m,
        reading=Reading.EACH,
        entropy=draw.bytes,
    )
    assert 0.85 * epsilon < found.epsilon < epsilon
    assert not found.refutes


@pytest.mark.parametrize("reading", Reading)
def test_of_200_honest_runs_no_more_are_refuted_than_is_said(reading):
    """Up to 1 in 10^9. The control: of runs with a fifth less noise, most are."""
    guessed = {Reading.EACH: in_turn, Reading.WHOLE: at_once}[reading]
    epsilons = np.linspace(0.0, 6.0, 12)
    tails = [(e, stats.norm.sf(e - 0.5) - np.exp(e) * stats.norm.sf(e + 0.5)) for e in epsilons.tolist()]
    curve = Curve(tuple(tails) if reading is Reading.WHOLE else ((0.0, tails[0][1]),))

    def refuted(noise, seed):
        draw = np.random.default_rng(seed)
        coins = tossed(1000, draw.bytes)
        rows = features(one_step(noise=noise)(coins, draw)[:, None])
        return is_refuted(curve, list(guessed(rows, coins, Threshold())), reading, 0.95)

    assert sum(refuted(1.0, seed) for seed in range(200)) <= stats.binom.isf(1e-9, 200, 0.05)
    if reading is Reading.EACH:
        assert sum(refuted(0.8, seed) for seed in range(20)) > 10


def test_without_an_event_or_as_a_whole_less_is_found_and_still_a_fault():
    draw = np.random.default_rng(5)

    def audit(noise, claimed=10.0, **more):
        return training(
            lambda coins: coins + noise * draw.normal(size=len(coins)),
            canaries=20_000,
            claim=(claimed, DELTA),
            entropy=draw.bytes,
            **more,
        )

    bare, whole = audit(0.5), audit(0.5, event=gaussian(0.5))
    assert 0.2 * 10.0 < bare.epsilon < whole.epsilon < 10.0
    assert not bare.family
    assert "any mechanism (the output as a whole" in str(bare)
    assert whole.to_dict()["reading"] == "the output as a whole"
    assert audit(0.3, claimed=4.0).refutes


def test_a_complete_leak_is_refuted_where_little_noise_is_too_little_to_account_for():
    draw = np.random.default_rng(6)
    leak = {
        "canaries": 1000,
        "claim": (4.0, DELTA),
        "entropy": draw.bytes,
        "reading": "each canary, given those before it",
    }
    found = training(lambda coins: coins.astype(float), event=gaussian(1.05), **leak)
    assert found.refutes


def responses(epsilon):
    """Randomised response to each coin."""
    return lambda coins, draw: np.where(draw.random(len(coins)) < 1.0 / (1.0 + np.exp(-epsilon)), coins, ~coins)


def now_and_then(share, loud, quiet):
    """One of two mechanisms for all coins."""
    return lambda coins, draw: (loud if draw.random() < share else quiet)(coins, draw)


WORST = {
    "responses": (responses(1.0), 0.0, [*Reading]),
    "each coin with delta": (
        lambda coins, draw: np.where(draw.random(len(coins)) < 0.05, 4.0 * coins - 1.5, responses(1.0)(coins, draw)),
        0.05,
        [*Reading],
    ),
    "all coins with delta": (
        now_and_then(0.0095, lambda coins, draw: 4.0 * coins - 1.5, responses(1.0)),
        0.0095,
        [Reading.WHOLE],
    ),
    "louder responses with delta": (  # q (e^E - e^eps)/(1 + e^E) = delta
        now_and_then(0.0095 * (1 + np.e**3) / (np.e**3 - np.e), responses(3.0), responses(1.0)),
        0.0095,
        [Reading.WHOLE],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.95, 0.99])
@pytest.mark.parametrize("name", WORST)
def test_of_2000_runs_of_a_worst_mechanism_no_more_are_refuted_than_is_said(name, confidence):
    """Up to 1 in 10^9, with learning, choosing and counting. The control: 1.3 times the epsilon is found."""
    run, delta, readings = WORST[name]
    for reading in readings:
        guessed = {Reading.EACH: in_turn, Reading.WHOLE: at_once}[reading]

        @cache
        def fewest(guesses, canaries, counts, reading=reading):
            none = [Count(0, 1, 1)] * (counts - 1)
            one = (Count(right, guesses, canaries) for right in range(guesses + 1))
            curve = Curve(((1.0, delta),))
            return next((each.right for each in one if is_refuted(curve, [each, *none], reading, confidence)), math.inf)

        def refuted(run, seed, canaries, guessed=guessed, fewest=fewest):
            draw = np.random.default_rng(seed)
            coins = draw.random(canaries) < 0.5
            rows = features(run(coins, draw).astype(float)[:, None])
            counts = list(guessed(rows, coins, Threshold()))
            return any(each.right >= fewest(each.guesses, each.canaries, len(counts)) for each in counts)

        assert sum(refuted(run, seed, 400) for seed in range(2000)) <= stats.binom.isf(1e-9, 2000, 1.0 - confidence)
        if delta == 0.0:
            assert all(refuted(responses(1.3), seed, 6000) for seed in range(10))


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_all_coins_in_a_share_of_runs_keep_a_delta_of_that_share_as_a_whole_alone(share):
    """Every coin right, which happens with the probability of delta, refutes nothing at a smaller confidence."""
    every, curve = [Count(2000, 2000, 2000)], Curve(((0.0, share),))
    assert not is_refuted(curve, every, Reading.WHOLE, 1.0 - share / 2)
    assert is_refuted(curve, every, Reading.WHOLE, 1.0 - 2 * share)  # control
    assert is_refuted(curve, every, Reading.EACH, 0.99)  # it is not so private given the coins before
    everything = training(lambda c: c.astype(float), canaries=2000, claim=(0.01, share), confidence=1.0 - share / 2)
    assert not everything.refutes


def test_limited_noise_is_audited_as_a_whole():
    """It has no epsilon at a small delta."""
    m = rb.Mechanism(
        noise=rb.TruncatedLaplacian(scale=1.0, limit=5.0), query=gaussian(1.0).query, bounding=rb.UNBOUNDED
    )
    audit = {"canaries": 2000, "claim": (m.epsilon(0.05), 0.05), "event": m}
    assert training(lambda coins: coins.astype(float), **audit).refutes
    assert not training(lambda coins: np.zeros(len(coins)), **audit).refutes


def test_scores_and_arguments_that_do_not_fit_are_refused():
    good = {"canaries": 200, "claim": (1.0, 1e-5)}
    for bad, match in (
        ({"claim": (1.0,)}, "an epsilon and a delta"),
        ({"claim": (800.0, 1e-5)}, "at most 100"),
        ({"claim": (4.0, 0.0), "event": gaussian(1.0)}, "no epsilon at this delta"),
        ({"canaries": 100}, "at least 128"),
        ({"event": "x"}, "must be a mechanism"),
        ({"reading": "x"}, "reading='x'"),
        ({"classifier": 5}, "fit and predict_proba"),
    ):
        with pytest.raises((rb.ArgumentError, rb.ArgumentTypeError), match=match):
            training(lambda coins: pytest.fail("trained before the arguments were checked"), **{**good, **bad})
    with pytest.raises(rb.ArgumentError, match="one row for each of the 200"):
        training(lambda coins: coins[:5].astype(float), **good)
    with pytest.raises(rb.ArgumentError, match="finite"):
        training(lambda coins: np.full(200, np.nan), **good)


def test_any_function_of_data_is_audited_by_its_final_model():
    """A sum that is published as it is; what it was called with is what the coins say."""
    examples = np.eye(300).tolist()
    run = trainings.fitted(lambda rows: np.sum(rows, axis=0), examples, np.dot, others=[[0.0] * 300])
    assert training(run, canaries=300, claim=(1.0, 1e-5), confidence=0.99).refutes


@pytest.mark.slow
@pytest.mark.parametrize("library", ["rangebound", "opacus", "jax_privacy", "opake"])
def test_a_library_publishes_a_canary_and_the_noise_that_it_claims(library):
    for needed in ("torch", library):
        pytest.importorskip(needed)
    coins = np.arange(200) % 2 == 0
    scores = getattr(trainings, library)(noise_multiplier=0.5, rate=0.5, steps=4, clip=2.0)(coins)
    assert scores.shape == (200, 4)
    assert scores[coins].mean() == pytest.approx(1.0, abs=0.6)
    assert scores[~coins].mean() == pytest.approx(0.0, abs=0.4)
    assert scores[~coins].std() == pytest.approx(1.0, abs=0.25)
