"""The examples run."""

import json
import math
import re
import runpy
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from flint import ctx

import rangebound as rb
from rangebound.privacy.proof import Theorem

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.slow
def test_a_bounded_count(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    runpy.run_path(str(EXAMPLES / "bounded_count.py"))["main"](tmp_path)
    assert (tmp_path / "bounded_count.png").stat().st_size > 1000
    assert "rectify Laplace" in capsys.readouterr().out


CERTIFICATES = {path.stem: path for path in sorted((EXAMPLES.parent / "tests" / "certificates").glob("*.json"))}
SLOW = {"gaussian-truncate-wider-range", "gaussian-truncate-delta", "laplace-truncate-half-line-delta"}
SLOW |= {"laplace-truncate-union-delta", "truncated-laplacian-truncate-delta"}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CERTIFICATES]
every_certificate = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="session")
def checker():
    return runpy.run_path(str(EXAMPLES / "check_certificate.py"))


def changed(name, **fields):
    return json.dumps({**json.loads(CERTIFICATES[name].read_text(encoding="utf-8")), **fields})


@pytest.mark.few(3)
@every_certificate
def test_a_certificate_is_proved_again_by_another_program_in_another_arithmetic(checker, name):
    text = CERTIFICATES[name].read_text(encoding="utf-8")
    assert checker["check"](text) > 0
    assert rb.verify(text)


@pytest.mark.few(7)
@every_certificate
def test_the_other_program_refuses_a_claim_a_little_too_strong(checker, name):
    data = json.loads(CERTIFICATES[name].read_text(encoding="utf-8"))  # two to five percent above what is true
    field = "delta" if data["delta"] else "epsilon"
    with pytest.raises(checker["Refused"], match="not proved"):
        checker["check"](changed(name, **{field: data[field] * 0.94}))
    noise = data["mechanism"]["noise"]
    louder = {**data["mechanism"], "noise": {**noise, "scale": noise["scale"] * 0.9}}
    if noise["family"] != "truncated_laplacian":  # whose delta is that of its limit
        with pytest.raises(checker["Refused"], match="not proved"):
            checker["check"](changed(name, mechanism=louder))


@pytest.mark.parametrize("name", [name for name, path in CERTIFICATES.items() if "CELLS" in path.read_text()])
def test_the_other_program_refuses_a_missing_cell_and_a_missing_direction(checker, name):
    cells = json.loads(CERTIFICATES[name].read_text(encoding="utf-8"))["cells"]
    alone = [cell for cell in cells if cell[1] != cell[2]]
    for left_out in alone[:2] + alone[-1:]:
        with pytest.raises(checker["Refused"], match="leave a position out"):
            checker["check"](changed(name, cells=[cell for cell in cells if cell != left_out]))
    tasks = 1 + max(task for task, _, _ in cells)
    first = [cell for cell in cells if cell[0] < tasks / 2] if tasks > 1 else cells[1:]
    with pytest.raises(checker["Refused"], match="leave a position out"):
        checker["check"](changed(name, cells=first))


SUPPORTS = [
    (rb.TRUNCATE, rb.Interval(0, 10)),
    (rb.TRUNCATE, rb.Union((0, 3), (5, 10))),
    (rb.TRUNCATE, rb.Grid(step=0.5, within=rb.Interval(0, 10))),
    (rb.RECTIFY, rb.Interval(2, 8)),
]


@pytest.mark.few
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("answers", [rb.Union((0, 2), (6, 10)), rb.Union((-1, 2), (2.5, 3), (11, 12))])
@pytest.mark.parametrize(("bounding", "support"), SUPPORTS)
@pytest.mark.parametrize("noise", [rb.Laplace(scale=3.0), rb.Gaussian(scale=3.0)])
def test_the_other_program_proves_claims_about_answers_in_several_spans_and_no_stronger_ones(
    checker, noise, bounding, support, answers, delta
):
    query = rb.Query(range=answers, sensitivity=5.0)
    mechanism = rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)
    epsilon = mechanism.epsilon(delta)
    data = json.loads(rb.certify(mechanism, epsilon=1.05 * epsilon, delta=delta).to_json())
    assert checker["check"](json.dumps(data)) > 0
    with pytest.raises(checker["Refused"], match="not proved"):
        checker["check"](json.dumps({**data, "epsilon": 0.95 * epsilon}))


def test_the_other_program_looks_only_at_answers_that_there_are(checker):
    noise, support, spans = rb.Gaussian(scale=3.0), rb.Interval(0, 10), rb.Union((0, 2), (6, 10))
    mechanism = rb.Mechanism(noise=noise, query=rb.Query(range=spans, sensitivity=5.0), support=support)
    whole = rb.Mechanism(noise=noise, query=rb.Query(range=support, sensitivity=5.0), support=support)
    claimed = 1.05 * mechanism.epsilon()
    data = json.loads(rb.certify(mechanism, epsilon=claimed).to_json())
    assert checker["check"](json.dumps(data)) > 0
    assert whole.epsilon() > claimed  # control: with the answers between the spans it is not true
    wider = {**data["mechanism"], "query": {**data["mechanism"]["query"], "range": {"interval": [0.0, 10.0]}}}
    with pytest.raises(checker["Refused"], match="not proved"):
        checker["check"](json.dumps({**data, "mechanism": wider, "theorem": "LOSS_AT_ENDS", "cells": []}))


FALSE = [
    (rb.Laplace(scale=0.1), rb.TRUNCATE, rb.Union((0, 1), (5, math.inf)), (0.5, math.inf)),  # false in the gap alone
    (rb.Gaussian(scale=1.0), rb.QUANTIZE, rb.Grid(step=0.1, within=rb.Interval(0, 0.3)), (-1, 0)),  # 3 * 0.1 > 0.3
]


@pytest.mark.claim("forgery")
@pytest.mark.parametrize(("noise", "bounding", "support", "answers"), FALSE)
def test_the_other_program_sees_gaps_before_a_half_line_and_the_last_point_of_a_grid(
    checker, noise, bounding, support, answers
):
    query = rb.Query(range=rb.Interval(*answers), sensitivity=0.1)
    mechanism = rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)
    rest = {"format": "rangebound certificate 1", "mechanism": mechanism.to_dict(), "delta": 0.0, "bits": 128}
    rest |= {"theorem": "LOSS_AT_ENDS", "cells": []}
    assert checker["check"](json.dumps({**rest, "epsilon": 1.25 * mechanism.epsilon()})) > 0
    with pytest.raises(checker["Refused"], match="not proved"):
        checker["check"](json.dumps({**rest, "epsilon": 0.97 * mechanism.epsilon()}))


def test_the_other_program_says_in_one_line_what_it_leaves_to_the_first(tmp_path):
    query = rb.Query(range=rb.Interval(0, 18), sensitivity=2.5)
    metric = rb.calibrate(noise=rb.Laplace, query=query, epsilon=0.7, notion="metric")
    place = tmp_path / "metric.json"
    place.write_text(rb.certify(metric, epsilon=0.7, notion="metric").to_json(), encoding="utf-8")
    ask = [sys.executable, str(EXAMPLES / "check_certificate.py"), str(place)]
    found = subprocess.run(ask, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.startswith(f"{place}: refused; format: is not known here; metric claims, lattices")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["check_certificate.py", "check_limit.py"])
def test_the_other_programs_import_nothing_of_ours(name):
    ask = "import sys, runpy; runpy.run_path(sys.argv[1]); sys.exit(any('rangebound' in name for name in sys.modules))"
    subprocess.run([sys.executable, "-c", ask, str(EXAMPLES / name)], check=True)
    assert not re.search("(import|from) rangebound", (EXAMPLES / name).read_text(encoding="utf-8"))


def test_the_certificates_that_are_shipped_show_every_theorem_noise_bounding_and_support():
    data = [json.loads(path.read_text(encoding="utf-8")) for path in CERTIFICATES.values()]
    # That the other program does not check; tables have a second checker of their own.
    others = {Theorem.RATE_AT_ENDS, Theorem.DELTA_ON_WINDOWS, Theorem.LATTICE_PAIR, Theorem.ALL_WEIGHTS}
    assert {each["theorem"] for each in data} == {each.name for each in Theorem if each not in others}
    mechanisms = [each["mechanism"] for each in data]
    assert {each["noise"]["family"] for each in mechanisms} == {"laplace", "gaussian", "truncated_laplacian"}
    assert {each["bounding"] for each in mechanisms} == {"truncate", "rectify", "quantize", "unbounded"}
    assert {name for each in mechanisms for name in each["support"]} == {"interval", "union", "grid"}


@pytest.mark.parametrize("z", [0.0, 0.1, 1.0, 3.7, 8.9, 9.1, 20.0, 38.0])
def test_the_other_program_encloses_the_normal_tail(checker, z):
    tail, truth = checker["upper_tail"](Fraction(z)), 0.5 * math.erfc(z / math.sqrt(2))
    assert float(tail.a) * (1 - 1e-12) <= truth <= float(tail.b) * (1 + 1e-12)
    assert float(tail.delta) <= max(0.1 * truth, 1e-30) if z > 9 else float(tail.delta) < 1e-30


@pytest.fixture(scope="session")
def limit_checker():
    return runpy.run_path(str(EXAMPLES / "check_limit.py"))


OPTIMAL = {
    "interval": (rb.Query(range=rb.Interval(0, 2), sensitivity=1.0), "mae", "worst", 0.25),
    "squared": (rb.Query(range=rb.Interval(0, 2), sensitivity=1.0), "mse", "average", 0.25),
    "grid": (rb.Query(range=rb.Grid(step=0.1, within=rb.Interval(0, 1)), sensitivity=0.3), "mae", "average", None),
    "union": (rb.Query(range=rb.Union((0, 1), (2, 3)), sensitivity=1.0), "mae", "worst", 0.25),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", OPTIMAL)
def test_a_table_and_its_limit_are_checked_by_another_program(limit_checker, name):
    query, objective, at, step = OPTIMAL[name]
    table = rb.optimal(query=query, epsilon=1.0, objective=objective, at=at, step=step)
    data, limit = json.loads(table.to_json()), json.loads(table.limit.to_json())
    assert limit_checker["check_table"](data) == 1.0
    assert limit_checker["check_limit"](limit) == table.limit.value
    with pytest.raises(ValueError, match="not private"):
        limit_checker["check_table"]({**data, "claim": {**data["claim"], "epsilon": 0.98}})
    prices = [each + 1e-4 * max(limit["prices"]) for each in limit["prices"]]
    for change in ({"prices": prices}, {"value": 1.001 * limit["value"]}, {"epsilon": 1.01}):
        with pytest.raises(ValueError, match=r"prices|value"):
            limit_checker["check_limit"]({**limit, **change})
    shifted = [each + 10.0 for each in limit["inputs"]]
    with pytest.raises(ValueError, match="range"):
        limit_checker["check_limit"]({**limit, "inputs": shifted, "width": -10.0, "at": "worst"})
    with pytest.raises(ValueError, match="ascend"):
        limit_checker["check_table"]({**data, "table": {**data["table"], "inputs": data["table"]["inputs"][::-1]}})


def test_the_checker_of_limits_leaves_the_precision_of_balls_alone():
    before = ctx.prec  # numbers that are rounded outside of `refine` differ in their last bit where it is another
    runpy.run_path(str(EXAMPLES / "check_limit.py"))["exponential"](Fraction(1))
    assert ctx.prec == before


@pytest.mark.long
@pytest.mark.parametrize("name", ["train_with_lightning", "train_with_trainer"])
def test_trainers_of_others_train_in_private(name):
    """With the real packages, in an environment of their own; nothing is downloaded but these."""
    from benchmarks import peers

    try:
        peers.make("trainers")
    except peers.Absent as why:
        pytest.skip(f"the packages could not be installed: {why}")
    around = {**peers.surroundings(), "PYTHONPATH": str(EXAMPLES.parent / "src")}
    command = [str(peers.python("trainers")), "-W", "ignore", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=around, check=True, timeout=900)
    accuracy, epsilon, steps = re.search(
        r"accuracy ([0-9.]+); \(([0-9.]+), 1e-05\).* ([0-9]+) steps", done.stdout
    ).groups()
    assert float(accuracy) > 0.6  # half of the examples are of each class
    assert 7.9 < float(epsilon) <= 8.0
    assert steps == "40"
    assert "loss" not in done.stdout + done.stderr  # which is private
