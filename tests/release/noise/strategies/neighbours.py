"""All that one unit can change, one by one."""

from itertools import combinations, product

import numpy as np


def moves(cells, bounds):
    """Every way in which the rows of one unit can be added to some cells, or put in the place of another's."""
    found = np.array(
        [
            np.bincount(chosen, weights=rows, minlength=cells)
            for g in range(min(bounds.cells, cells) + 1)
            for chosen in combinations(range(cells), g)
            for rows in product(range(1, bounds.rows + 1), repeat=g)
        ]
    )
    return (found[:, None] - found[None, :]).reshape(-1, cells) if bounds.replaced else found
