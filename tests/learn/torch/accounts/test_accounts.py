"""The accounts of training: worst case, per instance, Fisher; and an audit with canaries."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import rangebound as rb
from rangebound.accounting import renyi
from rangebound.accounting.fisher_information import PerInstance
from rangebound.audit import attack
from rangebound.learn.torch import Elementwise, Euclidean, FisherWatcher, RenyiWatcher, SecureNoise, several_processes
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.accounts.fisher_loss import _clipped_gradient, frobenius_losses, spectral_losses
from rangebound.learn.torch.noise_source import step_mechanism
from tests.learn.torch.models import (
    CRITERION,
    NoNoise,
    chain,
    data,
    exact_divergence,
    linear,
    many_runs,
    private,
    simple,
    train,
)  # fmt: skip

UNIT = rb.Interval(-1.0, 1.0)


def curve(step: worst_case.Step, orders: Any) -> Any:
    """The Renyi divergence of one step at whole orders, of which an account of a ledger is charged."""
    return [float(renyi.curve(worst_case._free(step, 1), [float(order)])[0]) for order in orders]


def step(bounding: Any, support: Any, *, rate: float = 1.0, coordinates: int = 40) -> worst_case.Step:
    mechanism = step_mechanism(
        clipping=Elementwise(clip=0.125), noise_multiplier=8.0, bounding=bounding, support=support
    )
    return worst_case.Step(mechanism=mechanism, coordinates=coordinates, rate=rate, together=False)


KINDS: list[tuple[Any, Any]] = [
    (rb.UNBOUNDED, None),
    (rb.RECTIFY, UNIT),
    (rb.TRUNCATE, UNIT),
    (rb.QUANTIZE, rb.Grid(step=2.0, within=UNIT)),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("bounding", "support"), KINDS, ids=str)
def test_full_batches_cost_at_most_the_gaussian_and_no_less_than_any_dataset(bounding: Any, support: Any) -> None:
    """The worst case at one order is the supremum: above random locations, and reached by the worst one."""
    one = step(bounding, support)
    ours, free = (worst_case.epsilon({each: 10}, 1e-5) for each in (one, step(rb.UNBOUNDED, None)))
    assert 0.0 < ours <= free * (1.0 + 1e-9)
    assert bounding is not rb.QUANTIZE or ours < 0.9 * free  # a sign reveals 2/pi of the information
    worst_curve = one.coordinates * one.mechanism.rdp(4.0)
    generator = np.random.default_rng(5)
    found = [float(exact_divergence(one.mechanism, generator.normal(size=40) * s, [4.0])[0]) for s in (0.1, 1.0, 3.0)]
    same = [float(exact_divergence(one.mechanism, np.full(40, q), [4.0])[0]) for q in np.linspace(-2, 2, 81)]
    assert max(found + same) <= worst_curve * (1.0 + 1e-9)
    assert max(same) >= 0.999 * worst_curve


def cells(mechanism: rb.Mechanism, place: float, edges: np.ndarray, coordinates: int = 2) -> np.ndarray:
    """The probabilities of the cells between edges, for a product of released coordinates at one place."""
    cdf = np.asarray(mechanism.law(np.full(len(edges), place)).cdf(edges), dtype=float)
    cdf[-1] = 1.0
    mass = np.maximum(np.diff(cdf, prepend=0.0), 0.0)
    product = mass
    for _ in range(coordinates - 1):
        product = np.outer(product, mass).reshape(-1)
    return product


def moments(p: np.ndarray, q: np.ndarray, order: int, rate: float) -> tuple[float, float]:
    """Exact Renyi divergences of two discrete product laws on a sample, both ways."""
    mixed = (1.0 - rate) * q + rate * p
    forward = math.log(float(np.sum(mixed**order * q ** (1.0 - order)))) / (order - 1)
    return forward, math.log(float(np.sum(q**order * mixed ** (1.0 - order)))) / (order - 1)


@pytest.mark.few(2)
@pytest.mark.parametrize("rate", [0.05, 0.3])
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.RECTIFY, rb.UNBOUNDED], ids=str)
def test_samples_cost_at_most_the_bound(bounding: Any, rate: float) -> None:
    """Two coordinates on a fine grid of outcomes, summed directly, at the worst and at other locations."""
    support = None if bounding is rb.UNBOUNDED else UNIT
    one = step(bounding, support, rate=rate, coordinates=2)
    c = one.mechanism.query.sensitivity
    orders = (2, 3, 8)
    claimed = curve(one, orders)
    edges = np.linspace(-1.0, 1.0, 401) if bounding is not rb.UNBOUNDED else np.linspace(-9.0, 9.0, 601)
    for at, shift in itertools.product((-1.5, 0.0, 0.4), (c, -c)):
        p, q = (cells(one.mechanism, place, edges) for place in (at + shift, at))
        keep = (p > 0.0) & (q > 0.0)
        for order, bound in zip(orders, claimed, strict=True):
            assert max(moments(p[keep], q[keep], order, rate)) <= bound * (1.0 + 1e-9)
    whole = curve(step(bounding, support, rate=1.0, coordinates=2), orders)
    assert all(a < b for a, b in zip(claimed, whole, strict=True))
    assert claimed[0] < 10 * rate**2 * whole[0]  # amplification, and not only the trivial bound


def test_a_truncated_step_costs_no_more_than_the_gaussian_that_dominates_it() -> None:
    """The privacy-loss number of the sampled Gaussian, not Renyi with 2 B - 1, which said 2.865 here."""
    options: dict[str, Any] = {"clipping": Elementwise(clip=1.0), "noise_multiplier": 1.0}
    found = []
    for bounding, support in ((rb.TRUNCATE, rb.Interval(-4.0, 4.0)), (rb.UNBOUNDED, None)):
        mechanism = step_mechanism(**options, bounding=bounding, support=support)
        one = worst_case.Step(mechanism=mechanism, coordinates=1, rate=0.01, together=False)
        found.append(worst_case.epsilon({one: 1000}, 1e-5))
    assert found[0] < found[1] == pytest.approx(1.828, abs=1e-3)
    assert found[0] == pytest.approx(found[1], rel=1e-3)  # at 4 scales truncation hardly matters


def hockey_sticks(p: np.ndarray, q: np.ndarray, rate: float, epsilons: np.ndarray) -> np.ndarray:
    """The divergences of a pair on a sample, the example that counts first or second, at each epsilon."""
    mixed = (1.0 - rate) * q + rate * p
    ratios = np.exp(epsilons)[:, None]
    return np.stack([np.maximum(mixed - ratios * q, 0.0).sum(1), np.maximum(q - ratios * mixed, 0.0).sum(1)])


def gaussian_sticks(shift: float, rate: float, epsilons: np.ndarray) -> np.ndarray:
    """The same of two normal laws in closed form: the best event is beyond a threshold."""
    found = np.zeros((2, len(epsilons)))
    tail = lambda t: np.array([stats.norm.sf(t), stats.norm.sf(t - shift)])  # noqa: E731
    for i, ratio in enumerate(np.exp(epsilons)):
        for way, level in enumerate(((ratio - 1.0) / rate + 1.0, (1.0 / ratio - 1.0) / rate + 1.0)):
            # The sampled law is 1 - rate + rate L times the other one, so the ratio is passed where L passes `level`.
            t = -math.inf if level <= 0.0 else (math.log(level) / shift + 0.5 * shift)
            plain, moved = tail(t) if way == 0 else 1.0 - tail(t)
            mixed = (1.0 - rate) * plain + rate * moved
            found[way, i] = mixed - ratio * plain if way == 0 else plain - ratio * mixed
    return np.maximum(found, 0.0)


def excess(mechanism: rb.Mechanism, at: float, rate: float, edges: np.ndarray) -> float:
    """By how much two released coordinates, in cells, are above the unbounded Gaussian pair anywhere."""
    c, scale = mechanism.query.sensitivity, mechanism.noise.scale
    epsilons = np.concatenate([np.linspace(-2.0, 0.0, 9)[:-1], np.geomspace(1e-3, 8.0, 25)])
    without, there = (cells(mechanism, place, edges) for place in (at, at + c))
    ceiling = gaussian_sticks(c * math.sqrt(2.0) / scale, rate, epsilons)
    return float((hockey_sticks(there, without, rate, epsilons) - ceiling).max())


@pytest.mark.few(1)
@pytest.mark.parametrize("rate", [1.0, 0.01, 0.2])
def test_the_gaussian_dominates_truncated_steps_in_every_hockey_stick(rate: float) -> None:
    """The second route to the theorem: two coordinates in cells, sampled, in both directions; and controls."""
    edges = np.linspace(-1.0, 1.5, 301)
    for multiplier in (0.5, 1.0, 3.0):
        for at in (-4.0, -1.0, 0.1, 1.2, 3.0):
            mechanism = rb.Mechanism(
                noise=rb.Gaussian(scale=multiplier), bounding=rb.TRUNCATE, support=rb.Interval(-1.0, 1.5),
                query=rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0),
            )  # fmt: skip
            assert excess(mechanism, at, rate, edges) <= 1e-12
    line = rb.Query(range=rb.Interval(-5.0, 5.0), sensitivity=1.0)
    gap = rb.Union((-5.0, -1.0), (1.0, 5.0))
    grid = rb.Grid(step=3.0, within=rb.Interval(-1.5, 1.5))
    for support in (gap, grid):  # the controls: with gaps, truncation leaks more than the unbounded noise
        broken = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, support=support, bounding=rb.TRUNCATE)
        assert excess(broken, -0.5, rate, np.linspace(-5.0, 5.0, 401)) > 1e-3 * rate
        with pytest.raises(rb.errors.ArgumentError, match="may leak more"):
            worst_case.Step(mechanism=broken, coordinates=2, rate=rate, together=False)


def test_truncated_laplace_noise_is_not_dominated_by_laplace_noise() -> None:
    """The control for the theorem itself: what holds for Gaussian noise on an interval fails for Laplace noise."""
    pairs = []
    for family in (rb.Laplace, rb.Gaussian):
        for bounding in (rb.TRUNCATE, rb.UNBOUNDED):
            query = rb.Query(range=rb.Interval(0.0, math.inf), sensitivity=1.0)
            mechanism = rb.Mechanism(noise=family(scale=1.0), query=query, bounding=bounding)
            laws = mechanism.law(1.0), mechanism.law(0.0)
            pairs.append(max(rb.hockey_stick(*way, 1.1) for way in (laws, laws[::-1])))
    truncated, plain, cut, normal = pairs
    assert truncated > plain + 0.01
    assert cut < normal
    bad = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0.0, 1.0), sensitivity=1.0))
    with pytest.raises(rb.errors.ArgumentError, match="Gaussian"):
        worst_case.Step(mechanism=bad, coordinates=2, rate=1.0, together=False)


def test_euclidean_clipping_is_the_gaussian_mechanism() -> None:
    mechanism = step_mechanism(clipping=Euclidean(clip=2.0), noise_multiplier=3.0)
    one = worst_case.Step(mechanism=mechanism, coordinates=10**6, rate=1.0, together=True)
    assert curve(one, [2, 10]) == pytest.approx([1.0 / 9.0, 5.0 / 9.0], rel=1e-12)
    assert worst_case.epsilon({one: 1}, 1e-5) == pytest.approx(mechanism.epsilon(1e-5), rel=1e-2)


def test_epsilon_over_steps() -> None:
    engine, optimizer, loader = simple(50, batch_size=5)
    assert engine.epsilon(delta=1e-5) == 0.0
    assert engine.risk().advantage() == 0.0
    planned = engine.epsilons(1e-5, [1, 5, 10])
    train(optimizer, loader, 5)
    assert engine.epsilon(delta=1e-5) == planned[1]
    assert planned[0] < planned[1] < planned[2]


@pytest.mark.parametrize(("bounding", "support"), KINDS, ids=str)
def test_the_instance_account_follows_the_sums(bounding: Any, support: Any) -> None:
    seen: list[torch.Tensor] = []
    watcher = RenyiWatcher(orders=(2.0, 8.0))
    options: dict[str, Any] = {"watchers": (watcher,), "noise": NoNoise(seen=seen)}
    engine, optimizer, loader = simple(bounding=bounding, support=support, **options)
    train(optimizer, loader, 3)
    exact = sum(exact_divergence(optimizer.mechanism, each.numpy(), [2.0])[0] for each in seen)
    ours = watcher.divergence(2.0)
    assert isinstance(ours, PerInstance)
    assert exact <= ours.reveal() <= 1.01 * exact
    assert ours.reveal() <= 1.01 * 3 * 21 * optimizer.mechanism.rdp(2.0)  # the worst case of three steps
    assert engine.steps == 3
    path = [each.reveal() for each in watcher.epsilons(1e-5)]
    assert path == sorted(path)
    assert path[-1] == watcher.epsilon(1e-5).reveal()
    for each in (watcher.epsilon(1e-5), *watcher.epsilons(1e-5)):
        assert "odometer reading" in repr(each)  # no (epsilon, delta) of the run follows from it
        assert "not a guarantee" in repr(each)


def test_the_instance_account_needs_what_makes_it_sound() -> None:
    with pytest.raises(rb.errors.ArgumentError, match="all examples"):
        simple(batch_size=3, sampling="random-allocation", watchers=(RenyiWatcher(),))
    for watcher in (RenyiWatcher(), FisherWatcher()):
        with pytest.raises(rb.errors.ArgumentError, match="Euclidean"):
            simple(clipping=Euclidean(clip=1.0), watchers=(watcher,))


@pytest.mark.slow
@pytest.mark.parametrize("clip", [0.05, 10.0])
def test_fisher_losses_are_spectral_norms(clip: float) -> None:
    module, rule = chain().double(), Elementwise(clip=clip)
    x, y = data((6,), count=5)
    x = x.double()
    width = sum(each.numel() for each in module.parameters())
    eta2 = torch.rand(width, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    gradient = _clipped_gradient(module, CRITERION, rule)
    jacobians = [
        torch.func.jacfwd(lambda z, t=target: gradient(z, t))(one).flatten(1) for one, target in zip(x, y, strict=True)
    ]
    dense = [torch.linalg.matrix_norm(eta2.sqrt()[:, None] * each, 2).item() for each in jacobians]
    ours = spectral_losses(module, CRITERION, x, y, rule, eta2).numpy()
    np.testing.assert_allclose(ours, dense, rtol=1e-3)
    assert (ours <= np.asarray(dense) * (1.0 + 1e-9)).all()
    bound = frobenius_losses(module, CRITERION, x, y, rule, eta2).numpy()
    assert (bound >= np.asarray(dense) * (1.0 - 1e-12)).all()
    published = [float((eta2.sqrt() @ each).norm()) for each in jacobians]
    assert not np.allclose(published, dense, rtol=0.05)  # the control: the published line is not a norm of the matrix


@pytest.mark.few(1)
@pytest.mark.parametrize("clip", [0.125, 1.0])
def test_fisher_adds_for_members_of_the_batch_only(clip: float) -> None:
    watcher = FisherWatcher(iterations=8)
    options: dict[str, Any] = {"watchers": (watcher,), "bounding": rb.RECTIFY, "support": UNIT}
    engine, optimizer, loader = simple(30, batch_size=3, clipping=Elementwise(clip=clip), **options)
    members: list[int] = []
    for a, b in loader:
        members += loader.members.tolist()
        optimizer.backward(a, b)
        optimizer.step()
        if engine.steps == 4:
            break
    losses = np.array([watcher.loss(i).reveal() for i in range(30)])
    touched = set(np.flatnonzero(losses > 0.0).tolist())
    assert touched <= set(members)  # one whose gradient is clipped throughout shows nothing
    if clip == 1.0:  # which no derivative by a bias reaches, so everyone shows something
        assert touched == set(members)
    counts, edges = watcher.reveal_histogram(5)
    assert counts.sum() == 30
    assert len(edges) == 6
    if members:
        top = watcher.reveal_most_exposed(1)[0]
        assert losses[top] == losses.max() == watcher.largest().reveal()
    assert isinstance(watcher.median(), PerInstance)


def test_fisher_adds_what_other_processes_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data((6,), count=4)
    watcher = FisherWatcher(iterations=3)
    private(linear(), x, y, watchers=(watcher,), bounding=rb.RECTIFY, support=UNIT)
    batch = [(x[:2], y[:2], np.arange(2))]
    watcher.saw(torch.zeros(21, dtype=torch.float64), batch)
    alone = [watcher.loss(i).reveal() for i in range(4)]
    monkeypatch.setattr(several_processes, "place", lambda: (0, 2))
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda found: found.add_(found.flip(0)))
    watcher.saw(torch.zeros(21, dtype=torch.float64), batch)
    both = [watcher.loss(i).reveal() ** 2 for i in range(4)]
    assert both == pytest.approx([2 * alone[0] ** 2, 2 * alone[1] ** 2, alone[1] ** 2, alone[0] ** 2])


def test_watchers_are_saved_and_resumed() -> None:
    runs = []
    for _ in range(2):
        watchers = (RenyiWatcher(orders=(2.0, 4.0)), FisherWatcher(iterations=5))
        runs.append((*simple(watchers=watchers), watchers))
    (engine, optimizer, loader, first), (again, _, _, second) = runs
    train(optimizer, loader, 2)
    again.load_state_dict(engine.state_dict())
    assert second[0].epsilon(1e-5).reveal() == first[0].epsilon(1e-5).reveal()
    assert second[1].largest().reveal() == first[1].largest().reveal()
    assert again.epsilon(delta=1e-5) == engine.epsilon(delta=1e-5)


@dataclass(frozen=True, kw_only=True)
class Half(SecureNoise):
    """The control: half the noise that is accounted for."""

    def release(self, mechanism: rb.Mechanism, location: torch.Tensor) -> torch.Tensor:
        return super().release(replace(mechanism, noise=rb.Gaussian(scale=0.5 * mechanism.noise.scale)), location)


def trained(bounding: Any, support: Any, noise: SecureNoise, clip: float) -> tuple[Any, float]:
    """Whole trainings with and without a canary, as a function for the audit, and the epsilon that is claimed.

    The canary asks for far more than the clip in every step; without it there is an example that asks for nothing.
    """

    def run(present: float, runs: int) -> np.ndarray:
        x = torch.cat([torch.full((3, 8), 0.01), torch.full((1, 8), 100.0 * present)])
        options: dict[str, Any] = {"bounding": bounding, "support": support, "noise": noise}
        found = many_runs(x, runs, clipping=Elementwise(clip=clip), noise_multiplier=6.0 / clip, **options)
        return found.sum(1)

    claim = step_mechanism(clipping=Elementwise(clip=1.0), noise_multiplier=6.0, bounding=bounding, support=support)
    step = worst_case.Step(mechanism=claim, coordinates=8, rate=1.0, together=False)
    return run, worst_case.epsilon({step: 3}, 1e-2)


@pytest.mark.few(1)
@pytest.mark.claim("privacy")
@pytest.mark.parametrize(("bounding", "support"), KINDS, ids=str)
def test_whole_trainings_with_a_canary_stay_within_the_claim(bounding: Any, support: Any) -> None:
    if bounding is rb.QUANTIZE:
        support = rb.Grid(step=16.0, within=rb.Interval(-8.0, 8.0))
    elif support is not None:
        support = rb.Interval(-9.0, 9.0)
    options: dict[str, Any] = {"pair": (0.0, 1.0), "delta": 1e-2, "draws": 20_000, "confidence": 1.0 - 1e-6}
    honest, claimed = trained(bounding, support, SecureNoise(), 1.0)
    found = attack(honest, **options)
    assert 0.1 * claimed < found.epsilon <= claimed
    for noise, clip in ((Half(), 1.0), (SecureNoise(), 3.0)):  # half the noise, or three times the clip
        broken, _ = trained(bounding, support, noise, clip)
        caught = attack(broken, epsilon=claimed, **{**options, "draws": 40_000})  # more than six deviations above
        assert caught.refutes
