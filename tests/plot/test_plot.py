"""What the pictures show: the numbers of the library, on labelled axes, in lines that differ in more than colour."""

import itertools
import math

import numpy as np
import pytest
from matplotlib import pyplot as plt

import rangebound as rb
from rangebound import plot
from rangebound.plot import style
from rangebound.privacy.worst import worst_delta, worst_loss

QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
GAPS = rb.Query(range=rb.Union((0, 3), (5, 10)), sensitivity=2.5)
TRUNCATED = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=QUERY)
CLAMPED = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=QUERY, bounding=rb.RECTIFY)
UNION = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=GAPS)
LINE = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=rb.Query(range=rb.Interval(0, np.inf), sensitivity=1.0))
GRID = rb.Mechanism(
    noise=rb.Laplace(scale=2.0), query=QUERY, support=rb.Grid(step=1.0, within=QUERY.range), bounding=rb.QUANTIZE
)
STAIRS = rb.Staircase.calibrated(query=QUERY, epsilon=1.0, step=0.25)
COUNTS = rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 10))

PICTURES = {
    "law": lambda ax: plot.law(TRUNCATED.law(3.0), CLAMPED.law(3.0), ax=ax),
    "tradeoff": lambda ax: plot.tradeoff(TRUNCATED, CLAMPED, false_positive_rates=[0.0, 0.1, 1.0], ax=ax),
    "profile": lambda ax: plot.profile(TRUNCATED, CLAMPED, epsilons=[0.0, 0.2, 0.4], ax=ax),
    "errors": lambda ax: plot.errors(QUERY, epsilons=[0.5, 1.0], ax=ax),
    "renyi": lambda ax: plot.renyi_curve(TRUNCATED, CLAMPED, orders=[2.0, 8.0], ax=ax),
    "fisher": lambda ax: plot.fisher(TRUNCATED, CLAMPED, answers=[0.0, 5.0], ax=ax),
    "worst_pair": lambda ax: plot.worst_pair(TRUNCATED, epsilon=0.3, ax=ax),
}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.mark.few(2)
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
    before = set(plt.get_fignums())
    own = PICTURES[name](None)
    assert len(set(plt.get_fignums()) - before) == 1
    assert own.figure.get_layout_engine() is not None
    looks = list(itertools.islice(style.lines(), 6))  # which differ in dashes as well as in colour
    assert len({look["color"] for look in looks}) == len({str(look["linestyle"]) for look in looks}) == 6


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


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", [TRUNCATED, CLAMPED, STAIRS, COUNTS], ids=str)
def test_the_curves_are_those_of_the_mechanism(mechanism):
    x, y = plot.profile(mechanism, epsilons=[0.0, 0.1, 0.3]).lines[0].get_data()
    assert y.tolist() == [mechanism.delta(float(each)) for each in x]
    curve = plot.renyi_curve(mechanism, orders=[2.0, 16.0]).lines[0]
    assert curve.get_ydata().tolist() == [mechanism.rdp(2.0), mechanism.rdp(16.0)]
    x, y = plot.fisher(mechanism).lines[0].get_data()
    assert y.tolist() == [mechanism.fisher(float(each)) for each in x]


def test_atoms_beside_a_density_have_an_axis_of_their_own_and_on_a_grid_none():
    law = CLAMPED.law(3.0)
    points, weights = plot.law(law).figure.axes[1].lines[0].get_data()
    assert points.tolist() == [0.0, 10.0]
    assert weights.tolist() == law.atoms[1].tolist()
    ax = plot.law(GRID.law([2.0, 7.0]))
    assert ax.get_ylabel() == "probability"
    assert len(ax.figure.axes) == 1
    assert sum(ax.lines[0].get_ydata()) == pytest.approx(1.0)
    assert len(ax.lines) == 2


def test_a_profile_reaches_its_pure_epsilon_and_marks_it_or_stops_where_it_is_small():
    ax = plot.profile(TRUNCATED)
    curve, mark = ax.lines
    assert curve.get_xdata()[-1] == mark.get_xdata()[0] == TRUNCATED.epsilon()
    assert ax.get_ylim()[0] >= 1e-9
    (line,) = plot.profile(LINE).lines
    assert line.get_ydata()[-1] <= 1e-9 < line.get_ydata()[-2]


@pytest.mark.slow
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


@pytest.mark.few(4)
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


@pytest.mark.slow
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
        (lambda: plot.profile(TRUNCATED, epsilons=[-1.0]), "must be zero or more"),
        (lambda: plot.tradeoff(3.0), "must be a mechanism, or what compose"),
        (lambda: plot.tradeoff(TRUNCATED, false_positive_rates=[1.5]), r"must lie in \[0, 1\]"),
        (lambda: plot.renyi_curve(TRUNCATED, orders=[1.0]), "must be above 1"),
        (lambda: plot.fisher(TRUNCATED, ax=3), "must be axes of matplotlib"),
        (lambda: plot.errors(TRUNCATED), "must be a Query"),
        (lambda: plot.errors(QUERY, epsilons=[0.0]), "must be positive"),
    ],
)
def test_bad_input_is_refused_in_one_clear_error(call, words):
    with pytest.raises((rb.ArgumentError, rb.ArgumentTypeError), match=words):
        call()


BIT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
FLIP = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])


def test_the_law_of_a_table_is_drawn_as_stems_and_its_curves_beside_those_of_a_mechanism():
    ax = plot.law(FLIP.law([0.0, 1.0]))
    assert ax.get_ylabel() == "probability"
    (head,) = [line for line in ax.lines if line.get_label() == "Table, input 1 of 2"]
    assert head.get_ydata().tolist() == [0.75, 0.25]
    with pytest.raises(rb.ArgumentError, match="no Fisher information"):
        plot.fisher(FLIP)
    m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=BIT)
    ax = plot.profile(FLIP, m, epsilons=[0.0, 0.5])
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["table, 2 inputs, 2 outputs", "truncate Laplace, scale 2"]
    assert ax.lines[0].get_ydata().tolist() == [FLIP.delta(0.0), FLIP.delta(0.5)]
    curve = plot.renyi_curve(FLIP, orders=[2.0, 4.0])
    assert curve.lines[0].get_ydata().tolist() == FLIP.rdp([2.0, 4.0]).tolist()
    assert math.isfinite(curve.get_ylim()[1])


FIVE = rb.Query(range=rb.Interval(0, 5), sensitivity=1.0)
FINE = rb.Staircase.calibrated(query=FIVE, epsilon=1.0)
WHOLE = rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 20))


def test_a_fine_lattice_is_drawn_as_a_line_and_its_ends_as_stems():
    ax = plot.law(FINE.law([0.0, 2.5]))
    assert [each.get_ylabel() for each in ax.figure.axes] == ["density", "probability of the end itself"]
    points, chances = FINE.law(2.5).atoms
    line = ax.lines[1]
    assert line.get_xdata().tolist() == points[1:-1].tolist()
    # The area under the line and the two ends make up the whole law.
    ends = ax.figure.axes[1].lines[1].get_ydata()
    assert ends.tolist() == chances[[0, -1]].tolist()
    assert line.get_ydata().sum() * FINE.step + ends.sum() == pytest.approx(1.0)


def test_the_worst_pair_of_a_lattice_is_marked_where_its_pairs_reach_it():
    for m in (FINE, WHOLE):
        ax = plot.worst_pair(m, epsilon=0.3)
        drawn = max(line.get_ydata().max() for line in ax.lines[:2])
        assert drawn == pytest.approx(m.delta(0.3), rel=1e-9)
        assert ax.lines[2].get_ydata().tolist() == [m.delta(0.3)]
        assert ax.lines[2].get_xdata().tolist() == [m.worst_pair()[0]]


def test_the_worst_pair_of_a_table_is_the_largest_over_all_neighbours():
    """The pair of inputs 0 and 1 is worse than that of 0 and 2, though it is shorter."""
    weights = [[2**61, 2**61], [2**60, 3 * 2**60], [2**61, 2**61]]
    query = rb.Query(range=rb.Interval(0, 2), sensitivity=2.0)
    m = rb.Table(query=query, inputs=(0, 1, 2), outputs=(0, 1), weights=weights)
    ax = plot.worst_pair(m)
    assert ax.lines[0].get_ydata().tolist() == [pytest.approx(math.log(2.0)), pytest.approx(math.log(1.5))]
    assert ax.lines[2].get_ydata().tolist() == [m.epsilon()]
