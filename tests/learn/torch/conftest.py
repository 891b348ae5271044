"""Models start from the same weights in every run; noise never comes from torch's generator."""

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["*"]


@pytest.fixture(autouse=True)
def same_weights() -> None:
    import torch

    torch.manual_seed(7)
