"""Formulas become MathML that is well formed, and what is not understood is an error."""

import html
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from website import __main__ as site
from website import formulas

ROOT = Path(__file__).parents[2]
PAGES = [path for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("papers/*.md")) if path.name in site.FORMULAS]


def shown(page: str) -> list[str]:
    """Every formula of a page as a browser would read it aloud, after its nesting was checked."""
    found = re.findall(r"<math.*?</math>", formulas.typeset(page))
    return ["".join(ElementTree.fromstring(re.sub(r"&(?!lt|gt|amp)\w+;", _sign, each)).itertext()) for each in found]


def _sign(entity: re.Match[str]) -> str:
    assert html.unescape(entity[0]) != entity[0], f"{entity[0]} is no sign that browsers know"
    return html.unescape(entity[0])


def test_fractions_sums_and_exponents_are_set() -> None:
    page = "$$\\frac{a+1}{2}\\le\\sum_{i}x_i^2$$\n\nand $-e^{-y}$ in `$code$`"
    assert shown(page) == ["a+12≤∑ixi2", "−e−y"]  # noqa: RUF001
    made = formulas.typeset(page)
    assert "<mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac>" in made
    assert '<munder><mo movablelimits="false">&sum;</mo><mrow><mi>i</mi></mrow></munder>' in made
    assert "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>" in made
    assert "`$code$`" in made


def test_every_formula_of_the_pages_is_understood() -> None:
    assert len(PAGES) == len(site.FORMULAS)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(shown(text)) > 50
        assert "$" not in "".join(formulas.CODE.split(formulas.typeset(text))[::2])


@pytest.mark.parametrize("wrong", [r"a{b", r"a}", r"\unknown", r"x_1_2", r"\frac{a}", r"\left(a", r"a\right)", r"x^"])
def test_control_what_is_not_understood_is_an_error(wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        formulas.typeset(f"${wrong}$")
