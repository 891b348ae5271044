"""One folder, one server process: a second one is refused, and the lock ends with its process."""

import subprocess
import sys

import pytest

from rangebound.errors import ArgumentError
from rangebound.web.service.job_store import sole_server
from tests.web.service.running import PATIENCE

HOLD = "import sys, pathlib\nfrom rangebound.web.service.job_store import sole_server\n"
HOLD += "with sole_server(pathlib.Path(sys.argv[1])):\n"


@pytest.mark.slow
def test_a_second_server_on_a_folder_is_refused_and_the_first_goes_on(server):
    other = server.folder / "other.toml"
    other.write_text((server.folder / "server.toml").read_text())
    command = [sys.executable, "-m", "rangebound", "serve", "--config", str(other)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (found.returncode, found.stdout) == (2, "")
    assert f"process {server.process.pid} serves this folder already" in found.stderr
    assert "Traceback" not in found.stderr
    assert server.ask("GET", "/v1/accounts", token=server.token())[0] == 200


def test_a_lock_ends_with_its_process_and_not_with_those_that_it_started(tmp_path):
    started = "    import subprocess as s; s.Popen(['sleep', '30'], stdout=2); print(1, flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD + started, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdout.readline() == b"1\n"
    with pytest.raises(ArgumentError, match=f"process {holder.pid} serves"), sole_server(tmp_path):
        pytest.fail("two hold one folder")
    holder.kill()
    holder.communicate()
    with sole_server(tmp_path):
        assert (tmp_path / "server.lock").read_text().strip().isdecimal()
    with sole_server(tmp_path):  # and once more, after an orderly end
        pass
