"""Small random tables: uneven inputs, unions, zeros, ties and weights that differ by single units."""

import numpy as np

import rangebound as rb
from rangebound.mechanisms.finite import TOTAL


def random_row(rng, size):
    """A row of whole weights that sums to 2^62: rough, nearly flat, or with zeros."""
    kind = rng.integers(3)
    shares = rng.random(size) ** (1, 1, 8)[kind] + (0, 20, 0)[kind]
    if kind == 2 and size > 1:
        shares[rng.integers(size)] = 0.0
    row = [int(x) for x in np.floor(shares / shares.sum() * float(TOTAL) * (1 - 1e-9))]
    row[int(np.argmax(row))] += TOTAL - sum(row)
    return row


def random_query(rng):
    ends = np.sort(rng.integers(0, 200, 4)) / 10.0
    if len(set(ends.tolist())) == 4 and rng.random() < 0.5:
        return rb.Query(
            range=rb.Union((ends[0], ends[1]), (ends[2], ends[3])), sensitivity=float(rng.integers(1, 80)) / 10
        )
    return rb.Query(range=rb.Interval(0, float(rng.integers(1, 20))), sensitivity=float(rng.integers(1, 80)) / 16)


def random_table(rng, zeros=True):
    """A table of up to seven inputs and six outputs; some rows are copies of others, off by a unit."""
    while True:
        query = random_query(rng)
        count = int(rng.integers(1, 8))
        inputs = np.unique(np.concatenate([rng.uniform(lo, hi, count) for lo, hi in query.range.spans]).round(1))
        size = int(rng.integers(1, 7))
        weights = [random_row(rng, size) for _ in inputs]
        if not zeros:
            weights = [[max(x, 1) for x in row] for row in weights]
            for row in weights:
                row[int(np.argmax(row))] += TOTAL - sum(row)
        if len(weights) > 1 and size > 1 and rng.random() < 0.5:
            weights[1] = list(weights[0])
            a, b = np.argsort(weights[1])[-2:]
            weights[1][a], weights[1][b] = weights[1][a] + 1, weights[1][b] - 1
        try:
            return rb.Table(query=query, inputs=inputs, outputs=np.arange(float(size)), weights=weights)
        except rb.ArgumentError as error:
            assert "no answer of the range" in str(error)  # noqa: PT017
