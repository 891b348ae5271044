"""Properties that hold for every mechanism: symmetries, monotonicity, no pair above the worst case, sound laws.

`Plain` below is a second opinion: densities and distribution functions of scipy.stats, thresholds and sums on grids of
numpy, and nothing of the package's own arithmetic.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import rangebound as rb
from rangebound.errors import RangeboundError

INF = math.inf
CLOSE = 2e-6  # a privacy number is at most 1e-6 above the truth; two of them may differ by that
many = settings(max_examples=50, phases=(Phase.explicit, Phase.generate))
few = settings(max_examples=15, phases=(Phase.explicit, Phase.generate))
fewer = settings(max_examples=6, phases=(Phase.explicit, Phase.generate))


# Mechanisms to draw. Every number is a multiple of 1/8, so that shifts, mirrors and changes of unit are exact.

eighths = st.integers(-32, 32).map(lambda k: k / 8)
widths = st.integers(4, 80).map(lambda k: k / 8)
scales = st.integers(4, 32).map(lambda k: k / 8)
sensitivities = st.integers(1, 24).map(lambda k: k / 8)


@st.composite
def intervals(draw: Any, ends: str = "any") -> rb.Interval:
    lower = draw(eighths)
    upper = lower + draw(widths)
    kind = draw(st.sampled_from(["both", "both", "left", "right", "none"] if ends == "any" else ["both"]))
    return rb.Interval(-INF if kind in ("right", "none") else lower, INF if kind in ("left", "none") else upper)


@st.composite
def unions(draw: Any, ends: str = "any") -> rb.Union:
    steps = draw(st.lists(st.integers(2, 24), min_size=4, max_size=6).filter(lambda steps: len(steps) % 2 == 0))
    edges = (draw(eighths) + np.cumsum(steps) / 8).tolist()
    if ends == "any":
        edges[0] = draw(st.sampled_from([edges[0], edges[0], -INF]))
        edges[-1] = draw(st.sampled_from([edges[-1], edges[-1], INF]))
    return rb.Union(*zip(edges[::2], edges[1::2], strict=True))


@st.composite
def grids(draw: Any) -> rb.Grid:
    step, lower, count = draw(st.sampled_from([0.5, 1.0, 2.0])), draw(eighths), draw(st.integers(1, 6))
    return rb.Grid(step=step, within=rb.Interval(lower, lower + step * count))


@st.composite
def noises(draw: Any, limited: bool = True) -> Any:
    scale = draw(scales)
    kind = draw(st.sampled_from(["Laplace", "Gaussian", "limited"] if limited else ["Laplace", "Gaussian"]))
    if kind == "limited":
        return rb.TruncatedLaplacian(scale=scale, limit=scale * draw(st.integers(2, 12)))
    return rb.Laplace(scale=scale) if kind == "Laplace" else rb.Gaussian(scale=scale)


BOUNDINGS = (rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED)


@st.composite
def mechanisms(draw: Any, ends: str = "any", limited: bool = True, boundings: Any = BOUNDINGS) -> rb.Mechanism:
    bounding = draw(st.sampled_from(boundings))
    answers = draw(intervals(ends) | intervals(ends) | unions(ends))
    support: Any = None
    if bounding is rb.TRUNCATE:
        support = draw(st.none() | intervals(ends) | unions(ends) | grids())
    elif bounding is rb.RECTIFY:
        support = draw(intervals(ends))
    elif bounding is rb.QUANTIZE:
        support = draw(grids())
    query = rb.Query(range=answers, sensitivity=draw(sensitivities))
    noise = draw(noises(limited))
    try:
        return rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)
    except RangeboundError:  # limited noise that cannot reach the support, or on a grid
        return rb.Mechanism(noise=rb.Laplace(scale=noise.scale), query=query, support=support, bounding=bounding)


def answers_of(mechanism: rb.Mechanism, count: int = 9, reach: float = 6.0) -> np.ndarray:
    """True answers all over the range, its ends among them; a few scales beyond the support where it is unbounded."""
    places = []
    for lower, upper in mechanism.query.range.spans:
        marks = [x for x in (lower, upper, *mechanism.shape.ends) if math.isfinite(x)] or [0.0]
        low = lower if math.isfinite(lower) else min(marks) - reach * mechanism.noise.scale
        high = upper if math.isfinite(upper) else max(marks) + reach * mechanism.noise.scale
        places.append(np.linspace(low, high, count))
    return np.unique(np.concatenate(places))


def neighbours_of(mechanism: rb.Mechanism, count: int = 9) -> list[tuple[float, float]]:
    """Pairs of neighbours: for each place the answers a sensitivity away, and every end of the range in between."""
    query = mechanism.query
    ends = [end for span in query.range.spans for end in span if math.isfinite(end)]
    pairs = []
    for p in answers_of(mechanism, count).tolist():
        for q in (p + query.sensitivity, p - query.sensitivity, *ends):
            if p != q and abs(p - q) <= query.sensitivity and float(query.clip(q)) == q:
                pairs.append((p, q))
    return pairs


class Plain:
    """The laws of a mechanism from scipy.stats: masses of cells on a fine grid, and atoms."""

    def __init__(self, mechanism: rb.Mechanism, cells: int = 4000) -> None:
        self.noise, self.shape = mechanism.noise, mechanism.shape
        scale, limit = self.noise.scale, getattr(self.noise, "limit", INF)
        if isinstance(self.noise, rb.Gaussian):
            self.cdf, self.pdf = stats.norm(scale=scale).cdf, stats.norm(scale=scale).pdf
        else:
            whole = stats.laplace(scale=scale)
            kept = 1.0 - math.exp(-limit / scale)
            self.cdf = lambda y: np.clip((whole.cdf(y) - whole.cdf(-limit)) / kept, 0.0, 1.0)
            self.pdf = lambda y: np.where(np.abs(y) <= limit, whole.pdf(y) / kept, 0.0)
        places = answers_of(mechanism)
        self.cells = []
        for lower, upper in self.shape.spans:
            low, high = max(lower, places.min() - 30 * scale), min(upper, places.max() + 30 * scale)
            if low < high:
                self.cells.append(np.linspace(low, high, cells))
        self.masses = functools.cache(self._masses)

    def _masses(self, at: float) -> np.ndarray:
        """Probabilities of the cells of the spans, then of the atoms: comparing them is post-processing."""
        parts = [self.mass(edges[:-1] - at, edges[1:] - at) for edges in self.cells]
        points = np.asarray(self.shape.points)
        if self.shape.cells:
            lows, highs = np.asarray(self.shape.cells).T
            parts.append(self.mass(lows - at, highs - at))
        elif len(points):
            parts.append(self.pdf(points - at))
        found = np.concatenate(parts)
        return found / found.sum() if self.shape.normalised else found

    def mass(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """What lies between two numbers: of the upper half in the lower one, where small numbers keep their digits."""
        return self.cdf(np.where(low > 0.0, -low, high)) - self.cdf(np.where(low > 0.0, -high, low))

    def stick(self, p: float, q: float, epsilon: float) -> float:
        return float(np.maximum(self.masses(p) - math.exp(epsilon) * self.masses(q), 0.0).sum())

    def renyi(self, p: float, q: float, alpha: float) -> float:
        a, b = self.masses(p), self.masses(q)
        live = (a > 1e-13) & (b > 1e-13)  # below that, differences of distribution functions are noise
        total = float((a[live] ** alpha * b[live] ** (1.0 - alpha)).sum())
        return math.log(total) / (alpha - 1.0) if total > 0.0 else 0.0


@pytest.mark.claim("privacy")
@many
@given(mechanisms(), st.sampled_from([0.0, 0.25, 1.0, 3.0]))
def test_no_pair_gives_away_more_than_delta(within, mechanism, epsilon):
    with within(20.0):
        claimed = mechanism.delta(epsilon)
    plain = Plain(mechanism)
    for p, q in neighbours_of(mechanism):
        assert plain.stick(p, q, epsilon) <= claimed * (1 + 1e-9) + 1e-10


@few
@given(mechanisms(), st.sampled_from([1.5, 2.0, 8.0]))
def test_no_pair_gives_away_more_than_the_renyi_curve(within, mechanism, alpha):
    with within(20.0):
        claimed = mechanism.rdp(alpha)
    plain = Plain(mechanism)
    for p, q in neighbours_of(mechanism, 5):
        assert plain.renyi(p, q, alpha) <= claimed * (1 + 1e-6) + 1e-9


@pytest.mark.claim("privacy")
@many
@given(mechanisms(), st.sampled_from([1e-6, 1e-3, 0.05]))
def test_no_pair_gives_away_more_than_epsilon(within, mechanism, delta):
    with within(20.0):
        approximate, pure = mechanism.epsilon(delta), mechanism.epsilon()
    plain = Plain(mechanism)
    for p, q in neighbours_of(mechanism):
        if approximate < 30.0:
            assert plain.stick(p, q, approximate) <= delta * (1 + 1e-6) + 1e-10
        if pure < 30.0:
            assert plain.stick(p, q, pure) <= 1e-10
        assert rb.renyi(mechanism.law(p), mechanism.law(q), INF) <= pure * (1 + 1e-12)


@pytest.mark.slow
@few
@given(mechanisms(ends="both", boundings=(rb.TRUNCATE, rb.RECTIFY, rb.UNBOUNDED)), st.sampled_from([0.25, 1.0]))
def test_some_pair_gives_away_nearly_all_of_delta(within, mechanism, epsilon):
    with within(20.0):
        claimed = mechanism.delta(epsilon)
    pairs = neighbours_of(mechanism, 41)
    found = max((rb.hockey_stick(mechanism.law(p), mechanism.law(q), epsilon) for p, q in pairs), default=0.0)
    assert claimed <= found * 1.1 + 1e-4


def moved(mechanism: rb.Mechanism, place: Callable[[float], float], unit: float) -> rb.Mechanism:
    """The mechanism after x -> place(x), a map that multiplies lengths by `unit`."""

    def span(each: tuple[float, float]) -> tuple[float, float]:
        a, b = sorted(map(place, each))
        return a, b

    def support(each: Any) -> Any:
        if isinstance(each, rb.Grid):
            return rb.Grid(step=each.step * unit, within=support(each.within))
        spans = sorted(map(span, each.spans))
        return rb.Interval(*spans[0]) if isinstance(each, rb.Interval) else rb.Union(*spans)

    noise = {field.name: getattr(mechanism.noise, field.name) * unit for field in dataclasses.fields(mechanism.noise)}
    query = rb.Query(range=support(mechanism.query.range), sensitivity=mechanism.query.sensitivity * unit)
    return rb.Mechanism(
        noise=type(mechanism.noise)(**noise),
        query=query,
        support=support(mechanism.support),
        bounding=mechanism.bounding,
    )


class Change(NamedTuple):
    """A change of coordinates x -> sign * unit * x + shift."""

    sign: float = 1.0
    unit: float = 1.0
    shift: float = 0.0

    def __call__(self, x: float) -> float:
        return self.sign * self.unit * x + self.shift


CHANGES = {
    "all": Change(sign=-1.0, unit=1024.0, shift=-4096.0),
    "shift": Change(shift=1000.25),
    "mirror": Change(sign=-1.0),
    "unit": Change(unit=0.125),
}
every_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


@pytest.mark.few(1)
@every_change
@fewer
@given(mechanisms(), st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([1.5, 4.0]))
def test_privacy_does_not_depend_on_the_coordinates(within, change, mechanism, epsilon, alpha):
    twin = moved(mechanism, change, change.unit)
    with within(30.0):
        assert twin.epsilon() == pytest.approx(mechanism.epsilon(), rel=CLOSE)
        assert twin.delta(epsilon) == pytest.approx(mechanism.delta(epsilon), rel=CLOSE, abs=1e-150)
        assert twin.rdp(alpha) == pytest.approx(mechanism.rdp(alpha), rel=CLOSE, abs=1e-150)


@pytest.mark.slow
@every_change
@few
@given(mechanisms(), eighths, st.floats(0.001, 0.999))
def test_laws_errors_and_information_follow_the_coordinates(change, mechanism, answer, chance):
    twin = moved(mechanism, change, change.unit)
    here = float(mechanism.query.clip(answer))
    before, after = mechanism.error(here), twin.error(change(here))
    assert after.bias == pytest.approx(change.sign * change.unit * before.bias, rel=1e-12, abs=1e-12 * before.mae)
    assert after.mae == pytest.approx(change.unit * before.mae, rel=1e-12)
    assert after.mse == pytest.approx(change.unit**2 * before.mse, rel=1e-12)
    assert twin.fisher(change(here)) == pytest.approx(mechanism.fisher(here) / change.unit**2, rel=1e-12, abs=1e-200)
    law, there = mechanism.law(here), twin.law(change(here))
    close = 1e-9 * change.unit * math.sqrt(law.variance) + 1e-12 * abs(there.mean)
    assert there.mean == pytest.approx(change(float(law.mean)), abs=close)
    assert there.variance == pytest.approx(change.unit**2 * law.variance, rel=1e-9)
    x = float(law.quantile(chance))
    assert (there.cdf if change.sign > 0 else there.sf)(change(x)) == pytest.approx(law.cdf(x), abs=1e-9)


BOUNDED = [(rb.TRUNCATE, rb.Interval(0, 4)), (rb.TRUNCATE, rb.Union((0, 1), (1.5, 4))), (rb.RECTIFY, rb.Interval(0, 4))]


@pytest.mark.few(2)
@every_change
@pytest.mark.parametrize("noise", [rb.Laplace, rb.Gaussian])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize(("bounding", "answers"), BOUNDED, ids=str)
def test_the_calibrated_scale_follows_the_unit(within, change, noise, delta, bounding, answers):
    query = rb.Query(range=answers, sensitivity=1.0)
    there = moved(rb.Mechanism(noise=noise(scale=1.0), query=query, bounding=bounding), change, change.unit).query
    asked = {"noise": noise, "bounding": bounding, "epsilon": 1.0, "delta": delta}
    with within(20.0):
        one, two = (rb.calibrate(query=each, **asked).noise.scale for each in (query, there))
    assert two == pytest.approx(one * change.unit, rel=2e-9)


@few
@given(intervals(), sensitivities, noises(limited=False), st.sampled_from([0.0, 0.5, 2.0]), st.booleans())
def test_delta_falls_with_the_scale_on_an_interval(within, answers, sensitivity, noise, epsilon, clamp):
    query = rb.Query(range=answers, sensitivity=sensitivity)
    bounding = rb.RECTIFY if clamp else rb.TRUNCATE
    wider = type(noise)(scale=noise.scale * 1.25)
    with within(20.0):
        less, more = (rb.Mechanism(noise=n, query=query, bounding=bounding).delta(epsilon) for n in (noise, wider))
    assert more <= less * (1 + CLOSE)


two_epsilons = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 5.0]), min_size=2, max_size=2, unique=True).map(
    sorted
)
two_orders = st.lists(st.sampled_from([1.25, 1.5, 2.0, 3.0, 8.0, 32.0]), min_size=2, max_size=2, unique=True).map(
    sorted
)


@pytest.mark.slow
@few
@given(mechanisms(), two_epsilons, two_orders, st.sampled_from([1e-9, 1e-4, 0.01, 0.2]))
def test_every_number_rises_with_the_sensitivity_and_goes_with_the_others(within, mechanism, epsilons, orders, delta):
    query = rb.Query(range=mechanism.query.range, sensitivity=mechanism.query.sensitivity * 1.5)
    wider = dataclasses.replace(mechanism, query=query)
    with within(60.0):
        pure, epsilon = mechanism.epsilon(), mechanism.epsilon(delta)
        deltas, curve = [mechanism.delta(each) for each in epsilons], [mechanism.rdp(each) for each in orders]
        assert deltas[0] <= wider.delta(epsilons[0]) * (1 + CLOSE)
        assert pure <= wider.epsilon() * (1 + CLOSE)
        assert curve[0] <= wider.rdp(orders[0]) * (1 + CLOSE)
        if math.isfinite(epsilon):
            assert mechanism.delta(epsilon) <= delta * (1 + CLOSE)
        if math.isfinite(pure):
            assert mechanism.delta(pure) == 0.0
    assert deltas[1] <= deltas[0] * (1 + CLOSE)
    assert curve[0] <= curve[1] * (1 + CLOSE)
    assert curve[1] <= pure * (1 + CLOSE)
    assert 0.0 <= epsilon <= pure


@fewer
@given(mechanisms(boundings=(rb.RECTIFY, rb.QUANTIZE)), st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([1.5, 4.0]))
def test_clamping_and_rounding_never_give_away_more_than_the_unbounded_value(within, mechanism, epsilon, alpha):
    free = rb.Mechanism(noise=mechanism.noise, query=mechanism.query, bounding=rb.UNBOUNDED)
    with within(30.0):
        assert mechanism.epsilon() <= free.epsilon() * (1 + CLOSE)
        assert mechanism.delta(epsilon) <= free.delta(epsilon) * (1 + CLOSE)
        assert mechanism.rdp(alpha) <= free.rdp(alpha) * (1 + CLOSE)


# The monotonicity theorem.

Divergence = Callable[[float, float], float]


def violations(divergence: Divergence, q: float, q1: float, q2: float, rounding: float = 1e-13) -> list[str]:
    """Where the theorem fails for q < q1 < q2: an inner pair that is farther apart than the outer one."""
    inner = {"q, q1": (q, q1), "q1, q": (q1, q), "q1, q2": (q1, q2), "q2, q1": (q2, q1)}
    outer = {"q, q1": (q, q2), "q1, q": (q2, q), "q1, q2": (q, q2), "q2, q1": (q2, q)}
    return [name for name in inner if not divergence(*inner[name]) <= divergence(*outer[name]) * (1 + 1e-9) + rounding]


def divergences(mechanism: rb.Mechanism) -> dict[str, Divergence]:
    law = mechanism.law
    found: dict[str, Divergence] = {}
    for epsilon in (0.0, 0.5, 2.0):
        found[f"stick {epsilon}"] = lambda p, q, e=epsilon: rb.hockey_stick(law(p), law(q), e)
    for alpha in (1.5, 4.0, INF):
        found[f"renyi {alpha}"] = lambda p, q, a=alpha: rb.renyi(law(p), law(q), a)
    return found


three = st.lists(st.integers(-64, 64), min_size=3, max_size=3, unique=True).map(lambda ks: [k / 8 for k in sorted(ks)])


@pytest.mark.slow
@settings(max_examples=60)
@given(mechanisms(ends="both"), three)
def test_a_wider_pair_is_told_apart_more_easily(mechanism, places):
    everywhere = rb.Query(range=rb.Interval(-8, 8), sensitivity=1.0)
    try:
        mechanism = dataclasses.replace(mechanism, query=everywhere)
    except RangeboundError:  # limited noise that cannot reach the support from everywhere
        mechanism = dataclasses.replace(mechanism, query=everywhere, noise=rb.Laplace(scale=mechanism.noise.scale))
    for name, divergence in divergences(mechanism).items():
        assert violations(divergence, *places) == [], name


@few
@given(mechanisms(ends="both", limited=False), three)
def test_a_wider_pair_is_told_apart_more_easily_by_the_second_opinion(mechanism, places):
    mechanism = dataclasses.replace(mechanism, query=rb.Query(range=rb.Interval(-8, 8), sensitivity=1.0))
    plain = Plain(mechanism)
    for epsilon in (0.0, 0.5, 2.0):
        # Thousands of differences of distribution functions, each off by up to an ulp of 1, over a mass of 1 % or so.
        assert violations(lambda p, q, e=epsilon: plain.stick(p, q, e), *places, rounding=1e-10) == []


def discrete(density: Callable[[np.ndarray, float], np.ndarray], support: np.ndarray, epsilon: float) -> Divergence:
    """The hockey stick of laws with a given density on a fine grid."""

    def law(at: float) -> np.ndarray:
        weights = density(support, at)
        return weights / weights.sum()

    return lambda p, q: float(np.maximum(law(p) - math.exp(epsilon) * law(q), 0.0).sum())


def test_the_theorem_fails_for_noise_with_heavy_tails():
    """A control that must fail: Cauchy noise is not log-concave, and from far away its truncated law is flat again."""
    cauchy = discrete(lambda x, at: 1.0 / (1.0 + (x - at) ** 2), np.linspace(0.0, 10.0, 20_001), 0.5)
    laplace = discrete(lambda x, at: np.exp(-np.abs(x - at)), np.linspace(0.0, 10.0, 20_001), 0.5)
    assert "q1, q2" in violations(cauchy, -1e6, -1.0, 10.0)
    assert violations(laplace, -600.0, -1.0, 10.0) == []


def test_the_theorem_fails_for_a_scale_that_depends_on_the_answer():
    """A control that must fail: the answer in the middle has more noise than the two beside it."""

    def density(x: np.ndarray, at: float) -> np.ndarray:
        return np.exp(-np.abs(x - at) / (4.0 if at == 5.0 else 1.0))

    uneven = discrete(density, np.linspace(0.0, 10.0, 20_001), 0.5)
    assert violations(uneven, 4.9, 5.0, 5.1) != []


@settings(max_examples=60)
@given(mechanisms(), eighths, st.lists(eighths, min_size=2, max_size=2, unique=True))
def test_the_mass_of_a_law_is_one_and_masses_add_up(mechanism, answer, places):
    law = mechanism.law(answer)
    points, weights = law.atoms
    lower, upper = mechanism.shape.ends
    far = 60.0 * mechanism.noise.scale
    low = lower if math.isfinite(lower) else float(law.location) - far
    high = upper if math.isfinite(upper) else float(law.location) + far
    assert law.mass(low, high) == pytest.approx(1.0, abs=1e-13)
    assert law.cdf(high) == pytest.approx(1.0, abs=1e-13)
    assert law.sf(low) == pytest.approx(1.0, abs=1e-13)
    inside = sum(float(law.mass(a, b)) for a, b in mechanism.shape.spans if math.isfinite(a) and math.isfinite(b))
    if mechanism.support.bounded and not len(points):
        assert inside == pytest.approx(1.0, abs=1e-13)
    if not mechanism.shape.spans:
        assert weights.sum() == pytest.approx(1.0, abs=1e-13)
    for point, weight in zip(points, weights, strict=True):
        assert law.mass(point, point) == pytest.approx(weight, rel=1e-12, abs=1e-300)
        assert law.cdf(point) + law.sf(point) == pytest.approx(1.0 + weight, abs=1e-12)
    a, b = sorted(places)
    middle = (a + b) / 2
    atom = float(law.mass(middle, middle))
    assert law.mass(a, middle) + law.mass(middle, b) - atom == pytest.approx(law.mass(a, b), abs=1e-13)
    assert law.cdf(a) <= law.cdf(middle) <= law.cdf(b)
    assert law.sf(a) >= law.sf(middle) >= law.sf(b)
    assert law.cdf(middle) + law.sf(middle) == pytest.approx(1.0 + atom, abs=1e-13)
    log = math.log(law.pdf(middle)) if law.pdf(middle) > 0.0 else -INF
    assert law.log_pdf(middle) == pytest.approx(log, rel=1e-12, abs=1e-14)


@settings(max_examples=40)
@given(mechanisms(), eighths)
def test_the_density_integrates_to_the_mass_and_the_moments(mechanism, answer):
    law = mechanism.law(answer)
    at, scale, limit = float(law.location), mechanism.noise.scale, getattr(mechanism.noise, "limit", INF)
    points, weights = law.atoms
    sums = [(points**power * weights).sum() for power in range(3)]
    for lower, upper in mechanism.shape.spans:
        inner = min(max(at, lower), upper)
        low, high = max(lower, inner - 50 * scale), min(upper, inner + 50 * scale)
        kinks = sorted({low, high, *(x for x in (at - limit, at, at + limit) if low < x < high)})
        for a, b in itertools.pairwise(kinks):
            for power in range(3):
                sums[power] += integrate.quad(
                    lambda x, k=power: float(law.pdf(x)) * x**k, a, b, epsabs=1e-11, epsrel=1e-10, limit=300
                )[0]
    total, mean, second = sums
    assert total == pytest.approx(1.0, abs=1e-8)
    assert law.mean == pytest.approx(mean, abs=1e-7 * (1 + abs(mean)))
    assert law.variance == pytest.approx(second - mean**2, abs=1e-6 * (1 + second))


@pytest.mark.slow
@settings(max_examples=80)
@given(mechanisms(), eighths, st.floats(1e-12, 1 - 1e-12), st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_quantiles_undo_the_distribution_function_rise_and_stay_in_the_support(mechanism, answer, chance, chances):
    law = mechanism.law(answer)
    x = float(law.quantile(chance))
    atom = float(law.mass(x, x))
    assert law.cdf(x) >= chance - 1e-12
    assert law.cdf(x) - atom <= chance + 1e-12
    assert law.mass(x, x) > 0.0 or law.pdf(x) > 0.0
    if atom == 0.0 and law.pdf(x) > 1e-6:
        assert law.quantile(law.cdf(x)) == pytest.approx(x, abs=1e-9 * (1 + abs(x)) + 1e-12 / float(law.pdf(x)))
    found = law.quantile(sorted(chances))
    assert not np.isnan(found).any()
    assert (found[1:] >= found[:-1]).all()
    assert all(any(lower <= x <= upper for lower, upper in mechanism.support.spans) for x in found.tolist())


@settings(max_examples=40)
@given(mechanisms(), three, st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([1.5, 4.0]))
def test_many_pairs_at_once_are_each_of_them(mechanism, places, epsilon, alpha):
    first, second = mechanism.law(places[:2]), mechanism.law(places[1:])
    sticks, renyis = rb.hockey_stick(first, second, epsilon), rb.renyi(first, second, alpha)
    for i, (p, q) in enumerate(itertools.pairwise(map(mechanism.law, places))):
        assert sticks[i] == pytest.approx(rb.hockey_stick(p, q, epsilon), rel=1e-9, abs=1e-14)
        assert renyis[i] == pytest.approx(rb.renyi(p, q, alpha), rel=1e-9, abs=1e-13)
