"""Accuracy of private estimators at equal epsilon: ours beside diffprivlib, on data that scikit-learn ships.

python -m benchmarks.estimators [--quick] [--json FILE]
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks import peers
from benchmarks.report import Row, parser, publish

TEXT = (
    "Accuracy on held-out rows (for diabetes, the root mean squared error), each a mean over random splits of 70 and "
    "30 %, with the standard deviation in the note. All get the same bounds: the range of the data rounded outwards to "
    "one digit of its width (0 to 16 for digits), which stands for public knowledge. Ours is `LogisticRegression` and "
    "`LinearRegression` with default settings and delta 1e-5 for adding or removing a row. diffprivlib has no delta; "
    "of its logistic regression, with the largest norm in the bounds and with half of it, and its naive Bayes, the "
    "best is taken, by the rows that are held out. Both regressions' predictions are clamped to the bounds of the "
    "target. Forests are ours with default settings, and the better of diffprivlib's tree and forest of 10. k-means: "
    "the sum of squared distances over that of scikit-learn; components: the variance that two of them explain, over "
    "that of scikit-learn. Quartiles: how far the rank of a released quartile of a feature is from 1/4, 1/2 or 3/4, "
    "over all features; ours are all of one `QuantileTransformer` with default settings, diffprivlib's one "
    "`tools.quantile` each, with an even share of epsilon or what its accountant has room for at a delta of 1e-5, "
    "whichever is better. Where the median of a single feature is all that is asked, `tools.quantile` was closer."
)
EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-5
SEEDS = 20
DATASETS = ("iris", "wine", "breast cancer", "digits", "diabetes")


def dataset(name: str) -> Any:
    """The features in units of their bounds, from -1 to 1, and the targets."""
    import numpy as np
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name.replace(' ', '_')}")(return_X_y=True)
    lower, upper = x.min(axis=0), x.max(axis=0)
    digit = 10.0 ** np.floor(np.log10(np.where(upper > lower, upper - lower, 1.0)))
    lower, upper = np.floor(lower / digit) * digit, np.ceil(upper / digit) * digit
    if name == "digits":
        lower, upper = np.zeros(64), np.full(64, 16.0)
    return 2.0 * (x - lower) / (upper - lower) - 1.0, y


def splits(count: int, seed: int) -> Any:
    """The indices of the rows of a fit, and of those that are held out."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(count)
    return order[: int(0.7 * count)], order[int(0.7 * count) :]


def score(name: str, fitted: Any, x: Any, y: Any) -> float:
    """Accuracy, or for diabetes the root mean squared error of predictions in the bounds of the target."""
    import numpy as np

    found = fitted.predict(x)
    if name == "diabetes":
        return float(np.sqrt(np.mean((np.clip(found, 0.0, 400.0) - y) ** 2)))
    return float(np.mean(found == y))


def ours(name: str, epsilon: float, seeds: int, delta: float) -> dict[str, list[float]]:
    from rangebound.learn.sklearn import LinearRegression, LogisticRegression

    x, y = dataset(name)
    found = []
    for seed in range(seeds):
        fit, held = splits(len(x), seed)
        made: Any = LogisticRegression(epsilon=epsilon, delta=delta, bounds=(-1, 1))
        if name == "diabetes":
            made = LinearRegression(epsilon=epsilon, delta=delta, bounds=(-1, 1), target_bounds=(0, 400))
        found.append(score(name, made.fit(x[fit], y[fit]), x[held], y[held]))
    return {"": found}


def with_diffprivlib(name: str, epsilon: float, seeds: int) -> dict[str, list[float]]:
    from diffprivlib.models import GaussianNB, LinearRegression, LogisticRegression

    x, y = dataset(name)
    far = x.shape[1] ** 0.5
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        fit, held = splits(len(x), seed)
        models = {
            "logistic regression": LogisticRegression(epsilon=epsilon, data_norm=far, random_state=seed, max_iter=1000),
            "logistic regression, half norm": LogisticRegression(
                epsilon=epsilon, data_norm=far / 2, random_state=seed, max_iter=1000
            ),
            "naive Bayes": GaussianNB(epsilon=epsilon, bounds=(-1, 1), random_state=seed),
        }
        if name == "diabetes":
            bounds = {"bounds_X": (-1, 1), "bounds_y": (0, 400)}
            models = {"linear regression": LinearRegression(epsilon=epsilon, **bounds, random_state=seed)}
        for label, made in models.items():
            fitted = made.fit(x[fit], y[fit])
            found.setdefault(label, []).append(score(name, fitted, x[held], y[held]))
    return found


def our_forest(name: str, epsilon: float, seeds: int, delta: float) -> dict[str, list[float]]:
    from rangebound.learn.sklearn import RandomForestClassifier, RandomForestRegressor

    x, y = dataset(name)
    found = []
    for seed in range(seeds):
        fit, held = splits(len(x), seed)
        made: Any = RandomForestClassifier(epsilon=epsilon, delta=delta, bounds=(-1, 1))
        if name == "diabetes":
            made = RandomForestRegressor(epsilon=epsilon, delta=delta, bounds=(-1, 1), target_bounds=(0, 400))
        found.append(score(name, made.fit(x[fit], y[fit]), x[held], y[held]))
    return {"": found}


def forest_with_diffprivlib(name: str, epsilon: float, seeds: int) -> dict[str, list[float]]:
    from diffprivlib.models import DecisionTreeClassifier, RandomForestClassifier

    x, y = dataset(name)
    if name == "diabetes":
        raise SystemExit("it has no tree for regression")
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        fit, held = splits(len(x), seed)
        given = {"epsilon": epsilon, "bounds": (-1, 1), "classes": sorted(set(y.tolist())), "random_state": seed}
        for label, kind in (("tree", DecisionTreeClassifier), ("forest of 10", RandomForestClassifier)):
            fitted = kind(**given).fit(x[fit], y[fit])
            found.setdefault(label, []).append(score(name, fitted, x[held], y[held]))
    return found


def spread_of(x: Any, centres: Any, components: Any, clusters: int) -> list[float]:
    """Squared distances to centres, and variance along components, each over that of scikit-learn without privacy."""
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    least = KMeans(clusters, n_init=5, random_state=0).fit(x).inertia_
    most = PCA(2).fit(x).explained_variance_.sum()
    distances = ((x[:, None] - np.asarray(centres)) ** 2).sum(axis=2).min(axis=1).sum()
    return [float(distances / least), float(np.trace(np.cov((x @ np.asarray(components).T).T)) / most)]


def our_shapes(name: str, epsilon: float, seeds: int, delta: float) -> list[list[float]]:
    from rangebound.learn.sklearn import PCA, KMeans

    x, y = dataset(name)
    clusters = 3 if name == "diabetes" else len(set(y.tolist()))
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "bounds": (-1, 1)}
    return [
        spread_of(
            x, KMeans(clusters=clusters, **given).fit(x).cluster_centers_, PCA(**given).fit(x).components_, clusters
        )
        for _ in range(seeds)
    ]


def shapes_with_diffprivlib(name: str, epsilon: float, seeds: int) -> list[list[float]]:
    from diffprivlib.models import PCA, KMeans

    x, y = dataset(name)
    clusters = 3 if name == "diabetes" else len(set(y.tolist()))
    found = []
    for seed in range(seeds):
        centres = KMeans(clusters, epsilon=epsilon, bounds=(-1, 1), random_state=seed).fit(x).cluster_centers_
        made = PCA(2, epsilon=epsilon, bounds=(-1, 1), data_norm=x.shape[1] ** 0.5, random_state=seed)
        found.append(spread_of(x, centres, made.fit(x).components_, clusters))
    return found


def rank_error(x: Any, found: Any) -> float:
    """The mean distance of the ranks of quartiles, one row of them for each feature, from what they are to be."""
    import numpy as np

    found, wanted = np.asarray(found), np.array([0.25, 0.5, 0.75])
    below = (x[:, :, None] < found[None]).mean(axis=0)  # with ties, a value has all ranks from here to there
    upto = (x[:, :, None] <= found[None]).mean(axis=0)
    return float(np.maximum(np.maximum(below - wanted, wanted - upto), 0.0).mean())


def our_quartiles(name: str, epsilon: float, seeds: int, delta: float) -> dict[str, list[float]]:
    import numpy as np

    from rangebound.learn.sklearn import QuantileTransformer

    x, _ = dataset(name)
    ranks = np.tile(np.array([[0.25], [0.5], [0.75]]), x.shape[1])
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "bounds": (-1, 1)}
    found = [QuantileTransformer(**given).fit(x).inverse_transform(ranks).T for _ in range(seeds)]
    return {"": [rank_error(x, each) for each in found]}


def quartiles_with_diffprivlib(name: str, epsilon: float, seeds: int) -> dict[str, list[float]]:
    from diffprivlib import BudgetAccountant, tools

    x, _ = dataset(name)
    count = 3 * x.shape[1]
    shares = {
        "even shares": epsilon / count,
        "its accountant": BudgetAccountant(epsilon, 1e-5, slack=1e-5).remaining(count)[0],
    }
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        for label, share in shares.items():
            each = [
                [
                    tools.quantile(column, quant, epsilon=share, bounds=(-1, 1), random_state=1000 * seed + at)
                    for quant in (0.25, 0.5, 0.75)
                ]
                for at, column in enumerate(x.T)
            ]
            found.setdefault(label, []).append(rank_error(x, each))
    return found


def told(values: list[float], theirs: list[float], label: str) -> str:
    """The spread of both, in words."""
    words = f"standard deviation {statistics.pstdev(values):.2g}"
    return words + (f", diffprivlib {statistics.pstdev(theirs):.2g} ({label})" if theirs else "")


def best_row(
    what: str, mine_by: Any, theirs_by: Any, given: tuple[str, float, int], using: Any, *, more: bool, quick: bool
) -> Row:
    """Ours beside the best of diffprivlib's ways; `more` if larger numbers are better."""
    mine = peers.fresh(mine_by, *given, DELTA, using=using)[""]
    theirs, label, other = [], "", "not asked"
    if not quick:
        try:
            asked = peers.call("diffprivlib", theirs_by, *given, using=using)
            best = max if more else min
            label = best(asked, key=lambda each: statistics.fmean(asked[each]))
            theirs = asked[label]
        except peers.Absent as why:
            other = str(why)
    return Row(
        what=what, ours=statistics.fmean(mine), unit="",
        others={"diffprivlib": statistics.fmean(theirs) if theirs else other},
        bar=1.0, of="diffprivlib", more=more, note=told(mine, theirs, label),
    )  # fmt: skip


def accuracy_rows(
    names: tuple[str, ...],
    epsilons: tuple[float, ...],
    seeds: int,
    mine_by: Any,
    theirs_by: Any,
    kind: str,
    *,
    quick: bool,
) -> Iterator[Row]:
    for name in names:
        more = name != "diabetes"
        for epsilon in epsilons:
            what = f"{name}, epsilon {epsilon:g}: {kind}{'accuracy' if more else 'root mean squared error'}"
            given = name, epsilon, seeds
            yield best_row(what, mine_by, theirs_by, given, (dataset, splits, score), more=more, quick=quick)


def shape_rows(names: tuple[str, ...], epsilon: float, seeds: int, *, quick: bool) -> Iterator[Row]:
    for name in names:
        mine = peers.fresh(our_shapes, name, epsilon, seeds, DELTA, using=(dataset, spread_of))
        theirs, other = [], "not asked"
        if not quick:
            try:
                using = (dataset, spread_of)
                theirs = peers.call("diffprivlib", shapes_with_diffprivlib, name, epsilon, seeds, using=using)
            except peers.Absent as why:
                other = str(why)
        for at, what in enumerate(("k-means, squared distances", "components, variance explained")):
            numbers, beside = [each[at] for each in mine], [each[at] for each in theirs]
            yield Row(
                what=f"{name}, epsilon {epsilon:g}: {what} over those without noise",
                ours=statistics.fmean(numbers), unit="",
                others={"diffprivlib": statistics.fmean(beside) if beside else other},
                bar=1.0, of="diffprivlib", more=bool(at), note=told(numbers, beside, "fits of all rows"),
            )  # fmt: skip


def rows(*, quick: bool) -> Iterator[Row]:
    names, epsilons, seeds = (DATASETS[:1], EPSILONS[1:2], 2) if quick else (DATASETS, EPSILONS, SEEDS)
    yield from accuracy_rows(names, epsilons, seeds, ours, with_diffprivlib, "", quick=quick)
    yield from accuracy_rows(names, (1.0,), seeds, our_forest, forest_with_diffprivlib, "forest, ", quick=quick)
    yield from shape_rows(names, 1.0, seeds, quick=quick)
    for name in names:
        what, given = f"{name}, epsilon 1: quartiles, distance of ranks", (name, 1.0, seeds)
        using = (dataset, rank_error)
        yield best_row(what, our_quartiles, quartiles_with_diffprivlib, given, using, more=False, quick=quick)


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(options, "Estimators", TEXT, rows(quick=options.quick), seeds=2 if options.quick else SEEDS, delta=DELTA)


if __name__ == "__main__":
    main()
