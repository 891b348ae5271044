"""Without scikit-learn there is nothing to test here."""

import importlib.util
import warnings
from collections.abc import Iterator

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("sklearn") else ["*"]


@pytest.fixture(autouse=True)
def _cores_may_be_uncounted() -> Iterator[None]:
    """loky asks a program of the system for the number of cores, and warns where there is none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Could not find the number of physical cores", UserWarning)
        yield
