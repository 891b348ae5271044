"""Published histograms of losses: what an entry depends on, its bound, and its release."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rangebound as rb
from rangebound.learn.torch import Elementwise, Euclidean, LossHistogram, Noise, RenyiWatcher, Sampling
from rangebound.learn.torch.accounts.loss_histogram import _losses
from rangebound.learn.torch.gradients import per_example
from tests.learn.torch.accounts.test_sampled_loss import Case, brute
from tests.learn.torch.models import CRITERION, Built, deciding, private

X, Y = torch.linspace(-2, 2, 80).reshape(20, 4).sin(), torch.arange(20) % 3
SPHERE, CUBE = Euclidean(clip=1.0), Elementwise(clip=0.25)


def linear() -> torch.nn.Module:
    return torch.nn.Linear(4, 3)


def counting() -> torch.nn.Module:
    """Reads and writes a buffer, which would tell how many passes there were."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.calls += 1
        out: torch.Tensor = m.inner(x) * m.calls
        return out

    return Built(run, inner=torch.nn.Linear(4, 3), calls=torch.zeros(()))


def of_four() -> torch.nn.Module:
    """Examples go one at a time."""
    found = deciding()
    found.a, found.b = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    return found


def trained(
    *watchers: Any, make: Any = linear, data: Any = (X, Y), rate: float = 1.0, stated: bool = True, given: Any = None,
    **options: Any,
) -> None:  # fmt: skip
    """One step from the same parameters, with examples as they are `given`, if they are not as the loader has them."""
    torch.manual_seed(3)
    module = make()
    settings = {
        "clipping": SPHERE, "noise": Noise(multiplier=2.0), "chunk_size": 16, "discarded_buffers": ["calls"],
        "sampling": Sampling(rate=rate, expected_batch=4) if stated else Sampling(), **options,
    }  # fmt: skip
    _, optimizer, loader = private(module, *data, batch_size=4, watchers=watchers, noise_multiplier=None, **settings)
    for batch in loader:
        if "loss" in options:
            optimizer.backward(batch)
        else:
            x, y = (each.to(next(module.parameters()).device) for each in batch)
            optimizer.backward(x if given is None else given(x), y)
        optimizer.step()
        break


def histogram(**options: Any) -> LossHistogram:
    watcher = LossHistogram(steps=(0,), order=4.0, cap=0.05, bins=5)
    trained(watcher, **options)
    return watcher


def losses(**options: Any) -> list[float]:
    found: list[float] = histogram(**options).state_dict()["losses"]
    return found


@pytest.mark.parametrize(
    ("make", "clip", "rate"),
    [(counting, SPHERE, 1.0), *(pytest.param(linear, clip, 0.2, marks=pytest.mark.slow) for clip in (SPHERE, CUBE))],
)
def test_an_example_changes_its_own_entry_alone(make: Any, clip: Any, rate: float, monkeypatch: Any) -> None:
    """Whatever the batches are, and wherever it stands: one in the middle moves all that follow to other places."""
    monkeypatch.setattr(per_example, "example_gradients", lambda *_, **__: pytest.fail("one example at a time"))
    whole, others = losses(make=make, clipping=clip, rate=rate), [i for i in range(20) if i != 6]
    assert [whole[i] for i in others] == losses(make=make, clipping=clip, rate=rate, data=(X[others], Y[others]))
    assert len(set(whole)) > 4


@pytest.mark.slow
def test_losses_at_the_sums_of_the_run_would_change_all_entries() -> None:
    """The control."""
    read = []
    for count in (20, 19):
        watcher = RenyiWatcher(orders=(4.0,))
        bounded = Noise(multiplier=2.0, bounding=rb.RECTIFY, support=rb.Interval(-1.0, 1.0))
        trained(watcher, data=(X[:count], Y[:count]), rate=1.0, clipping=Elementwise(clip=1.0), noise=bounded)
        read.append(watcher.epsilons(1e-5)[0].reveal())
    assert read[0] != pytest.approx(read[1], rel=1e-3)


@pytest.mark.parametrize(
    ("make", "clip"),
    [(counting, CUBE), *(pytest.param(each, SPHERE, marks=pytest.mark.slow) for each in (linear, of_four))],
)
def test_an_example_without_a_gradient_neither_stops_it_nor_shows(make: Any, clip: Any) -> None:
    whole = losses(make=make, clipping=clip)
    x, y = X.clone(), Y.clone()
    x[5, 0], y[11] = math.nan, 7  # the criterion refuses this class
    bad = losses(make=make, clipping=clip, data=(x, y))
    assert bad == [0.0 if i in (5, 11) else each for i, each in enumerate(whole)]
    assert min(whole[5], whole[11]) > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.2, 1.0])
@pytest.mark.parametrize("clip", [SPHERE, CUBE], ids=str)
def test_entries_bound_the_loss_of_an_example(clip: Any, rate: float) -> None:
    found = losses(rate=rate, clipping=clip)
    torch.manual_seed(3)
    module = linear()
    for i in range(0, 20, 6):
        parts = torch.autograd.grad(CRITERION(module(X[i : i + 1]), Y[i : i + 1]), list(module.parameters()))
        gradient = torch.cat([each.reshape(-1) for each in parts]).double()
        if isinstance(clip, Euclidean):
            shift = min(float(gradient.norm()), 1.0) / 2.0
        else:
            shift = float(gradient.clamp(-0.25, 0.25).norm()) / 0.5
        exact = 2.0 * shift**2
        if rate < 1.0:
            exact = max(brute(Case(rb.UNBOUNDED, 1.0, rate, 4.0, np.zeros(1), np.array([shift]))))
        assert exact * (1.0 - 1e-6) <= found[i] <= exact * 1.15
    assert _losses(np.array([0.0, 1e-12, 9.0]), 1.0, 9.0, rate, 4.0)[0] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_no_bounding_or_location_has_a_larger_loss(seed: int) -> None:
    """Truncated noise is no post-processing of unbounded noise; that of a gap, which is refused, does exceed it."""
    generator = np.random.default_rng(seed)
    for _ in range(40):
        shift, rate = math.exp(generator.uniform(-2, 0.7)), math.exp(generator.uniform(-4, -0.1))
        order, at, half = generator.uniform(1.1, 20), generator.uniform(-3, 3, 1), generator.uniform(0.2, 3)
        shifts = np.array([shift])
        unbounded = brute(Case(rb.UNBOUNDED, 1.0, rate, order, np.zeros(1), shifts))
        for bounding in (rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE):
            bounded = brute(Case(bounding, half, rate, order, at, shifts), 200)
            assert max(bounded) <= max(unbounded) * (1 + 1e-9) + 1e-12
            assert bounded[1] <= unbounded[1] * (1 + 1e-9) + 1e-12
        assert max(unbounded) <= _losses(np.array([shift**2]), 1.0, 4.1, rate, order)[0] * (1 + 1e-9)


def test_it_is_published_in_range_with_a_certificate_and_charged_once(tmp_path: Path) -> None:
    watcher = histogram()
    ledger = rb.Ledger.create(tmp_path / "budget.ledger")
    ledger.open_account("people", epsilon=0.1, delta=0)
    charge: dict[str, Any] = {"ledger": ledger, "account": "people", "request": "exposure"}
    published = watcher.release(epsilon=0.1, **charge)
    assert published == watcher.release(epsilon=0.1, **charge)  # the same request: the same numbers
    assert str(ledger.account("people").spent) == "epsilon 0.1"
    with pytest.raises(rb.errors.BudgetExceeded):
        watcher.release(epsilon=0.1, **{**charge, "request": "again"})
    other = histogram(stated=False)  # zero-out: an example leaves one bin for another
    with pytest.raises(rb.errors.ArgumentError, match="another histogram"):
        other.release(epsilon=0.1, **charge)
    assert len(published.counts) == 5
    assert min(published.counts) >= 0
    assert published.edges[-1] == 0.05
    assert rb.verify(published.certificate.to_json()).mechanism == published.certificate.mechanism
    assert published.epsilon == published.certificate.mechanism.epsilon() <= 0.1
    assert watcher.release(epsilon=0.5).certificate.mechanism.scale == 2.0  # type: ignore[union-attr]
    assert other.release(epsilon=0.5).certificate.mechanism.scale == 4.0  # type: ignore[union-attr]
    exact = watcher.release(epsilon=500.0)
    capped = np.minimum(watcher.state_dict()["losses"], 0.0499)
    assert exact.counts == tuple(np.histogram(capped, bins=np.linspace(0, 0.05, 6))[0].tolist())


@pytest.mark.slow
def test_losses_of_batches_count_like_criteria() -> None:
    of_batch = losses(criterion=None, loss=lambda model, batch: CRITERION(model(batch[0]), batch[1]))
    assert of_batch == losses()


def test_what_has_no_histogram_is_refused() -> None:
    for bad in ({"steps": ()}, {"steps": (-1,)}, {"order": 1.0}, {"order": math.inf}, {"cap": 0.0}, {"bins": 0}):
        with pytest.raises(rb.errors.ArgumentError):
            LossHistogram(**{"steps": (0,), "order": 4.0, "cap": 1.0, **bad})  # type: ignore[arg-type]
    with pytest.raises(rb.errors.ArgumentError, match="make_private"):
        LossHistogram(steps=(0,), order=4.0, cap=1.0).release(epsilon=1.0)
    for way in ("random-allocation", "fixed-size"):
        with pytest.raises(rb.errors.ArgumentError, match="Poisson"):
            histogram(sampling=Sampling(way=way))
    with pytest.raises(rb.errors.ArgumentError, match="others"):
        histogram(data=(X.reshape(20, 2, 2), Y), given=lambda x: x.flatten(1))
    saved = histogram().state_dict()
    again = LossHistogram(steps=(0,), order=4.0, cap=0.05, bins=5)
    again.load_state_dict(saved)
    assert again.state_dict() == saved
    for other in (LossHistogram(steps=(1,), order=4.0, cap=1.0), LossHistogram(steps=(0,), order=5.0, cap=1.0)):
        with pytest.raises(rb.errors.ArgumentError, match="state"):
            other.load_state_dict(saved)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("clip", [SPHERE, CUBE], ids=str)
def test_it_is_computed_on_a_gpu(clip: Any) -> None:
    there = losses(make=lambda: linear().cuda(), clipping=clip)
    assert there == pytest.approx(losses(clipping=clip), rel=0.1)  # sizes are a sixteenth of an octave apart
    others = [i for i in range(20) if i != 6]
    rest = losses(make=lambda: linear().cuda(), clipping=clip, data=(X[others], Y[others]))
    assert [there[i] for i in others] == rest
