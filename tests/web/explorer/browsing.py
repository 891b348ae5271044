"""A real explorer process and a real browser: Chromium of the system, driven by Playwright."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from rangebound.ledger.book import Ledger
from rangebound.release import demo

PATIENCE = 120.0  # seconds that a test waits for what has to come, on a machine that others use too
WIDE = {"width": 1200, "height": 900}
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def written_demo(folder):
    (folder / "plan.toml").write_text(demo.plan())
    (folder / "visits.csv").write_text(demo.table())
    with Ledger.create(folder / "clinics.ledger") as ledger:
        ledger.open_account("clinics", epsilon="10")
    return folder


@contextlib.contextmanager
def running_explorer(plan=None):
    """An explorer process; ends it, and holds that Ctrl-C ends it well."""
    command = [sys.executable, "-m", "rangebound", "explore", *([str(plan)] if plan else []), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        found = re.fullmatch(r"exploring at (http://127\.0\.0\.1:\d+/[0-9a-f]{48}/)\n", process.stdout.readline())
        assert found is not None
        yield found[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def posted(address, task, asked, **headers):
    """The status and the JSON of an answer."""
    data = json.dumps(asked).encode()
    request = urllib.request.Request(f"{address}api/{task}", data, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def browser_or_skip():
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium; on Debian and Ubuntu: apt-get install chromium")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


def settled(page, until="certified"):
    page.wait_for_selector(f"body[data-state={until}]", timeout=1000 * PATIENCE)


def changed(page, act):
    """Do something, and wait for the certified numbers after it."""
    page.evaluate("document.body.dataset.state = 'waiting'")
    act()
    settled(page)


def opened(browser, address, until="certified", **options):
    page = browser.new_page(**{"viewport": WIDE, **options})
    page.set_default_timeout(1000 * PATIENCE)
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda line: page.faults.append(line.text) if line.type == "error" else None)
    page.goto(address)
    settled(page, until)
    return page
