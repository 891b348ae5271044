"""Choosing: every mechanism of a ranking is private, ordered by what was asked, and shown readably."""

import functools
import math

import pytest

import rangebound as rb
import rangebound.optimum.choice
from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.optimum.limit_proof import LimitedError, Over

INF = math.inf
COUNT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
GRID = rb.Grid(step=2.5, within=rb.Interval(0, 10))
WHOLE = rb.Query(range=rb.Grid(step=1, within=rb.Interval(0, 100)), sensitivity=1.0)
SHARE = rb.Query(range=rb.Grid(step=0.01, within=rb.Interval(0, 1)), sensitivity=0.05)
ASKED = {
    "pure": {"query": COUNT, "epsilon": 1.0},
    "delta": {"query": COUNT, "epsilon": 1.0, "delta": 1e-3},
    "mse": {"query": COUNT, "epsilon": 1.0, "objective": "mse"},
    "bias": {"query": COUNT, "epsilon": 1.0, "objective": "bias"},
    "average": {"query": COUNT, "epsilon": 1.0, "at": "average"},
    "at a place": {"query": COUNT, "epsilon": 1.0, "at": 2.0},
    "no spikes": {"query": COUNT, "epsilon": 1.0, "spikes": False},
    "union": {"query": rb.Query(range=rb.Union((0, 1), (2, 3)), sensitivity=1.0), "epsilon": 1.0},
    "line": {"query": rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0), "epsilon": 1.0, "delta": 1e-6},
    "half-line": {"query": rb.Query(range=rb.Interval(0, INF), sensitivity=1.0), "epsilon": 1.0},
    "grid": {"query": COUNT, "epsilon": 1.0, "support": GRID},
    "whole answers": {"query": WHOLE, "epsilon": 1.0},
    "whole answers at a place": {"query": WHOLE, "epsilon": 1.0, "delta": 1e-6, "at": 3.0},
    "shares": {"query": SHARE, "epsilon": 2.0},
}


@functools.cache
def ranked(name):
    """The ranking of a name, found when a test asks for it, not when tests are collected."""
    return rb.choose(**ASKED[name])


@pytest.fixture(params=ASKED)
def ranking(request):
    return ranked(request.param)


@pytest.mark.few(1)
def test_every_choice_is_private_and_in_order_and_the_first_is_the_best(ranking):
    scores = [choice.score for choice in ranking]
    assert scores == sorted(scores)
    assert len(ranking) == len(scores) > 0
    assert ranking.best == ranking.choices[0].mechanism
    for choice in ranking:
        assert rb.certify(choice.mechanism, ranking.epsilon, ranking.delta).delta == ranking.delta
        assert choice.score == abs(getattr(choice.error, ranking.objective.value))
        assert not math.isnan(choice.score)
    offered, refused = [choice.name for choice in ranking], [name for name, _ in ranking.refused]
    assert len({*offered, *refused}) == len(offered) + len(refused)
    assert all(reason for _, reason in ranking.refused)


@pytest.mark.slow
def test_a_ranking_prints_as_a_table(ranking):
    text = str(ranking)
    assert "nan" not in text
    for choice in ranking:
        (line,) = [line for line in text.splitlines() if line.startswith(choice.name + " ")]
        assert line.endswith("yes" if choice.spikes else "no")
    for name, _ in ranking.refused:
        assert f"not offered: {name} (" in text
    assert ranking._repr_html_().count("<tr>") == len(ranking) + 1
    if ranking in (ranked("pure"), ranked("no spikes")):
        assert any(choice.spikes for choice in ranking) == (ranking == ranked("pure"))


@pytest.mark.parametrize("place", [0.0, 2.0, 10.0])
def test_errors_at_a_place_are_those_of_the_mechanism(place):
    for choice in rb.choose(query=COUNT, epsilon=1.0, at=place):
        assert choice.error == choice.mechanism.error(place)


def test_a_target_that_no_mechanism_reaches_is_refused_with_every_reason():
    with pytest.raises((Unsatisfiable, ArgumentError), match="epsilon="):
        rb.choose(query=COUNT, epsilon=1e-310)


def test_an_average_over_an_unbounded_range_is_refused_by_name():
    with pytest.raises(ArgumentError, match=r"range=|at="):
        rb.choose(**{**ASKED["half-line"], "at": "average"})


def without_lattices(ranking):
    return min(choice.score for choice in ranking if isinstance(choice.mechanism, rb.Mechanism))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("query", "kind", "epsilon", "worst", "less"),
    [
        (WHOLE, rb.DiscreteLaplace, 1.0, 0.8509, 0.11),
        (WHOLE, rb.DiscreteLaplace, 2.0, 0.2757, 0.11),
        (WHOLE, rb.DiscreteLaplace, 4.0, 0.03664, 0.017),
        (SHARE, rb.Staircase, 1.0, 0.04786, 0.04),
        (SHARE, rb.Staircase, 2.0, 0.02078, 0.16),
        (SHARE, rb.Staircase, 4.0, 0.004864, 0.6),
    ],
)
def test_counts_and_shares_have_less_error_with_noise_on_a_lattice(query, kind, epsilon, worst, less):
    """For counts `worst` is the optimum of the whole problem, to its last digit."""
    ranking = rb.choose(query=query, epsilon=epsilon)
    assert isinstance(ranking.best, kind)
    assert ranking.choices[0].score == pytest.approx(worst, rel=2e-4)
    assert ranking.choices[0].score <= (1.0 - less) * without_lattices(ranking)


@pytest.mark.parametrize(("epsilon", "less"), [(1.0, 0.04), (2.0, 0.148), (4.0, 0.448)])
def test_real_answers_have_less_error_with_staircase_noise_rounding_included(epsilon, less):
    ranking = rb.choose(query=COUNT, epsilon=epsilon)
    best = ranking.best
    assert isinstance(best, rb.Staircase)
    assert ranking.choices[0].score <= (1.0 - less) * without_lattices(ranking)
    anywhere = best.error([i * 10.0 / 4321 for i in range(4322)]).mae.max()
    assert anywhere <= ranking.choices[0].score <= 1.01 * anywhere


def test_errors_on_a_grid_of_answers_are_those_at_its_points():
    for choice in ranked("shares"):
        worst = choice.mechanism.worst_error()
        places = choice.mechanism.error(SHARE.range.points)
        assert worst.mae == pytest.approx(float(places.mae.max()), rel=1e-12)
        assert choice.mechanism.average_error().mae == pytest.approx(float(places.mae.mean()), rel=1e-12)


def test_an_answer_between_the_points_of_a_grid_goes_to_the_nearest_and_a_tie_up():
    assert WHOLE.clip([0.4, 0.5, 1.5, 99.7, 300.0, -1.0]).tolist() == [0.0, 1.0, 2.0, 100.0, 100.0, 0.0]
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=WHOLE)
    assert mechanism.release(3.2) in WHOLE.range.points
    assert mechanism.epsilon() >= mechanism.epsilon(1e-3) > 0.0
    assert rb.Mechanism.from_dict(mechanism.to_dict()) == mechanism


NO_LIMIT = {"delta": "delta", "line": "bounded", "half-line": "bounded", "bias": "bias", "at a place": "one true"}
NO_LIMIT["whole answers at a place"] = "delta"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ASKED)
def test_a_ranking_says_how_far_above_the_limit_it_is_or_why_it_does_not(name):
    ranking = ranked(name)
    text, markup = str(ranking), ranking._repr_html_()
    if name not in NO_LIMIT:
        assert ranking.limit.verify()
        assert not ranking.no_limit
        assert len(ranking.above_limit) == len(ranking)
        assert all(choice.score >= ranking.limit.value for choice in ranking)
        assert "above limit" in text.splitlines()[2]
        assert "<th>above limit</th>" in markup
        assert text.count(" %  ") == markup.count(" %</td>") == len(ranking)
    else:
        assert ranking.limit is None
        assert ranking.above_limit == ()
        assert "above limit" not in text + markup
        assert NO_LIMIT[name] in ranking.no_limit
        assert f"no limit: {ranking.no_limit}" in text
        assert "<p>no limit: " in markup


def test_a_limit_is_computed_when_it_is_asked_for_and_once(monkeypatch):
    asked = []
    found = ranked("pure").limit
    fresh = functools.lru_cache(rangebound.optimum.choice._limit.__wrapped__)  # no other test sees what is kept here
    monkeypatch.setattr(rangebound.optimum.choice, "_limit", fresh)
    monkeypatch.setattr(rangebound.optimum.choice, "proved", lambda *given: asked.append(given) or found)
    query = rb.Query(range=rb.Interval(0, 11), sensitivity=1.0)
    first, second = rb.choose(query=query, epsilon=1.0), rb.choose(query=query, epsilon=1.0, spikes=False)
    assert not asked
    assert "above limit" in str(first)
    assert first.limit is found
    assert str(second)
    assert asked == [(query, 1.0, LimitedError.MAE, Over.WORST, 161)]


def test_mechanisms_with_a_larger_epsilon_are_below_the_limit_of_a_smaller_one():
    """The control: the comparison can fail."""
    limit = ranked("pure").limit.value
    assert any(choice.score < limit for choice in rb.choose(query=COUNT, epsilon=2.0))


@pytest.mark.parametrize(("above", "text"), [(0.0, "+0.0 %"), (0.0061, "+0.7 %"), (0.0991, "+10 %"), (0.1161, "+12 %")])
def test_percents_above_the_limit_are_rounded_up(above, text):
    assert rangebound.optimum.choice._percent(above) == text
