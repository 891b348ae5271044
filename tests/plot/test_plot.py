"""What the pictures show: the numbers of the library, on labelled axes, in lines that differ in more than colour."""

import importlib.util
import itertools
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt

import rangebound as rb
from rangebound import plot
from rangebound.errors import MissingExtra
from rangebound.plot import style
from rangebound.privacy import worst_delta, worst_loss

QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
GAPS = rb.Query(range=rb.Union((0, 3), (5, 10)), sensitivity=2.5)
TRUNCATED = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=QUERY)
CLAMPED = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=QUERY, bounding=rb.RECTIFY)
UNION = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=GAPS)
LINE = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=rb.Query(range=rb.Interval(0, np.inf), sensitivity=1.0))
GRID = rb.Mechanism(
    noise=rb.Laplace(scale=2.0), query=QUERY, support=rb.Grid(step=1.0, within=QUERY.range), bounding=rb.QUANTIZE
)

PICTURES = {
    "law": lambda ax: plot.law(TRUNCATED.law(3.0), CLAMPED.law(3.0), ax=ax),
    "profile": lambda ax: plot.profile(TRUNCATED, CLAMPED, epsilons=[0.0, 0.2, 0.4], ax=ax),
    "renyi": lambda ax: plot.renyi_curve(TRUNCATED, CLAMPED, orders=[2.0, 8.0], ax=ax),
    "tradeoff": lambda ax: plot.tradeoff(TRUNCATED, CLAMPED, false_positive_rates=[0.0, 0.1, 1.0], ax=ax),
    "fisher": lambda ax: plot.fisher(TRUNCATED, CLAMPED, answers=[0.0, 5.0], ax=ax),
    "worst_pair": lambda ax: plot.worst_pair(TRUNCATED, epsilon=0.3, ax=ax),
    "errors": lambda ax: plot.errors(QUERY, epsilons=[0.5, 1.0], ax=ax),
}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_labelled_and_drawn_where_it_was_asked_for(name):
    _, (left, right) = plt.subplots(1, 2)
    ax = PICTURES[name](right)
    assert ax is right
    assert not left.has_data()
    assert ax.get_title()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert len(ax.get_legend().get_texts()) >= 2
    right.figure.canvas.draw()


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_makes_its_own_figure_if_there_is_none(name):
    before = set(plt.get_fignums())
    ax = PICTURES[name](None)
    assert len(set(plt.get_fignums()) - before) == 1
    assert ax.figure.get_layout_engine() is not None


def test_lines_differ_in_dashes_as_well_as_in_colour():
    looks = list(itertools.islice(style.lines(), 6))
    assert len({look["color"] for look in looks}) == len({str(look["linestyle"]) for look in looks}) == 6


def lightness(colour: str) -> float:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_colour_can_be_seen_on_white_paper():
    assert all(lightness(colour) < 0.65 for colour in style.COLOURS)
    assert not lightness("#F0E442") < 0.65  # the control: the palette's yellow, which is left out


def test_the_density_is_that_of_the_law_and_falls_at_the_ends():
    law = TRUNCATED.law(3.0)
    x, y = plot.law(law).lines[0].get_data()
    inside = np.isfinite(x)
    assert (y[inside][0], y[inside][-1]) == (0.0, 0.0)
    assert (x[inside][0], x[inside][-1]) == (0.0, 10.0)
    np.testing.assert_array_equal(y[inside][1:-1], law.pdf(x[inside][1:-1]))
    assert 3.0 in x  # the peak is not cut off


def test_a_gap_has_no_line_and_is_hatched():
    ax = plot.law(UNION.law(2.0))
    x, y = ax.lines[0].get_data()
    assert np.isnan(x).sum() == 2
    assert not (y[(x > 3.0) & (x < 5.0)] > 0.0).any()
    hatched = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    assert (3.0, 5.0) in [tuple(np.round(each, 9)) for each in hatched]
    assert len(hatched) == 3


def test_the_whole_line_has_no_hatching():
    query = rb.Query(range=rb.Interval(-np.inf, np.inf), sensitivity=1.0)
    free = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.UNBOUNDED)
    ax = plot.law(free.law(0.0))
    assert len(ax.patches) == 0


def test_atoms_beside_a_density_have_an_axis_of_their_own():
    law = CLAMPED.law(3.0)
    ax = plot.law(law)
    _, beside = ax.figure.axes
    points, weights = beside.lines[0].get_data()
    np.testing.assert_array_equal(points, [0.0, 10.0])
    np.testing.assert_array_equal(weights, law.atoms[1])


def test_a_grid_shows_probabilities_and_no_second_axis():
    ax = plot.law(GRID.law([2.0, 7.0]))
    assert ax.get_ylabel() == "probability"
    assert len(ax.figure.axes) == 1
    assert sum(ax.lines[0].get_ydata()) == pytest.approx(1.0)
    assert len(ax.lines) == 2


@pytest.mark.parametrize("mechanism", [TRUNCATED, CLAMPED])
def test_the_profile_is_that_of_the_mechanism(mechanism):
    x, y = plot.profile(mechanism, epsilons=[0.0, 0.1, 0.3]).lines[0].get_data()
    assert y.tolist() == [mechanism.delta(float(each)) for each in x]


def test_a_profile_reaches_its_pure_epsilon_and_marks_it():
    ax = plot.profile(TRUNCATED)
    curve, mark = ax.lines
    assert curve.get_xdata()[-1] == mark.get_xdata()[0] == TRUNCATED.epsilon()
    assert ax.get_ylim()[0] >= 1e-9


def test_a_profile_without_pure_epsilon_stops_where_it_is_small():
    ax = plot.profile(LINE)
    assert len(ax.lines) == 1
    assert ax.lines[0].get_ydata()[-1] <= 1e-9
    assert ax.lines[0].get_ydata()[-2] > 1e-9


def test_the_renyi_curve_is_that_of_the_mechanism():
    curve, mark = plot.renyi_curve(TRUNCATED, orders=[2.0, 16.0]).lines
    np.testing.assert_array_equal(curve.get_ydata(), TRUNCATED.rdp([2.0, 16.0]))
    assert mark.get_ydata() == [TRUNCATED.epsilon()]


def test_the_tradeoff_is_that_of_the_mechanism_and_below_a_guess():
    many = rb.compose((TRUNCATED, 3))
    ax = plot.tradeoff(TRUNCATED, many, false_positive_rates=[0.0, 0.1, 0.5, 1.0])
    one, three, guess = (line.get_ydata() for line in ax.lines)
    exact = TRUNCATED.tradeoff([0.0, 0.1, 0.5, 1.0])
    assert np.all(one <= exact)
    assert np.all(one >= exact - 1e-4)
    assert np.all(three <= one)
    assert list(guess) == [1.0, 0.0]
    assert [each.get_text() for each in ax.get_legend().get_texts()][1:] == ["composition 2", "a guess"]


def test_the_fisher_information_is_that_of_the_mechanism():
    x, y = plot.fisher(LINE).lines[0].get_data()
    assert (x[0], x[-1]) == (0.0, 8.0)
    np.testing.assert_array_equal(y, LINE.fisher(x))


@pytest.mark.parametrize("mechanism", [TRUNCATED, UNION, CLAMPED, GRID], ids=["truncated", "union", "clamped", "grid"])
@pytest.mark.parametrize("epsilon", [None, 0.25])
def test_no_pair_lies_above_the_worst_one_and_one_comes_near(mechanism, epsilon):
    worst = worst_loss(mechanism.setting) if epsilon is None else worst_delta(mechanism.setting, epsilon)
    ax = plot.worst_pair(mechanism, epsilon=epsilon)
    best = max(float(np.nanmax(line.get_ydata())) for line in ax.lines[:2])
    assert best <= worst.upper * (1 + 1e-9)
    assert best >= 0.95 * worst.upper
    star = ax.lines[2]
    assert star.get_xdata()[0] == min(worst.pair)
    assert star.get_ydata()[0] == worst.upper


def test_pairs_are_the_farthest_answers_within_the_sensitivity():
    from rangebound.plot.worst_pair import _pairs

    lower, upper = _pairs(UNION)
    assert (upper - lower).max() == 2.5
    assert not ((lower > 3.0) & (lower < 5.0)).any()
    assert not ((upper > 3.0) & (upper < 5.0)).any()
    assert upper[lower == 1.0].tolist() == [3.0]  # 3.5 lies in the gap
    assert lower[-1] == 7.5  # later pairs are parts of this one


def test_no_line_crosses_a_gap_between_answers():
    x, y = plot.worst_pair(UNION).lines[0].get_data()
    (gap,) = np.flatnonzero(np.isnan(x))
    assert (x[gap - 1], x[gap + 1]) == (3.0, 5.0)
    assert np.isnan(y[gap])
    assert not np.isnan(plot.worst_pair(TRUNCATED).lines[0].get_xdata()).any()


def test_errors_are_those_of_choose():
    ax = plot.errors(QUERY, epsilons=[0.5, 1.0], delta=1e-6, at=3.0, objective="mse")
    for i, epsilon in enumerate([0.5, 1.0]):
        ranking = rb.choose(query=QUERY, epsilon=epsilon, delta=1e-6, at=3.0, objective="mse")
        drawn = {line.get_label(): line.get_ydata()[i] for line in ax.lines}
        assert drawn == {choice.name: choice.score for choice in ranking}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.law(), "at least one Law"),
        (lambda: plot.law(TRUNCATED), "must be a Law"),
        (lambda: plot.law(TRUNCATED.law(3.0), labels=["a", "b"]), "must be 1 string,"),
        (lambda: plot.law(TRUNCATED.law(3.0), labels="a"), "must be 1 string,"),
        (lambda: plot.profile(), "at least one mechanism"),
        (lambda: plot.profile(TRUNCATED.law(3.0)), "must be a mechanism"),
        (lambda: plot.profile(TRUNCATED, epsilons=[-1.0]), "must be zero or more"),
        (lambda: plot.profile(TRUNCATED, epsilons=[np.nan]), "must be finite"),
        (lambda: plot.tradeoff(), "at least one mechanism"),
        (lambda: plot.tradeoff(3.0), "must be a mechanism, or what compose"),
        (lambda: plot.tradeoff(TRUNCATED, false_positive_rates=[1.5]), r"must lie in \[0, 1\]"),
        (lambda: plot.renyi_curve(TRUNCATED, orders=[1.0]), "must be above 1"),
        (lambda: plot.fisher(TRUNCATED, answers="x"), "must be a real number"),
        (lambda: plot.worst_pair(TRUNCATED, epsilon=-1.0), "must be zero or more"),
        (lambda: plot.worst_pair(QUERY), "must be a mechanism"),
        (lambda: plot.errors(TRUNCATED), "must be a Query"),
        (lambda: plot.errors(QUERY, epsilons=[0.0]), "must be positive"),
    ],
)
def test_bad_input_is_refused_in_one_clear_error(call, words):
    with pytest.raises((rb.ArgumentError, rb.ArgumentTypeError), match=words):
        call()


def test_a_missing_extra_is_named(monkeypatch):
    plain = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else plain(name))
    with pytest.raises(MissingExtra, match=r"pip install 'rangebound\[plot\]'"):
        plot.law(TRUNCATED.law(3.0))


def test_matplotlib_is_loaded_only_to_draw():
    code = "import sys, rangebound.plot, rangebound.cli.app; print('matplotlib' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    "mechanism",
    [
        rb.Staircase.calibrated(query=QUERY, epsilon=1.0, step=0.25),
        rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 10)),
    ],
    ids=["staircase", "discrete Laplace"],
)
def test_noise_on_a_lattice_is_drawn(mechanism):
    (line, _) = rb.plot.profile(mechanism, epsilons=[0.0, 0.5]).lines
    assert line.get_ydata().tolist() == [mechanism.delta(0.0), mechanism.delta(0.5)]
    curve = rb.plot.renyi_curve(mechanism, orders=[2.0, 4.0]).lines[0]
    assert curve.get_ydata().tolist() == [mechanism.rdp(2.0), mechanism.rdp(4.0)]
    assert set(rb.plot.fisher(mechanism).lines[0].get_ydata()) == {mechanism.fisher(3)}
