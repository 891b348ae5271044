"""One explorer on the demo's plan, and a browser, for the tests that need them."""

import pytest

from tests.web.explorer.browsing import browser_or_skip, running_explorer, written_demo


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """The demo's plan, table and ledger in a folder of their own."""
    return written_demo(tmp_path_factory.mktemp("explore"))


@pytest.fixture(scope="session")
def explorer(demo_folder):
    """The address of an explorer with the demo's plan, in a process of its own."""
    with running_explorer(demo_folder / "plan.toml") as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """Chromium, or a skip that says why there is none."""
    yield from browser_or_skip()
