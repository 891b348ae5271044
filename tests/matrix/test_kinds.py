"""Every kind of mechanism through everything that takes a mechanism: each cell works, or refuses in plain words.

The issue of a table, of staircase noise and of a remap is that of every other mechanism: whoever learned what a
`Mechanism` can do finds it there as well. A cell that refuses is written down here with its reason.
"""

import copy
import json
import math
import pickle

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent, SampledEvent, group_event
from rangebound.accounting.fisher_information import information
from rangebound.privacy.gdp import delta_of_mu

RANGE = rb.Interval(0, 4)
QUERY = rb.Query(range=RANGE, sensitivity=1.0)
GRID = rb.Grid(step=1, within=RANGE)
ON_GRID = rb.Query(range=GRID, sensitivity=1.0)
ON_SPANS = rb.Query(range=rb.Union((0, 1), (3, 4)), sensitivity=1.0)
LAPLACE, GAUSSIAN = rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)
STAIRCASE = rb.Staircase.calibrated(query=QUERY, epsilon=1.0, step=0.5)
DISCRETE = rb.DiscreteLaplace.calibrated(epsilon=1.0, support=RANGE)
TABLE = rb.Table.from_probabilities(
    query=QUERY, inputs=range(5), outputs=range(5), probabilities=DISCRETE.law(np.arange(5.0)).atoms[1], epsilon=1.5
)

KINDS = {
    "laplace": rb.Mechanism(noise=LAPLACE, query=QUERY),
    "clamped laplace": rb.Mechanism(noise=LAPLACE, query=QUERY, bounding=rb.RECTIFY),
    "rounded laplace": rb.Mechanism(noise=LAPLACE, query=QUERY, support=GRID, bounding=rb.QUANTIZE),
    "laplace on a grid": rb.Mechanism(noise=LAPLACE, query=ON_GRID),
    "laplace on spans": rb.Mechanism(noise=LAPLACE, query=ON_SPANS),
    "gaussian": rb.Mechanism(noise=GAUSSIAN, query=QUERY),
    "unbounded gaussian": rb.Mechanism(noise=GAUSSIAN, query=QUERY, bounding=rb.UNBOUNDED),
    "truncated laplacian": rb.Mechanism(
        noise=rb.TruncatedLaplacian(scale=1.0, limit=7.0), query=QUERY, bounding=rb.RECTIFY
    ),
    "staircase": STAIRCASE,
    "staircase on a grid": rb.Staircase.calibrated(query=ON_GRID, epsilon=1.0),
    "discrete laplace": DISCRETE,
    "unbounded discrete laplace": rb.DiscreteLaplace(scale=1.0),
    "table": TABLE,
    "remapped laplace": rb.remap(rb.Mechanism(noise=LAPLACE, query=QUERY), at="average", step=0.5),
    "remapped staircase": rb.remap(STAIRCASE, at="average"),
    "remapped discrete laplace": rb.remap(DISCRETE),
    "remapped table": rb.remap(TABLE, at="average"),
}
TABLES = ("table", "remapped table")
STAIRS = ("staircase", "staircase on a grid", "remapped staircase")
LATTICES = (*STAIRS, "discrete laplace", "unbounded discrete laplace", "remapped discrete laplace")
REMAPPED = tuple(each for each in KINDS if each.startswith("remapped"))
NO_PURE = ("unbounded gaussian",)


def number(value):
    return not np.isnan(np.asarray(value, dtype=np.float64)).any()


def errors(found):
    return number([found.bias, found.mae, found.mse])


def same(m, again):
    return again == m and hash(again) == hash(m) and again.law(1.0).mean == m.law(1.0).mean


def interval(m, published):
    lower, upper = map(np.asarray, m.confidence_interval(published, 0.9))
    hull = m.query.range.hull
    return lower.shape == np.shape(published) and (hull.lower <= lower).all() and (lower <= upper).all()


def certified(m, **claim):
    found = rb.verify(rb.certify(m, **claim).to_json())
    return type(found.mechanism) is type(m) and found.mechanism == m and type(m).__name__ in str(found)


def false_claim(m):
    """A claim that is not true of the mechanism raises, whichever of the two errors it is."""
    wanted = rb.Undecided if isinstance(m, rb.Remapped) else rb.ClaimFalse
    with pytest.raises(wanted, match=r"not (true|proved)"):
        rb.certify(m, epsilon=0.01)
    return True


def drawn(ax):
    """Whether a picture has a line; where all numbers are infinite it has no point."""
    from matplotlib import pyplot as plt

    plt.close(ax.figure)
    return any(each.lines for each in ax.figure.axes)


def composed(event):
    found = rb.compose(event).epsilon(1e-5)
    return 0.0 <= found.lower <= found.upper < math.inf


CELLS = {
    "law": lambda m: number(m.law(1.0).mean) and number(m.law([0.0, 1.0]).cdf(1.0)),
    "epsilon": lambda m: 0.0 <= m.epsilon(1e-3) <= m.epsilon(),
    "delta": lambda m: 0.0 < m.delta(0.5) < 1.0,
    "rdp": lambda m: number(m.rdp(3.0)) and m.rdp([2.0, 4.0]).shape == (2,),
    "tradeoff": lambda m: 0.0 <= m.tradeoff(0.25) <= 0.75 and m.tradeoff([0.0, 1.0])[1] == 0.0,
    "advantage": lambda m: m.advantage() == m.delta(0.0) <= 2 * m.success() - 1 + 1e-15,
    "gdp": lambda m: m.advantage() <= delta_of_mu(m.gdp(), epsilon=0.0) * (1 + 1e-12),
    "posterior": lambda m: 0.3 < m.posterior(0.3) <= 1.0,
    "reconstruction": lambda m: 0.01 < m.reconstruction(0.01) < 1.0,
    "odds": lambda m: m.odds().startswith("Of 100 people"),
    "fisher": lambda m: number(m.fisher(1.0)) and m.fisher([1.0, 2.0]).shape == (2,),
    "error": lambda m: errors(m.error(1.0)) and errors(m.error([1.0, 3.0])),
    "worst error": lambda m: errors(m.worst_error()),
    "average error": lambda m: errors(m.average_error()),
    "release": lambda m: isinstance(m.release(1.0), float) and m.release([1.0, 3.0]).shape == (2,),
    "interval": lambda m: interval(m, m.release(1.0)) and interval(m, m.release([1.0, 3.0])),
    "claim": lambda m: m.with_claim(rb.Claim(epsilon=3.0)).claim == rb.Claim(epsilon=3.0),
    "no claim": lambda m: m.with_claim(None).claim is None,
    "plain data": lambda m: same(m, type(m).from_dict(json.loads(json.dumps(m.to_dict())))),
    "pickle": lambda m: isinstance(m.release(1.0), float) and same(m, pickle.loads(pickle.dumps(m))),
    "copy": lambda m: isinstance(m.release(1.0), float) and same(m, copy.deepcopy(m)),
    "repr": lambda m: repr(m).startswith(type(m).__name__ + "(") and len(repr(m)) < 400,
    "certify": lambda m: certified(m, epsilon=3.0, delta=0.1),
    "certify pure": lambda m: certified(m, epsilon=3.0),
    "certify metric": lambda m: certified(m, epsilon=6.0, notion="metric"),
    "certify what is false": false_claim,
    "compose": lambda m: composed((m, 2)),
    "sampled": lambda m: composed(SampledEvent(mechanism=m, rate=0.5)),
    "group": lambda m: composed(group_event(MechanismEvent(mechanism=m), 2)),
    "information": lambda m: number(information(MechanismEvent(mechanism=m, times=2), 1.0).reveal()),
    "attack": lambda m: rb.audit.attack(m, draws=1000, confidence=1 - 1e-9).epsilon <= m.epsilon(),
    "worst pair": lambda m: len({*rb.audit.worst_pair(m, 0.3), *rb.audit.worst_pair(m, 0.3, 1e-3)}) >= 2,
    "timing": lambda m: rb.audit.timing(m.release, pair=(0.0, 1.0), draws=1000).area >= 0.0,
    "plot law": lambda m: drawn(rb.plot.law(m.law([1.0, 3.0]))),
    "plot worst pair": lambda m: drawn(rb.plot.worst_pair(m, epsilon=0.3)),
    "plot pure worst pair": lambda m: drawn(rb.plot.worst_pair(m)),
    "plot profile": lambda m: drawn(rb.plot.profile(m, epsilons=[0.0, 0.5])),
    "plot renyi": lambda m: drawn(rb.plot.renyi_curve(m, orders=[2.0, 4.0])),
    "plot fisher": lambda m: drawn(rb.plot.fisher(m)),
    "estimate": lambda m: len(rb.estimate(m, m.release(np.ones(30)), prior={0.0: 1.0, 1.0: 1.0})) == 30,
    "hockey stick": lambda m: 0.0 < rb.hockey_stick(m.law(0.0), m.law(1.0), 0.3) <= m.delta(0.3) * (1 + 1e-9),
    "renyi": lambda m: 0.0 < rb.renyi(m.law(0.0), m.law(1.0), 2.0) <= m.rdp(2.0) * (1 + 1e-9),
    "remap": lambda m: rb.remap(m, at="average").epsilon() == m.epsilon(),
}

NO_SLOPE = "a table has no Fisher information"
REFUSED = {
    **{(cell, kind): NO_SLOPE for cell in ("fisher", "information", "plot fisher") for kind in TABLES},
    **{("group", kind): "the stairs of staircase noise are those of one person" for kind in STAIRS},
    **{("certify metric", kind): "not claimed of noise on a lattice" for kind in LATTICES},
    **{("certify metric", kind): "a metric claim bounds a rate, not a pair of neighbours" for kind in TABLES},
    **{(cell, kind): "not true" for cell in ("certify pure", "certify metric") for kind in NO_PURE},
    **{("remap", kind): "must be a mechanism" for kind in REMAPPED},
    **{
        (cell, kind): "a table and noise on a lattice have `delta` and `rdp`"
        for cell in ("hockey stick", "renyi")
        for kind in (*TABLES, *LATTICES, "remapped laplace")
    },
    ("remap", "unbounded discrete laplace"): "must be bounded for a remap",
    ("average error", "unbounded discrete laplace"): "must be bounded for an average",
}
SLOW = {
    (cell, kind)
    for cell in ("compose", "sampled", "group")
    for kind in KINDS
    if isinstance(KINDS[kind], rb.Mechanism) and kind != "clamped laplace"
}
"""A second each; tests/accounting has them."""


@pytest.mark.few(46)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", CELLS)
def test_each_cell_works_or_refuses_in_plain_words(cell, kind):
    if (cell, kind) in REFUSED:
        with pytest.raises(rb.RangeboundError, match=REFUSED[cell, kind]):
            CELLS[cell](KINDS[kind])
    elif (cell, kind) not in SLOW:
        assert CELLS[cell](KINDS[kind])


@pytest.mark.slow
def test_every_public_mechanism_is_a_kind():
    """A class with a law, an epsilon and a release belongs here; this fails when a new one is exported."""
    classes = [getattr(rb, each) for each in rb.__all__ if isinstance(getattr(rb, each), type)]
    known = {each for each in classes if all(hasattr(each, name) for name in ("law", "epsilon", "release"))}
    assert known - {rb.VariableScaleLaplace} == {type(each) for each in KINDS.values()}
