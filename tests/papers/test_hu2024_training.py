"""The trainings of hu2024: their shortcuts against the library's own accounts, the quick form, and the words."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import rangebound as rb
from papers import __main__ as runner
from papers.hu2024 import _tasks, _trainings
from papers.report import Verdict
from rangebound.learn.torch import Elementwise, FisherWatcher, PrivacyEngine, RenyiWatcher

SCRIPT = runner.PAPERS / "hu2024" / "training.py"
PROBE, NETWORK = _tasks.quick()
BOUNDED = _trainings.Setting("rectified", 1e-2, 3.0, 0.2, 16.0, True)


def both(task: _tasks.Task, watcher: object) -> _trainings.PathLosses:
    """A short training seen by the script's account and by one of the library."""
    torch.manual_seed(0)
    x, y, *_ = task.data()
    model = task.model()
    watch = _trainings.PathLosses(task, (x[: task.watched], y[: task.watched]))
    batch = task.batch or len(x)
    _, optimizer, loader = PrivacyEngine(watch, watcher).make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch),
        criterion=_tasks.CRITERION,
        clipping=Elementwise(clip=BOUNDED.clip),
        noise_multiplier=BOUNDED.multiplier,
        bounding=rb.RECTIFY,
        support=rb.Interval(-BOUNDED.end, BOUNDED.end),
        rate=batch / len(x),
        expected_batch=batch,
    )
    for a, b in _trainings._batches(loader, 3):
        optimizer.backward(a, b)
        optimizer.step()
    return watch


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [replace(PROBE, watched=6), replace(NETWORK, watched=6, every=1)], ids=["probe", "network"]
)
def test_the_fisher_losses_are_those_of_the_library(task):
    small = replace(task, data=_tasks.partial(task.data.func, 30, *task.data.args[1:]), batch=task.batch and 20)
    watcher = FisherWatcher(iterations=30)
    found = both(small, watcher).squares().sqrt().numpy()
    own = np.asarray([watcher.loss(i).reveal() for i in range(6)])
    assert found == pytest.approx(own, rel=0.02)
    assert own.max() > 0.0
    assert found * np.sqrt(0.5) != pytest.approx(own, rel=0.02)  # the control: half the information


@pytest.mark.slow
def test_the_divergences_are_those_of_the_library():
    small = replace(
        PROBE, watched=2, data=_tasks.partial(_tasks.separable, 30, 16), model=_tasks.partial(_tasks.linear, 16)
    )
    orders = [float(each) for each in _trainings.ORDERS if each < 40.0]
    watcher = RenyiWatcher(orders=orders)
    found = both(small, watcher).divergences.numpy()[: len(orders)]
    own = np.asarray([watcher.divergence(each).reveal() for each in orders])
    assert (found <= own * (1.0 + 1e-9)).all()  # the library's is an upper bound by a table
    assert found == pytest.approx(own, rel=0.05)


def test_the_grid_is_that_of_the_paper():
    settings = _trainings.grid(_tasks.probe())
    counts = {kind: sum(each.kind == kind for each in settings) for kind in _trainings.BOUNDINGS}
    assert counts == {"Gaussian": 180, "rectified": 200, "truncated": 200}
    assert sum(each.paper and each.kind == "Gaussian" for each in settings) == 40
    assert len(set(settings)) == len(settings)


@pytest.mark.slow
def test_the_quick_form_runs_and_its_words_follow_its_numbers(tmp_path, monkeypatch):
    module = runner.load(SCRIPT)
    monkeypatch.setattr(sys, "argv", ["training", "--quick", "--runs", "2", "--out", str(tmp_path)])
    assert module.main() == 0
    found = json.loads((tmp_path / "measured.json").read_text())
    assert set(found["tasks"]) == {"probe", "network"}
    assert found["tasks"]["probe"]["runs"] == 2
    raw = json.loads((tmp_path / "runs.json").read_text())
    assert len(raw) == 2 * 2 * 2 * len(_trainings.grid(PROBE))
    monkeypatch.setattr(module, "MEASURED", tmp_path / "measured.json")
    monkeypatch.setattr(module, "HERE", tmp_path)
    rows = module.run(lambda text: None)
    assert len(rows) == 6
    assert "500 examples" in module.notes()
    assert sorted(each.name for each in tmp_path.glob("*.png")) == sorted(module.FIGURES)
    assert module.main() == 0  # all is known
    assert json.loads((tmp_path / "runs.json").read_text()) == raw


@pytest.mark.parametrize(
    ("paper", "more", "expected"),
    [
        (0.6, 0.6, Verdict.TRUE),
        (0.6, 0.9, Verdict.SCOPE),
        (0.9, 0.6, Verdict.SMALLER),
        (0.9, 0.99, Verdict.ELSEWHERE),
        (None, 0.6, Verdict.ELSEWHERE),
    ],
)
def test_a_saving_counts_as_true_only_against_as_many_settings(paper, more, expected):
    module = runner.load(SCRIPT)
    rows = [[] if each is None else [[0.9, each, each, each]] for each in (paper, more)]
    ratios = dict(zip(("Gaussian", "Gaussian, more settings"), rows, strict=True))
    task = {"ratios": {"epsilon": {"truncated": ratios}}}
    assert module.verdict(task, "epsilon", "truncated", 0.32) is expected


@pytest.mark.slow
def test_chance_makes_no_saving():
    """Two mechanisms that are one, each with its own luck: the run that chooses does not also count."""
    module = runner.load(SCRIPT)
    luck = np.random.default_rng(0)
    records = [
        _trainings.Record(
            "probe",
            *(kind, 1.0, cost, 0.0, float(k), True, 10, run),
            accuracy=float(0.6 + 0.05 * np.log(cost) + 0.02 * luck.normal()),
            **dict.fromkeys(["epsilon", "largest", "median"], cost),
            **dict.fromkeys(["information", "centre"], 1.0),
        )
        for kind, copies in (("Gaussian", 2), ("rectified", 40), ("truncated", 40))
        for k in range(copies)
        for cost in np.geomspace(1.0, 20.0, 12).tolist()
        for run in range(4)
    ]
    settings = [_trainings.Setting(*each[1:7]) for each in records if each.run == 0]

    def middle(some):
        found = module.summary(some, {}, {"probe": settings})["tasks"]["probe"]["ratios"]["epsilon"]
        return np.median([row[1] for row in found["rectified"]["Gaussian"]])

    assert middle(records) > 0.85
    assert middle([each for each in records if each.run == 0]) < 0.75  # one run that chooses and counts sees savings


@pytest.mark.slow
def test_the_rows_are_those_of_what_was_measured(tmp_path, monkeypatch):
    """A new measured.json needs `python -m papers hu2024/training`, which writes rows, pictures and page."""
    module = runner.load(SCRIPT)
    monkeypatch.setattr(module, "HERE", tmp_path)
    assert module.run(lambda text: None) == runner.rows_of(SCRIPT)
    found = module.measured()
    found["tasks"]["probe"]["ratios"]["epsilon"]["rectified"]["Gaussian"] = [[0.9, 0.123, 0.1, 0.2]]
    (tmp_path / "measured.json").write_text(json.dumps(found))
    monkeypatch.setattr(module, "MEASURED", tmp_path / "measured.json")
    assert module.run(lambda text: None) != runner.rows_of(SCRIPT)  # the control: other numbers, other words
