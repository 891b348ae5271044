"""The local server: behind its token, for this machine alone, and within its limits."""

import http.client
import json
import re
import statistics
import time
import urllib.parse
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError
from rangebound.explore import page_server
from rangebound.explore.page_server import DELTAS, EPSILONS
from rangebound.release import demo
from tests.explore.browsing import PATIENCE, posted, running_explorer

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
    assert posted(explorer, "certified", {"plan": PLAN, "changes": {"epsilon": -1}})[0] == 400
    assert posted(explorer, "quick", [1])[0] == 400
    assert posted(explorer, "quick", {"plan": PLAN, "drag": {"query": "visits"}})[0] == 400
    assert posted(explorer, "quick", {"plan": "x" * 2_100_000})[0] == 400
    assert posted(explorer, "odd", {})[0] == 404


def test_the_page_saves_its_own_file_and_no_other(tmp_path):
    file, other = tmp_path / "ours.toml", tmp_path / "plan.toml"
    text = "# ours\n[budget]\nepsilon = 1.0 # a year\n[[query]]\nname = 'visits'\nkind = 'count'\n"
    file.write_text(text)
    with running_explorer(file) as address:
        begin = json.loads(got(address, "start")[1])
        assert (begin["plan"], begin["file"]) == (text, "ours.toml")
        asked = {"plan": text, "changes": {"epsilon": 2.0}, "opened": text, "path": str(other), "file": str(other)}
        assert posted(address.replace(address[-9:-1], "00000000"), "save", asked)[0] == 404
        status, found = posted(address, "save", asked)
        assert (status, found["ready"], found["text"]) == (200, True, text.replace("1.0", "2.0"))
        assert file.read_text() == found["text"]
        assert json.loads(got(address, "start")[1])["plan"] == found["text"]  # the page again has what was saved
        status, refused = posted(address, "save", asked)
        assert status == 400
        assert "ours.toml: has changed since this page read it" in refused["error"]
        for odd in ({**asked, "plan": "budget = 1"}, {**asked, "opened": None}, {"opened": text}):
            assert posted(address, "save", odd)[0] == 400
        assert file.read_text() == found["text"]
        assert [each.name for each in tmp_path.iterdir()] == ["ours.toml"]


def test_one_number_has_no_file_to_save():
    desk = page_server.desk_of(None)
    assert desk.start()["file"] is None
    with pytest.raises(ArgumentError, match="opened with a plan file"):
        desk.save({"plan": PLAN, "opened": PLAN})


def test_an_error_names_its_field(explorer):
    asked = {"plan": PLAN, "changes": {"margins": {"visits": 0.5}, "epsilon": 0.1}}
    status, found = posted(explorer, "certified", asked)
    assert (status, found["field"]) == (400, "budget.epsilon")


def test_a_quick_answer_is_scaled_from_the_last_proof(explorer):
    _, proved = posted(explorer, "certified", {"plan": PLAN})
    assert proved["certified"]
    _, quick = posted(explorer, "quick", {"plan": PLAN, "changes": {"epsilon": 0.5}})
    assert quick["queries"][0]["half_width"] == 2.0 * proved["queries"][0]["half_width"]
    assert not quick["certified"]


def test_a_drag_gives_weights_that_the_page_keeps(explorer):
    asked = {"plan": demo.plan(), "changes": {"epsilon": 2.0}, "drag": {"query": "patients", "share": 0.5}}
    _, found = posted(explorer, "quick", asked)
    shares = {each["query"]: each["share"] for each in found["queries"]}
    assert shares["patients"] == pytest.approx(0.5, abs=1e-6)
    changes = {"epsilon": 2.0, **found["changed"]}
    _, after = posted(explorer, "quick", {"plan": demo.plan(), "changes": changes})
    assert {each["query"]: each["share"] for each in after["queries"]} == shares


def test_a_quick_answer_takes_a_blink(explorer):
    medians = []
    while len(medians) < 4 and not (medians and medians[-1] < 0.1):  # again where the machine was busy with others
        times = []
        for at in range(15):
            began = time.perf_counter()
            posted(explorer, "quick", {"plan": demo.plan(), "changes": {"epsilon": 1.0 + 0.1 * at + len(medians) / 30}})
            times.append(time.perf_counter() - began)
        medians.append(statistics.median(times))
    assert min(medians) < 0.1


def test_numbers_without_end_are_words(explorer):
    status, found = posted(explorer, "trial", {"plan": PLAN.replace("1.0", "0.01")})
    assert status == 200
    assert json.dumps(found, allow_nan=False)


def test_sliders_have_round_positions():
    assert list(EPSILONS) == sorted(EPSILONS)
    assert (EPSILONS[0], EPSILONS[-1]) == (0.01, 100.0)
    assert {0.1, 0.5, 1.0, 2.0, 10.0} <= set(EPSILONS)
    assert list(DELTAS) == sorted(DELTAS)
    assert {0.0, 1e-6, 1e-9} <= set(DELTAS)
