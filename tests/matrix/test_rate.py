"""Metric privacy over the cube: the rate is met by close pairs and exceeded by none, proved, and refuted below.

The second route is brute force: the log-ratios of the laws at all pairs of a dense scan, over their distance. It knows
no theorem about where the rate is largest.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.privacy.metric import worst_score
from tests.crosscheck.oracle import oracle
from tests.matrix import brute
from tests.matrix.cells import ALLOWED, Cell, each_cell, quick_cells
from tests.thinning import some

INF = math.inf
STEP = 2.0**-13  # of the distance of close pairs, in the units of the cube
ROUNDING = 1e-13  # absolute error of a log-ratio in doubles near the support
FARTHEST = 0.03  # how much of a supremum at infinity is still missing at the far end of the scan
HIGH = 40.0  # an epsilon that no finite rate of these mechanisms reaches

LAPLACE, LIMITED = rb.Laplace(scale=0.8), rb.TruncatedLaplacian(scale=0.8, limit=3.0)
SHORT, GAPS = rb.Interval(0, 1), rb.Union((0.5, 1.75), (2.5, 3.25), (4.5, 6))
THREE, FOUR = rb.Union((0, 1), (2, 3), (4, 5)), rb.Grid(step=1, within=rb.Interval(0, 3))
MANY = rb.Grid(step=1, within=rb.Interval(-20, 20))
# What the cube does not have: parts of the support that no answer reaches, and answers with gaps of their own.
CORNERS = {
    "a span out of reach": (LIMITED, SHORT, rb.Union((0, 1), (100, 101)), rb.TRUNCATE),
    "a half-line out of reach": (LIMITED, SHORT, rb.Union((-INF, -100), (0, 1)), rb.TRUNCATE),
    "points out of reach": (rb.TruncatedLaplacian(scale=0.8, limit=2.3), rb.Interval(0, 0.1), MANY, rb.QUANTIZE),
    "nothing but the end in reach": (LIMITED, SHORT, rb.Interval(10, 20), rb.RECTIFY),
    "nothing but one point in reach": (LIMITED, SHORT, rb.Grid(step=9, within=rb.Interval(0, 18)), rb.QUANTIZE),
    "the law changes only between the answers": (LAPLACE, rb.Union((-3, -1), (7, 9)), THREE, rb.TRUNCATE),
    "steepest between the answers": (LAPLACE, rb.Union((0.5, 1), (4, 4.5)), THREE, rb.TRUNCATE),
    "many gaps": (rb.Laplace(scale=0.3), GAPS, THREE, rb.TRUNCATE),
    "Gaussian, gaps": (rb.Gaussian(scale=0.8), GAPS, THREE, rb.TRUNCATE),
    "answers that begin at a point": (LAPLACE, rb.Interval(1, 1.5), FOUR, rb.TRUNCATE),
    "answers between the points": (LAPLACE, rb.Union((0.25, 0.5), (2.25, 2.5)), FOUR, rb.TRUNCATE),
    "answers right of the last point": (LAPLACE, rb.Interval(3, 4), FOUR, rb.TRUNCATE),
}


def corner(name: str) -> rb.Mechanism:
    noise, answers, support, bounding = CORNERS[name]
    query = rb.Query(range=answers, sensitivity=1.0)
    return rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)


MECHANISMS = {**{str(cell): cell.mechanism() for cell in ALLOWED}, **{name: corner(name) for name in CORNERS}}


def close_pairs(mechanism: rb.Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """Pairs one step apart at many answers, at the kinks too, and the two ends of every gap; in both orders."""
    marks = [x for span in mechanism.support.spans for x in span if math.isfinite(x)]
    ends = [x for span in mechanism.query.range.spans for x in span if math.isfinite(x)]
    low, high = min([*marks, *ends, 0.0]) - 10.0, max([*marks, *ends, 0.0]) + 10.0
    places = np.concatenate(
        [np.linspace(max(a, low), min(b, high), 2001) for a, b in mechanism.query.range.spans]
        + [np.asarray([*marks, *ends]) + shift for shift in (-STEP, 0.0)]
    )
    places = places[brute._contains(mechanism, places) & brute._contains(mechanism, places + STEP)]
    gaps = np.asarray(mechanism.query.range.gaps if isinstance(mechanism.query.range, rb.Union) else []).reshape(-1, 2)
    p, q = np.concatenate((places, gaps[:, 0])), np.concatenate((places + STEP, gaps[:, 1]))
    return np.concatenate((p, q)), np.concatenate((q, p))


def seen(mechanism: rb.Mechanism, p: np.ndarray, q: np.ndarray) -> float:
    """The largest |change of a log-density| per unit of the answer that the pairs show."""
    return float(np.max((brute.loss(mechanism)(p, q) - ROUNDING) / np.abs(p - q)))


def bounds(mechanism: rb.Mechanism, rate: float) -> None:
    """Fail unless no pair changes faster than the rate, and a close one nearly as fast."""
    p, q = close_pairs(mechanism)
    fastest = seen(mechanism, p, q)
    assert fastest <= rate * (1.0 + 1e-9) + 1e-9
    missing = FARTHEST if isinstance(mechanism.noise, rb.Gaussian) and not mechanism.query.range.bounded else 1e-3
    assert fastest >= rate * (1.0 - missing) - 2.0 * ROUNDING / STEP
    generator = np.random.default_rng(31)
    some = generator.integers(len(p), size=(2, 400))
    far = p[some[0]], p[some[1]]
    apart = far[0] != far[1]
    assert seen(mechanism, far[0][apart], far[1][apart]) <= rate * (1.0 + 1e-9) + 1e-9


def refuted(mechanism: rb.Mechanism, epsilon: float) -> rb.ClaimFalse:
    """The refutation of a metric claim, compared with 80 digits."""
    with pytest.raises(rb.ClaimFalse, match="metric") as caught:
        rb.certify(mechanism, epsilon, notion="metric")
    (a, b), true = caught.value.pair, oracle(mechanism)
    assert float(mechanism.query.clip(a)) == a != b == float(mechanism.query.clip(b))
    loss, steps = true.renyi(a, b, INF), abs(a - b) / mechanism.query.sensitivity
    assert loss > epsilon * steps
    assert loss >= caught.value.epsilon * steps * (1.0 - 1e-14)
    return caught.value


def truth(mechanism: rb.Mechanism) -> float:
    """The smallest epsilon of a metric claim."""
    return worst_score(mechanism.setting) * mechanism.query.sensitivity


def proved_and_refuted(mechanism: rb.Mechanism) -> None:
    """The truth is proved and comes back from its text; less is refuted, and proved by no text."""
    epsilon = truth(mechanism)
    text = rb.certify(mechanism, epsilon * (1.0 + 1e-12), notion="metric").to_json()
    assert rb.verify(text).claim == rb.Claim(epsilon=epsilon * (1.0 + 1e-12), notion="metric")
    if epsilon > 0.0:
        assert refuted(mechanism, epsilon * (1.0 - 1e-3)).epsilon == pytest.approx(epsilon, rel=1e-3)
        with pytest.raises(rb.CertificateInvalid):
            rb.verify(json.dumps({**json.loads(text), "epsilon": epsilon * (1.0 - 1e-6)}))


CASES = [pytest.param(MECHANISMS[str(*each.values)], marks=each.marks) for each in quick_cells(ALLOWED).args[1]]
CASES += [MECHANISMS[name] for name in CORNERS]


@pytest.mark.few(15)
@pytest.mark.parametrize("mechanism", CASES, ids=MECHANISMS)
def test_the_rate_is_what_brute_force_finds_and_certificates_say(mechanism: rb.Mechanism) -> None:
    rate = worst_score(mechanism.setting)
    if math.isfinite(rate):
        bounds(mechanism, rate)
        proved_and_refuted(mechanism)
    else:  # a pair that anyone can check shows it
        assert refuted(mechanism, HIGH).epsilon > HIGH


CALIBRATED = [cell for cell in ALLOWED if cell.range in ("equal", "smaller") and cell.noise != "truncated_laplacian"]


@pytest.mark.few(13)
@each_cell(CALIBRATED)
def test_what_was_calibrated_is_certified_without_a_second_typing(cell: Cell) -> None:
    m = cell.mechanism()
    request = {"noise": type(m.noise), "query": m.query, "support": m.support, "bounding": m.bounding}
    if math.isinf(worst_score(m.setting)):  # a tail shows at every scale
        with pytest.raises(rb.Unsatisfiable):
            rb.calibrate(**request, epsilon=1.0, notion="metric")
    else:
        found = rb.calibrate(**request, epsilon=1.0, notion="metric")
        certificate = rb.certify(found)
        assert certificate.claim == found.claim == rb.Claim(epsilon=1.0, notion="metric")
        assert rb.verify(certificate.to_json()) == certificate
        bounds(found, truth(found) / found.query.sensitivity)
        assert truth(found) == pytest.approx(1.0, rel=2e-9)


def random_mechanism(seed: int) -> rb.Mechanism:
    """Truncated noise on random spans or points, and answers with gaps of their own, in multiples of the step."""
    generator = np.random.default_rng(seed)

    def union(count: int) -> rb.Union:
        ends = np.sort(generator.choice(np.arange(160), size=2 * count, replace=False)) * 0.0625
        return rb.Union(*ends.reshape(-1, 2).tolist())

    grid = rb.Grid(step=0.25 * int(generator.integers(1, 9)), within=rb.Interval(2, 7))
    support = grid if seed % 3 == 0 else union(int(generator.integers(1, 5)))
    family = rb.Gaussian if seed % 7 == 0 else rb.Laplace
    noise = family(scale=float(generator.uniform(0.3, 3.0)))
    return rb.Mechanism(
        noise=noise, query=rb.Query(range=union(int(generator.integers(1, 5))), sensitivity=1.0), support=support
    )


@pytest.mark.few(8)
@pytest.mark.parametrize("seed", some(range(60), of=4))
def test_random_supports_and_answers(seed: int) -> None:
    mechanism = random_mechanism(seed)
    bounds(mechanism, worst_score(mechanism.setting))
    proved_and_refuted(mechanism)


def test_control_brute_force_catches_a_rate_that_is_wrong() -> None:
    for mechanism in (MECHANISMS["laplace-truncate-interval-smaller"], corner("many gaps")):
        rate = worst_score(mechanism.setting)
        for wrong in (0.99 * rate, 1.01 * rate):
            with pytest.raises(AssertionError):
                bounds(mechanism, wrong)
    with pytest.raises(AssertionError):  # the ordinary epsilon is not a rate
        bounds(mechanism, mechanism.epsilon() / mechanism.query.sensitivity)


def test_control_nothing_is_left_out() -> None:
    rates = [worst_score(mechanism.setting) for mechanism in MECHANISMS.values()]
    assert 60 <= sum(0.0 < each < INF for each in rates) < sum(each < INF for each in rates) < len(rates)
