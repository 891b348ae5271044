"""The design of a table as one linear program over all of its entries: slow, and nothing of ours but the statement."""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def least_error(losses, first, epsilon, prior=None, falling=()):
    """The least worst (or weighted) risk of a matrix of probabilities that is private for all pairs of neighbours.

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
    if prior is not None:
        cost = (prior[:, :, None] * losses).sum(axis=0).ravel()
        found = linprog(
            cost,
            A_ub=sparse.vstack(private),
            b_ub=np.zeros(sum(each.shape[0] for each in private)),
            A_eq=rows,
            b_eq=np.ones(count),
            options=TIGHT,
        )
        return found.fun
    private.append(risks)
    matrix = sparse.vstack(private)
    last = np.concatenate((np.zeros(matrix.shape[0] - answers * count), -np.ones(answers * count)))
    found = linprog(
        np.concatenate((np.zeros(size), [1.0])),
        A_ub=sparse.hstack((matrix, last[:, None])),
        b_ub=np.zeros(len(last)),
        A_eq=sparse.hstack((rows, np.zeros((count, 1)))),
        b_eq=np.ones(count),
        options=TIGHT,
    )
    return found.fun
