"""The mistakes of a first hour: each gets one sentence that says what is wrong and what to write."""

import functools
import inspect
import math
from typing import Any

import pytest

import rangebound as rb
from rangebound import accounting, plot
from rangebound.accounting import best_accountant
from rangebound.audit import attack, timing
from rangebound.errors import ArgumentTypeError
from rangebound.ledger import rule
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from rangebound.release import release
from rangebound.values import arguments

GaussianNB = pytest.importorskip("rangebound.learn.sklearn").GaussianNB
UNIT = rb.Interval(0, 1)
QUERY = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
MADE = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=QUERY)
CERTIFICATE = rb.certify(MADE, epsilon=2.0)
SHOWN = [accounting, attack, best_accountant, math, rule, plot, timing, Ledger, GaussianNB, release]
NAMES = {each.__name__.rpartition(".")[2]: each for each in SHOWN}
NAMES |= {"rb": rb, "UNIT": UNIT, "QUERY": QUERY, "MADE": MADE, "CERTIFICATE": CERTIFICATE}

# What a newcomer may write, and what the answer must say.
MISTAKES = {
    "rb.Laplace(2)": "arguments are given by name; write Laplace(scale=2)",
    "rb.Laplace(sigma=2)": "it has no argument sigma; write Laplace(scale=...)",
    "rb.Query(UNIT, 1)": "write Query(range=..., sensitivity=1)",
    "rb.Query(range=(0, 1), sensitivity=1)": "such as Interval(0, 100)",
    "rb.Grid([1, 2, 3])": "write Grid(step=..., within=...)",
    "rb.Interval(0)": "upper is missing; write Interval(lower, upper)",
    "rb.Interval(0, None)": "an open end is math.inf",
    "rb.Mechanism(rb.Laplace(scale=1), QUERY)": "write Mechanism(noise=Laplace(scale=1.0), query=...)",
    "rb.Mechanism(noise=rb.Laplace, query=QUERY)": "such as rb.Laplace(scale=2.0)",
    "rb.Mechanism(noise=rb.Laplace(scale=1), query=QUERY, bounding='truncate')": "one of rb.TRUNCATE",
    "rb.calibrate(rb.Laplace, QUERY, 1.0)": "arguments are given by name; write calibrate(noise=..., query=..., ",
    "rb.calibrate(noise=rb.Laplace(scale=1), query=QUERY, epsilon=1)": "the scale is what calibrate finds",
    "rb.choose(QUERY, 1.0)": "write choose(query=..., epsilon=1.0)",
    "rb.certify(MADE)": "pass what to prove, such as certify(m, epsilon=1.0, delta=1e-6)",
    "rb.verify(CERTIFICATE)": "as Certificate.to_json writes it",
    "rb.verify('certificate.json')": "not the name of its file",
    "rb.verify(CERTIFICATE.to_json()[:-5])": "must be JSON, whole and nothing else",
    "rb.verify(CERTIFICATE.to_json().replace('bits', 'bit'))": "field 'bits' is missing",
    "rb.hockey_stick(MADE, MADE, 1.0)": "must be a Law, as m.law(answer) returns",
    "MADE.release('42')": "answer of type str: must be a real number",
    "MADE.release(math.nan)": "decide what a missing value counts as",
    "MADE.confidence_interval(140)": "is never published; the numbers of the support next to it are",
    "accounting.MechanismEvent(MADE, 100)": "write MechanismEvent(mechanism=..., times=1)",
    "best_accountant.epsilon(MADE, 1e-6)": "must be an event, such as MechanismEvent(mechanism=m)",
    "rule.Cost(0.1)": "write Cost(epsilon=0.1)",
    "Ledger('census.ledger')": "write Ledger.open(path), or Ledger.create(path)",
    "Ledger.open('census.ledger')": "`rangebound ledger open census.ledger ACCOUNT --epsilon TOTAL` makes one",
    "attack(MADE, 1.0)": "some arguments are given by name; write attack(mechanism, pair=None, epsilon=None",
    "timing(MADE, pair=(0, 5))": "such as m.release",
    "release_table('plan.toml', {'age': [17.25]}, ledger=None)": "plan of type str: must be a Plan, as read_plan",
    "release_table(1)": "ledger is missing; write release_table(plan, ledger=...)",
    "plot.worst_pair(MADE, MADE)": "write worst_pair(mechanism, epsilon=None, ax=None)",
    "GaussianNB(1.0)": "arguments are given by name; write GaussianNB(epsilon=1.0",
    "GaussianNB(bounds=(0, 1)).fit([0.5, 0.7], [0, 1])": "X: must have two dimensions, rows and features",
}


@pytest.mark.parametrize(("mistake", "words"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_to_act_on(mistake, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(rb.RangeboundError) as caught:
        eval(mistake, NAMES)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 260


PRIVATE = 17.25


def test_control_a_public_number_is_shown():
    with pytest.raises(rb.RangeboundError, match=f"{PRIVATE}"):
        MADE.confidence_interval([PRIVATE, math.nan])


def test_a_flat_table_is_not_shown():
    with pytest.raises(rb.ArgumentError) as caught:
        GaussianNB(bounds=(0, 100)).fit([PRIVATE, 3.0], [0, 1])
    assert f"{PRIVATE}" not in str(caught.value)


def test_a_draw_that_is_no_bytes_is_not_shown(tmp_path):
    drawn = []

    def compute(cost: Cost) -> Any:
        drawn.append(MADE.release(PRIVATE))
        return drawn[-1]

    with Ledger.create(tmp_path / "a.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
        with pytest.raises(ArgumentTypeError, match=r"^payload of type float: must be bytes, such as") as caught:
            ledger.release(account="people", request="1", cost=Cost(epsilon=0.5), compute=compute)
    assert str(drawn[0])[:6] not in str(caught.value)


@arguments.guided  # and not on `Mechanism.release`: half a microsecond is much there
def published(answer: float, *, step: float, count: int = 1) -> float:
    return answer + step + len(count)  # type: ignore[arg-type]


def test_a_guided_call_is_the_call_itself():
    assert published(1.0, step=2.0, count="three") == 8.0  # type: ignore[arg-type]
    assert [*inspect.signature(published).parameters] == ["answer", "step", "count"]
    assert [*inspect.signature(rb.Laplace).parameters] == ["scale"]
    assert published.__name__ == "published"


def test_what_has_a_place_may_be_data_and_is_not_shown():
    with pytest.raises(ArgumentTypeError, match=r"write published\(answer, step=1\)$"):
        published(PRIVATE, 1)  # type: ignore[misc, call-arg]


def test_a_mistake_inside_is_not_taken_for_one_in_the_call():
    with pytest.raises(TypeError, match="has no len") as caught:
        published(1.0, step=2.0)
    assert not isinstance(caught.value, rb.RangeboundError)


def test_control_without_the_guide_python_only_counts():
    bare = functools.partial(inspect.unwrap(rb.Laplace.__init__), object.__new__(rb.Laplace))
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        bare(2)
