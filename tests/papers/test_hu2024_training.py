"""The trainings of hu2024: their shortcuts against the library's own accounts, the quick form, and the words."""

import json
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch

import rangebound as rb
from papers import __main__ as runner
from papers.hu2024 import _real, _tasks, _trainings
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


def test_control_half_the_information_is_noticed():
    small = replace(PROBE, watched=6, data=_tasks.partial(_tasks.separable, 30, 64))
    half = replace(small, losses=lambda model, x, y, clip, info: 0.5 * _tasks.probe_losses(model, x, y, clip, info))
    watcher = FisherWatcher(iterations=30)
    found = both(half, watcher).squares().sqrt().numpy()
    own = np.asarray([watcher.loss(i).reveal() for i in range(6)])
    assert found != pytest.approx(own, rel=0.02)


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


def test_the_data_have_the_shape_of_the_papers():
    task = _tasks.probe()
    assert (task.examples, task.data.args, task.watched) == (50_000, (50_000, 1024), 1000)
    assert (_tasks.network().batch, _tasks.network().watched) == (200, 1000)


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
    monkeypatch.setattr(sys, "argv", ["training", "--quick", "--runs", "2", "--out", str(tmp_path)])
    assert module.main() == 0  # all is known
    assert json.loads((tmp_path / "runs.json").read_text()) == raw


def task_with(ratios):
    return {"ratios": {"epsilon": {"truncated": {"Gaussian": ratios[0], "Gaussian, more settings": ratios[1]}}}}


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
    assert module.verdict(task_with(rows), "epsilon", "truncated", 0.32) is expected


def test_the_ratio_of_a_front_to_itself_is_one_and_to_twice_its_cost_one_half():
    module = runner.load(SCRIPT)
    points = [(a, a, np.exp(5.0 * a), 1.0, 1.0) for a in np.linspace(0.5, 0.9, 20)]
    dearer = [(a, b, 2.0 * cost, *rest) for a, b, cost, *rest in points]
    targets = np.asarray([0.2, 0.6, 0.8])
    own, other = module.front(points), module.front(dearer)
    assert module.ratios(own, own, targets)[1:] == pytest.approx(1.0)
    assert module.ratios(own, other, targets)[1:] == pytest.approx(0.5)
    assert np.isnan(module.ratios(own, other, targets)[0])


def test_chance_makes_no_saving():
    """Two mechanisms that are one, each with its own luck: the run that chooses does not also count."""
    module = runner.load(SCRIPT)
    luck = np.random.default_rng(0)
    records = [
        _trainings.Record(
            "probe",
            kind,
            1.0,
            cost,
            0.0,
            float(k),
            True,
            10,
            run,
            float(0.6 + 0.05 * np.log(cost) + 0.02 * luck.normal()),
            cost,
            cost,
            cost,
            1.0,
            1.0,
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


def test_a_grid_with_holes_is_cut_down_to_what_is_whole():
    module = runner.load(SCRIPT)
    settings = _trainings.grid(PROBE) + [each._replace(multiplier=9.0) for each in _trainings.grid(PROBE)]
    records = [_trainings.Record("probe", *each, 4, run, *[0.5] * 6) for run in range(3) for each in settings]
    assert module.complete(records, settings) == records
    cut = [each for each in records if each.run < 2]
    assert module.complete(records[:-1], settings) == cut  # the last run has a hole
    early = [each for each in records if each.run == 0][:-1]
    assert {each.multiplier for each in module.complete(early, settings)} == {3.0}
    assert module.complete(early[1:], settings) == []


class Pictures:
    """A stand-in for a dataset of torchvision."""

    def __init__(self, folder, *args, transform=None, **kwargs):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, i):
        if i >= 12:
            raise IndexError
        return torch.full((3, 32, 32), float(i)), i % 10


def test_the_real_data_come_from_torchvision_and_timm(tmp_path, monkeypatch):
    vision, image_models = ModuleType("torchvision"), ModuleType("timm")
    vision.datasets = ModuleType("datasets")
    vision.datasets.CIFAR10 = vision.datasets.CIFAR100 = vision.datasets.OxfordIIITPet = Pictures
    vision.transforms = ModuleType("transforms")
    vision.transforms.ToTensor = lambda: None
    image_models.data = ModuleType("data")
    image_models.data.resolve_model_data_config = lambda model: {}
    image_models.data.create_transform = lambda **kwargs: None
    image_models.create_model = lambda name, pretrained, num_classes: torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(3072, 1024)
    )
    monkeypatch.setitem(sys.modules, "torchvision", vision)
    monkeypatch.setitem(sys.modules, "timm", image_models)
    monkeypatch.setattr(_real, "FOLDER", str(tmp_path))
    monkeypatch.setattr(_real, "WORKERS", 0)
    for name, count in (("cifar10", 3), ("cifar100", 2), ("pets", 2)):
        tasks = _real.tasks(name, "cpu")
        assert len(tasks) == count
        x, y, test_x, test_y = tasks[0].data()
        assert (x.shape, test_x.shape) == ((12, 1024), (12, 1024))
        assert y.tolist() == test_y.tolist() == [i % 10 for i in range(12)]
        again = tasks[0].data()
        assert torch.equal(again[0], x)  # from the file
    pictures = _real.tasks("cifar10", "cpu")[-1]
    assert pictures.data()[0].shape == (12, 3, 32, 32)
    assert pictures.model()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_model_without_a_shortcut_takes_the_account_of_the_library():
    task = replace(
        NETWORK, losses=None, watched=5, snapshots=(1, 2), data=_tasks.partial(_tasks.pictures, 30), batch=20
    )
    records = _trainings.trained(task, BOUNDED, 0, "cpu")
    assert [each.steps for each in records] == [1, 2]
    assert records[-1].largest >= records[0].largest > 0.0


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


@pytest.mark.parametrize("end", [0.2, 1.0, 3.0])
def test_at_the_centre_a_bound_costs_as_much_signal_as_it_saves_information(end):
    """Squared slope of the mean over the variance, beside the Fisher information: equal for truncated noise."""
    line = rb.Query(range=rb.Interval(-np.inf, np.inf), sensitivity=1.0)
    step = 1e-4
    for bounding, least in ((rb.TRUNCATE, 1.0 - 1e-4), (rb.RECTIFY, 0.0)):
        m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, support=rb.Interval(-end, end), bounding=bounding)
        slope = (m.law(step).mean - m.law(-step).mean) / (2.0 * step)
        signal = slope**2 / m.law(0.0).variance
        assert least * m.fisher(0.0) <= signal <= m.fisher(0.0) * (1.0 + 1e-4)
        far = (m.law(2.0 * end + step).mean - m.law(2.0 * end - step).mean) / (2.0 * step)
        assert m.fisher(2.0 * end) < m.fisher(0.0)  # the control: away from it there is less to reveal
        assert far < slope
