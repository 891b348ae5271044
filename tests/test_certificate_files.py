"""Certificates that travel: their schema, and the files by which somebody can try a checker of their own."""

import json
import runpy
from pathlib import Path

import jsonschema
import pytest

import rangebound as rb

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "certificates"
VERDICTS = json.loads((FOLDER / "verdicts.json").read_text(encoding="utf-8"))
SCHEMA = jsonschema.Draft202012Validator(json.loads((FOLDER / "schema.json").read_text(encoding="utf-8")))
FROZEN = json.loads((ROOT / "tests" / "frozen" / "certificates.json").read_text(encoding="utf-8"))
GOLDEN = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "certificates").glob("*.json"))]
GOLDEN += [each["certificate"] for each in FROZEN]


def text_of(name):
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def checker():
    return runpy.run_path(str(ROOT / "examples" / "check_certificate.py"))


def test_every_file_has_a_verdict():
    assert {path.stem for path in FOLDER.glob("*.json")} == {*VERDICTS, "verdicts", "schema"}
    assert {*VERDICTS.values()} == {"proved", "false", "gap", "malformed"}
    assert len(VERDICTS) >= 20


@pytest.mark.parametrize("name", VERDICTS)
def test_a_file_gets_its_verdict_from_both_checkers(name, checker):
    text, verdict = text_of(name), VERDICTS[name]
    if verdict == "proved":
        assert rb.verify(text)
        if json.loads(text)["format"][-1] == "1" and "noise" in json.loads(text)["mechanism"]:
            assert checker["check"](text) > 0
        else:
            with pytest.raises(checker["Refused"], match="is not known here"):
                checker["check"](text)
        return
    with pytest.raises(rb.CertificateInvalid) as caught:
        rb.verify(text)
    with pytest.raises(checker["Refused"]):
        checker["check"](text)
    read = "not proved by this certificate" in str(caught.value) or "not true of this table" in str(caught.value)
    assert read is (verdict != "malformed")


def test_the_schema_knows_every_golden_certificate_and_no_malformed_one():
    SCHEMA.check_schema(SCHEMA.schema)
    for text in GOLDEN + [text_of(name) for name, verdict in VERDICTS.items() if verdict != "malformed"]:
        SCHEMA.validate(json.loads(text))
    for name in ("forged-field", "forged-tiny"):  # control: what a schema can tell
        assert not SCHEMA.is_valid(json.loads(text_of(name)))
    assert not SCHEMA.is_valid({**json.loads(GOLDEN[0]), "notion": "metric"})


def test_the_page_names_every_field_and_word_of_the_schema():
    page = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    words = set()

    def gather(part):
        for key, value in part.items() if isinstance(part, dict) else ():
            if key == "properties":
                words.update(value)
            if key == "enum":
                words.update(value)
            gather(value)
        for value in part if isinstance(part, list) else ():
            gather(value)

    gather(SCHEMA.schema)
    assert {"noise", "theorem", "LOSS_AT_ENDS", "rectify", "geometric"} <= words  # control: they were gathered
    assert [word for word in sorted(words) if word not in page] == []
