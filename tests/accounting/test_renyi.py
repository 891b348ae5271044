"""The Renyi accountant: curves, conversion, and sampled steps against quadrature in both directions."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, SampledEvent, renyi
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError
from tests.accounting.mechanisms import free, gaussian, short
from tests.accounting.pld.exact import gaussian_delta
from tests.thinning import crossed


def test_curves_add():
    m = short(rb.Laplace(scale=1.0), 3.0)
    both = MechanismEvent(mechanism=gaussian(2.0), times=8), MechanismEvent(mechanism=m, times=3)
    event, orders = ComposedEvent(events=both, times=2), [1.5, 2.0, 7.0]
    single = [2 * (8 * a / 8.0 + 3 * m.rdp(a)) for a in orders]
    assert renyi.curve(event, orders) == pytest.approx(single, rel=1e-12)
    assert (renyi.curve(event, orders) >= np.asarray(single) * (1.0 - 1e-15)).all()


@pytest.mark.few(2)
@crossed({"times": [1, 30, 10_000], "scale": [0.5, 1.0, 5.0, 100.0]})
def test_epsilon_is_never_below_the_exact_one(scale, times):
    for delta in (1e-3, 1e-6, 1e-12):
        event = MechanismEvent(mechanism=gaussian(scale), times=times)
        epsilon = renyi.epsilon(event, delta)
        assert epsilon == 0.0 or gaussian_delta(scale, times, epsilon) <= delta
        assert renyi.delta(event, epsilon) <= delta * (1.0 + 1e-9) or epsilon == 0.0
        # The grid of orders is fine: the best real order is at most 1e-3 better.
        best = min(
            float(a * times / (2.0 * scale**2) + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1))
            for a in 1.0 + np.geomspace(1e-5, 1e5, 20_001)
        )
        assert epsilon <= max(best, 0.0) * 1.001 + 1e-12


def moments(p, q, weight, rate, order):
    """ln E_Q[(M/Q)^a]/(a-1) and ln E_M[(Q/M)^a]/(a-1) with M = (1-p) Q + p P, by quadrature."""
    mixed = (1.0 - rate) * q + rate * p
    with_person = float((weight * mixed * (mixed / q) ** (order - 1)).sum())
    without = float((weight * q * (q / mixed) ** (order - 1)).sum())
    return math.log(with_person) / (order - 1), math.log(without) / (order - 1)


def laws(m, a, b):
    lower, upper = (m.support.hull.lower, m.support.hull.upper) if m.support.hull.bounded else (-25.0, 26.0)
    x, w = np.polynomial.legendre.leggauss(200)
    ends = np.unique(np.clip([lower, *np.linspace(lower, upper, 41), a, b, upper], lower, upper))
    x, w = (
        np.concatenate([0.5 * (v - u) * x + 0.5 * (u + v) for u, v in itertools.pairwise(ends)]),
        np.concatenate([0.5 * (v - u) * w for u, v in itertools.pairwise(ends)]),
    )
    p, q = m.law(a), m.law(b)
    first, second = np.exp(p.log_pdf(x)), np.exp(q.log_pdf(x))
    if m.bounding is rb.RECTIFY:
        atoms = [(law.mass(lower, lower), law.mass(upper, upper)) for law in (p, q)]
        first, second = np.append(first, atoms[0]), np.append(second, atoms[1])
        w = np.append(w, [1.0, 1.0])
    keep = (first > 1e-300) & (second > 1e-300)
    return first[keep], second[keep], w[keep]


CELLS = [
    gaussian(1.0),
    free(rb.Laplace(scale=0.7)),
    short(rb.Laplace(scale=1.0), 3.0),
    short(rb.Gaussian(scale=1.0), 3.0),
    short(rb.Gaussian(scale=1.2), 3.0, bounding=rb.RECTIFY),
]

STEPS = list(itertools.product((0.01, 0.1, 0.5, 0.9), (2, 3, 8, 20)))


@pytest.mark.few(2)
@pytest.mark.parametrize("steps", [STEPS[::5], pytest.param(STEPS, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("m", CELLS, ids=lambda m: f"{m.bounding!r} {m.noise!r}")
def test_sampled_steps_are_bounded_in_both_directions(m, steps):
    pairs = [(0.0, 1.0), (1.0, 0.0)] if m.bounding is rb.UNBOUNDED else [(0.0, 1.0), (1.0, 0.0), (1.2, 2.2), (3.0, 2.0)]
    tight = []
    for rate, order in steps:
        (bound,) = renyi.curve(SampledEvent(mechanism=m, rate=rate), [order])
        seen = [moments(*laws(m, a, b), rate, order) for a, b in pairs]
        assert max(map(max, seen)) <= bound * (1.0 + 1e-9) + 1e-13
        tight.append(max(map(max, seen)) / bound)
    assert max(tight) > (0.999 if m.bounding is rb.UNBOUNDED else 0.4)


def binomial_sum(m, rate, order):
    """B, the moment of the dataset with the person against the one without, from the worst-case curve of the step."""
    p = mp.mpf(rate)
    growth = [1, 1, *(mp.exp((j - 1) * mp.mpf(m.rdp(float(j)))) for j in range(2, order + 1))]
    return mp.fsum(mp.binomial(order, j) * (1 - p) ** (order - j) * p**j * each for j, each in enumerate(growth))


@pytest.mark.few(10)
@pytest.mark.parametrize("m", CELLS[:4], ids=lambda m: f"{m.bounding!r} {m.noise!r}")
@pytest.mark.parametrize(("rate", "order"), [(0.01, 2), (0.1, 3), (0.5, 4), (0.9, 2), (0.2, 10)])
def test_the_bound_of_a_sampled_step_by_its_formula(m, rate, order):
    """ln B for a pair that is its own mirror image, ln(2 B - 1) for any other: that is what is proved for a person who
    is removed. Both are at most the curve of the step without sampling."""
    with mp.workdps(40):
        moment = binomial_sum(m, rate, order)
        proved = mp.log(moment if m.bounding is rb.UNBOUNDED else 2 * moment - 1) / (order - 1)
        expected = min(float(proved), m.rdp(float(order)))
    (found,) = renyi.curve(SampledEvent(mechanism=m, rate=rate), [order])
    assert found == pytest.approx(expected, rel=1e-9)


def test_control_the_formula_for_removing_a_person_is_no_other():
    """Of truncated noise ln B is well below ln(2 B - 1), so that the test above tells them apart."""
    with mp.workdps(40):
        moment = binomial_sum(CELLS[2], 0.1, 3)
        assert mp.log(moment) < 0.9 * mp.log(2 * moment - 1)
    (found,) = renyi.curve(SampledEvent(mechanism=CELLS[2], rate=0.1), [3])
    assert found > 1.1 * float(mp.log(moment)) / 2


def test_between_the_nodes_the_chord_is_above():
    for order in (13, 19, 23):
        assert float(renyi._log_moment(CELLS[3], order)) >= (order - 1) * CELLS[3].rdp(float(order)) * (1.0 - 1e-12)


def test_a_clamped_sampled_step_costs_at_most_the_unbounded_one():
    clamped = short(rb.Gaussian(scale=2.0), 3.0, bounding=rb.RECTIFY)
    a, b = (SampledEvent(mechanism=m, rate=0.05, times=100) for m in (clamped, gaussian(2.0)))
    assert accountant.epsilon(a, 1e-6).lower <= renyi.epsilon(a, 1e-6) <= renyi.epsilon(b, 1e-6)


def test_agreement_with_dp_accounting_on_sampled_gaussians():
    rdp = pytest.importorskip("dp_accounting.rdp")
    dp = pytest.importorskip("dp_accounting")
    peer = rdp.RdpAccountant(orders=list(range(2, 129)))
    peer.compose(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)), 500)
    event = SampledEvent(mechanism=gaussian(1.1), rate=0.01, times=500)
    assert renyi.epsilon(event, 1e-5) == pytest.approx(peer.get_epsilon(1e-5), rel=1e-6)


def test_orders_of_sampled_steps_are_integers():
    with pytest.raises(ArgumentError, match="integer"):
        renyi.curve(SampledEvent(mechanism=gaussian(1.0), rate=0.5), [2.5])
    with pytest.raises(ArgumentError, match="above 1"):
        renyi.curve(MechanismEvent(mechanism=gaussian(1.0)), [1.0])


def test_the_pure_order():
    assert renyi.epsilon(MechanismEvent(mechanism=free(rb.Laplace(scale=4.0)), times=10), 0.0) == 2.5
    assert renyi.epsilon(MechanismEvent(mechanism=gaussian(4.0)), 0.0) == math.inf
    assert renyi.delta(MechanismEvent(mechanism=free(rb.Laplace(scale=4.0)), times=10), 2.5) == 0.0
    assert renyi.epsilon(ComposedEvent(events=()), 0.0) == renyi.delta(ComposedEvent(events=()), 1.0) == 0.0


def _grid(times):
    m = short(rb.Laplace(scale=2.0), 40.0, support=rb.Grid(step=1, within=rb.Interval(0, 40)))
    return MechanismEvent(mechanism=m, times=times)


@pytest.mark.few(1)
@pytest.mark.parametrize("times", [2, 100])
def test_orders_that_cannot_help_are_not_asked_for(times, monkeypatch):
    """Some 26 orders were, whatever the others said; what is left out changes nothing above 1e-6."""
    asked = []
    plain = renyi._of_mechanism

    def counted(mechanism, order):
        asked.append(order)
        return plain(mechanism, order)

    monkeypatch.setattr(renyi, "_of_mechanism", counted)
    renyi._of_step.cache_clear()
    event = _grid(times)
    found = renyi.epsilon(event, 1e-6)
    assert len(set(asked)) <= 20
    orders = [order for order in renyi._ORDERS[::32] if order < 1e5]
    every = [renyi.epsilon_at(order, times * plain(event.mechanism, order), 1e-6) for order in orders]
    assert found <= min(times * plain(event.mechanism, math.inf), *every) * (1.0 + 2e-6)


def test_the_least_that_a_curve_can_be_is_below_the_curve():
    """Beside the exact curve of one release; and it says something: two orders force a third."""
    m = short(rb.Laplace(scale=1.0), 9.0)
    curve = {order: m.rdp(order) for order in (1.5, 2.0, 3.0, 5.0, 9.0, 30.0)}
    for order in curve:
        others = {a: value for a, value in curve.items() if a != order}
        assert renyi._least(others, order) <= curve[order] * (1.0 + 1e-9)
    assert renyi._least({2.0: 1.0, 3.0: 2.0}, 4.0) > 2.0  # (a-1) R = 1, 4 at 2, 3: a curve with 5 at 4 is impossible
    assert renyi._least({}, 4.0) == 0.0


def test_a_known_epsilon_is_never_made_larger():
    event = _grid(10)
    found = renyi.epsilon(event, 1e-6)
    assert renyi.epsilon_within(event, 1e-6, 0.5 * found) == 0.5 * found
    assert renyi.epsilon_within(event, 1e-6, 2.0 * found) <= found * (1.0 + 2e-6)
