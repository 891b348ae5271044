"""OpenDP's errors for whole tables. The first functions run in its environment and import there what they need.

Its privacy map is asked for every measurement. A measurement is found once and drawn from many times: as releases they
would cost as much more, and each has the same error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.datasets import Table
from benchmarks.peers import Absent, call
from benchmarks.workloads import Errors, Truths, Workload, with_margins, with_running_totals

Loss = Mapping[str, float]


def zcdp(epsilon: float, delta: float) -> float:
    """The largest rho that OpenDP's own conversion allows at (epsilon, delta)."""
    import opendp.prelude as dp

    dp.enable_features("contrib")

    def fits(scale):
        number = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        approximate = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*number, scale)), delta)
        return approximate.map(1.0)[0] <= epsilon

    return 0.5 / dp.binary_search(fits, bounds=(1.0, 100.0)) ** 2


def polars_counts(path: str, questions: Any, unit: Any, loss: Any, parts: int, draws: int, signed: bool) -> Any:
    """Counts by public keys, the loss evenly over this many parts: what is drawn for each question, and the scale."""
    import os

    os.environ["POLARS_MAX_THREADS"] = "1"
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib", "honest-but-curious")
    data = pl.scan_parquet(path)
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1, **({"identifier": pl.col(unit["column"])} if unit else {})),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=parts,
        margins=[dp.polars.Margin(by=[], max_length=10**7)],
    )
    scale, found = None, []
    for question in questions:
        query, by = context.query(), question["by"]
        if unit:  # keep="sample" fails for groups of text
            query = query.truncate_per_group(unit["rows"], by=by).truncate_num_groups(unit["groups"], by, "first")
        if by:
            keys = pl.LazyFrame(question["keys"])
            query = query.group_by(by).agg(dp.len(signed=signed)).with_keys(keys)
        else:
            query = query.select(dp.len(signed=signed))
        inner, plan = (object.__getattribute__(query, name) for name in ("_query", "polars_plan"))
        measure = None
        if scale is not None:  # the search takes seconds, and the scale is the same
            measure = dp.m.make_private_lazyframe(*inner._chain, inner._output_measure, plan, global_scale=scale)
        if measure is None or not measure.check(inner._d_in, inner._d_out):
            measure = query.resolve()
            scale = float(dp.summarize_polars_measurement(measure)["scale"][0])
        drawn = [measure(data).collect() for _ in range(draws)]
        if by:
            drawn = [keys.collect().join(each, on=by, how="left", maintain_order="left") for each in drawn]
        found.append([each["len"].to_list() for each in drawn])
    return found, scale


def polars_keys(path: str, by: Any, unit: Any, rho: float, delta: float, draws: int) -> float:
    """How many keys it finds by a threshold on the noisy count, in the mean."""
    import os

    os.environ["POLARS_MAX_THREADS"] = "1"
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib", "honest-but-curious")
    data = pl.scan_parquet(path)
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col(unit["column"])),
        privacy_loss=dp.loss_of(rho=rho, delta=delta),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[], max_length=10**7)],
    )
    query = context.query().truncate_per_group(unit["rows"], by=by).truncate_num_groups(unit["groups"], by, "first")
    measure = query.group_by(by).agg(dp.len(signed=False)).resolve()
    return sum(measure(data).collect().height for _ in range(draws)) / draws


def contingency_tables(path: str, keys: Any, groupings: Any, rho: float, draws: int) -> Any:
    """Marginals of its contingency tables, each fitted by `mbi` to noisy marginals with the whole of rho."""
    import os

    os.environ["POLARS_MAX_THREADS"] = "1"
    import numpy as np
    import opendp.prelude as dp
    import polars as pl
    from opendp.extras.mbi import Count, Fixed

    dp.enable_features("contrib", "honest-but-curious")
    found = []
    for _ in range(draws):
        context = dp.Context.compositor(
            data=pl.scan_parquet(path).select(list(keys)),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=rho),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=[], max_length=10**7)],
        )
        asked = Fixed(queries=[Count(by=tuple(by)) for by in groupings])
        table = context.query().contingency_table(keys=keys, algorithm=asked).release()
        arrays = [np.asarray(table.project(tuple(by))) for by in groupings]
        inner = [tuple(slice(len(keys[each])) for each in by) for by in groupings]  # it adds a key for missing values
        found.append([each[at].ravel().tolist() for each, at in zip(arrays, inner, strict=True)])
    return found


def trees(leaves: Any, factor: int, pure: bool, limit: float, draws: int) -> Any:
    """Leaves that are consistent with a tree of noisy counts, for every draw."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int) if pure else dp.l2_distance(T=int)
    noise = dp.m.then_laplace if pure else dp.m.then_gaussian
    tree = dp.t.make_b_ary_tree(*space, len(leaves), factor)
    scale = dp.binary_search(lambda scale: (tree >> noise(scale)).map(1) <= limit, bounds=(0.1, 1e4))
    measure, fitted = tree >> noise(scale), dp.t.make_consistent_b_ary_tree(factor)
    return [list(fitted(measure(leaves))) for _ in range(draws)]


def error(measure: Callable[[Errors], None]) -> float | str:
    """The root mean square error that `measure` adds up, or why there is none."""
    found = Errors()
    try:
        measure(found)
    except Absent as why:
        return str(why)
    return found.root


def of_one_count(path: str, rows: int, loss: Loss, parts: int, draws: int) -> float | str:
    """The error of a count of all rows, one of this many: by the scale that it states, if draws agree with it."""
    scale = math.nan

    def measure(found: Errors) -> None:
        nonlocal scale
        (drawn,), scale = call("opendp", polars_counts, path, [{"by": []}], None, loss, parts, draws, False)
        found.add([value for each in drawn for value in each], [rows] * draws)

    measured = error(measure)
    if isinstance(measured, str):
        return measured
    law = scale if "rho" in loss else math.sqrt(0.5) / math.sinh(0.5 / scale)  # in whole numbers
    return law if abs(measured / law - 1.0) < 5.0 * math.sqrt(1.25 / draws) else measured


def of_counts(table: Table, asked: Workload, loss: Loss, draws: int) -> float | str:
    """The error of counts by public keys, as published: not below 0."""
    return error(lambda found: _add(found, table, asked, loss, draws))


def of_sums(table: Table, cells: Workload, asked: Workload, loss: Loss, draws: int) -> float | str:
    """The error of unclamped counts and of what they add up to: the margins of a crosstab or running totals."""
    (query,) = asked.plan["query"]
    added_up = with_margins if query["kind"] == "crosstab" else with_running_totals

    def measure(found: Errors) -> None:
        (drawn,), _ = call("opendp", polars_counts, *_given(table, cells, loss, draws), True)
        for values in drawn:
            sums: Truths = added_up(dict(zip(cells.truths, values, strict=True)))
            found.add([sums[place] for place in asked.truths], list(asked.truths.values()))

    return error(measure)


def _given(table: Table, asked: Workload, loss: Loss, draws: int) -> tuple[Any, ...]:
    questions = []
    for at, query in enumerate(asked.plan["query"]):
        groups = [key for question, key, _ in asked.truths if question == at]
        keys = {name: [key[place] for key in groups] for place, name in enumerate(query["by"])}
        questions.append({"by": query["by"], "keys": keys})
    return str(table.path), questions, asked.plan.get("unit"), loss, len(questions), draws


def _add(found: Errors, table: Table, asked: Workload, loss: Loss, draws: int) -> None:
    drawn, _ = call("opendp", polars_counts, *_given(table, asked, loss, draws), False)
    for at, some in enumerate(drawn):
        for values in some:
            found.add(values, asked.of_question(at))


def of_contingency_table(table: Table, asked: Workload, rho: float, draws: int) -> float | str:
    """The error of the marginals of its contingency table."""
    groupings = [query["by"] for query in asked.plan["query"]]
    keys = {name: list(table.keys[name]) for name in sorted({name for by in groupings for name in by})}

    def measure(found: Errors) -> None:
        for drawn in call("opendp", contingency_tables, str(table.path), keys, groupings, rho, draws):
            for at, values in enumerate(drawn):
                found.add(values, asked.of_question(at))

    return error(measure)


def of_trees(
    leaves: Sequence[int],
    loss: Loss,
    made: Callable[[Sequence[float]], list[float]],
    factors: Sequence[int],
    draws: int,
) -> float | str:
    """The error of what is `made` of the leaves of consistent trees: that of the best branching factor."""
    truth, found = made(leaves), []
    (limit,) = loss.values()

    def measure(errors: Errors, factor: int) -> None:
        for drawn in call("opendp", trees, list(leaves), factor, "epsilon" in loss, limit, draws):
            errors.add(made(drawn), truth)

    for factor in factors:
        found.append(error(lambda errors, factor=factor: measure(errors, factor)))  # type: ignore[misc]
    failed = [each for each in found if isinstance(each, str)]
    return failed[0] if failed else min(each for each in found if not isinstance(each, str))


def running(days: Sequence[float]) -> list[float]:
    """Days, then running totals."""
    return [*days, *np.cumsum(days).tolist()]


def levels(sizes: tuple[int, int]) -> Callable[[Sequence[float]], list[float]]:
    """The numbers of a tree of three levels from its leaves."""

    def made(leaves: Sequence[float]) -> list[float]:
        groups = np.reshape(np.asarray(leaves, dtype=float), sizes).sum(axis=1).tolist()
        return [*leaves, *groups, math.fsum(groups)]

    return made
