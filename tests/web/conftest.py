"""One server for the tests that do not break it."""

import sys

import pytest

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.web.service.running import running


def pytest_collection_modifyitems(items):
    for item in items:
        if not sys.platform.startswith("linux") and "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="finds the processes of a server as Linux lists them"))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("server")) as found:
        yield found
