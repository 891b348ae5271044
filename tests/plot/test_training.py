"""Pictures of a training show the numbers of its accounts, and private ones only where they are handed over."""

import pytest
from matplotlib import pyplot as plt

import rangebound as rb
from rangebound import plot

torch = pytest.importorskip("torch")

from rangebound.learn.torch import FisherWatcher, PrivacyEngine, RenyiWatcher  # noqa: E402
from tests.learn.torch.models import CRITERION, data, linear  # noqa: E402

DELTA = 1e-5


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def trained():
    from rangebound.learn.torch import Elementwise

    renyi, fisher = RenyiWatcher(), FisherWatcher(iterations=5)
    engine = PrivacyEngine(renyi, fisher)
    model, (x, y) = linear(), data((6,))
    _, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x)),
        criterion=CRITERION,
        clipping=Elementwise(clip=0.5),
        noise_multiplier=20.0,
    )
    for _ in range(3):
        for a, b in loader:
            optimizer.backward(a, b)
            optimizer.step()
    return engine, renyi, fisher


def test_the_curve_is_the_account_step_by_step(trained):
    engine, renyi, _ = trained
    worst, own = plot.steps(engine, delta=DELTA, reveal=renyi).get_lines()
    assert worst.get_xdata().tolist() == [1, 2, 3]
    assert worst.get_ydata()[-1] == engine.epsilon(DELTA)
    assert own.get_ydata()[-1] == renyi.epsilon(DELTA).reveal()
    assert worst.get_linestyle() != own.get_linestyle()


def test_private_numbers_are_drawn_only_on_request(trained):
    engine, _, _ = trained
    ax = plot.steps(engine, delta=DELTA, until=10)
    assert [each.get_text() for each in ax.get_legend().get_texts()] == ["worst case, zero-out", "steps taken so far"]
    assert ax.get_lines()[0].get_xdata()[-1] == 10


def test_the_histogram_counts_every_example(trained):
    fisher = trained[2]
    ax = plot.fisher_losses(fisher, bins=4)
    assert ax.patches[0].get_data().values.sum() == 12
    with pytest.raises(rb.ArgumentError, match="no step was taken yet"):
        plot.steps(PrivacyEngine(), delta=DELTA)
    for each in (None, RenyiWatcher()):
        with pytest.raises(rb.ArgumentTypeError, match="must be a PrivacyEngine"):
            plot.steps(each, delta=DELTA, until=3)
        with pytest.raises(rb.ArgumentTypeError, match="must be a FisherWatcher"):
            plot.fisher_losses(each)
    assert f"largest: {fisher.largest().reveal():.3g}" in [each.get_text() for each in ax.get_legend().get_texts()]
