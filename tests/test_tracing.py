"""Coverage is measured where it says: in the first case of a test, in its fixtures, and no longer than for a while."""

import sys
import time

import pytest

from tests.conftest import LIMIT, UNTRACED


def is_traced() -> bool:
    return sys.gettrace() is not None  # the tracer ends at the call of a function after it was stopped


@pytest.fixture
def traced() -> bool:
    return is_traced()


@pytest.mark.parametrize("case", [0, 1])
def test_the_first_case_alone_is_traced_and_its_fixtures_are(case, traced, request):
    measured = request.config.pluginmanager.hasplugin("_cov")
    assert traced == is_traced() == (measured and case == 0)


def test_a_test_is_traced_no_longer_than_the_limit(request):
    begun = time.process_time()
    while is_traced():
        assert time.process_time() - begun < 3.0 * LIMIT
    assert (time.process_time() - begun > 0.5 * LIMIT) == request.config.pluginmanager.hasplugin("_cov")


def test_what_is_not_traced_exists(request):
    tests = request.config.rootpath / "tests"
    names = {path.stem for path in tests.rglob("*")}
    assert names >= UNTRACED, UNTRACED - names
