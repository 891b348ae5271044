"""Published histograms of losses: what an entry depends on, its bound, and its release."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rangebound as rb
from rangebound.learn.torch import (
    Elementwise,
    Euclidean,
    LossHistogram,
    Noise,
    PrivacyEngine,
    RenyiWatcher,
    Sampling,
)
from rangebound.learn.torch.accounts.loss_histogram import _losses
from tests.learn.torch.accounts.test_sampled_loss import Case, brute
from tests.learn.torch.models import CRITERION

X, Y = torch.linspace(-2, 2, 80).reshape(20, 4), torch.arange(20) % 3


def trained(
    watchers: Any, count: int = 20, rate: float = 0.2, clipping: Any = None, stated: bool = True, noise: Any = None
) -> None:
    """Two steps from the same parameters, with the first examples of a small dataset."""
    torch.manual_seed(3)
    module = torch.nn.Linear(4, 3)
    data = torch.utils.data.TensorDataset(X[:count], Y[:count])
    sampling = Sampling(rate=rate, expected_batch=4) if stated else Sampling()
    _, optimizer, loader = PrivacyEngine(*watchers).make_private(
        module=module, optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=4), criterion=CRITERION,
        noise=noise or Noise(multiplier=2.0),
        clipping=clipping or Euclidean(clip=1.0), sampling=sampling, chunk_size=20,
    )  # fmt: skip
    for _ in range(2):
        for x, y in loader:
            optimizer.backward(x, y)
            optimizer.step()
            break


def histogram(**options: Any) -> LossHistogram:
    watcher = LossHistogram(steps=(0,), order=4.0, cap=0.05, bins=5)
    trained((watcher,), **options)
    return watcher


def test_an_example_changes_its_own_entry_alone() -> None:
    """Whatever the batches are; the losses of the other account, which depend on the sums, must fail this."""
    whole, without = histogram()._losses, histogram(count=19)._losses
    assert whole is not None
    assert without is not None
    assert whole[:19].tolist() == without.tolist() == histogram()._losses[:19].tolist()  # type: ignore[index]
    assert len(set(whole.tolist())) > 4
    read = []
    for count in (20, 19):  # control: bounded noise at the sums of the run
        watcher = RenyiWatcher(orders=(4.0,))
        bounded = Noise(multiplier=2.0, bounding=rb.RECTIFY, support=rb.Interval(-1.0, 1.0))
        trained((watcher,), count=count, rate=1.0, clipping=Elementwise(clip=1.0), noise=bounded)
        read.append(watcher.epsilons(1e-5)[0].reveal())
    assert read[0] != pytest.approx(read[1], rel=1e-3)


@pytest.mark.parametrize("rate", [0.2, 1.0])
@pytest.mark.parametrize("clipping", [Euclidean(clip=1.0), Elementwise(clip=0.25)], ids=str)
def test_entries_bound_the_loss_of_an_example(clipping: Any, rate: float) -> None:
    found = histogram(rate=rate, clipping=clipping)._losses
    torch.manual_seed(3)
    module = torch.nn.Linear(4, 3)
    for i in range(0, 20, 6):
        parts = torch.autograd.grad(CRITERION(module(X[i : i + 1]), Y[i : i + 1]), list(module.parameters()))
        gradient = torch.cat([each.reshape(-1) for each in parts]).double()
        if isinstance(clipping, Euclidean):
            shift = min(float(gradient.norm()), 1.0) / 2.0
        else:
            shift = float(gradient.clamp(-0.25, 0.25).norm()) / 0.5
        exact = 2.0 * shift**2
        if rate < 1.0:
            exact = max(brute(Case(rb.UNBOUNDED, 1.0, rate, 4.0, np.zeros(1), np.array([shift]))))
        assert found is not None
        assert exact * (1.0 - 1e-6) <= found[i] <= exact * 1.15
    assert _losses(np.array([0.0, 1e-12, 9.0]), 1.0, 1.0, rate, 4.0)[0] == 0.0


def test_it_is_published_in_range_with_a_certificate_and_charged_once(tmp_path: Path) -> None:
    watcher = histogram()
    ledger = rb.Ledger.create(tmp_path / "budget.ledger")
    ledger.open_account("people", epsilon=3, delta=0)
    charge: dict[str, Any] = {"ledger": ledger, "account": "people", "request": "exposure"}
    published = watcher.release(epsilon=0.5, **charge)
    assert published == watcher.release(epsilon=0.5, **charge)  # the same request: the same numbers
    assert "0.5" in str(ledger.account("people").spent)
    assert len(published.counts) == 5
    assert min(published.counts) >= 0
    assert published.edges[-1] == 0.05
    assert rb.verify(published.certificate.to_json()).mechanism == published.certificate.mechanism
    assert published.epsilon == published.certificate.mechanism.epsilon() <= 0.5
    noise = published.certificate.mechanism
    assert (noise.scale, noise.sensitivity) == (2.0, 1)  # type: ignore[union-attr]
    exact = watcher.release(epsilon=500.0)
    assert sum(exact.counts) == 20
    losses = np.minimum(watcher._losses, 0.0499)  # type: ignore[type-var]
    assert exact.counts == tuple(np.histogram(losses, bins=np.linspace(0, 0.05, 6))[0].tolist())
    other = histogram(stated=False)  # zero-out: an example leaves one bin for another
    assert other.release(epsilon=0.5).certificate.mechanism.scale == 4.0  # type: ignore[union-attr]


def test_what_has_no_histogram_is_refused() -> None:
    for bad in ({"steps": ()}, {"steps": (-1,)}, {"order": 1.0}, {"order": math.inf}, {"cap": 0.0}, {"bins": 0}):
        with pytest.raises(rb.errors.ArgumentError):
            LossHistogram(**{"steps": (0,), "order": 4.0, "cap": 1.0, **bad})  # type: ignore[arg-type]
    with pytest.raises(rb.errors.ArgumentError, match="taken"):
        LossHistogram(steps=(0,), order=4.0, cap=1.0).release(epsilon=1.0)
    saved = histogram().state_dict()
    again = LossHistogram(steps=(0,), order=4.0, cap=0.05, bins=5)
    again.load_state_dict(saved)
    assert again.state_dict() == saved
