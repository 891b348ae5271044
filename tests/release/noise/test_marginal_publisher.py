"""Counts that are marginals of one table: right with keys that are not listed, private, and as exact as theory says."""

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
from scipy import stats

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import budget_split, check_certificate, check_entry, explain, forecast, release
from rangebound.release.budget_split import allocations
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.noise.allocation import Allocation, BudgetShare, LossForm
from rangebound.release.noise.marginal_publisher import unit_strategy
from rangebound.release.noise.strategies.marginal_strategy import rescaled
from rangebound.release.noise.strategies.strategy import gaussian_reach
from rangebound.release.output.ledger_entry import charges
from rangebound.release.output.plan_facts import plan_from_json, plan_json
from rangebound.release.plan.groupings import hidden_groupings, workloads
from rangebound.release.prepare import answers, prepare, prepared
from rangebound.release.sql.aggregate import aggregate
from rangebound.sampling.entropy import secure_bits
from rangebound.values.support import Interval
from tests.release.noise.refusals import refusal
from tests.release.output.asked import asked, released, report
from tests.release.output.test_certificate_fields import refuses
from tests.release.pair_loss import CLOSE, strategy_of
from tests.release.plans import SALT

KEYS = {"sex": ["f", "m"], "age": [1, 2, 30], "city": ["a", "b", "c", "nobody"], "day": ["x"]}
GROUPINGS = [["sex"], ["city", "sex"], ["age", "city"], ["sex", "age", "day"], ["day"], []]
UNITS = {"added": {}, "replaced": {"neighbours": "replace", "size": 1000}}


def frame(seed, rows=300):
    chance = np.random.default_rng(seed)

    def column(*values):
        return pd.Series(chance.choice(len(values), rows)).map(dict(enumerate(values))).astype(object)

    return pd.DataFrame(
        {
            "sex": column("f", "m", "m", "x", None),
            "age": column("1", "2", "30", "30.0", "4", "old", None),
            "city": column("a", "b", "c", "C", None),
            "day": column("x", "x", "y", None),
            "height": pd.Series(chance.integers(0, 3, rows)).map({0: 1.5, 1: 1.9, 2: None}),
        }
    )


def plan_of(groupings=GROUPINGS, *, delta=1e-6, where=(), **more):
    used = {column for by in groupings for column in by}
    query = [{"name": f"by {' '.join(by)}", "kind": "count", "by": by, "where": list(where)} for by in groupings]
    return asked(*query, delta=delta, keys={name: each for name, each in KEYS.items() if name in used}, **more)


def together(plan, mu):
    share = BudgetShare(epsilon=0.0, delta=0.0, groups=1, parts=1, mu=mu, loss=LossForm.GAUSSIAN)
    found = {index: each.sensitivity(plan.unit, plan.groups(each.by)) for index, each in enumerate(plan.query)}
    groups = tuple(each.questions for each in workloads(plan))
    shares = dict.fromkeys(range(len(plan.query)), share)
    return prepared(plan, Allocation(questions=shares, selections={}, sensitivities=found, mu=mu, workloads=groups))


def counted(rows, plan):
    """Every count of a plan by pandas: a key that is not listed, or missing, is in no group of its own column."""
    rows = rows.assign(age=pd.to_numeric(rows["age"], errors="coerce").map(lambda x: str(int(x)) if x == x else None))
    found = {}
    for index, question in enumerate(plan.query):
        own = rows
        for each in question.where:
            own = own[own["height"] > each.value]
        for column in plan.keys if plan.only_listed else question.by:
            own = own[own[column].isin(list(plan.keys[column].labels))]
        sizes = Counter(zip(*(own[column] for column in question.by), strict=True)) if question.by else {(): len(own)}
        for key in itertools.product(*(plan.keys[column].labels for column in question.by)):
            found[index, key] = sizes.get(key, 0)
    return found


def published(plan, engine):
    ready = together(plan, 1e7)
    cells = answers(ready, *aggregate(plan, engine, SALT, ready.hidden))
    assert all(abs(cell.draws[0] - cell.value) < 0.01 for cell in cells)
    return {(cell.question, cell.key): cell.value for cell in cells}


FILTER = [{"column": "height", "is": ">", "value": 1.7}]


@pytest.mark.few(2)
@pytest.mark.parametrize(("unit", "listed", "seed"), [*itertools.product(UNITS, (False, True), range(2))])
def test_every_count_is_right_with_keys_that_are_not_listed(unit, listed, seed):
    rows, where = frame(seed), FILTER if seed else []
    public = unit == "replaced" and not listed and not where  # the number of all rows
    plan = plan_of(GROUPINGS[: -1 if public else None], where=where, unit=UNITS[unit], only_listed=listed)
    assert workloads(plan)[0].questions == tuple(range(len(plan.query)))
    with DuckDB(pa.Table.from_pandas(rows)) as engine:
        found = published(plan, engine)
    assert found == counted(rows, plan)
    assert len(found) >= 2 + 8 + 12 + 6 + 1
    if not listed:  # control: rows of other keys are there, and count
        assert found[0, ("m",)] > sum(found[1, (city, "m")] for city in KEYS["city"])


@pytest.mark.parametrize("values", [(True, 1.0), (False, 0.0), ([True], [1.0])])
def test_counts_with_filters_that_python_takes_for_equal_are_not_measured_together(values):
    """True == 1.0, but a field "1" of a CSV file is not true: one row would move two cells of one table."""
    sign = "in" if isinstance(values[0], list) else "=="
    query = [
        {"kind": "count", "by": by, "where": [{"column": "flag", "is": sign, "value": value}]}
        for by, value in zip((["sex"], ["city"], ["sex", "city"]), [*values, values[0]], strict=True)
    ]
    mixed = asked(*query, delta=1e-6, keys={name: KEYS[name] for name in ("sex", "city")})
    assert [each.questions for each in workloads(mixed)] == [(0, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("listed", [True, pytest.param(False, marks=pytest.mark.long)])  # fewer rows count in the first
def test_spark_counts_the_same(spark, listed):
    rows, plan = frame(5), plan_of(where=FILTER, only_listed=listed)
    names = ", ".join(f"{name} {'double' if name == 'height' else 'string'}" for name in rows.columns)
    data = [tuple(None if each != each else each for each in row) for row in rows.itertuples(index=False)]
    with Spark(spark.createDataFrame(data, names)) as engine:
        assert published(plan, engine) == counted(rows, plan)


def test_control_without_a_value_for_other_keys_counts_are_wrong():
    """Marginals of the listed keys alone are not those of one table: least squares would share the difference."""
    rows, plan = frame(0), plan_of([["sex"], ["city", "sex"], []])
    ready = together(plan, 1e7)
    with DuckDB(pa.Table.from_pandas(rows)) as engine:
        exact = aggregate(plan, engine, SALT, ready.hidden)
    first = ready.publishers[0]
    alone = replace(first.marginals, others=False, hidden=())
    strategy = rescaled(unit_strategy(alone, (1.0, 1.0, 1.0), replaced=False), 1e14)
    counts = [[int(each[key][0]) for key in block.keys] for block in exact[:3] for each in block.answers.values()]
    drawn = replace(first, marginals=alone, strategy=strategy).draw(counts, secure_bits)
    answers = [draw[0] for each in drawn for draw in each]
    assert max(abs(one - two) for one, two in zip(answers, itertools.chain(*counts), strict=True)) > 1


@pytest.mark.few(2)
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_no_row_costs_more_than_the_strategy_says_whatever_its_keys(unit, listed):
    """Neighbouring tables by brute force: one row more, or another row, with listed keys, others and none."""
    more = {"unit": UNITS[unit], "only_listed": listed}
    ready = together(plan_of(GROUPINGS[:-1], **more), 0.3)
    every = plan_of([*GROUPINGS[:-1], *(list(each.by) for each in ready.hidden)], **more)
    rows = [counted(frame(3, 30).iloc[[at]], every) for at in range(30)]
    moved = np.array([list(each.values()) for each in rows], dtype=float)
    if unit == "replaced":
        moved = (moved[:, None] - moved).reshape(-1, moved.shape[1])
    first = ready.publishers[0]
    losses = strategy_of(first, *Counter(index for index, _ in rows[0]).values()).losses(moved)
    assert losses.max() <= float(first.strategy.cost) * (1 + CLOSE)
    assert first.strategy.cost <= Fraction(0.3) ** 2
    assert unit == "replaced" or losses.max() >= float(first.strategy.cost) * (1 - 1e-6)  # it is attained


def simulated(ready, exact, runs):
    first = ready.publishers[0]
    for _ in range(runs):
        drawn = first.draw([tuple(map(Fraction, each)) for each in exact], secure_bits)
        yield drawn, first.read(drawn)


def exact_counts(ready, rows):
    with DuckDB(pa.Table.from_pandas(rows)) as engine:
        found = aggregate(ready.plan, engine, SALT, ready.hidden)
    return [[each.answers[at][key][0] for key in each.keys] for each in found for at in each.answers]


@pytest.mark.slow
@pytest.mark.parametrize("listed", [False, True])
def test_the_error_is_that_of_theory_and_intervals_hold_at_empty_cells_too(listed):
    plan, runs = plan_of([["sex"], ["city", "sex"], ["age", "city"], []], only_listed=listed), 150 if listed else 400
    ready = together(plan, 0.5)
    exact = exact_counts(ready, frame(2))
    sums, hits = [0.0] * 4, [np.zeros(len(each)) for each in exact[:4]]
    for drawn, read in simulated(ready, exact, runs):
        for at, (draws, readings) in enumerate(zip(drawn, read, strict=True)):
            truth = np.array(exact[at], dtype=float)
            sums[at] += ((np.array([draw[0] for draw in draws]) - truth) ** 2).mean()
            ends = np.array([each.intervals[0] for each in readings])
            hits[at] += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    for at, total in enumerate(sums):
        degrees = runs  # the cells of a count are not independent: as if it were one
        low, high = stats.chi2.ppf([1e-11, 1 - 1e-11], degrees) / degrees
        assert low < total / runs / ready.publishers[at].mse < high
    least = stats.binom.ppf(1e-11, runs, 0.95)
    assert all((each >= least).all() for each in hits)
    assert exact[1].count(0) >= 2  # empty cells
    assert (np.concatenate(hits) < runs).any()  # control: they are not all of the line


def test_published_numbers_of_listed_rows_agree_in_whole_numbers():
    plan = plan_of([["sex"], ["city", "sex"], ["age", "city"], ["sex", "age", "city"], []], only_listed=True)
    ready = together(plan, 0.1)
    for _, read in simulated(ready, exact_counts(ready, frame(2)), 20):
        sexes, both, ages, three, (total,) = (
            np.array([each.values[0] for each in group]).reshape(shape)
            for group, shape in zip(read, [(2,), (4, 2), (3, 4), (2, 3, 4), (1,)], strict=True)
        )
        assert (three >= 0).all()
        assert (three % 1 == 0).all()
        assert sexes.tolist() == both.sum(axis=0).tolist() == three.sum(axis=(1, 2)).tolist()
        assert both.sum(axis=1).tolist() == ages.sum(axis=0).tolist() == three.sum(axis=(0, 1)).tolist()
        assert ages.sum(axis=1).tolist() == three.sum(axis=(0, 2)).tolist()
        assert total == sexes.sum()


MANY = [["sex"], ["age"], ["city"], ["sex", "age"], ["city", "sex"], ["age", "city"], []]
PEOPLE = {"epsilon": 1.0, "delta": 0.01, "account": "people"}


@pytest.mark.slow
@pytest.mark.parametrize("listed", [False, True])
def test_a_whole_release_has_a_certificate_a_charge_and_words(tmp_path, listed):
    plan = plan_of(MANY, budget=PEOPLE, only_listed=listed)
    ready = prepare(plan)
    assert ready.allocation.workloads == (tuple(range(7)),)
    with Ledger.create(tmp_path / "ledger") as ledger:
        ledger.open_account("people", epsilon=2.0, delta=0.1)
        made = release(plan, pa.Table.from_pandas(frame(1)), ledger=ledger, request="one")
        checked = check_certificate(made.certificate, made.to_bytes())
        check_entry(checked, made.to_bytes(), ledger)
    assert checked.numbers == len(made.cells) == 2 + 3 + 4 + 6 + 8 + 12 + 1
    for at in (0, 1):  # an answer that the measurements do not give is refused
        damaged = json.loads(made.to_bytes())
        damaged["cells"][4]["draws"][at] += 2.0**-10
        assert refuses(made, damaged)
    (gaussian, _) = charges(ready)
    share = ready.allocation.questions[0].mu
    assert share <= gaussian.mu <= share * (1 + 1e-12)  # once, and not for every question
    assert ready.publishers[0].strategy.cost <= Fraction(share) ** 2
    assert json.loads(made.certificate)["workloads"][0]["queries"] == [each.name for each in plan.query]
    for row in made.rows():
        assert row["lower"] <= row["value"] <= row["upper"]
        assert row["value"] % 1 == 0
        assert (row["bias"] is None) == listed
    assert "Workload 1" in report(made)
    said = explain(plan)
    assert "Workload 1: 'by sex', 'by age', 'by city' and 4 more are marginals of one table" in said
    assert said.count("in workload 1, by Gaussian noise on 7 residuals of a workload of 7 counts") == 7
    assert all(each.workload == 1 and "for workload 1" in each.cells()[2] for each in forecast(plan))


@pytest.mark.slow
def test_a_table_of_many_counts_is_checked_in_the_steps_of_one_way_to_split_its_budget():
    """Plain sums, which it did not take, have a mechanism for each count."""
    columns = [f"c{at}" for at in range(8)]
    keys = {column: list(range(at + 2)) for at, column in enumerate(columns)}
    pairs = itertools.combinations(columns, 2)
    plan = asked(*({"kind": "count", "by": list(by)} for by in pairs), delta=0.01, keys=keys, only_listed=True)
    assert prepare(plan).allocation.workloads
    made = released(plan, {column: [0, 1, 1] for column in columns})
    assert check_certificate(made.certificate, made.to_bytes(), work=200.0)
    with pytest.raises(CertificateInvalid, match="steps to check"):
        check_certificate(made.certificate, made.to_bytes(), work=20.0)


def test_a_table_from_before_there_were_workloads_verifies(monkeypatch):
    plan = plan_of(MANY, delta=0.01)
    with monkeypatch.context() as before:
        before.setattr(budget_split, "workloads", lambda _: ())
        made = released(plan, pa.Table.from_pandas(frame(1)))
    assert "workloads" not in json.loads(made.certificate)
    assert prepare(plan).allocation.workloads  # it would be made otherwise now
    assert check_certificate(made.certificate, made.to_bytes())
    assert made.to_pandas()["bias"].notna().all()


def test_a_strategy_for_less_than_a_row_can_do_is_refused():
    ready = prepare(plan_of(MANY, delta=0.01))
    publisher, share, found = ready.publishers[0], ready.allocation.questions[0], ready.allocation.sensitivities[0]
    publisher.check(found, share)
    assert "sensitivity" in refusal(publisher, replace(found, square=found.square * 2), share)
    assert "less private" in refusal(publisher, found, replace(share, mu=share.mu * 0.999))
    own = publisher.marginals
    for words, other in (("other keys", {"others": False}), ("other counts", {"asked": own.asked[::-1]})):
        assert words in refusal(replace(publisher, marginals=replace(own, **other)), found, share)


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ({}, {"unit": {"column": "height", "rows": 2}}),
        ({"weight": 2.0}, {}),
        ({"margin": 50}, {}),
        ({"mechanism": "rectify Gaussian"}, {}),
        ({"support": [0, 50]}, {}),
        ({"step": 5}, {}),
        ({"where": FILTER}, {}),
        ({}, {"delta": 0.0}),
    ],
    ids=str,
)
def test_what_is_fixed_by_itself_is_not_measured_together(first, more):
    query = [{"kind": "count", "by": ["sex"], **first}, {"kind": "count"}]
    plan = asked(*query, **{"delta": 0.01, "keys": {"sex": KEYS["sex"]}, **more})
    assert not any(way.workloads for way in allocations(plan))


def test_unbiased_and_signed_counts_come_from_the_least_squares_answers():
    signed = ("by age city", "by ")
    plan = plan_of(MANY, delta=0.01)
    query = [each.model_copy(update={"signed" if each.name in signed else "unbiased": True}) for each in plan.query]
    plan = plan.model_copy(update={"query": tuple(query)})
    assert prepare(plan).allocation.workloads
    made = [row for _ in range(3) for row in released(plan, pa.Table.from_pandas(frame(1, 2))).rows()]
    for row in made:
        whole = round(row["unbiased"])
        assert row["value"] == (whole if row["query"] in signed else max(whole, 0))
        assert (row["bias"] == 0.0) == (row["query"] in signed)
    assert any(row["value"] < 0 for row in made)


@pytest.mark.slow
def test_the_bias_of_a_count_is_within_its_bound():
    plan, runs = plan_of([["sex"], ["city", "sex"], []], delta=0.01), 2000
    ready = together(plan, 0.5)
    exact = [[0] * len(each) for each in exact_counts(ready, frame(2))]
    total = np.zeros(8)
    for _, read in simulated(ready, exact, runs):
        total += [each.values[0] for each in read[1]]
    bound = ready.publishers[1].bias(np.zeros(1), np.zeros(1), Interval(0, math.inf), None, whole=True)[0]
    deviation = math.sqrt(ready.publishers[1].mse / runs)
    assert (total / runs <= bound + 6 * deviation).all()
    assert (total / runs >= bound / 2).all()  # control: the bound is of the right size


def test_with_only_listed_rows_the_number_of_rows_is_not_public():
    facts = {"delta": 0.0, "unit": UNITS["replaced"]}
    all_rows, listed = (plan_of([[], ["sex"]], only_listed=each, **facts) for each in (False, True))
    assert prepare(all_rows).mechanisms[0] == "no mechanism, since it is public"
    assert "noise" in prepare(listed).mechanisms[0]
    assert plan_from_json(json.loads(plan_json(listed))) == listed != all_rows
    assert "rows with other keys than the listed ones in 'sex' left out" in explain(listed)
    with pytest.raises(PlanError, match="only_listed: no keys are listed"):
        asked({"kind": "count"}, only_listed=True)


def test_a_workload_takes_at_most_as_many_further_scans_as_it_has_counts():
    wide = [["sex", "age", "city", "day"], []]
    assert not workloads(plan_of(wide))  # 14 sums by fewer columns that nobody asked for
    assert workloads(plan_of(wide, only_listed=True))  # they follow from the counts
    (found,) = workloads(plan_of([["sex", "age"], ["city", "day"]]))
    assert len(hidden_groupings(plan_of([["sex", "age"], ["city", "day"]]), found)) == 5


@pytest.mark.slow
@pytest.mark.parametrize("unit", [{"column": "day", "rows": 3, "groups": 2}, {}], ids=str)
def test_rows_without_a_listed_key_count_for_no_kind_of_question(unit):
    """The same as a table without these rows, by pandas: with owners, private keys and clipping."""
    x, rows = {"column": "height", "range": [0, 2]}, frame(4)
    kinds = [{"kind": "count"}, {"kind": "mean", **x}, {"kind": "median", **x, "step": 0.5}]
    query = [{**each, "by": by} for by in ([], ["age"], ["city", "sex"]) for each in kinds]
    keys = {name: KEYS[name] for name in ("sex", "city")}

    def found(table, listed):
        more = {"only_listed": listed, "report_clipping": bool(unit)}
        plan = asked(*query, {"kind": "crosstab", "by": ["sex", "city"]}, delta=1e-6, keys=keys, unit=unit, **more)
        with DuckDB(pa.Table.from_pandas(table, preserve_index=False)) as engine:
            return [(each.answers, dict(each.units)) for each in aggregate(plan, engine, SALT)]

    kept = rows[rows["sex"].isin(KEYS["sex"]) & rows["city"].isin(KEYS["city"])]
    assert 0 < len(kept) < len(rows) / 2
    assert found(rows, True) == found(kept, False) != found(rows, False)  # control: there are such rows


@pytest.mark.few(3)
@pytest.mark.parametrize("level", [1e-3, 0.5, 0.95, 1 - 1e-9, 0.9999999999999999])
def test_the_intervals_of_a_workload_have_the_proved_reach_of_rounded_noise(level):
    for each in prepare(plan_of(MANY, delta=0.01, level=level)).publishers:
        assert each.half_width == gaussian_reach(level) * math.sqrt(each.mse)


@pytest.mark.parametrize("listed", [False, True])
def test_a_negative_zero_is_no_answer_of_measurements(listed):
    first = prepare(plan_of(MANY, delta=0.01, only_listed=listed)).publishers[0]
    draws = [draw for each in first._draws([0.0] * first.strategy.size) for draw in each]
    assert first.can_draw(*draws)
    for at in (0, len(draws) - 1):
        for place in range(len(draws[at])):
            damaged = list(draws)
            damaged[at] = (*draws[at][:place], -0.0, *draws[at][place + 1 :])
            assert not first.can_draw(*damaged)


def test_the_published_bytes_do_not_depend_on_the_order_in_which_a_plan_lists_its_columns(tmp_path):
    """A plan that is read from a table has them in the order of their letters; the ledger keeps the bytes before."""
    levels = [{"name": "half", "members": {"second": ["c", "nobody"], "first": ["a", "b"]}}]
    query = [{"kind": "count", "by": ["sex"]}, {"kind": "count", "by": ["sex", "age"]}]
    query += [{"kind": "hierarchy", "by": ["city"], "levels": levels}, {"kind": "crosstab", "by": ["sex", "age"]}]
    keys = {name: KEYS[name] for name in ("sex", "city", "age")}
    assert list(keys) != sorted(keys)
    plan = asked(*query, budget=PEOPLE, keys=keys, only_listed=True)
    with Ledger.create(tmp_path / "ledger") as ledger:
        ledger.open_account("people", epsilon=2.0, delta=0.1)
        made = release(plan, pa.Table.from_pandas(frame(1)), ledger=ledger, request="one")
        assert ledger.published("one") == made.to_bytes()
        check_entry(check_certificate(made.certificate, made.to_bytes()), made.to_bytes(), ledger)


def test_a_workload_whose_noise_no_double_holds_exactly_is_refused_so_that_another_way_is_taken():
    assert together(plan_of(MANY), 1e-9).allocation.workloads
    with pytest.raises(PlanError, match=r"query\[0\]: no noise for its workload \(scale=.*2\^44"):
        together(plan_of(MANY), 1e-16)
