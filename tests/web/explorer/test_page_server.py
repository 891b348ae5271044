"""The local server: behind its token, for this machine alone, and within its limits."""

import asyncio
import http.client
import json
import math
import queue
import re
import statistics
import threading
import time
import urllib.parse
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import uvicorn

from rangebound.errors import ArgumentError
from rangebound.release import demo, parse_plan
from rangebound.web.explorer import page_server
from rangebound.web.explorer.page_server import deployments
from rangebound.web.explorer.plan_view import plan_view
from rangebound.web.explorer.tasks import answer
from rangebound.web.processes import WorkerDied
from tests.web.explorer.browsing import PATIENCE, posted

pytestmark = pytest.mark.claim("page")  # the last one to run ends the process that proves, and is charged for it
MODULES = tuple(sorted(each.name for each in Path(page_server.__file__).parent.glob("*.js")))
IMPORT = re.compile(r'from "\./(\w+\.js)"')
PLAN = 'budget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count"}]'


def got(address, path="", **headers):
    parts = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    connection.request("GET", parts.path + path if not path.startswith("/") else path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


@pytest.fixture(scope="session")
def explorer():
    """The address of one that runs in a thread, so that its process that proves is ours."""
    servers, addresses = queue.Queue(), queue.Queue()

    class Kept(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.put(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Kept)
        thread = threading.Thread(target=lambda: page_server.explore(None, ready=addresses.put))
        thread.start()
        address = addresses.get(timeout=PATIENCE)
        server = servers.get(timeout=PATIENCE)  # made after the address is told
    yield address
    server.should_exit = True
    thread.join(PATIENCE)


def test_the_page_and_its_files_are_there(explorer):
    status, page, headers = got(explorer)
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    for name in re.findall(rb'(?:src|href)="([^"#]+\.(?:js|css))"', page):
        assert got(explorer, name.decode())[0] == 200
    assert [name for name in MODULES if got(explorer, name)[0] != 200] == []
    wanted = {name for each in MODULES for name in IMPORT.findall(got(explorer, each)[1].decode())}
    assert {"explorer.js", *wanted} == set(MODULES)  # all that is imported is there, and nothing else
    assert got(explorer, "page_server.py")[0] == 404
    assert got(explorer, "../page_server.py")[0] == 404


def circle_among(imports):
    """The scripts that import each other, by way of others too."""
    left = dict(imports)
    while free := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in free:
            del left[name]
    return set(left)


def test_no_two_scripts_import_each_other():
    folder = Path(page_server.__file__).parent
    imports = {name: {*IMPORT.findall((folder / name).read_text(encoding="utf-8"))} for name in MODULES}
    assert circle_among(imports) == set()
    assert circle_among({**imports, "elements.js": {"proof.js"}}) >= {"elements.js", "proof.js"}  # the control


def test_nothing_is_loaded_from_elsewhere(explorer):
    for name in ("", "explorer.css", *MODULES):
        _, data, headers = got(explorer, name)
        assert re.findall(rb"https?://[^\s\"'`)]+", data.replace(b"http://www.w3.org/2000/svg", b"")) == []
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_only_the_token_opens_it(explorer):
    token = urllib.parse.urlsplit(explorer).path.strip("/")
    other = token[:-1] + ("0" if token[-1] != "0" else "1")
    for path in ("/", "/start", f"/{other}/", f"/{other}/start", f"/{token}", "//", f"/{token[:-1]}/"):
        assert got(explorer, path)[0] == 404
    assert got(explorer, f"/{token}/start")[0] == 200  # the control


def test_only_this_machine_is_answered(explorer):
    port = urllib.parse.urlsplit(explorer).port
    assert got(explorer, Host=f"localhost:{port}")[0] == 200
    assert got(explorer, Host=f"evil.example:{port}")[0] == 404
    assert posted(explorer, "quick", {"plan": PLAN}, Origin="https://evil.example")[0] == 404
    assert posted(explorer, "quick", {"plan": PLAN}, Origin=f"http://127.0.0.1:{port}")[0] == 200


def test_errors_are_said_in_a_line(explorer):
    status, found = posted(explorer, "quick", {"plan": "budget = 1"})
    assert status == 400
    assert "budget" in found["error"]
    asked = {"plan": PLAN, "changes": {"margins": {"visits": 0.5}, "epsilon": 0.1}}
    status, found = posted(explorer, "certified", asked)
    assert (status, found["field"]) == (400, "budget.epsilon")
    assert posted(explorer, "quick", [1])[0] == 400
    assert posted(explorer, "quick", {"plan": PLAN, "drag": {"query": "visits"}})[0] == 400
    assert posted(explorer, "quick", {"plan": "x" * 2_100_000})[0] == 400
    assert posted(explorer, "save", {"plan": PLAN})[0] == 400
    assert posted(explorer, "odd", {})[0] == 404


def here(folder, turn=None):
    """A pool that answers in this process, once it is its turn."""

    async def do(message, limit):
        if turn is not None:
            await turn.wait()
        return json.loads(json.dumps(answer(folder, message)))

    return SimpleNamespace(do=do)


def test_of_many_proofs_that_wait_the_last_is_made(tmp_path):
    async def asked_at_once():
        turn, desk = asyncio.Event(), page_server.desk_of(None)
        desk.pool = here(tmp_path, turn)
        waiting = [asyncio.create_task(desk.prove("certified", {"plan": PLAN})) for _ in range(4)]
        other = asyncio.create_task(desk.prove("number", {"number": {}}))
        while desk.asked.total() < 5:
            await asyncio.sleep(0)
        turn.set()
        return await asyncio.gather(*waiting), await other

    answers, other = asyncio.run(asked_at_once())
    proved = [each for each in answers if each != page_server.SUPERSEDED]
    assert len(proved) == 2  # the first had begun
    assert answers[-1] in proved
    assert proved[-1]["certified"]
    assert "One number" in other["plan"]


def test_a_bug_shows_no_message_and_a_process_that_has_ended_is_said(tmp_path):
    desk = page_server.desk_of(None)
    desk.pool = here(tmp_path)
    found = asyncio.run(desk.prove("no such task", {"plan": PLAN}))
    assert found == {"error": "unexpected KeyError; this is a bug, please report it"}

    async def dies(message, limit):
        raise WorkerDied

    desk.pool = SimpleNamespace(do=dies)
    assert "try again" in asyncio.run(desk.prove("number", {"number": {}}))["error"]


def test_the_page_saves_its_own_file_and_no_other(tmp_path):
    file, other = tmp_path / "ours.toml", tmp_path / "plan.toml"
    text = "# ours\n[budget]\nepsilon = 1.0 # a year\n[[query]]\nname = 'visits'\nkind = 'count'\n"
    file.write_text(text)
    desk = page_server.desk_of(file)
    desk.pool = here(tmp_path)
    assert (desk.start()["plan"], desk.start()["file"]) == (text, "ours.toml")
    asked = {"plan": text, "changes": {"epsilon": 2.0}, "opened": text}
    for odd in ("path", "file"):
        with pytest.raises(ArgumentError, match="unknown field"):
            asyncio.run(desk.save({**asked, odd: str(other)}))
    found = asyncio.run(desk.save(asked))
    assert (found["ready"], found["text"]) == (True, text.replace("1.0", "2.0"))
    assert file.read_text() == desk.start()["plan"] == found["text"]
    with pytest.raises(ArgumentError, match=r"ours\.toml: has changed since this page read it"):
        asyncio.run(desk.save(asked))
    assert "budget" in asyncio.run(desk.save({**asked, "plan": "budget = 1"}))["error"]
    for page in (desk, page_server.desk_of(None)):  # of one number there is no file
        with pytest.raises(ArgumentError, match="opened with a plan file"):
            asyncio.run(page.save({**asked, "opened": text if page is not desk else None}))
    assert page_server.desk_of(None).start()["file"] is None
    assert file.read_text() == found["text"]
    assert [each.name for each in tmp_path.iterdir()] == ["ours.toml"]


def test_a_quick_answer_is_scaled_from_the_last_proof(explorer):
    _, proved = posted(explorer, "certified", {"plan": PLAN})
    assert proved["certified"]
    asked = {"plan": PLAN, "changes": {"epsilon": 0.5}, "drag": {"query": "visits", "share": 1.0}}
    _, quick = posted(explorer, "quick", asked)
    assert quick["changed"]["weights"] == {"visits": 1.0}
    assert quick["queries"][0]["half_width"] == 2.0 * proved["queries"][0]["half_width"]
    assert not quick["certified"]
    wanted, _ = plan_view(parse_plan(PLAN))
    assert proved == json.loads(json.dumps({**wanted, "text": PLAN}))


@pytest.mark.slow
def test_a_quick_answer_takes_a_blink():
    """Of the processor: how long it is by the clock depends on who else uses the machine."""
    desk, times = page_server.desk_of(None), []
    for at in range(15):
        began = time.process_time()
        assert desk.quick({"plan": demo.plan(), "changes": {"epsilon": 1.0 + 0.1 * at}})["queries"]
        times.append(time.process_time() - began)
    assert statistics.median(times) < 0.1


@pytest.mark.slow
def test_numbers_without_end_are_words(explorer):
    status, found = posted(explorer, "trial", {"plan": PLAN.replace("1.0", "0.01")})
    assert status == 200
    assert json.dumps(found, allow_nan=False)


def test_every_deployment_has_unit_and_source():
    found = deployments()
    assert len({(each["who"], each["what"]) for each in found}) == len(found) >= 8
    for each in found:
        assert each["unit"]
        assert each["source"]
        assert each["link"].startswith("https://")
        assert 0.0 < each["epsilon"] < 100.0
        assert 0.0 <= each["delta"] < 1e-4
    assert [each["epsilon"] for each in found] == sorted(each["epsilon"] for each in found)


def converted(rho, delta):
    """The epsilon of zCDP at a delta [canonne2020, Cor 13], over a fine grid of orders."""
    order = numpy.linspace(1.01, 400.0, 100_000)
    spare = order * numpy.log1p(-1.0 / order) - numpy.log(order - 1.0) - numpy.log(delta)
    return float(numpy.min(order * rho + spare / (order - 1.0)))


def agrees(epsilon, rho, delta):
    """Between the best conversion, for a rho that was rounded, and the first one that was published."""
    return 0.95 * converted(rho, delta) <= epsilon <= 1.01 * (rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)))


def test_a_rho_that_is_named_gives_the_epsilon_beside_it():
    named = [(each, re.search(r"rho = ([\d.]+)", each["note"])) for each in deployments()]
    found = [(each["epsilon"], float(rho[1]), each["delta"]) for each, rho in named if rho]
    assert len(found) >= 3
    for epsilon, rho, delta in found:
        assert agrees(epsilon, rho, delta)
        assert not agrees(2.0 * epsilon, rho, delta)  # the control
        assert not agrees(0.5 * epsilon, rho, delta)
