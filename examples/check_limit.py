"""Check an optimal table and the limit of its error without rangebound: check_limit.py table.json limit.json"""

import base64
import json
import math
import struct
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from flint import arb, ctx, fmpq

BITS = 200


def require(true, reason):
    if not true:
        raise ValueError(reason)


def exponential(x):  # whole numbers just below and just above 2^BITS e^x
    with ctx.workprec(1000):
        below = int(str((arb(fmpq(x.numerator, x.denominator)).exp() * arb(2) ** BITS).floor().unique_fmpz()))
    return below, below + 1


def spans(answers):
    if "grid" not in answers:
        return [(Fraction(a), Fraction(b)) for a, b in answers.get("union", [answers.get("interval")])]
    (lower, upper), step = answers["grid"]["within"], answers["grid"]["step"]
    count = math.floor((upper - lower) / step + 1e-9) + 1
    return [(Fraction(min(lower + step * i, upper)),) * 2 for i in range(count)]


def close(query, one, two):  # whether answers of two cells (or at two points) are neighbours, the second to the right
    if "grid" in query["range"]:
        step = Fraction(repr(query["range"]["grid"]["step"]))
        return round((two[0] - one[1]) / step) * step <= Fraction(repr(query["sensitivity"]))
    return (two[0] - one[1], not one[2]) < (Fraction(query["sensitivity"]), True)


def check_table(data):  # no weight is above e^epsilon times that of a neighbouring input
    table, ratio = data["table"], exponential(Fraction(data["claim"]["epsilon"]))[0]
    inputs, outputs, query = [*map(Fraction, table["inputs"])], len(table["outputs"]), table["query"]
    require(all(a < b for a, b in pairwise(inputs)), "inputs: must ascend")
    words = struct.unpack(f"<{len(inputs) * outputs}q", base64.b64decode(table["weights"]))
    rows = [words[i * outputs : (i + 1) * outputs] for i in range(len(inputs))]
    require(all(min(row) >= 0 and sum(row) == 2**62 for row in rows), "weights: must be >= 0 and sum to 2^62")
    edges, cells = [-math.inf, *((a + b) / 2 for a, b in pairwise(inputs)), math.inf], []
    for low, high in pairwise(edges):
        inside = [each for each in spans(query["range"]) if each[1] >= low and each[0] < high]
        require(inside, "inputs: no answer goes to one of them")
        cells.append((max(inside[0][0], low), min(inside[-1][1], high), inside[-1][1] < high))
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            fine = all(a << BITS <= ratio * b and b << BITS <= ratio * a for a, b in zip(rows[i], rows[j], strict=True))
            require(fine or not close(query, cells[i], cells[j]), f"inputs {i} and {j}: not private")
    return data["claim"]["epsilon"]


def check_limit(data):  # no staircase v and output y have sum_t (prior_t loss(y, t) - price_t) v_t < 0
    query, t, places = data["query"], [*map(Fraction, data["inputs"])], spans(data["query"]["range"])
    prior, prices, width = [*map(Fraction, data["prior"])], [*map(Fraction, data["prices"])], Fraction(data["width"])
    squared, parts = data["objective"] == "mse", data["subdivisions"] if data["objective"] == "mse" else 1
    require(len(t) == len(prior) == len(prices) and all(a < b for a, b in pairwise(t)), "inputs: must ascend")
    require(all(any(a <= x <= x + width <= b for a, b in places) for x in t), "inputs: must lie in the range")
    require(min(prior) >= 0 and sum(prior) <= 1 and parts >= 1, "prior: must be >= 0 and sum to at most 1")
    if data["at"] != "worst":
        grid = "grid" in query["range"]
        size, cell = (len(places), 1) if grid else (sum(b - a for a, b in places), width)
        require(grid or all(b - a >= width > 0 for a, b in pairwise(t)), "width: cells must not overlap")
        require(max(prior) * size <= cell, "prior: must not be above the uniform one")
    first = [next(i for i, x in enumerate(t) if close(query, (x, x, True), (y, y, True))) for y in t]
    starts = [j for j, i in enumerate(first) if i == j]  # of blocks without neighbours in each other
    blocks = [(a, b, [i - a for i in first[a:b]]) for a, b in pairwise([*starts, len(t)])]
    powers = exponential(Fraction(data["epsilon"])), exponential(-Fraction(data["epsilon"]))
    for y in {a + (b - a) * i / parts for a, b in pairwise(t) for i in range(parts)} | {t[-1]}:
        terms = zip(t, prior, prices, strict=True)
        costs = [math.floor((lam * abs(y - x) ** (1 + squared) - price) * 2**BITS) for x, lam, price in terms]
        require(all(cheapest(costs[a:b], near, *powers) >= 0 for a, b, near in blocks), "prices: not proved")
    gap = max((t[j] - t[j - 1] for j in range(1, len(t)) if j not in starts), default=Fraction(0)) / parts
    require(data["value"] <= max(sum(prices) - squared * gap * gap / 4 * sum(prior), 0), "value: above what is proved")
    return data["value"]


def cheapest(costs, first, rise, fall):  # a lower bound on the least sum of costs times a staircase
    total, up, down = costs[0], [math.inf], [math.inf]
    for s in range(1, len(costs)):
        left = total + min(0, up[first[s]], down[s - 1]), total + min(0, down[first[s]], up[s - 1])
        up.append(min(up[-1], (left[0] * fall[left[0] < 0] >> BITS) - total))
        down.append(min(down[-1], (left[1] * rise[left[1] < 0] >> BITS) - total))
        total += costs[s]
    return total + min(0, up[-1], down[-1])


if __name__ == "__main__":
    for each in (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]):
        print(check_table(each) if "table" in each else check_limit(each))
