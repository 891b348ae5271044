"""A certificate that is not one is refused at once with its reason, by every program that reads certificates alike."""

import json
import runpy
import time
from pathlib import Path

import pytest

import rangebound as rb
from tests.cli.conftest import command  # noqa: F401  the fixture
from website.verifier import asked

ROOT = Path(__file__).parents[1]
PLAIN = (ROOT / "tests" / "certificates" / "laplace-truncate.json").read_text(encoding="utf-8")
LARGE = 100_000_000


def changed(old, new):
    assert PLAIN.count(old) == 1
    return PLAIN.replace(old, new)


BAD = {
    "100 MB of spaces": lambda: PLAIN + " " * LARGE,
    "100 MB of weights": lambda: changed("certificate 1", "certificate 3").replace("laplace", "A" * LARGE),
    "60 MB of numbers": lambda: changed("certificate 1", "certificate 3").replace("[]", f"[{'0,' * 30_000_000}0]"),
    "10,000 lists deep": lambda: changed("[]", "[" * 10_000 + "]" * 10_000),
    "10,000 objects deep": lambda: changed("[]", '{"a":' * 10_000 + "0" + "}" * 10_000),
    "17 levels": lambda: changed("[]", "[" * 16 + "]" * 16),
    "NaN": lambda: changed("0.801", "NaN"),
    "Infinity": lambda: changed("0.801", "Infinity"),
    "-Infinity as an end": lambda: PLAIN.replace("0.0,", "-Infinity,"),
    "a key twice": lambda: changed('"epsilon": 0.801', '"epsilon": 0.9, "epsilon": 0.801'),
    "-0.0 as an end": lambda: PLAIN.replace("0.0,", "-0.0,"),
    "a scale of 1e-320": lambda: changed('"scale": 2.0', '"scale": 1e-320'),
    "a scale of 1e309": lambda: changed('"scale": 2.0', '"scale": 1e309'),
    "a scale of 2": lambda: changed('"scale": 2.0', '"scale": 2'),
    "Arabic digits": lambda: changed('"scale": 2.0', '"scale": \u0662.\u0660'),
    "Arabic digits as a text": lambda: changed('"scale": 2.0', '"scale": "\u0662.\u0660"'),
    "wide digits as an end": lambda: PLAIN.replace("3.0", '"\uff13.\uff10"'),
    "a number of 100,000 digits": lambda: changed("128", "1" * 100_000),
    "a field more": lambda: changed('"bits"', '"seed": 1, "bits"'),
    "a field more in the noise": lambda: changed('"scale"', '"seed": 1, "scale"'),
    "a field more in the query": lambda: changed('"sensitivity"', '"seed": 1, "sensitivity"'),
    "a field less": lambda: changed(' "delta": 0.0,\n', ""),
    "a cell of no task": lambda: changed("[]", "[[true, 0.0, 3.0]]"),
    "cut off": lambda: PLAIN[:-3],
    "a list": lambda: "[]",
    "nothing": lambda: "",
}
REASONS = "characters|commas|levels|recursion|NaN|nfinit|twice|once|at least|double|JSON|Expecting|digits|real number"
REASONS += "|must be a number|no other|unknown|missing|to_dict|whole number|cells|two ends|larger|longer|format"


def verified(text, folder, run):
    """The reason of the library, and of the command, which say the same."""
    with pytest.raises(rb.CertificateInvalid) as caught:
        rb.verify(text)
    (folder / "c.json").write_text(text, encoding="utf-8")
    code, _, said = run("verify", folder / "c.json")
    assert code == 2
    assert str(caught.value).split("; give")[0][:80] in said or "larger than" in said
    return said.removesuffix("\n")


def in_coq(text, folder, run):
    """The reason for which there is no proof for Coq, in neither way; none is run."""
    with pytest.raises(rb.CertificateInvalid) as caught:
        rb.Certificate.from_json(text).to_coq()
    (folder / "c.json").write_text(text, encoding="utf-8")
    code, _, said = run("verify", folder / "c.json", "--coq", folder / "c.v")
    assert code == 2
    assert not (folder / "c.v").exists()
    assert str(caught.value).split("; give")[0][:80] in said or "larger than" in said
    return said.removesuffix("\n")


def elsewhere(text, folder, run):
    """The reason of the program that shares no code with the library."""
    program = runpy.run_path(str(ROOT / "examples" / "check_certificate.py"))
    with pytest.raises(program["Refused"]) as caught:
        program["check"](text)
    return str(caught.value)


def in_a_browser(text, *_):
    """What the page says that verifies in a browser, which is the library with words of its own."""
    found = json.loads(asked.answer(text, None))
    assert found["verdict"] == "refused"
    return found["words"][0]


@pytest.mark.parametrize("checker", [verified, elsewhere, in_coq, in_a_browser])
@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_refused_within_a_second_with_the_reason_in_a_line(bad, checker, tmp_path, command):  # noqa: F811
    text, begin = BAD[bad](), time.process_time()
    said = checker(text, tmp_path, command)
    assert time.process_time() - begin < 2.0  # of two checks, of which each has a second
    assert "\n" not in said
    assert len(said) < 400
    assert "Traceback" not in said
    assert "unexpected" not in said
    assert any(each in said for each in REASONS.split("|")), said


def test_control_the_certificate_that_was_changed_is_accepted(tmp_path, command):  # noqa: F811
    program = runpy.run_path(str(ROOT / "examples" / "check_certificate.py"))
    path = tmp_path / "c.json"
    path.write_text(json.dumps(json.loads(PLAIN)), encoding="utf-8")
    assert program["check"](path.read_text(encoding="utf-8")) > 0
    assert rb.verify(path.read_text(encoding="utf-8")).to_coq()
    assert command("verify", path)[0] == 0
