"""What version 0.2 wrote gets the verdict that it got when this was written: certificates, releases, ledgers, accounts.

`verdicts.json` has the verdicts. A verdict changes only where a fault of the old one is proved; then it is written by
`python -m tests.frozen.test_frozen`.
"""

import json
import math
import shutil
import tempfile
from pathlib import Path

import pytest

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.mechanisms.certificates import Theorem
from rangebound.release import Release, check_certificate, check_entry
from rangebound.release.noise.quantiles import EarlierQuantiles
from rangebound.release.plan.kinds.kind import KINDS

HERE = Path(__file__).parent
CERTIFICATES, RELEASES, TRAININGS, VERDICTS = (
    json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("certificates", "releases", "trainings", "verdicts")
)
RULES = ("plain", "gaussian", "renyi")


def of_certificate(text):
    """The claim, as it is said of a certificate that was proved again; or why it is refused."""
    try:
        return str(rb.verify(text))
    except RangeboundError as error:
        return f"{type(error).__name__}: {error}"


def of_release(entry, ledger):
    """What the certificate of a release says of the bytes that its ledger has, and of its charge."""
    published = ledger.published(entry["name"])
    try:
        checked = check_certificate(entry["certificate"], published, work=math.inf)
        check_entry(checked, published, ledger)
    except RangeboundError as error:
        return f"{type(error).__name__}: {error}"
    return f"({checked.epsilon}, {checked.delta}) for {checked.numbers}"


def of_training(entry):
    """The guarantee of a training whose account goes on here."""
    from rangebound.learn.torch import PrivacyEngine

    engine = PrivacyEngine()
    engine.load_state_dict(entry["state"])
    return engine.statement(entry["delta"])


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    with_rules = copies(tmp_path_factory.mktemp("ledgers"))
    yield with_rules
    for each in with_rules.values():
        each.close()


def copies(folder):
    """Ledgers to open, since opening one may write to it."""
    for each in (HERE / "ledgers").iterdir():
        shutil.copy(each, folder / each.name)
        (folder / each.name).chmod(0o600)  # a key that others may read is refused, and git keeps no modes
    return {rule: Ledger.open(folder / f"{rule}.ledger") for rule in RULES}


@pytest.mark.parametrize("entry", CERTIFICATES, ids=lambda each: each["name"])
def test_a_certificate_has_the_same_verdict(entry):
    assert of_certificate(entry["certificate"]) == VERDICTS["certificates"][entry["name"]]


def test_control_a_certificate_that_claims_more_is_refused():
    """Of every theorem: the smallest epsilon that is claimed, less a tenth, and a tenth of the delta."""
    for entry in {each["theorem"]: each for each in CERTIFICATES}.values():
        data = json.loads(entry["certificate"])
        data["epsilon"] = repr(float(data["epsilon"]) * 0.9)
        data["delta"] = repr(float(data["delta"]) * 0.1)
        assert of_certificate(json.dumps(data)).startswith(("CertificateInvalid", "ClaimFalse")), entry["name"]


@pytest.mark.few(12)
@pytest.mark.parametrize("entry", RELEASES, ids=lambda each: each["name"])
def test_a_release_and_its_charge_have_the_same_verdict(entry, ledgers):
    assert of_release(entry, ledgers[entry["rule"]]) == VERDICTS["releases"][entry["name"]]


@pytest.mark.parametrize("rule", RULES)
def test_a_ledger_has_the_same_balances_and_history(rule, ledgers):
    assert of_ledger(ledgers[rule]) == VERDICTS["ledgers"][rule]


def of_ledger(ledger):
    """How many entries there are, the last one's hash, and what every account has spent and has left."""
    found = ledger.verify()
    accounts = {each.name: f"{each.spent}; {each.left}" for each in ledger.accounts()}
    return {"entries": found.entries, "head": found.head, "accounts": accounts}


@pytest.mark.few(2)
@pytest.mark.parametrize("entry", TRAININGS, ids=lambda each: each["name"])
def test_the_account_of_a_training_goes_on(entry):
    pytest.importorskip("torch")
    assert of_training(entry) == VERDICTS["trainings"][entry["name"]]


def test_nothing_is_left_out(ledgers):
    """All that version 0.2 had; what came later is not asked here, since that version could not write it."""
    theorems = {each["theorem"] for each in CERTIFICATES}
    assert theorems <= set(Theorem.__members__)
    assert len(theorems) == 9
    published = [json.loads(ledgers[each["rule"]].published(each["name"])) for each in RELEASES]
    kinds = {query["kind"] for each in published for query in each["plan"]["query"]}
    assert kinds <= KINDS.keys()
    assert len(kinds) == 25
    assert {each["engine"] for each in RELEASES} == {"duckdb", "spark", "postgresql"}
    assert {each["rule"] for each in RELEASES} == set(RULES)
    assert len(CERTIFICATES) >= 60
    assert len(RELEASES) >= 40
    assert len(TRAININGS) >= 10


@pytest.mark.parametrize("at", [0, 1], ids=["several without intervals", "of a grid of two points"])
def test_quantiles_that_could_have_been_drawn_today_are_read_as_they_were(at):
    """Of the same shares as today's: only what they state of their draws tells the two apart."""
    entry = json.loads((HERE / "quantiles.json").read_text(encoding="utf-8"))[at]
    published = entry["published"].encode()
    assert check_certificate(entry["certificate"], published).epsilon == 1.0
    facts = Release.from_bytes(published).facts
    assert facts is not None
    assert isinstance(facts.ready.publishers[0], EarlierQuantiles)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        opened = copies(Path(folder))
        written = {
            "certificates": {each["name"]: of_certificate(each["certificate"]) for each in CERTIFICATES},
            "releases": {each["name"]: of_release(each, opened[each["rule"]]) for each in RELEASES},
            "ledgers": {rule: of_ledger(each) for rule, each in opened.items()},
            "trainings": {each["name"]: of_training(each) for each in TRAININGS},
        }
    (HERE / "verdicts.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
