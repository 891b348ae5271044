"""Models start from the same weights in every run; noise never comes from torch's generator."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_weights() -> None:
    torch.manual_seed(7)
