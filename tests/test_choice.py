"""Choosing: every mechanism of a ranking is private, ordered by what was asked, and shown readably."""

import math
from html.parser import HTMLParser

import pytest

import rangebound as rb
from rangebound.errors import ArgumentError, RangeboundError, Unsatisfiable

INF = math.inf
COUNT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
GRID = rb.Grid(step=2.5, within=rb.Interval(0, 10))
RANKINGS = {
    "pure": rb.choose(query=COUNT, epsilon=1.0),
    "delta": rb.choose(query=COUNT, epsilon=1.0, delta=1e-3),
    "mse": rb.choose(query=COUNT, epsilon=1.0, objective="mse"),
    "bias": rb.choose(query=COUNT, epsilon=1.0, objective="bias"),
    "average": rb.choose(query=COUNT, epsilon=1.0, at="average"),
    "at a place": rb.choose(query=COUNT, epsilon=1.0, at=2.0),
    "no spikes": rb.choose(query=COUNT, epsilon=1.0, spikes=False),
    "union": rb.choose(query=rb.Query(range=rb.Union((0, 1), (2, 3)), sensitivity=1.0), epsilon=1.0),
    "line": rb.choose(query=rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0), epsilon=1.0, delta=1e-6),
    "half-line": rb.choose(query=rb.Query(range=rb.Interval(0, INF), sensitivity=1.0), epsilon=1.0),
    "grid": rb.choose(query=COUNT, epsilon=1.0, support=GRID),
}
every_ranking = pytest.mark.parametrize("ranking", RANKINGS.values(), ids=RANKINGS)


@every_ranking
def test_every_choice_is_private(ranking):
    for choice in ranking:
        assert rb.certify(choice.mechanism, ranking.epsilon, ranking.delta).delta == ranking.delta


@every_ranking
def test_the_ranking_is_in_order_and_the_first_is_the_best(ranking):
    scores = [choice.score for choice in ranking]
    assert scores == sorted(scores)
    assert len(ranking) == len(scores) > 0
    assert ranking.best == ranking.choices[0].mechanism
    for choice in ranking:
        assert choice.score == abs(getattr(choice.error, ranking.objective.value))
        assert not math.isnan(choice.score)


@every_ranking
def test_no_mechanism_is_offered_and_refused_at_once(ranking):
    offered, refused = [choice.name for choice in ranking], [name for name, _ in ranking.refused]
    assert len({*offered, *refused}) == len(offered) + len(refused)
    assert all(reason for _, reason in ranking.refused)


@every_ranking
def test_a_ranking_prints_as_a_table(ranking):
    text = str(ranking)
    lines = text.splitlines()
    assert "nan" not in text
    for choice in ranking:
        (line,) = [line for line in lines if line.startswith(choice.name + " ")]
        assert line.endswith("yes" if choice.spikes else "no")
    for name, _ in ranking.refused:
        assert f"not offered: {name} (" in text


@every_ranking
def test_a_ranking_shows_as_html(ranking):
    rows = []

    class Rows(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag == "tr":
                rows.append(tag)

    Rows().feed(ranking._repr_html_())
    assert len(rows) == len(ranking) + 1


def test_spikes_are_left_out_when_they_are_not_wanted():
    assert any(choice.spikes for choice in RANKINGS["pure"])
    assert not any(choice.spikes for choice in RANKINGS["no spikes"])


@pytest.mark.parametrize("place", [0.0, 2.0, 10.0])
def test_errors_at_a_place_are_those_of_the_mechanism(place):
    for choice in rb.choose(query=COUNT, epsilon=1.0, at=place):
        assert choice.error == choice.mechanism.error(place)


def test_the_worst_case_is_at_least_the_average_and_every_place():
    for choice in RANKINGS["pure"]:
        worst, average = choice.mechanism.worst_error(), choice.mechanism.average_error()
        for name in ("bias", "mae", "mse"):
            assert getattr(worst, name) >= getattr(average, name) * (1 - 1e-9)
            for place in (0.0, 0.3, 2.0, 5.0, 9.9, 10.0):
                assert getattr(worst, name) >= abs(getattr(choice.mechanism.error(place), name)) * (1 - 1e-9)


def test_a_target_that_no_mechanism_reaches_is_refused_with_every_reason():
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    with pytest.raises((Unsatisfiable, ArgumentError), match="epsilon="):
        rb.choose(query=query, epsilon=1e-310)


def test_an_average_over_an_unbounded_range_is_refused_by_name():
    query = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    with pytest.raises(ArgumentError, match=r"range=|at="):
        rb.choose(query=query, epsilon=1.0, at="average")


def test_a_ranking_is_frozen():
    with pytest.raises(AttributeError):
        RANKINGS["pure"].epsilon = 2.0
    assert issubclass(Unsatisfiable, RangeboundError)
