"""Tables that others made: matrices as CSV, and perturbation tables of the cell key method as R's ptable has them."""

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms.finite import TOTAL
from rangebound.mechanisms.finite.table_sources import read_csv, read_ptable

COUNT = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)
ROWS = "x,0,1,2\n0,0.5,0.25,0.25\n1,0.25,0.5,0.25\n2,0.125,0.375,0.5\n"

# A table for counts with noise of at most 2, as create_cnt_ptable makes them: zeros stay, the last i is for all above.
PTABLE = """"i";"j";"p";"v";"p_int_ub"
0;0;1;0;1
1;0;0.4;-1;0.4
1;1;0.3;0;0.7
1;2;0.2;1;0.9
1;3;0.1;2;1
2;0;0.1;-2;0.1
2;1;0.2;-1;0.3
2;2;0.4;0;0.7
2;3;0.2;1;0.9
2;4;0.1;2;1
"""


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "table.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_a_matrix_is_read_exactly(file, delimiter):
    found = read_csv(file(ROWS.replace(",", delimiter)))
    assert found.inputs == found.outputs == (0.0, 1.0, 2.0)
    eighths = [[4, 2, 2], [2, 4, 2], [1, 3, 4]]
    assert found.weights.tolist() == [[each * (TOTAL // 8) for each in row] for row in eighths]
    assert rb.Table.from_csv(file(ROWS), query=COUNT).epsilon() == pytest.approx(math.log(2))


def test_decimals_are_those_that_are_written(file):
    third = "0.333333333333333333333333333333"
    found = read_csv(file(f";0;1;2\n5;{third};{third};{third}\n")).weights[0].tolist()
    assert max(found) - min(found) <= 1
    assert sum(found) == TOTAL
    tiny = read_csv(file(";0;1\n5;1e-18;0.999999999999999999\n")).weights[0].tolist()
    assert tiny == [4, TOTAL - 4]  # 4.6 units, rounded down


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must not be empty"),
        ("x,0,1\n", "must have a line of outputs"),
        ("x,0,1\n0,0.5\n", ":2: must have 3 cells"),
        ("x,0,1\n0,0.5,0.6\n", "line 2 must be zero or more and sum to 1"),
        ("x,0,1\n0,1.5,-0.5\n", "line 2 must be zero or more"),
        ("x,0,1\n0,a,0.5\n", ":2: 'a' must be a decimal number"),
        ("x,0,1\n0,1e-999999999,1\n", "must be a decimal number"),
        ("x,0,1e399\n0,0.5,0.5\n", "must fit into doubles"),
    ],
)
def test_a_matrix_that_is_wrong_is_refused_with_its_line(file, text, words):
    with pytest.raises(rb.ArgumentError, match=words):
        read_csv(file(text))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent.csv", tmp_path, tmp_path / "bytes.csv"):
        with pytest.raises(rb.ArgumentError, match="cannot be read"):
            rb.Table.from_csv(path, query=COUNT)
    with pytest.raises(rb.ArgumentTypeError, match="path=3"):
        rb.Table.from_csv(3, query=COUNT)


def test_a_ptable_is_a_law_for_every_count(file):
    m = rb.Table.from_ptable(file(PTABLE), largest=6)
    assert m.inputs == tuple(map(float, range(7)))
    assert m.outputs == tuple(map(float, range(9)))
    assert m.law(0.0).atoms[1].tolist() == [1.0, *[0.0] * 8]
    np.testing.assert_allclose(m.law(1.0).atoms[1][:4], [0.4, 0.3, 0.2, 0.1], rtol=1e-15)
    for count in (2, 3, 4, 5, 6):  # as the last i
        np.testing.assert_allclose(m.law(count).atoms[1][count - 2 : count + 3], [0.1, 0.2, 0.4, 0.2, 0.1], rtol=1e-15)
    assert m.law(9.0).mean == m.law(6.0).mean  # clipped
    assert set(m.release(np.full(2000, 5.0)).tolist()) <= {3.0, 4.0, 5.0, 6.0, 7.0}


def test_the_guarantee_of_a_ptable_is_the_true_one(file):
    """A count of 0 is published as 0, of 1 as something else six times out of ten: no epsilon, and delta 0.6."""
    m = rb.Table.from_ptable(file(PTABLE), largest=6)
    assert m.epsilon() == math.inf
    assert m.delta(0.0) == pytest.approx(0.6)
    assert m.delta(20.0) == pytest.approx(0.6)
    assert m.epsilon(0.59) == math.inf
    assert m.epsilon(0.61) == 0.0
    # Above the zeros alone: the edges of bounded noise.
    above = rb.Query(range=rb.Interval(2, 6), sensitivity=1.0)
    inner = rb.Table(query=above, inputs=m.inputs[2:], outputs=m.outputs, weights=m.weights[2:])
    assert inner.epsilon() == math.inf
    assert inner.delta(20.0) == pytest.approx(0.1)
    far = rb.Table.from_ptable(file(PTABLE), largest=40)  # changes no number
    for epsilon in (0.0, 0.3, 1.0, 5.0):
        assert far.delta(epsilon) == pytest.approx(m.delta(epsilon), rel=1e-12)


def test_the_intervals_of_keys_are_the_probabilities(file):
    """Keys are looked up in the intervals, in any order and several for one j, as after modify_cnt_ptable."""
    split = PTABLE.replace("1;2;0.2;1;0.9\n1;3;0.1;2;1\n", "1;3;0.1;2;0.8\n1;2;0.1;1;0.9\n1;2;0.1;1;1\n")
    assert read_ptable(file(split), 4).weights.tolist() == read_ptable(file(PTABLE), 4).weights.tolist()
    rounded = PTABLE.replace("1;1;0.3;0;0.7", "1;1;0.3;0;0.7000004").replace("1;2;0.2;1;0.9", "1;2;0.2;1;0.9000004")
    law = read_ptable(file(rounded), 4).weights[1] / TOTAL
    np.testing.assert_allclose(law[:4], [0.4, 0.3000004, 0.2, 0.0999996], rtol=1e-12)
    plain = "\n".join(";".join(line.split(";")[:4]) for line in PTABLE.splitlines())
    assert read_ptable(file(plain), 4).weights.tolist() == read_ptable(file(PTABLE), 4).weights.tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"p"', '"q"'), "column 'p' is missing"),
        (("1;1;0.3;0;0.7", "1;1;0.3;1;0.7"), "v must be j - i"),
        (("1;1;0.3;0;0.7", "1;1;0.3;0;0.65"), "must be as wide as p says"),
        (("1;1;0.3;0;0.7", "1;1.5;0.3;0;0.7"), "must be whole numbers"),
        (("1;1;0.3;0;0.7", "1;1;0.3;0"), ":4: must have 5 cells"),
        (("0;0;1;0;1\n", ""), "a row for every count i from 0"),
        (("2;4;0.1;2;1\n", ""), "count i=2 must be zero or more and sum to 1"),
        (('"p_int_ub"\n0;0;1;0;1\n', '"type"\n0;0;1;0;even\n'), "must be of type all"),
    ],
)
def test_a_ptable_that_is_wrong_is_refused(file, change, words):
    with pytest.raises(rb.ArgumentError, match=words):
        rb.Table.from_ptable(file(PTABLE.replace(*change)), largest=6)


@pytest.mark.slow
def test_the_largest_count_is_a_whole_number(file):
    for largest in (0, -1, 2.5, True, 10**12, "6"):
        with pytest.raises(rb.ArgumentError, match="largest"):
            rb.Table.from_ptable(file(PTABLE), largest=largest)
    with pytest.raises(rb.ArgumentError, match="more than"):
        rb.Table.from_ptable(file(PTABLE), largest=100_000)


def test_an_array_of_whole_numbers_has_its_ratios_exactly():
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    table = rb.Table.from_array([[1, 2], [2, 1]], query=query, inputs=[0, 1], outputs=[0, 1])
    assert table.weights.tolist() == [[TOTAL // 3, TOTAL - TOTAL // 3], [TOTAL - TOTAL // 3, TOTAL // 3]]
    floats = rb.Table.from_array(np.full((2, 2), 0.5), query=query, inputs=[0, 1], outputs=[0, 1])
    assert floats.epsilon() == 0.0
    for wrong in ([[0, 0], [1, 1]], [[-1, 2], [1, 1]], [1, 2]):
        with pytest.raises(rb.ArgumentError, match="array"):
            rb.Table.from_array(wrong, query=query, inputs=[0, 1], outputs=[0, 1])
