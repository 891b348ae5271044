"""Progress: a line that says what the account says, and shows no number of the data that was not given to it."""

import io
import re
from typing import Any

import pytest
import torch

import rangebound as rb
from rangebound.learn.torch import Euclidean, InsecureTorchNoise, PrivacyEngine, training_plan
from rangebound.values.arguments import upwards
from tests.learn.torch.models import data, linear, private, simple

OPTIONS: dict[str, Any] = {"clipping": Euclidean(clip=1.0), "noise_multiplier": 20.0, "epochs": 3, "batch_size": 12}


@pytest.fixture(autouse=True)
def _a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_plan, "_PAUSE", 1e9)  # on a busy machine a step may take longer than the usual one


def lines(*, loss: bool = False, seed: int = 0, passes: int = 3, **options: Any) -> tuple[list[str], Any]:
    x, y = data((6,), seed=seed)
    engine, optimizer, loader = private(linear(), x, y, **{**OPTIONS, **options})
    out = io.StringIO()
    for _ in range(passes):
        progress = engine.progress(loader, delta=1e-5, stream=out)
        for a, b in progress:
            losses = optimizer.backward(a, b)
            optimizer.step()
            if loss:
                progress.show_loss(losses.mean())
    return out.getvalue().splitlines(), engine


def test_the_line_has_the_epsilon_so_far_and_at_the_end() -> None:
    found, engine = lines()
    spent = [upwards(each, 4) for each in engine.epsilons(1e-5, [1, 2, 3])]
    assert found == [
        f"step {step} of 3: epsilon {spent[step - 1]}, {spent[2]} at the end, delta 1e-05" for step in (1, 2, 3)
    ]


def test_nothing_in_it_depends_on_the_data_unless_a_loss_is_given() -> None:
    assert lines(seed=0)[0] == lines(seed=1)[0]
    first, second = (lines(seed=seed, loss=True)[0][-1] for seed in (0, 1))
    assert re.search(r", training loss [0-9.]+ \(private\)$", first)
    assert first != second  # the control: a loss does


def test_a_loaded_account_is_counted() -> None:
    _, before = lines()
    engine = PrivacyEngine()
    engine.load_state_dict(before.state_dict())
    found, _ = lines(passes=1, engine=engine, epochs=2)
    spent = [upwards(each, 4) for each in engine.epsilons(1e-5, [4, 5])]
    assert found == [f"step 4 of 5: epsilon {spent[0]}, {spent[1]} at the end, delta 1e-05"]


@pytest.mark.slow
def test_lines_come_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(lines(batch_size=3, passes=1)[0]) == 1
    monkeypatch.setattr(training_plan, "_PAUSE", -1e9)
    monkeypatch.setattr(training_plan.time, "monotonic", lambda: 0.0)
    assert len(lines(batch_size=3, passes=1)[0]) == 5


def test_noise_without_a_guarantee_has_no_epsilon_to_show() -> None:
    engine, _, loader = simple(**OPTIONS, noise=InsecureTorchNoise(generator=torch.Generator()))
    with pytest.raises(rb.errors.ArgumentError, match="SecureNoise"):
        engine.progress(loader, delta=1e-5)
    with pytest.raises(rb.errors.ArgumentError, match="make_private"):
        PrivacyEngine().progress([], delta=1e-5)
