"""Models start from the same weights in every run; noise never comes from torch's generator."""

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["*"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of modules that vmap cannot run need not say each time that they are slow."""
    for each in items:
        if "learn/torch" in str(each.path):
            each.add_marker(pytest.mark.filterwarnings("ignore:module. its examples go one at a time"), append=False)


@pytest.fixture(autouse=True)
def same_weights() -> None:
    import torch

    torch.manual_seed(7)


@pytest.fixture(autouse=True)
def few_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighths of a chunk up to which the last one may be filled: to try all takes long, and they change no sum."""
    few = (4, 6) if request.path.name == "test_padded_chunks.py" else ()
    monkeypatch.setattr("rangebound.learn.torch.gradients.survey._EIGHTHS", few)


@pytest.fixture
def all_sizes(few_sizes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rangebound.learn.torch.gradients.survey._EIGHTHS", range(1, 8))
