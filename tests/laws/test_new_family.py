"""A family that only the tests know (`tests/laws/logistic.py`) works everywhere, by one file and one line.

Each number has a second route: sums over a dense row of outputs and positions, by densities that SciPy computes.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.laws.families import FAMILIES
from rangebound.laws.family import BallNoise, Noise
from rangebound.values.ball import ball, precision
from tests.laws.logistic import Logistic, LogisticInBalls
from tests.thinning import crossed

SCALE = 1.3
QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
GRID = rb.Grid(step=1.0, within=rb.Interval(0, 10))
CASES: dict[str, tuple[Any, Any]] = {
    "truncate": (rb.TRUNCATE, None),
    "union": (rb.TRUNCATE, rb.Union((0, 4), (6, 10))),
    "points": (rb.TRUNCATE, GRID),
    "rectify": (rb.RECTIFY, None),
    "quantize": (rb.QUANTIZE, GRID),
    "unbounded": (rb.UNBOUNDED, None),
}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, Logistic.name, Logistic)  # the one line


def mechanism(case: str) -> rb.Mechanism:
    bounding, support = CASES[case]
    return rb.Mechanism(noise=Logistic(scale=SCALE), query=QUERY, support=support, bounding=bounding)


def outputs(case: str, q: float) -> np.ndarray:
    """Probabilities of small cells of outputs at the true answer q, by SciPy alone."""
    noise = stats.logistic(loc=q, scale=SCALE)
    if case in ("truncate", "union"):
        edges = [np.linspace(a, b, 4001) for a, b in (((0, 10),) if case == "truncate" else ((0, 4), (6, 10)))]
        masses = np.concatenate([np.diff(noise.cdf(each)) for each in edges])
    elif case == "points":
        masses = noise.pdf(np.arange(11.0))
    elif case == "quantize":
        return np.diff(noise.cdf(np.array([-np.inf, *(np.arange(10.0) + 0.5), np.inf])))
    else:
        row = np.linspace(0.0, 10.0, 4001) if case == "rectify" else np.linspace(-15.0, 25.0, 8001)
        inner = np.where(row[1:] <= q, np.diff(noise.cdf(row)), -np.diff(noise.sf(row)))
        return np.array([noise.cdf(row[0]), *inner, noise.sf(row[-1])])
    return masses / masses.sum()


def pairs(case: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (outputs(case, a), outputs(case, b)) for p in np.linspace(0.0, 9.0, 91) for a, b in ((p, p + 1.0), (p + 1.0, p))
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("case", CASES)
def test_privacy_numbers_are_those_of_a_dense_row_of_pairs(case: str) -> None:
    found = mechanism(case)
    rows = pairs(case)
    epsilon = max(float(np.log(p / q).max()) for p, q in rows)
    delta = max(float(np.maximum(p - math.exp(0.4) * q, 0.0).sum()) for p, q in rows)
    renyi = max(math.log(float((p**4.0 * q**-3.0).sum())) / 3.0 for p, q in rows)
    assert epsilon <= found.epsilon() * (1.0 + 1e-9)
    assert found.epsilon() == pytest.approx(epsilon, rel=2e-3)
    assert delta <= found.delta(0.4) * (1.0 + 1e-9)
    assert found.delta(0.4) == pytest.approx(delta, rel=2e-3)
    assert renyi <= found.rdp(4.0) * (1.0 + 1e-9)
    assert found.rdp(4.0) == pytest.approx(renyi, rel=2e-3)
    assert found.epsilon(delta) == pytest.approx(0.4, rel=1e-2)


def test_the_row_of_pairs_would_notice_another_scale() -> None:
    """A control: the same comparison fails for noise that is 1 % off."""
    other = rb.Mechanism(noise=Logistic(scale=1.01 * SCALE), query=QUERY)
    epsilon = max(float(np.log(p / q).max()) for p, q in pairs("truncate"))
    assert other.epsilon() != pytest.approx(epsilon, rel=2e-3)


@pytest.mark.few(1)
@pytest.mark.parametrize("case", CASES)
def test_releases_are_in_range_and_follow_the_law(case: str) -> None:
    """Kolmogorov-Smirnov at a false-alarm rate below 1e-10 on 500 draws; the control is the law at another answer."""
    found = mechanism(case)
    drawn = np.sort(found.release(np.full(500, 3.0)))
    support = found.support
    assert support is not None
    assert all(any(a <= x <= b for a, b in support.spans) for x in drawn) if case != "unbounded" else True
    bound = 3.5 / math.sqrt(len(drawn))  # P(sqrt(n) D > 3.5) < 2 exp(-2 3.5^2) < 1e-10
    assert distance(found.law(3.0), drawn) < bound
    assert distance(found.law(5.0), drawn) > bound


def distance(law: rb.Law, drawn: np.ndarray) -> float:
    """The largest gap between the law and what was drawn, at the values drawn, atoms in full on both sides."""
    upto = np.searchsorted(drawn, drawn, side="right") / len(drawn)
    onward = 1.0 - np.searchsorted(drawn, drawn, side="left") / len(drawn)
    return float(max(np.abs(law.cdf(drawn) - upto).max(), np.abs(law.sf(drawn) - onward).max()))


@pytest.mark.few(2)
@crossed({"case": CASES, "delta": [0.0, 1e-3]})
def test_calibrated_certified_verified_and_read_back(case: str, delta: float) -> None:
    bounding, support = CASES[case]
    found = rb.calibrate(noise=Logistic, query=QUERY, support=support, bounding=bounding, epsilon=0.8, delta=delta)
    assert isinstance(found.noise, Logistic)
    assert found.delta(0.8) <= delta
    assert found.epsilon(delta) == pytest.approx(0.8, rel=1e-6)
    certificate = rb.certify(found, epsilon=0.8, delta=delta)
    rb.verify(certificate.to_json())
    narrower = rb.Mechanism(
        noise=Logistic(scale=0.99 * found.noise.scale), query=QUERY, support=support, bounding=bounding
    )
    with pytest.raises(rb.ClaimFalse):  # a control
        rb.certify(narrower, epsilon=0.8, delta=delta)
    assert rb.Mechanism.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_family_that_is_not_registered_is_refused() -> None:
    """A control: the line is needed."""
    found = mechanism("truncate").to_dict()
    del FAMILIES[Logistic.name]
    with pytest.raises(rb.ArgumentTypeError):
        rb.Mechanism(noise=Logistic(scale=SCALE), query=QUERY)
    with pytest.raises(rb.ArgumentError):
        rb.Mechanism.from_dict(found)


@pytest.mark.slow
def test_it_is_chosen_among_and_drawn_as_a_picture() -> None:
    ranking = rb.choose(query=QUERY, epsilon=1.0, objective="mae")
    assert {"truncate Logistic", "rectify Logistic"} <= {choice.name for choice in ranking}
    axes = rb.plot.law(mechanism("truncate").law(3.0))
    assert "Logistic" in axes.get_legend_handles_labels()[1][0]


def test_intervals_errors_and_information() -> None:
    found = mechanism("truncate")
    lower, upper = found.confidence_interval(3.0)
    assert lower < 3.0 < upper
    assert found.worst_error().mae >= found.error(3.0).mae
    noise = stats.logistic(scale=SCALE)
    free = noise.expect(lambda x: (np.tanh(0.5 * x / SCALE) / SCALE) ** 2)
    assert mechanism("unbounded").fisher(3.0) == pytest.approx(free, rel=1e-8)
    metric = rb.calibrate(noise=Logistic, query=QUERY, epsilon=1.0, notion="metric")
    assert metric.epsilon() <= 1.0


@pytest.mark.parametrize("level", [1e-9, 0.5, 0.95, 1.0 - 1e-12])
@pytest.mark.parametrize("name", [*FAMILIES, "logistic"])
def test_the_radius_is_rounded_up_and_hardly_more(name: str, level: float) -> None:
    noise = FAMILIES[name](scale=0.7, **({"limit": 2.1} if name == "truncated_laplacian" else {}))
    radius = noise.radius(level)
    with precision(256):
        exact = noise.in_balls()
        assert exact.mass(ball(-radius), ball(radius)) >= level
        less = radius * (1.0 - 1e-4)
        assert exact.mass(ball(-less), ball(less)) < level
    assert (noise.radius(0.0), noise.radius(1.0)) == (0.0, noise.extent)


FACTS = [
    *((Logistic, Noise, fact) for fact in sorted({*Noise.__abstractmethods__, "name", "curve", "pure", "scale"})),
    *((LogisticInBalls, BallNoise, fact) for fact in sorted(BallNoise.__abstractmethods__)),
]


@pytest.mark.parametrize(("family", "base", "fact"), FACTS, ids=str)
def test_a_family_without_a_fact_cannot_be_created(family: type, base: type, fact: str) -> None:
    body = {name: value for name, value in vars(family).items() if not name.startswith("__") and name != fact}
    annotations = getattr(family, "__annotations__", {})
    lacking = {name: value for name, value in annotations.items() if name != fact}
    with pytest.raises(TypeError, match=f"must define {fact}$"):
        type("Lacking", (base,), {**body, "__annotations__": lacking})
    assert type("Complete", (base,), {**body, fact: 1, "__annotations__": annotations})
