"""Claims for Coq: a true one is accepted, one with a little less noise is refused, and its refutation accepted."""

import json
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest

import rangebound as rb
from rangebound.errors import ArgumentError
from rangebound.mechanisms.coq_file import coq_file
from rangebound.release import parse_plan, release
from rangebound.release.output.table_certificate import plan_to_coq
from tests.cli.conftest import command  # noqa: F401  the fixture

PROOFS = Path(__file__).parents[2] / "proofs"
COUNT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
WIDE = rb.Query(range=rb.Interval(2, 9), sensitivity=0.7)
NARROW = rb.Query(range=rb.Interval(0, 2), sensitivity=3.0)
needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")


def calibrated(noise, query, epsilon=1.0, **more):
    return rb.calibrate(noise=noise, query=query, epsilon=epsilon, **more)


def quieter(m):
    """The same mechanism and claim with a hundred-millionth less noise."""
    if isinstance(m, rb.Table):
        weights = m.weights.copy()
        weights[0, 0], weights[0, 1] = weights[0, 0] + 2**40, weights[0, 1] - 2**40
        return rb.Table(query=m.query, inputs=m.inputs, outputs=m.outputs, weights=weights).with_claim(m.claim)
    if isinstance(m, rb.Mechanism):
        return replace(m, noise=type(m.noise)(scale=m.noise.scale * (1 - 1e-8))).with_claim(m.claim)
    return replace(m, scale=m.scale * (1 - 1e-8)).with_claim(m.claim)


KINDS = {
    "truncated Laplace": lambda: calibrated(rb.Laplace, COUNT),
    "truncated Laplace, a wider support": lambda: calibrated(rb.Laplace, WIDE, support=rb.Interval(-1, 12)),
    "truncated Laplace, a half-line": lambda: calibrated(rb.Laplace, COUNT, support=rb.Interval(0, float("inf"))),
    "truncated Laplace, all answers neighbours": lambda: calibrated(rb.Laplace, NARROW, 0.5),
    "truncated Gaussian": lambda: calibrated(rb.Gaussian, COUNT),
    "truncated Gaussian, a wider support": lambda: calibrated(rb.Gaussian, WIDE, 0.8, support=rb.Interval(-1, 12)),
    "truncated Gaussian at a delta": lambda: calibrated(rb.Gaussian, NARROW, delta=1e-4),
    "truncated Gaussian at a delta, a wider support": lambda: calibrated(
        rb.Gaussian, rb.Query(range=rb.Interval(0, 2), sensitivity=0.7), delta=1e-6, support=rb.Interval(-1, 3.5)
    ),
    "truncated Laplace, two spans": lambda: calibrated(rb.Laplace, COUNT, support=rb.Union((0, 4), (6, 10))),
    "truncated Laplace, three spans": lambda: calibrated(
        rb.Laplace, COUNT, support=rb.Union((-1, 2), (3, 3.5), (7, 12))
    ),
    "clamped Laplace": lambda: calibrated(rb.Laplace, COUNT, 0.3, bounding=rb.RECTIFY),
    "rounded Laplace": lambda: calibrated(
        rb.Laplace, COUNT, support=rb.Grid(step=0.5, within=rb.Interval(0, 10)), bounding=rb.QUANTIZE
    ),
    "unbounded Laplace": lambda: calibrated(rb.Laplace, COUNT, 0.1, bounding=rb.UNBOUNDED),
    "truncated Laplace at a delta": lambda: calibrated(rb.Laplace, COUNT, delta=1e-4),
    "truncated Laplace at a delta, a support that is wider on one side": lambda: calibrated(
        rb.Laplace, WIDE, delta=1e-4, support=rb.Interval(2, 12)
    ),
    "truncated Laplace at a delta, a wide range": lambda: calibrated(
        rb.Laplace, rb.Query(range=rb.Interval(0, 1000), sensitivity=1.0), delta=1e-4
    ),
    "half-line Laplace at a delta": lambda: calibrated(
        rb.Laplace, COUNT, delta=1e-4, support=rb.Interval(0, float("inf"))
    ),
    "the other half-line": lambda: calibrated(rb.Laplace, COUNT, support=rb.Interval(float("-inf"), 10), delta=1e-4),
    "clamped Laplace at a delta": lambda: calibrated(rb.Laplace, COUNT, delta=1e-4, bounding=rb.RECTIFY),
    "clamped Gaussian": lambda: calibrated(
        rb.Gaussian, rb.Query(range=rb.Interval(0, 100), sensitivity=1.0), delta=1e-4, bounding=rb.RECTIFY
    ),
    "discrete Laplace": lambda: rb.DiscreteLaplace.calibrated(sensitivity=3, epsilon=0.7, support=rb.Interval(0, 40)),
    "staircase": lambda: rb.Staircase.calibrated(query=COUNT, epsilon=2.0),
    "table": lambda: rb.optimal(
        query=rb.Query(range=rb.Grid(step=1, within=rb.Interval(0, 5)), sensitivity=1.0), epsilon=1.0
    ),
}


def accepted(text, folder):
    path = folder / "certificate.v"
    path.write_text(text)
    done = subprocess.run(["coqc", "-q", path.name], cwd=folder, capture_output=True, text=True)
    return done.returncode == 0


@needs_coq
@pytest.mark.claim("forgery")
@pytest.mark.parametrize(
    "kind", [pytest.param(name, marks=() if name == "discrete Laplace" else pytest.mark.slow) for name in KINDS]
)
def test_a_proof_is_accepted_and_with_less_noise_only_the_refutation(kind, tmp_path):
    m = KINDS[kind]()
    assert accepted(rb.certify(m).to_coq(), tmp_path)
    less = quieter(m)
    with suppress(ArgumentError):  # some are known to be false without Coq
        assert not accepted(coq_file(less, less.claim), tmp_path)
    assert accepted(coq_file(less, less.claim, refuted=True), tmp_path)
    with pytest.raises(rb.ClaimFalse):  # both checkers agree
        rb.certify(less)


@needs_coq
@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mae", "mse"])
def test_a_limit_is_accepted_and_a_higher_one_is_not(objective, tmp_path):
    found = rb.limit(query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), epsilon=1.0, objective=objective)
    assert accepted(found.to_coq(), tmp_path)
    assert not accepted(replace(found, prices=[1.001 * each for each in found.prices]).to_coq(), tmp_path)
    with pytest.raises(ArgumentError, match="do not cover limits of an average"):
        rb.limit(query=found.query, epsilon=1.0, at="average").to_coq()


@pytest.mark.slow
@needs_coq
def test_an_account_is_accepted_and_one_with_a_smaller_mu_is_not(tmp_path):
    query = ", ".join(f'{{name = "n{i}", kind = "count", mechanism = "rectify Gaussian"}}' for i in range(3))
    plan = f"budget = {{epsilon = 1.0, delta = 1e-6}}\nquery = [{query}]"
    table = release(parse_plan(plan), pyarrow.table({"age": [41, 27]}), ledger=None)
    stated = json.loads(table.certificate)
    assert accepted(plan_to_coq(table.certificate), tmp_path)
    assert not accepted(plan_to_coq(json.dumps({**stated, "mu": stated["mu"] * (1 - 1e-12)})), tmp_path)
    assert not accepted(plan_to_coq(json.dumps({**stated, "delta": 0.99e-6})), tmp_path)
    with pytest.raises(ArgumentError, match="do not cover plans"):
        plan_to_coq(json.dumps({**stated, "selections": [{}]}))


@needs_coq
@pytest.mark.slow
def test_a_true_claim_has_no_refutation(tmp_path):
    for kind in ("truncated Laplace", "clamped Laplace", "discrete Laplace"):
        m = KINDS[kind]()
        assert not accepted(coq_file(m, m.claim, refuted=True), tmp_path), kind
    table = KINDS["table"]()
    with pytest.raises(ArgumentError, match="not refuted"):
        coq_file(table, table.claim, refuted=True)


@needs_coq
@pytest.mark.slow
def test_the_theorems_rest_on_the_real_numbers_alone(tmp_path):
    shutil.copytree(PROOFS, tmp_path / "proofs", ignore=shutil.ignore_patterns("*.vo*", "*.glob", ".*"))
    printed = ""
    for name in (tmp_path / "proofs" / "_CoqProject").read_text().split("\n")[1:-1]:
        compiled = ["coqc", "-q", "-w", "-ambiguous-paths", "-R", ".", "RB", name]
        printed += subprocess.run(compiled, cwd=tmp_path / "proofs", capture_output=True, text=True, check=True).stdout
    axioms = {line.split()[0] for line in printed.split("\n") if line and not line.startswith((" ", "Axioms:"))}
    assert axioms == {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "Classical_Prop.classic",
        "FunctionalExtensionality.functional_extensionality_dep",
    }


@pytest.mark.parametrize(
    ("m", "claim"),
    [
        (calibrated(rb.Gaussian, rb.Query(range=rb.Interval(0, 30), sensitivity=1.0), delta=1e-6), None),
        (calibrated(rb.Gaussian, COUNT, delta=1e-6, bounding=rb.RECTIFY), None),
        (
            rb.Mechanism(
                noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, float("inf")), sensitivity=1.0)
            ),
            rb.Claim(epsilon=1.0),
        ),
        (calibrated(rb.Laplace, COUNT, support=rb.Union((0, 4), (6, 10)), delta=1e-4), None),
        (calibrated(rb.Laplace, COUNT, notion="metric"), None),
        (
            rb.Mechanism(noise=rb.Laplace(scale=1.0), query=COUNT, bounding=rb.RECTIFY),
            rb.Claim(epsilon=0.9, delta=1e-3),
        ),
    ],
    ids=[
        "a flat peak of truncated Gaussian noise",
        "clamping that hides the worst",
        "an endless range",
        "a union at a delta",
        "metric",
        "a false claim",
    ],
)
def test_what_is_not_covered_is_said(m, claim):
    with pytest.raises(ArgumentError, match=r"do not cover .* rangebound\.verify checks the others"):
        coq_file(m, claim or m.claim)


def test_a_limit_that_would_take_long_is_not_covered():
    def limited(count):
        answers = rb.Query(range=rb.Grid(step=1.0, within=rb.Interval(0, count - 1)), sensitivity=1.0)
        inputs, prior, prices = [float(i) for i in range(count)], [1 / 64] * count, [1e-3] * count
        given = {"inputs": inputs, "prior": prior, "prices": prices}
        return rb.Limit(query=answers, epsilon=1.0, objective="mae", at="worst", **given)

    assert "Theorem certified" in limited(63).to_coq(library=True)
    with pytest.raises(ArgumentError, match="do not cover limits of over 4000 pairs"):
        limited(64).to_coq()


@pytest.mark.slow
def test_a_remapped_mechanism_is_proved_by_its_base_and_not_refuted():
    m = KINDS["truncated Laplace"]()
    remapped = rb.remap(m)
    assert "made of the output alone" in coq_file(remapped, m.claim)
    with pytest.raises(ArgumentError, match="remapped mechanism, which may leak less"):
        coq_file(remapped, m.claim, refuted=True)


def test_every_file_of_the_proofs_is_compiled_and_named_for_readers():
    listed = (PROOFS / "_CoqProject").read_text().split("\n")[1:-1]
    assert sorted(listed) == sorted(path.name for path in PROOFS.glob("*.v"))
    page = (PROOFS / "README.md").read_text()
    assert all(f"`{name}`" in page for name in listed)


def test_a_refutation_is_about_what_is_published():
    """Rounding to few points hides the pair that refutes the noise: the event must be one of points."""
    grid = rb.Grid(step=5.0, within=rb.Interval(0, 10))
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=COUNT, support=grid, bounding=rb.QUANTIZE)
    text = coq_file(m, rb.Claim(epsilon=0.9), refuted=True)
    cut = text.split("Notation cut := (")[1].split(")")[0]
    assert cut in ("5 / 2", "15 / 2")


def test_answers_farther_apart_than_the_range_refute_nothing():
    m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=NARROW, bounding=rb.RECTIFY)
    assert "Notation farthest := (2)" in coq_file(m, rb.Claim(epsilon=1.0))
    with pytest.raises(ArgumentError, match="not refuted"):
        coq_file(m, rb.Claim(epsilon=1.0), refuted=True)


def test_a_table_is_claimed_for_answers_and_not_for_rows():
    text = coq_file(KINDS["table"](), rb.Claim(epsilon=1.0))
    assert "goes 1 (nth i cells" in text
    assert "Rabs (x - x') <= sensitivity" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_one_comment_and_assumes_nothing(kind):
    m = KINDS[kind]()
    text = coq_file(m, m.claim)
    assert not re.search(r"\b(Axiom|Admitted|admit|Parameter|Conjecture|Hypotheses)\b", text)
    head = coq_file(m, m.claim, library=True).split("From Coq ")[0]
    assert (head.count("(*"), head.count("*)")) == (1, 1)


@needs_coq
@pytest.mark.slow
def test_spans_that_overlap_or_touch_have_no_proof(tmp_path):
    """A mass would count twice what two spans share; no certificate has such spans, and Coq refuses them as well."""
    m = rb.Mechanism(noise=rb.Laplace(scale=4.0), query=COUNT, support=rb.Union((0, 4), (6, 10)))
    assert accepted(coq_file(m, rb.Claim(epsilon=1.0)), tmp_path)
    for spans in (((0.0, 6.0), (4.0, 10.0)), ((0.0, 5.0), (5.0, 10.0))):
        with pytest.raises(ArgumentError, match="must not touch or overlap"):
            rb.Union(*spans)
        support = rb.Union((0, 4), (6, 10))
        object.__setattr__(support, "spans", spans)
        text = coq_file(replace(m, support=support), rb.Claim(epsilon=1.0))
        assert f"Notation spans := ([((0), ({spans[0][1]:g})); (({spans[1][0]:g}), (10))])" in text
        assert not accepted(text, tmp_path)


def test_verify_says_which_theory_covers_a_claim_and_that_a_file_was_of_another(tmp_path, command, monkeypatch):  # noqa: F811
    monkeypatch.setenv("PATH", str(tmp_path))
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query, bounding=rb.RECTIFY)
    (tmp_path / "c.json").write_text(rb.certify(m, epsilon=0.5).to_json())
    code, said, _ = command("verify", tmp_path / "c.json", "--coq", tmp_path / "c.v")
    assert (code, "another text" in said) == (0, False)
    assert "by the theorems of proofs/UnboundedLaplace.v: coqc is not installed here" in said
    (tmp_path / "c.v").write_text((tmp_path / "c.v").read_text().replace("epsilon := (1 / 2)", "epsilon := (1 / 3)"))
    assert (
        "it held another text, which is replaced"
        in command("verify", tmp_path / "c.json", "--coq", tmp_path / "c.v")[1]
    )
    assert "epsilon := (1 / 2)" in (tmp_path / "c.v").read_text()


def test_a_program_that_compiles_nothing_is_not_believed(tmp_path, monkeypatch):
    from rangebound.cli.verify_command import _coqc

    liar = tmp_path / "bin" / "coqc"
    liar.parent.mkdir()
    liar.write_text("#!/bin/sh\nexit 0\n")
    liar.chmod(0o755)
    monkeypatch.setenv("PATH", str(liar.parent))
    accepted, said = _coqc(tmp_path / "proof.v", "Theorem certified : False.")
    assert accepted is False
    assert str(liar) in said
    assert "another text" not in said
    assert "another text, which is replaced" in _coqc(tmp_path / "proof.v", "Theorem certified : True.")[1]
    assert (tmp_path / "proof.v").read_text() == "Theorem certified : True."
