"""Take the pictures of docs/budget.md from the explorer itself: `python -m docs.images.explorer`.

Needs Chromium and Playwright, as the tests of the page do.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from tests.web.explorer.browsing import browser_or_skip, changed, opened, running_explorer, written_demo

HERE = Path(__file__).resolve().parent
COLOURS = 64


def main() -> None:
    browsers = browser_or_skip()
    browser = next(browsers)
    with tempfile.TemporaryDirectory() as name:
        folder = written_demo(Path(name))
        with running_explorer(folder / "plan.toml") as address:
            page = opened(browser, address)
            changed(page, lambda: page.fill("#epsilon-exact", "2") or page.press("#epsilon-exact", "Enter"))
            changed(page, lambda: page.fill("#margin-1", "20") or page.press("#margin-1", "Enter"))
            changed(page, lambda: page.fill("#about-rows", "7500") or page.press("#about-rows", "Enter"))
            page.wait_for_selector("#offers button")
            page.evaluate("document.activeElement.blur()")
            _picture(page, "explore-questions", "#dials", "#questions")
            _picture(page, "explore-risk", "#risk")
            page.close()
    next(browsers, None)


def _picture(page: Any, name: str, *sections: str) -> None:
    """One picture of some sections that follow each other, in the colours that it needs."""
    page.evaluate("document.getElementById('dials').style.position = 'static'")
    boxes = [page.locator(each).bounding_box() for each in sections]
    top = page.evaluate("scrollY")
    clip = {
        "x": boxes[0]["x"] - 8,
        "y": boxes[0]["y"] + top - 8,
        "width": boxes[0]["width"] + 16,
        "height": boxes[-1]["y"] + boxes[-1]["height"] - boxes[0]["y"] + 16,
    }
    page.screenshot(path=HERE / f"{name}.png", full_page=True, clip=clip)
    Image.open(HERE / f"{name}.png").convert("RGB").quantize(COLOURS).save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
