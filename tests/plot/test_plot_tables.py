"""Pictures of tables: laws as stems, the profile and the Renyi curve like those of any mechanism."""

import math

import numpy as np
import pytest

import rangebound as rb

plot = pytest.importorskip("rangebound.plot")
pytest.importorskip("matplotlib")

BIT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
FLIP = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])


def test_the_law_of_a_table_is_drawn_as_stems():
    ax = plot.law(FLIP.law([0.0, 1.0]))
    assert ax.get_ylabel() == "probability"
    labels = ax.get_legend_handles_labels()[1]
    assert "Table, input 1 of 2" in labels
    assert "Table, input 2 of 2" in labels
    heads = [line for line in ax.lines if line.get_label() == "Table, input 1 of 2"]
    assert heads[0].get_ydata().tolist() == [0.75, 0.25]


def test_a_law_of_one_point_has_room_beside_it():
    one = rb.Table(query=BIT, inputs=(0, 1), outputs=(5,), weights=[[2**62], [2**62]])
    low, high = plot.law(one.law(0.0)).get_xlim()
    assert low < 5.0 < high


def test_a_table_is_drawn_beside_a_mechanism():
    m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=BIT)
    ax = plot.profile(FLIP, m, epsilons=[0.0, 0.5])
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["table, 2 inputs, 2 outputs", "truncate Laplace, scale 2"]
    assert ax.lines[0].get_ydata().tolist() == [FLIP.delta(0.0), FLIP.delta(0.5)]
    curve = plot.renyi_curve(FLIP, orders=[2.0, 4.0])
    assert curve.lines[0].get_ydata().tolist() == FLIP.rdp([2.0, 4.0]).tolist()
    assert math.isfinite(curve.get_ylim()[1])


def test_what_a_table_does_not_have_is_refused():
    with pytest.raises(rb.ArgumentError, match="no Fisher information"):
        plot.fisher(FLIP)
    with pytest.raises(rb.ArgumentTypeError, match="must be a Law"):
        plot.law(FLIP)


FIVE = rb.Query(range=rb.Interval(0, 5), sensitivity=1.0)
STAIRS = rb.Staircase.calibrated(query=FIVE, epsilon=1.0)
COUNTS = rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 20))


def test_a_fine_lattice_is_drawn_as_a_line_and_its_ends_as_stems():
    ax = plot.law(STAIRS.law([0.0, 2.5]))
    assert [each.get_ylabel() for each in ax.figure.axes] == ["density", "probability of the end itself"]
    points, chances = STAIRS.law(2.5).atoms
    line = ax.lines[1]
    assert line.get_xdata().tolist() == points[1:-1].tolist()
    # The area under the line and the two ends make up the whole law.
    ends = ax.figure.axes[1].lines[1].get_ydata()
    assert ends.tolist() == chances[[0, -1]].tolist()
    assert line.get_ydata().sum() * STAIRS.step + ends.sum() == pytest.approx(1.0)


def test_a_coarse_lattice_is_drawn_as_stems_and_named_beside_a_density():
    ax = plot.law(COUNTS.law([2, 3]))
    assert ax.get_ylabel() == "probability"
    assert ax.get_legend().get_texts()[0].get_text() == "21 points, mean 2.058"
    both = plot.law(COUNTS.law(3), rb.Mechanism(noise=rb.Laplace(scale=1.0), query=FIVE).law(3.0))
    assert both.figure.axes[1].get_ylabel() == "probability of a point"
    names = [each.get_text() for each in both.get_legend().get_texts()]
    assert names[:2] == ["21 points, mean 3.021", "Laplace, scale 1, true answer 3"]


def test_the_worst_pair_of_a_lattice_is_marked_where_its_pairs_reach_it():
    for m in (STAIRS, COUNTS):
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


def test_a_remap_is_drawn_below_the_guarantee_of_its_base():
    m = rb.remap(COUNTS)
    ax = plot.worst_pair(m, epsilon=0.3)
    assert ax.lines[2].get_label().startswith("guarantee: ")
    assert set(ax.lines[2].get_ydata()) == {m.base.delta(0.3)}
    assert max(np.nanmax(line.get_ydata()) for line in ax.lines[:2]) <= m.base.delta(0.3) * (1 + 1e-9)
    assert plot.profile(m, epsilons=[0.0, 0.5]).lines[0].get_label() == "DiscreteLaplace, scale 1, remapped"
