"""The page that verifies certificates: its verdicts, and that in a real browser no request leaves it."""

import hashlib
import http.server
import itertools
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import rangebound as rb
from tests.web.explorer.browsing import PATIENCE, browser_or_skip
from website.verifier import asked
from website.verifier.__main__ import LARGEST, build, joined

FOLDER = Path(__file__).parents[2] / "examples" / "certificates"
VERDICTS = json.loads((FOLDER / "verdicts.json").read_text(encoding="utf-8"))
NEED_NUMPY = {"table", "remapped", "laplace-on-grid-at-delta", "forged-cells", "forged-weights"}
DEEP = "The reason: certificate: has more than 500 levels, and is not read."
LEAKS = """to => {
    const tries = [() => fetch(to), () => new Image().src = to, () => navigator.sendBeacon(to),
        () => new Worker(to), () => new EventSource(to), () => import(to),
        () => document.body.append(Object.assign(document.createElement("iframe"), {src: to}))];
    return Promise.allSettled(tries.map(async each => each())).then(all => new Promise(done => setTimeout(done, 500)));
}"""


@pytest.fixture(scope="module")
def browser():
    yield from browser_or_skip()


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, which fetches Pyodide")
    folder = tmp_path_factory.mktemp("page")
    try:
        built = build(folder)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"what the page is made of cannot be fetched here: {error}")
    assert built <= LARGEST
    return folder


@pytest.fixture
def served(page_folder):
    """The address of the folder on a server of this machine, and the paths that it was asked for."""
    paths = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given):
            super().__init__(*given, directory=page_folder)

        def log_message(self, *_):
            paths.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", paths
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def readme_certificate():
    count = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    return rb.certify(rb.calibrate(noise=rb.Laplace, query=count, epsilon=1.0), epsilon=1.0).to_json()


def ready(page):
    page.wait_for_selector("body[data-state=ready]", timeout=1000 * PATIENCE)


def shown(page, certificate, published=""):
    """The verdict on the page, its words, and the seconds that it took."""
    page.fill("#certificate", certificate)
    page.fill("#published", published)
    page.click("#verify")
    ready(page)
    seconds = re.fullmatch(r"Checked in ([\d.]+) seconds\.", page.inner_text("#status"))
    return page.get_attribute("#result", "data-verdict"), page.inner_text("#words"), float(seconds[1])


@pytest.mark.parametrize("name", VERDICTS)
def test_every_example_gets_its_verdict_and_nothing_false_is_proved(name):
    found = json.loads(asked.answer((FOLDER / f"{name}.json").read_text(encoding="utf-8"), None))
    wanted = "proved" if VERDICTS[name] == "proved" else "refused"
    assert found["verdict"] in ({wanted, "open"} - {"proved"} if name in NEED_NUMPY else {wanted})
    if name in {"forged-epsilon", "forged-scale", "forged-sensitivity"}:
        assert "counterexample" in found["words"][1]


@pytest.mark.parametrize("text", ["10.5", "-1", "nan", "1e999", "1_0", "٣", "4.5 4.5"])
def test_a_number_that_cannot_be_of_the_mechanism_is_refused(text):
    certificate = (FOLDER / "laplace-truncated.json").read_text(encoding="utf-8")
    assert json.loads(asked.answer(certificate, text.encode()))["verdict"] == "refused"
    assert json.loads(asked.answer(certificate, b" 4.5\n"))["verdict"] == "proved"  # the control


def test_the_picture_is_the_law():
    m = rb.Mechanism(
        noise=rb.Gaussian(scale=2.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0), bounding=rb.RECTIFY
    )
    for law in asked._picture(m, 3.0)["laws"]:
        (curve,) = law["curves"]
        assert [m.law(law["answer"]).pdf(x) for x, _ in curve[1:-1]] == pytest.approx([y for _, y in curve[1:-1]])
        inside = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(curve))
        assert inside + sum(mass for _, mass in law["spikes"]) == pytest.approx(1.0, abs=1e-4)
    stairs = rb.Staircase(scale=1.0, query=m.query, step=0.25, plateau=2)
    bars = asked._picture(stairs, None)["laws"][1]["bars"]
    assert [stairs.pmf(x, 1.0) for x, _ in bars] == pytest.approx([y for _, y in bars])


def test_a_table_is_compared_and_never_called_proved():
    published = b'{"rows": []}'
    named = {"format": "rangebound release certificate 1", "published": hashlib.sha256(published).hexdigest()}
    verdicts = [json.loads(asked.answer(json.dumps(named), each))["verdict"] for each in (None, published, b"{}")]
    assert verdicts == ["open", "open", "refused"]


def test_another_pyodide_is_refused():
    with pytest.raises(SystemExit, match="another version"):
        joined("export default _createPyodideModule;", "export{a as loadPyodide};", "")


@pytest.mark.slow
def test_the_page_proves_refutes_and_asks_nobody(browser, served, page_folder, readme_certificate):
    address, paths = served
    with browser.new_context() as context:
        page, asks = context.new_page(), []
        context.on("request", lambda request: asks.append(request.url))
        page.goto(f"{address}/index.html")
        ready(page)
        verdict, words, seconds = shown(page, readme_certificate, "42")
        assert (verdict, "2.71829 times as likely" in words) == ("proved", True)
        assert seconds < 5.0
        assert page.locator("#picture svg path").count() == 2
        verdict, words, _ = shown(page, (FOLDER / "forged-epsilon.json").read_text(encoding="utf-8"))
        assert (verdict, "counterexample" in words) == ("refused", True)
        assert [each for each in asks if not each.startswith("blob:")] == [f"{address}/index.html"]
        assert shown(page, "[" * 10_000 + "]" * 10_000)[:2] == ("refused", DEEP)
        for width in (1280, 400):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate(LEAKS, f"{address}/leak")
        assert paths == ["/index.html"]

        (page_folder / "free.html").write_text("<p>No policy", encoding="utf-8")
        page.goto(f"{address}/free.html")
        page.evaluate(LEAKS, f"{address}/leak")
        assert paths.count("/leak") >= 5  # the control: without the policy the same attempts arrive


@pytest.mark.slow
def test_the_page_works_as_a_file_without_a_network(browser, page_folder, readme_certificate, tmp_path):
    (tmp_path / "c.json").write_text(readme_certificate, encoding="utf-8")
    (tmp_path / "number.txt").write_text("101\n", encoding="utf-8")
    with browser.new_context(offline=True) as context:
        page, faults = context.new_page(), []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        page.goto((page_folder / "index.html").as_uri())
        ready(page)
        page.set_input_files("#files", [tmp_path / "number.txt", tmp_path / "c.json"])
        page.wait_for_selector("#result[data-verdict=refused]:not([hidden])", timeout=1000 * PATIENCE)
        assert "101 cannot come from its mechanism" in page.inner_text("#words")
        assert faults == []
