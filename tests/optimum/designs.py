"""Designs that many tests begin with, a smooth and private table by definition, and the full linear program."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from rangebound.optimum.staircase_columns import DesignProblem

check_limit = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "check_limit.py"))["check_limit"]
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def lattice(count, steps, epsilon=1.0):
    """Absolute errors on this many inputs, this many of them to a sensitivity."""
    x = np.arange(count) / steps
    first = np.maximum(np.arange(count) - steps, 0)
    return DesignProblem(first_neighbour=first, epsilon=epsilon, losses=np.abs(x[None, :, None] - x))


def cells(inputs, reach, squared=False):
    """The losses and last neighbours where the answers of every input are the ends of its cell; outputs are inputs."""
    middle = (inputs[1:] + inputs[:-1]) / 2.0
    ends = np.stack((np.append(inputs[0], middle), np.append(middle, inputs[-1])))
    away = np.abs(ends[:, :, None] - inputs)
    last = np.searchsorted(inputs, inputs + reach + 1e-9) - 1
    return away**2 if squared else away, last


def excess(table, last, epsilon):
    """The largest excess of an entry over e^epsilon times that of a neighbour, over all pairs: the definition."""
    most = -np.inf
    for apart in range(1, int((last - np.arange(len(last))).max()) + 1):
        near = np.flatnonzero(last >= np.arange(len(last)) + apart)
        for one, two in ((table[near], table[near + apart]), (table[near + apart], table[near])):
            most = max(most, float((one - np.exp(epsilon) * two).max()))
    return most


def check_smooth_and_private(table, last, epsilon, slack):
    assert table.sum(axis=1) == pytest.approx(1.0)
    assert excess(table, last, epsilon) < slack
    assert excess(table, last, 0.98 * epsilon) > 1e-5  # the control: less epsilon is too little
    for here, row in enumerate(table):
        assert (np.diff(row[: here + 1]) > -slack).all()
        assert (np.diff(row[here:]) < slack).all()


def least_error(losses, first, epsilon, prior=None, falling=()):
    """The least worst (or weighted) risk of a matrix that is private for all pairs, by one program over all entries.

    `falling` has (input, output, output) where the first output must not be likelier than the second.
    """
    answers, count, width = losses.shape
    size = count * width
    private = []
    for j in range(count):
        for i in range(first[j], j):
            for a, b in ((i, j), (j, i)):
                one = sparse.csr_array(([1.0], ([0], [a])), shape=(1, count))
                other = sparse.csr_array(([np.exp(epsilon)], ([0], [b])), shape=(1, count))
                private.append(sparse.kron(one - other, sparse.eye_array(width)))
    for t, low, high in falling:
        private.append(sparse.csr_array(([1.0, -1.0], ([0, 0], [t * width + low, t * width + high])), shape=(1, size)))
    rows = sparse.kron(sparse.eye_array(count), np.ones((1, width)))
    risks = sparse.vstack([sparse.block_diag([losses[q, t][None] for t in range(count)]) for q in range(answers)])
    equal, cost = rows, None if prior is None else (prior[:, :, None] * losses).sum(axis=0).ravel()
    matrix = sparse.vstack(private)
    if prior is None:  # the worst risk is one more variable
        matrix = sparse.vstack((matrix, risks))
        last = np.concatenate((np.zeros(matrix.shape[0] - answers * count), -np.ones(answers * count)))
        matrix = sparse.hstack((matrix, last[:, None]))
        equal, cost = sparse.hstack((rows, np.zeros((count, 1)))), np.append(np.zeros(size), 1.0)
    bounds = np.zeros(matrix.shape[0])
    return linprog(cost, A_ub=matrix, b_ub=bounds, A_eq=equal, b_eq=np.ones(count), options=TIGHT).fun
