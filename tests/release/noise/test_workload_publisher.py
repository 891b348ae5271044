"""Crosstabs, hierarchies and series in whole releases: from a plan to a checked certificate, in both accounts."""

import copy
import datetime
import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from threadpoolctl import threadpool_limits

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, check_entry, explain, make_plan, parse_plan, release
from rangebound.release.noise import workload_publisher
from rangebound.release.noise.crosstab_measurements import LaplaceMeasurements, crosstab_measurements, margins
from rangebound.release.noise.laplace_tail import laplace_radius
from rangebound.release.noise.projection import project
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import wholes
from rangebound.release.output.report import report
from rangebound.release.output.table import Release
from rangebound.release.plan.groupings import blocks
from rangebound.release.prepare import prepare, rehearse
from rangebound.sampling.entropy import secure_bits
from tests.thinning import crossed

DAYS = [datetime.date(2025, 1, 25) + datetime.timedelta(days=at) for at in range(12)]
KEYS = {"sex": ["f", "m"], "age": [1, 2, 3], "city": ["a", "b", "c", "d"], "day": DAYS}
REGIONS = {"west": ["a", "d"], "east": ["b"], "south": ["c"]}
LANDS = {"one": ["west", "south"], "two": ["east"]}
STAGES = {"young": [1, 2], "old": [3]}
WORKLOADS = {
    "two columns": {"kind": "crosstab", "by": ["sex", "city"]},
    "three columns": {"kind": "crosstab", "by": ["sex", "age", "city"]},
    "no margins": {"kind": "crosstab", "by": ["age", "city"], "margins": False},
    "tree": {
        "kind": "hierarchy",
        "by": ["city"],
        "levels": [{"name": "region", "members": REGIONS}, {"name": "land", "members": LANDS}],
    },
    "ages": {"kind": "hierarchy", "by": ["age"], "levels": [{"name": "stage", "members": STAGES}]},
    "days": {"kind": "series", "by": ["day"]},
    "days of both": {"kind": "series", "by": ["sex", "day"], "totals": ["running", "month"]},
}
ACCOUNTS = {"pure": {"epsilon": 1.0}, "gaussian": {"epsilon": 1.0, "delta": 0.01}}
PEOPLE = {"column": "person", "rows": 2, "groups": 8}
"""With so many groups, and such a delta, a Gaussian account has less error."""


def table(rows=600):
    """People with some rows each, in cells of very different size: city d is empty, and c nearly so."""
    chance = np.random.default_rng(5)
    city = chance.choice(["a", "b", "c", "elsewhere"], rows, p=[0.6, 0.35, 0.01, 0.04])
    return pa.table(
        {
            "person": np.arange(rows) // 3,
            "sex": chance.choice(["f", "m"], rows),
            "age": chance.choice([1, 2, 3], rows, p=[0.8, 0.15, 0.05]),
            "city": city,
            "day": [DAYS[0] + datetime.timedelta(days=int(at)) for at in chance.choice(10, rows)],  # the last are empty
        }
    )


def finest(query, key, part, keys):
    """Which of the finest keys a published number is the sum of, by its definition."""
    if query["kind"] == "crosstab":
        return [own for own in keys if all(a in (None, b) for a, b in zip(key, own, strict=True))]
    if query["kind"] == "hierarchy":
        if not part:
            return [own for own in keys if key[0] in (None, own[0])]
        below, levels = {key[0]}, query["levels"]
        for level in levels[[each["name"] for each in levels].index(part) :: -1]:
            below = {str(each) for member in below for each in level["members"][member]}
        return [own for own in keys if own[0] in below]
    at = query["by"].index("day")
    day = pd.Timestamp(key[at])
    span = {"": "D", "week": "W", "month": "M"}.get(part)
    same = [own for own in keys if own[:at] == key[:at] and own[at + 1 :] == key[at + 1 :]]
    if part == "running":
        return [own for own in same if pd.Timestamp(own[at]) <= day]
    return [own for own in same if pd.Timestamp(own[at]).to_period(span) == day.to_period(span)]


def plan_of(name, budget, unit=PEOPLE):
    query = {"name": "t", **WORKLOADS[name]}
    keys = {column: KEYS[column] for column in query["by"]}
    return make_plan({"unit": unit, "budget": budget, "keys": keys, "query": [query]})


NUMBERS = {"two columns": 15, "three columns": 60, "no margins": 12, "tree": 10, "ages": 6}
NUMBERS |= {"days": 12 + 3 + 2 + 12, "days of both": 2 * (12 + 12 + 2)}
LAST = dict.fromkeys(WORKLOADS, "total") | {"no margins": "by age, city", "days": "running", "days of both": "month"}
CASES = [(name, account) for name in WORKLOADS for account in ACCOUNTS]


def expect_sums(rows, plan, query):
    """That every number is the sum of the finest ones that it is about, in the published table."""
    by = query["by"]
    numbers = {(tuple(row[column] for column in by), row["part"]): row["value"] for row in rows}
    assert len(numbers) == len(rows)
    (block,) = blocks(plan)
    assert {(key, "") for key in block.keys} <= numbers.keys()
    for (key, part), value in numbers.items():
        assert value == sum(numbers[own, ""] for own in finest(query, key, part, block.keys))


@pytest.mark.parametrize(("name", "account"), CASES)
def test_a_whole_release_adds_up_and_has_a_certificate(name, account, tmp_path):
    plan = plan_of(name, {**ACCOUNTS[account], "account": "people"})
    ledger = Ledger.create(tmp_path / "ledger")
    ledger.open_account("people", epsilon=2.0, delta=0.1)
    made = release(plan, table(), ledger=ledger, request="one")
    checked = check_certificate(made.certificate, made.to_bytes())
    check_entry(checked, made.to_bytes(), ledger)
    found = made.to_pandas()
    assert len(found) == checked.numbers == NUMBERS[name]
    assert (found["value"] >= 0).all()
    assert (found["value"] % 1 == 0).all()
    assert ((found["lower"] <= found["value"]) & (found["value"] <= found["upper"])).all()
    assert found["mu"].notna().all() == (account == "gaussian")
    expect_sums(made.rows(), plan, WORKLOADS[name])
    said = explain(plan)
    assert "for all its numbers together" in said
    assert "projected so that all sums agree" in said
    assert LAST[name] in said.split("expected error")[1]
    kind = WORKLOADS[name]["kind"]
    assert kind in report(made)
    assert kind in str(made)
    assert len(made.to_csv().splitlines()) == len(found) + 1
    assert len(made.to_arrow()) == len(made.to_polars()) == len(found)


@pytest.mark.parametrize(("name", "account"), CASES)
def test_counts_are_right_where_the_noise_is_small(name, account):
    unit = {"column": "person", "rows": 3, "groups": 3}  # nothing is cut
    budget = {"epsilon": 100.0, **({"delta": 0.01} if account == "gaussian" else {})}
    found = release(plan_of(name, budget, unit), table(), ledger=None).to_pandas()
    frame, query = table().to_pandas(), WORKLOADS[name]
    texts = list(zip(*(frame[column].astype(str) for column in query["by"]), strict=True))
    counts = Counter(texts)
    (block,) = blocks(plan_of(name, budget, unit))
    for row in found.to_dict("records"):
        key = tuple(None if pd.isna(row[column]) else row[column] for column in query["by"])
        exact = sum(counts[own] for own in finest(query, key, row["part"], block.keys))
        assert abs(row["value"] - exact) <= 8  # beyond ten times its scale
        assert row["lower"] - 8 <= exact <= row["upper"] + 8
    if name == "two columns":
        kept = frame[frame["city"] != "elsewhere"]
        crossed = pd.crosstab(kept["sex"], kept["city"], margins=True)
        total = found[found["sex"].isna() & found["city"].isna()]["value"].item()
        assert abs(total - crossed.loc["All", "All"]) <= 8


def expect_refused(certificate, published, damaged):
    text = json.dumps(damaged, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    stated = json.loads(certificate)
    from rangebound.release.output.table import sha256

    stated["published"] = sha256(text)  # whoever changes a table can change that too
    with pytest.raises(CertificateInvalid):
        check_certificate(json.dumps(stated, indent=1, sort_keys=True), text)


def test_measurements_that_stand_elsewhere_are_refused():
    made = release(plan_of("two columns", ACCOUNTS["gaussian"]), table(), ledger=None)
    published = json.loads(made.to_bytes())
    damaged = copy.deepcopy(published)
    damaged["cells"][1]["draws"] = damaged["cells"][0]["draws"] + damaged["cells"][1]["draws"]
    damaged["cells"][0]["draws"] = []
    expect_refused(made.certificate, published, damaged)
    missing = copy.deepcopy(published)
    missing["cells"][0]["draws"] = []
    expect_refused(made.certificate, published, missing)


def moves(contributions, cells):
    """All that one unit can add to some finest cells, at the ends of its bounds."""
    for size in range(contributions.cells + 1):
        for where in itertools.combinations(range(cells), size):
            yield np.array([contributions.rows * (at in where) for at in range(cells)])


@crossed({"account": list(NoiseAccount), "bounds": [(1, 1), (2, 2), (1, 3)], "replaced": [False, True]})
def test_no_unit_costs_more_than_the_strategy_says(account, bounds, replaced):
    contributions = Contributions(rows=bounds[0], cells=bounds[1], replaced=replaced)
    wanted = margins(("a", "b"), (2, 3), every=True)
    found = crosstab_measurements(wanted, account, Fraction(1), contributions)
    if account is NoiseAccount.PURE and bounds == (1, 3):  # so small a table is measured by its cells alone
        found = replace(found, scales=tuple(each * (2 if replaced else 1) for each in (6.0, 18.0, 0.0, 9.0)))
    every = list(moves(contributions, 6))
    pairs = itertools.product(every, every) if replaced else ((each, 0 * each) for each in every)
    costs = [spent(found, one - two) for one, two in pairs]
    assert max(costs) <= float(found.cost) * (1 + 1e-9)
    assert found.cost <= 1
    assert max(costs) >= 0.5  # the bound is of the right size


def spent(found, move):
    """epsilon or mu^2 of one difference of the finest cells: in L1, or in L2 of the residuals."""
    tables = found.margins.tables(move.astype(object))
    if found.account is NoiseAccount.PURE:
        return sum(np.sum(np.abs(each)) / scale for each, scale in zip(tables, found.scales, strict=True) if scale)
    total = 0.0
    for residual, scale in zip(found.strategy.residuals, found.strategy.scales, strict=True):
        table = tables[found.margins.wanted.index(residual)].astype(float)
        for axis in range(table.ndim):
            table = table - table.mean(axis=axis, keepdims=True)
        total += (table**2).sum() * (table.size / scale) ** 2
    return total


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("name", ["two columns", "tree", "days"])
def test_a_strategy_for_less_than_a_unit_can_do_is_refused(name, account):
    ready = prepare(plan_of(name, ACCOUNTS[account]))
    assert bool(ready.allocation.mu) == (account == "gaussian")
    (publisher,) = ready.publishers
    found, share = ready.allocation.sensitivities[0], ready.allocation.questions[0]
    publisher.check(found, share)
    with pytest.raises(CertificateInvalid, match="sensitivity"):
        publisher.check(replace(found, cell=found.cell * 2, square=found.square * 4), share)
    less = replace(share, epsilon=share.epsilon * 0.999, mu=share.mu * 0.999)
    with pytest.raises(CertificateInvalid, match="less private"):
        publisher.check(found, less)
    other = replace(share, epsilon=1.0, mu=0.0 if share.mu else 1.0)
    with pytest.raises(CertificateInvalid, match="another account"):
        publisher.check(found, other)


TREE = 'kind = "hierarchy"\nby = '
FAULTS = {
    'kind = "crosstab"\nby = ["sex"]': "by: must name 2 to 8 columns",
    'kind = "crosstab"\nby = ["sex", "shoe"]': "keys of 'shoe' must be public",
    'kind = "crosstab"\nby = ["sex", "city"]\nsupport = [0, 9]': "support: is not for this kind",
    'kind = "crosstab"\nby = ["sex", "city"]\nstep = 5': "step: is not for this kind",
    f'{TREE}["sex", "city"]\nlevels = [{{name = "l", members = {{x = ["f"]}}}}]': "by: must name one column",
    f'{TREE}["sex"]\nlevels = [{{name = "l", members = {{x = ["f"]}}}}]': "key 'm' has no l",
    f'{TREE}["sex"]\nlevels = [{{name = "l", members = {{x = ["f"], y = ["m", "f"]}}}}]': "'f' is in more than one l",
    f'{TREE}["sex"]\nlevels = [{{name = "l", members = {{x = ["f", "m", "o"]}}}}]': "'o' is listed in a l, but",
    'kind = "series"\nby = ["sex"]': "consecutive days",
    'kind = "series"\nby = ["day"]': "consecutive days",
    'kind = "series"\nby = ["sex"]\ntotals = ["week", "week"]': "named twice",
    'kind = "series"\nby = ["sex"]\ntotals = ["year"]': "totals",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_plan_that_cannot_be_is_refused(text):
    head = "budget = {epsilon = 1.0, delta = 1e-6}\n"
    head += 'keys = {sex = ["f", "m"], city = ["a"], day = [2025-01-01, 2025-01-03]}\n'
    other = '[[query]]\nname = "n"\nkind = "count"\nby = ["sex", "city", "day"]\n'
    with pytest.raises(PlanError, match=FAULTS[text].split(":", maxsplit=1)[-1].strip()):
        parse_plan(f'{head}{other}[[query]]\nname = "t"\n{text}\n')


def test_too_many_numbers_are_refused():
    keys = {name: list(range(60)) for name in "abc"}
    query = {"name": "t", "kind": "crosstab", "by": ["a", "b", "c"]}
    with pytest.raises(PlanError, match="over"):
        make_plan({"budget": {"epsilon": 1.0}, "keys": keys, "query": [query]})
    keys = {name: list(range(30)) for name in "abc"}  # whole numbers that add up would take minutes
    with pytest.raises(PlanError, match="over 10000 numbers, with all margins"):
        make_plan({"budget": {"epsilon": 1.0}, "keys": keys, "query": [query]})
    assert make_plan({"budget": {"epsilon": 1.0}, "keys": keys, "query": [{**query, "margins": False}]})


def test_a_crosstab_beside_other_questions_of_a_consistent_plan():
    plan = make_plan(
        {
            "budget": {"epsilon": 2.0},
            "keys": {"sex": ["f", "m"], "city": ["a", "b"]},
            "consistent": True,
            "query": [
                {"name": "t", "kind": "crosstab", "by": ["sex", "city"]},
                {"name": "n", "kind": "count", "by": ["sex", "city"]},
                {"name": "all", "kind": "count"},
            ],
        }
    )
    rehearse(prepare(plan))
    made = release(plan, table(), ledger=None)
    assert check_certificate(made.certificate, made.to_bytes()).numbers == 9 + 4 + 1
    assert "t" in report(made)


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_rehearsal_draws_and_does_not_project(monkeypatch, account):
    """The projection of any answers has a result, and was most of the time of a rehearsal."""
    monkeypatch.setattr(workload_publisher, "project", lambda *_: pytest.fail("projected"))
    drawn = []
    ready = prepare(plan_of("tree", ACCOUNTS[account]))
    kind = type(ready.publishers[0].measured)
    usual = kind.draw
    monkeypatch.setattr(kind, "draw", lambda *given: drawn.append(given) or usual(*given))
    rehearse(ready)
    assert len(drawn) == 1


@pytest.mark.parametrize("what", ["draw", "radii"])
def test_what_cannot_be_drawn_is_refused_before_the_charge(monkeypatch, what):
    def fails(*_):
        raise ArithmeticError("no such noise")

    ready = prepare(plan_of("tree", ACCOUNTS["pure"]))
    owner = workload_publisher.WorkloadPublisher
    monkeypatch.setattr(owner, what, fails if what == "draw" else property(fails))
    with pytest.raises(PlanError, match="no such noise"):
        rehearse(ready)


@pytest.mark.parametrize(("name", "account"), [(name, account) for name in WORKLOADS for account in ACCOUNTS])
def test_unbiased_answers_stand_beside_the_published_ones(name, account):
    """From the same draw: they add up too, are as they were before the projection, and cost nothing."""
    plan = plan_of(name, ACCOUNTS[account])
    query = plan.query[0].model_copy(update={"unbiased": True})
    made = release(plan.model_copy(update={"query": (query,)}), table(), ledger=None)
    check_certificate(made.certificate, made.to_bytes())
    rows = made.rows()
    publisher = prepare(made.plan).publishers[0]
    found = np.array([row["unbiased"] for row in rows])
    assert found.tolist() == publisher.unclamped([each.draws for each in made.cells])
    assert (np.abs(found - [row["value"] for row in rows]) <= 20 * np.sqrt(publisher.measured.variances) + 20).all()
    sums = publisher.measured.sums
    for at, total in enumerate(sums.totals):
        parts = found[sums.parts[sums.starts[at] : sums.starts[at + 1]]]
        assert parts.sum() == pytest.approx(found[total], abs=1e-6)
    bounds = [row["bias"] for row in rows]
    assert all(each is None for each in bounds) if name == "three columns" else min(bounds) >= 0.5
    again = Release.from_bytes(made.to_bytes())
    assert [row["unbiased"] for row in again.rows()] == found.tolist()
    plain = release(plan, table(), ledger=None)
    assert {row["unbiased"] for row in plain.rows()} == {None}
    assert all(row["unreliable"] in (True, False) for row in plain.rows())


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_total_of_unbiased_cells_is_unbiased_where_that_of_clamped_ones_is_not(account):
    plan = plan_of("no margins", ACCOUNTS[account])
    publisher = prepare(plan).publishers[0]
    drawn = [publisher.draw([(0,)] * 12, secure_bits) for _ in range(400)]
    unbiased = [sum(publisher.unclamped(each[0])) for each in drawn]
    clamped = [sum(each.values[0] for each in publisher.read(each)[0]) for each in drawn]
    error = np.sqrt(publisher.measured.variances.sum() / len(drawn))
    assert abs(np.mean(unbiased)) < 6.0 * error
    assert np.mean(clamped) > 6.0 * error  # control


def drawn_from_a_plan(plan):
    """Plan, rehearsal, draw and projection of a table without rows, as many numbers as there are."""
    ready = prepare(plan)
    rehearse(ready)
    cells = int(np.prod([len(keys) for keys in plan.columns(plan.query[0].by)]))
    (publisher,) = ready.publishers
    return len(publisher.read(publisher.draw([(0,)] * cells, secure_bits))[0])


@pytest.mark.long
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_hierarchy_of_a_hundred_thousand_leaves_takes_less_than_ten_seconds(within, account):
    keys = [f"{at:06}" for at in range(100_000)]
    members = {f"{at:03}": keys[1000 * at : 1000 * at + 1000] for at in range(100)}
    query = {"name": "t", "kind": "hierarchy", "by": ["k"], "levels": [{"name": "l", "members": members}]}
    data = {"unit": PEOPLE, "budget": ACCOUNTS[account], "keys": {"k": keys}, "query": [query]}
    plan = make_plan(data)
    with within(10.0):
        assert drawn_from_a_plan(plan) == 100_101


@pytest.mark.long
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_year_of_ten_series_takes_less_than_two_seconds(within, account):
    days = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(365)]
    keys = {"day": days, "k": [str(at) for at in range(10)]}
    query = {"name": "t", "kind": "series", "by": ["day", "k"]}
    data = {"unit": {**PEOPLE, "groups": 30}, "budget": ACCOUNTS[account], "keys": keys, "query": [query]}
    plan = make_plan(data)
    with threadpool_limits(1), within(2.0):  # threads of linear algebra that wait for each other take time too
        assert drawn_from_a_plan(plan) == 7950


def dense(measured):
    """The measurements of a crosstab as a matrix, all its numbers as another, by drawing and adding up plain counts."""
    margins, cells = measured.margins, int(measured.margins.counts[0])
    numbers = [np.concatenate([each.ravel() for each in margins.tables(wholes(one))]) for one in np.eye(cells)]
    matrix = np.array(numbers, dtype=np.float64).T
    kept = np.repeat([bool(each) for each in measured.scales], margins.counts)
    return matrix[kept], matrix


@pytest.mark.parametrize("sizes", [(2, 3), (4, 3), (3, 2, 4), (2, 1, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_pure_crosstabs_are_answered_by_least_squares(sizes, seed):
    """Second route: generalised least squares with matrices, for any choice of measured margins."""
    chance = np.random.default_rng(seed)
    found = margins(tuple("abcd"[: len(sizes)]), sizes, every=True)
    scales = np.where(chance.random(len(found.wanted)) < 0.6, chance.uniform(0.5, 20.0, len(found.wanted)), 0.0)
    scales[0] = 5.0
    measured = LaplaceMeasurements(margins=found, contributions=Contributions(), scales=tuple(scales.tolist()))
    strategy, wanted = dense(measured)
    noise = np.concatenate([np.full(found.cells(each), one.variance) for each, one in measured.noises.items()])
    weighed = strategy.T / noise
    solved = wanted @ np.linalg.solve(weighed @ strategy, weighed)
    drawn = chance.integers(-50, 500, len(strategy)).astype(float).tolist()
    assert measured.size == len(drawn)
    assert measured.answers(drawn) == pytest.approx(solved @ drawn, abs=1e-6)
    assert measured.variances == pytest.approx((solved**2 * noise).sum(axis=1), rel=1e-9)
    reach = np.abs(solved) * np.concatenate(
        [np.full(found.cells(at), one.scale) for at, one in measured.noises.items()]
    )
    exact = laplace_radius((reach**2).sum(axis=1), reach.max(axis=1), 0.95)
    linked = slice(found.counts[0] if len(measured.noises) == 1 else 0, None)  # cells that are measured alone have less
    assert (measured.laplace_radii(0.95)[linked] >= exact[linked] * (1 - 1e-9)).all()
    assert (measured.laplace_radii(0.95) <= 2.0 * exact + 1.0).all()


@pytest.mark.parametrize("sizes", [(4, 5), (60, 60), (100, 20), (8, 9, 10)])
def test_pure_crosstabs_have_no_more_variance_than_cells_or_margins_alone(sizes):
    """Up to 14 % less than the better of the two, and never more."""
    found = margins(tuple("abc"[: len(sizes)]), sizes, every=True)
    made = crosstab_measurements(found, NoiseAccount.PURE, Fraction(1, 100), Contributions())
    counts = found.counts.astype(float)
    cells = 2e4 * counts[0] * len(counts)
    apart = 2e4 * np.cbrt(counts).sum() ** 3
    total = made.variances.sum()
    assert total <= min(cells, apart) * (1 + 1e-4)
    assert (total < 0.95 * min(cells, apart)) == (sizes == (60, 60) or sizes == (100, 20))
    assert made.cost <= Fraction(1, 100)


EMPTY = {
    "crosstab": {"keys": {"a": list(range(32)), "b": list(range(32))}, "by": ["a", "b"]},
    "hierarchy": {
        "keys": {"a": list(range(1000))},
        "by": ["a"],
        "levels": [{"name": "ten", "members": {str(at): list(range(10 * at, 10 * at + 10)) for at in range(100)}}],
    },
    "series": {"keys": {"a": {"days": [datetime.date(2025, 1, 1), datetime.date(2025, 12, 31)]}}, "by": ["a"]},
}


def empty_totals(kind, runs, project_again=None):
    """The published total of a table of empty cells at epsilon 0.1, in its standard errors."""
    facts = dict(EMPTY[kind])
    question = {"name": "t", "kind": kind, **{key: value for key, value in facts.items() if key != "keys"}}
    plan = make_plan({"budget": {"epsilon": 0.1}, "keys": facts["keys"], "query": [question]})
    publisher = prepare(plan).publishers[0]
    cells = math.prod(len(each) for each in plan.columns(plan.query[0].by))
    spread = math.sqrt(publisher.measured.variances[-1])
    found = []
    for _ in range(runs):
        drawn = publisher.draw([(Fraction(0),)] * cells, secure_bits)
        if project_again is None:
            found.append(publisher.read(drawn)[0][-1].values[0] / spread)
        else:
            answers = publisher.measured.answers([each for draw in drawn[0] for each in draw])
            numbers = project(answers, project_again(publisher.measured.variances), publisher.measured.sums).numbers
            found.append(numbers[-1] / spread)
    return np.array(found)


@pytest.mark.parametrize("kind", EMPTY)
def test_the_total_of_empty_cells_is_near_zero(kind):
    """A total is never negative: on average it is too large by less than a normal number that is cut at zero, twice."""
    totals = empty_totals(kind, 25)
    assert totals.max() < 6.0
    assert totals.mean() < 0.8 + 5.0 * 0.7 / 5.0


@pytest.mark.parametrize("kind", ["crosstab", "hierarchy"])
def test_control_weights_of_one_over_variance_raise_the_total_of_empty_cells(kind):
    assert empty_totals(kind, 5, lambda variances: variances).mean() > 4.0


@pytest.mark.long
@pytest.mark.parametrize("kind", EMPTY)
def test_the_total_of_empty_cells_is_within_three_standard_errors(kind):
    totals = empty_totals(kind, 1000)
    print(kind, int((np.abs(totals) <= 3.0).sum()))
    most = {"crosstab": 35}.get(kind, 15)  # 2.7 are expected of normal noise; a crosstab's total has one Laplace number
    assert (np.abs(totals) > 3.0).sum() <= most
