"""Private estimators: scikit-learn's own checks, refusals, ranges, sensitivities, ledgers, and that no cell leaks."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.naive_bayes
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks

import rangebound as rb
from rangebound.learn.sklearn import (
    PCA,
    GaussianNB,
    KMeans,
    LedgerBudget,
    LinearRegression,
    LogisticRegression,
    MeanEstimator,
    QuantileTransformer,
    RandomForestClassifier,
    RandomForestRegressor,
    StandardScaler,
    row_sums,
)
from rangebound.learn.sklearn.private_estimator import labelled, targets
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost, GaussianFilter
from rangebound.privacy.gdp import largest_mu

# Of each kind: settings that are right for features in [0, 10], and the names of what a fit publishes.
STATISTICS: dict[Any, tuple[dict[str, Any], tuple[str, ...]]] = {
    MeanEstimator: ({}, ("mean_",)),
    StandardScaler: ({}, ("mean_", "var_")),
    GaussianNB: ({"classes": [0, 1]}, ("class_prior_", "theta_", "var_")),
}
ROW_SUMS: dict[Any, tuple[dict[str, Any], tuple[str, ...]]] = {
    LinearRegression: ({"target_bounds": (0, 3)}, ("coef_", "intercept_")),
    LogisticRegression: ({"classes": [0, 1], "steps": 3}, ("coef_", "intercept_")),
    RandomForestClassifier: ({"classes": [0, 1], "trees": 5, "depth": 2}, ()),
    RandomForestRegressor: ({"target_bounds": (0, 3), "trees": 5, "depth": 2}, ()),
    KMeans: ({"clusters": 2}, ("cluster_centers_",)),
    QuantileTransformer: ({"bins": 4}, ("ranks_",)),
    PCA: ({"components": 1}, ("mean_", "components_", "explained_variance_")),
}
KINDS = STATISTICS | ROW_SUMS
# Two fits of twelve rows must predict the same: at epsilon 1e5 one check in 700 saw a difference, and the chance falls
# by e for each 12,000 more.
COUNTED: dict[str, Any] = {"epsilon": 1e6, "bounds": (-20.0, 20.0), "smallest_count": 1}
SUMMED: dict[str, Any] = {"epsilon": 4e11, "bounds": (-5.0, 5.0)}
PRECISE: dict[Any, dict[str, Any]] = {
    MeanEstimator: COUNTED,
    StandardScaler: COUNTED,
    GaussianNB: COUNTED,
    LinearRegression: {**SUMMED, "target_bounds": (-200.0, 200.0), "clip": 0.05},
    LogisticRegression: {**SUMMED, "steps": 60, "learning_rate": 64.0, "clip": 1.0},
    RandomForestClassifier: {**SUMMED, "depth": 7},
    RandomForestRegressor: {**SUMMED, "target_bounds": (-200.0, 200.0), "depth": 9},
    KMeans: {**SUMMED, "n_clusters": 3, "steps": 10, "clip": 1.0},
    QuantileTransformer: {**SUMMED, "bins": 16},
    PCA: {**SUMMED, "n_components": 1, "clip": 1.0},
}
FRESH = "each fit is a fresh draw, so two fits never agree exactly"
NAME = "the check takes the name StandardScaler for scikit-learn's own, and sets a parameter of that one"
EMPTY = "whether there are rows must not be told by an error, which is what this check asks for"
CLAMPED = "a target that is infinite is clipped and a missing one left out, silently: an error would tell of one row"
WITHOUT_CLASSES = (
    MeanEstimator, StandardScaler, LinearRegression, PCA, KMeans, QuantileTransformer, RandomForestRegressor,
)  # fmt: skip
SKIPPED = {
    **{(kind, "check_estimators_empty_data_messages"): EMPTY for kind in WITHOUT_CLASSES},
    **{(kind, "check_fit_idempotent"): FRESH for kind in KINDS if kind is not MeanEstimator},
    **{(kind, "check_supervised_y_2d"): FRESH for kind in (GaussianNB, *ROW_SUMS)},
    (StandardScaler, "check_estimator_sparse_array"): NAME,
    (StandardScaler, "check_estimator_sparse_matrix"): NAME,
    (LinearRegression, "check_supervised_y_no_nan"): CLAMPED,
    (RandomForestRegressor, "check_supervised_y_no_nan"): CLAMPED,
    (RandomForestRegressor, "check_regressors_int"): FRESH,
    (RandomForestRegressor, "check_regressor_data_not_an_array"): FRESH,
    (RandomForestClassifier, "check_classifier_data_not_an_array"): FRESH,
    (KMeans, "check_clustering"): "it asks for labels_ of the rows of the fit, which are private",
    (KMeans, "check_transformer_general"): FRESH,
    (KMeans, "check_transformer_data_not_an_array"): FRESH,
}


def ours(kind: Any, **more: Any) -> Any:
    return kind(**{"bounds": (0, 10), **KINDS[kind][0], **more})


def published(fitted: Any) -> list[Any]:
    made = [fitted._forest.cuts, fitted._forest.leaves] if hasattr(fitted, "_forest") else []
    return made + [np.asarray(getattr(fitted, name)) for name in KINDS[type(fitted)][1]]


def same(first: Any, second: Any) -> bool:
    return all((a == b).all() for a, b in zip(published(first), published(second), strict=True))


@pytest.mark.few(150)
@parametrize_with_checks([kind(**more) for kind, more in PRECISE.items()])
def test_scikit_learn_accepts_the_estimators(estimator: Any, check: Any) -> None:
    """All of scikit-learn's checks but those above, with wide ranges, which must be given, and next to no noise."""
    why = SKIPPED.get((type(estimator), check.func.__name__))
    if why:
        pytest.skip(why)
    check(estimator)


def test_sparse_data_is_refused() -> None:
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        ours(StandardScaler).fit(scipy.sparse.eye(4).tocsr())


@pytest.mark.parametrize("kind", KINDS)
def test_partial_fit_says_why_not(kind: Any) -> None:
    assert not hasattr(kind(), "partial_fit")
    with pytest.raises(AttributeError, match="release numbers about the same people again"):
        kind().partial_fit([[0.0]], [0])


class NoHash:
    """A label or a cell that raises whatever it is asked."""

    def __hash__(self) -> int:
        raise ValueError(JANE)

    def __float__(self) -> float:
        raise KeyError(JANE)


JANE = "Jane Doe, HIV+"
ODD: dict[str, Any] = {
    "NaN": math.nan, "None": None, "a text": JANE, "a dictionary": {"foo": JANE}, "a list": [JANE],
    "pandas.NA": "NA", "infinity": math.inf, "minus infinity": -math.inf, "huge": 10**400, "minus huge": -(10**400),
    "a fraction": Fraction(5, 2), "a large integer": 2**60 + 1, "a complex number": 1.0 + 2.0j,
    "a duration": np.timedelta64(3, "s"), "a day": np.datetime64("2041-07-05"), "an array": np.arange(3.0),
    "masked": np.ma.masked, "a long double": np.longdouble("1e4000"), "a trap": NoHash(),
}  # fmt: skip
READ = {"infinity": 10.0, "minus infinity": 0.0, "huge": 10.0, "minus huge": 0.0, "a fraction": 2.5,
        "a large integer": 10.0, "a long double": 10.0}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_shows_a_cell_or_counts_rows(kind: Any) -> None:
    y, column = [0, 1] * 48, np.full((96, 1), 41.75)
    wrong: list[tuple[Any, Any]] = [
        ([41.75] * 96, y), ([[41.75]] * 95 + [[41.75, 3.0]], y), (np.full((96, 1), 41.75j), y), ({"a": [41.75]}, y),
        (JANE, y), (41.75, y), (np.array([JANE] * 96), y), (np.full((96, 1), "2041-07-05", dtype="datetime64[D]"), y),
        ([[41.75j]] * 96, y), ([[np.datetime64("2041-07-05")]] * 96, y),  # not taken for missing cells
    ]  # fmt: skip
    if kind is GaussianNB:
        others = (y[:-1], [[0, 1]] * 96, [41.75, *y[:-1]], [math.nan, *y[:-1]])
        wrong += [(column, labels) for labels in others]
    for x, labels in wrong:
        with pytest.raises((ValueError, TypeError)) as caught:
            (ours(kind, classes=None) if kind is GaussianNB else ours(kind)).fit(x, labels)
        assert not any(part in str(caught.value) for part in ("41", "Jane", "96", "95"))
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


EVERYWHERE: list[tuple[dict[str, Any], str]] = [
    ({"bounds": None}, "bounds=None"), ({"bounds": (1.0, 1.0)}, "bounds"), ({"bounds": (0.0, math.inf)}, "bounds"),
    ({"bounds": 3.0}, "bounds=3"), ({"bounds": ([0.0], [1.0])}, "bounds"), ({"epsilon": 0.0}, "epsilon=0"),
    ({"epsilon": math.nan}, "epsilon=nan"), ({"epsilon": "1"}, "epsilon='1'"), ({"delta": 1.0}, "delta=1"),
    ({"budget": 3}, "budget=3"), ({"neighbours": "replace"}, "neighbours='replace': must be one of 'add-remove', "),
]  # fmt: skip
OF_STATISTICS: list[tuple[dict[str, Any], str]] = [
    ({"smallest_count": 0}, "smallest_count=0"), ({"smallest_count": 1.5}, "smallest_count=1.5: must be an integer"),
    ({"noise": rb.TruncatedLaplacian}, "noise="), ({"noise": "laplace"}, "noise='laplace'"),
]  # fmt: skip
ENDS: list[tuple[dict[str, Any], str]] = [
    ({"target_bounds": None}, "target_bounds=None"), ({"target_bounds": (3, 3)}, "target_bounds="),
    ({"target_bounds": 3}, "target_bounds=3"),
]  # fmt: skip
LONG: list[tuple[dict[str, Any], str]] = [({"clip": 0.0}, "clip=0"), ({"clip": 1.5}, "clip=1.5: must be at most 1")]
WRONG: dict[Any, list[tuple[dict[str, Any], str]]] = {
    **dict.fromkeys(STATISTICS, OF_STATISTICS),
    LinearRegression: [*ENDS, *LONG],
    LogisticRegression: [
        *LONG, ({"steps": 0}, "steps=0"), ({"steps": 1.5}, "steps=1.5: must be an integer"),
        ({"steps": True}, "steps=True: must be an integer"), ({"steps": "1"}, "steps='1': must be an integer"),
        ({"learning_rate": 0.0}, "learning_rate=0"), ({"learning_rate": 1e308}, "learning_rate=1e.308: must be"),
        ({"penalty": -1.0}, "penalty=-1"), ({"penalty": 1e308}, "penalty=1e.308: must be at most"),
    ],
    RandomForestClassifier: [
        ({"depth": 0}, "depth=0: must lie between 1 and 12"), ({"depth": 13}, "depth=13: must lie between 1 and 12"),
        ({"trees": 0}, "trees=0: must lie between 1 and 10000"),
    ],
    RandomForestRegressor: [*ENDS, ({"trees": 2.0}, "trees=2.0: must be an integer")],
    KMeans: [*LONG, ({"clusters": 0}, "clusters=0: must lie between 1 and"), ({"steps": 0}, "steps=0: must lie")],
    QuantileTransformer: [({"bins": 0}, "bins=0: must lie between 1 and 1024")],
    PCA: [*LONG, *(({"components": each}, f"components={each}: must lie between 1 and 2") for each in (0, 3))],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_setting_is_found_before_the_charge(kind: Any, tmp_path: Any) -> None:
    no_delta = [({"delta": 0.0}, "delta=0")] if kind in ROW_SUMS else []
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=1, delta=1e-6)
        budget = LedgerBudget(ledger=ledger, account="iris", request="one")
        for wrong, reason in [*EVERYWHERE, *no_delta, *WRONG[kind]]:
            with pytest.raises(rb.errors.RangeboundError, match=reason):
                ours(kind, **{"budget": budget, **wrong}).fit(np.zeros((4, 2)), [0, 1, 0, 1])
        assert not any(ledger.account("iris").spent.units)
        ours(kind, budget=budget).fit(np.zeros((4, 2)), [0, 1, 0, 1])  # the control
        assert any(ledger.account("iris").spent.units)


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (([0.0, 0.0, 0.0], 5.0), "two numbers, or two arrays of 2 numbers"),
        ((0.0, [5.0, 5.0, 5.0]), "two numbers, or two arrays of 2 numbers"),
        (([0.0, 9.0], [1.0, 3.0]), "each lower end must be below its upper end"),
        (([0.0, -1e308], [1.0, 1e308]), "each lower end must be below its upper end"),
        (([0.0, 0.0], [1.0, 1e-101]), "between 1e-100 and 1e\\+100 wide"),
        (([0.0, 0.0], [1.0, 1e101]), "between 1e-100 and 1e\\+100 wide"),
    ],
    ids=str,
)
def test_bounds_are_refused_for_one_feature_that_is_wrong(bounds: Any, reason: str) -> None:
    with np.errstate(over="ignore"), pytest.raises(rb.errors.ArgumentError, match=reason):
        row_sums.ranges(bounds, 2)


def test_the_limits_of_settings_are_allowed() -> None:
    lower, upper = row_sums.ranges((0.0, [1e-100, 1.0 / 1e-100]), 2)
    assert (lower.tolist(), upper.tolist()) == ([0.0, 0.0], [1e-100, 1.0 / 1e-100])
    assert [row_sums.whole("smallest_count", each, 10**9) for each in (1, 10**9)] == [1, 10**9]
    with pytest.raises(rb.errors.ArgumentError, match="between 1 and 10"):
        row_sums.whole("smallest_count", 10**9 + 1, 10**9)


@pytest.mark.few
@pytest.mark.parametrize("neighbours", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize("noise", [rb.Gaussian, rb.Laplace])
def test_everything_published_is_in_range(noise: Any, neighbours: str) -> None:
    x, y = load_iris(return_X_y=True)
    fixed: dict[str, Any] = {"bounds": (0.0, 8.0), "epsilon": 0.5, "delta": 1e-5}
    options = {**fixed, "noise": noise, "neighbours": neighbours}
    for _ in range(5):
        mean = MeanEstimator(**options).fit(x)
        scaler = StandardScaler(**options).fit(x)
        bayes = GaussianNB(**options).fit(x, y)
        for each in (mean.mean_, scaler.mean_, bayes.theta_):
            assert ((each >= 0.0) & (each <= 8.0)).all()
        for each in (scaler.var_, bayes.var_):
            assert ((each >= 64e-6 * (1 - 1e-12)) & (each <= 16.0)).all()
        assert np.isfinite(bayes.predict_log_proba(x)).all()
        np.testing.assert_allclose(bayes.predict_proba(x).sum(axis=1), 1.0)
        np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(x)), x)


def test_a_large_budget_finds_the_plain_estimates() -> None:
    x, y = load_iris(return_X_y=True)
    bounds = (x.min(axis=0) - 1.0, x.max(axis=0) + 1.0)
    options: dict[str, Any] = {"bounds": bounds, "epsilon": 1e5}
    np.testing.assert_allclose(MeanEstimator(**options).fit(x).mean_, x.mean(axis=0), atol=1e-2)
    np.testing.assert_allclose(StandardScaler(**options).fit(x).var_, x.var(axis=0), atol=2e-2)
    plain = sklearn.naive_bayes.GaussianNB().fit(x, y)
    ours = GaussianNB(**options).fit(x, y)
    np.testing.assert_allclose(ours.theta_, plain.theta_, atol=2e-2)
    assert (ours.predict(x) == plain.predict(x)).mean() > 0.97
    noisy = GaussianNB(bounds=bounds, epsilon=0.01).fit(x, y)  # the control: little budget, other numbers
    assert np.abs(noisy.theta_ - plain.theta_).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_that_is_made_again_charges_each_fit_and_has_the_numbers_of_no_other(
    kind: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the rows, the settings and the number of rows are; also where another process is charged meanwhile."""
    x, y = load_iris(return_X_y=True)
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=4, delta=4 * kind().delta)
        again: dict[str, Any] = {"ledger": ledger, "account": "iris", "request": "one"}
        first = ours(kind, budget=LedgerBudget(**again)).fit(x, y)
        others = [clone(first).set_params(budget=LedgerBudget(**again)).fit(x[k:], y[k:]) for k in (0, 50)]
        assert not any(same(first, each) for each in others)
        with monkeypatch.context() as late:  # the requests of others are not there yet when it is looked for them
            late.setattr(Ledger, "paid", lambda *_: None)
            others.append(ours(kind, budget=LedgerBudget(**again)).fit(x[::-1], y))
        assert not any(same(others[-1], each) for each in (first, *others[:-1]))
        assert [each.request for each in ledger.history("iris") if each.kind == "spend"] == [
            "one", "one, fit 2", "one, fit 3", "one, fit 4",
        ]  # fmt: skip
        asked: dict[str, Any] = {"account": "iris", "cost": Cost(epsilon=1, delta=kind().delta)}
        what = next(each.what for each in ledger.history("iris") if each.kind == "spend")
        kept = ledger.release(request="one", what=what, compute=lambda _: b"", **asked)
        assert kept == ledger.published("one")  # the control: the ledger gives what was stored
        with pytest.raises(rb.errors.BudgetExceeded):
            first.fit(x, y)
        with pytest.raises(rb.errors.ArgumentTypeError, match="budget"):
            pickle.dumps(first)
        assert same(first, pickle.loads(pickle.dumps(first.set_params(budget=None))))


def test_each_fold_of_a_cross_validation_is_charged_and_has_its_own_fit(tmp_path: Any) -> None:
    """Three folds and a fit of all rows, also with a budget made anew for each fit; a fifth fit is refused."""
    x, y = load_iris(return_X_y=True)
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=4, delta=0)
        budget: dict[str, Any] = {"ledger": ledger, "account": "iris", "request": "cv"}
        made = ours(GaussianNB, classes=[0, 1, 2], budget=LedgerBudget(**budget))
        found = cross_validate(made, x, y, cv=3, return_estimator=True, error_score="raise")
        made.budget = LedgerBudget(**budget)
        assert len({str(each.theta_.tolist()) for each in (*found["estimator"], clone(made).fit(x, y))}) == 4
        assert not any(ledger.account("iris").remaining.units)
        assert [each.request for each in ledger.history("iris") if each.kind == "spend"] == [
            "cv", "cv, fit 2", "cv, fit 3", "cv, fit 4",
        ]  # fmt: skip
        for _ in range(2):  # a fit that is refused does not count
            with pytest.raises(rb.errors.BudgetExceeded):
                clone(made).fit(x, y)


def test_the_history_names_the_relation_that_a_charge_is_about(tmp_path: Any) -> None:
    x, _ = load_iris(return_X_y=True)
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=3, delta=0)
        for neighbours in ("add-remove", "zero-out", "replace-one"):
            budget = LedgerBudget(ledger=ledger, account="iris", request="one")
            MeanEstimator(budget=budget, bounds=(0, 8), neighbours=neighbours).fit(x)
        said = [each.what for each in ledger.history("iris") if each.kind == "spend"]
        start = "mean of each feature"
        assert said == [start, f"{start}, zero-out", f"{start}, replace-one"]


@pytest.mark.parametrize(
    ("kind", "name", "old"),
    [(KMeans, "n_clusters", "clusters"), (PCA, "n_components", "components"),
     (RandomForestClassifier, "n_estimators", "trees"), (RandomForestClassifier, "max_depth", "depth")],
)  # fmt: skip
def test_names_of_scikit_learn_and_ours_say_the_same(kind: Any, name: str, old: str) -> None:
    x, y = load_iris(return_X_y=True)
    plain = {**KINDS[kind][0], old: None}
    shapes = [[each.shape for each in published(ours(kind, **{**plain, key: 3}).fit(x, y))] for key in (name, old)]
    assert shapes[0] == shapes[1] != [each.shape for each in published(ours(kind, **{**plain, name: 4}).fit(x, y))]
    with pytest.raises(rb.errors.ArgumentError, match=f"{name}=4, {old}=3: are two names of one setting"):
        ours(kind, **{**plain, name: 4, old: 3}).fit(x, y)


@pytest.mark.parametrize("kind", ROW_SUMS)
def test_an_account_of_gaussian_privacy_is_charged_mu(kind: Any, tmp_path: Any) -> None:
    x, y = load_iris(return_X_y=True)
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=5, delta="1e-5", rule=GaussianFilter())
        ours(kind, budget=LedgerBudget(ledger=ledger, account="iris", request="one")).fit(x, y)
        spent: Any = ledger.account("iris").spent
        assert float(spent.mu_squared) == pytest.approx(largest_mu(1.0, 1e-6) ** 2, abs=2e-12)


@pytest.mark.parametrize("kind", [LinearRegression, LogisticRegression, PCA, KMeans])
def test_a_fit_that_is_refused_leaves_the_one_before(kind: Any, tmp_path: Any) -> None:
    """A missing value keeps the middle of the bounds that the released numbers are for."""
    x, y = load_iris(return_X_y=True)
    asked = np.full((1, 4), np.nan)
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=1, delta=kind().delta)
        fitted = ours(kind, budget=LedgerBudget(ledger=ledger, account="iris", request="one")).fit(x, y)
        ways = [way for way in ("predict_proba", "predict", "transform") if hasattr(fitted, way)]
        found = [getattr(fitted, way)(asked) for way in ways]
        two = LedgerBudget(ledger=ledger, account="iris", request="two")
        with pytest.raises(rb.errors.BudgetExceeded):
            fitted.set_params(bounds=(0, 1000), budget=two).fit(x, y)
        for way, before in zip(ways, found, strict=True):
            np.testing.assert_array_equal(before, getattr(fitted, way)(asked))


@pytest.mark.parametrize("kind", [StandardScaler, GaussianNB])
@pytest.mark.parametrize("width", [1e-99, 1e99])
def test_variances_fit_into_doubles(kind: Any, width: float) -> None:
    found = ours(kind, bounds=(0.0, width), smallest_variance=1.1e-100).fit(np.zeros((4, 1)), [0, 1, 0, 1]).var_
    assert ((found > 0.0) & np.isfinite(found)).all()


def test_labels_outside_the_classes_are_left_out() -> None:
    options: dict[str, Any] = {"bounds": (0, 1), "classes": [0, 1, 2], "epsilon": 1e6, "smallest_count": 1}
    odd = [7, math.nan, None, "Jane Doe", [1, 1], 0.5, object(), NoHash()]
    x = np.array([[0.0], [1.0], [0.25], *([0.9] for _ in odd)])
    labels = np.empty(len(x), dtype=object)
    labels[:] = [0, 1, 0, *odd]
    for y in (labels, labels.tolist()):
        fitted = GaussianNB(**options).fit(x, y)
        assert fitted.classes_.tolist() == [0, 1, 2]
        np.testing.assert_allclose(fitted.theta_[:, 0], [0.125, 1.0, 0.5], atol=1e-3)
    assert clone(fitted).get_params()["classes"] == [0, 1, 2]
    names = GaussianNB(**{**options, "classes": ["a", "b"]}).fit([[0.0], [1.0]], np.array(["b", "c"]))
    np.testing.assert_allclose(names.theta_[:, 0], [0.5, 0.0], atol=1e-3)
    floats = GaussianNB(**options).fit([[0.0], [1.0]], np.array([1.0, math.nan]))
    np.testing.assert_allclose(floats.theta_[:, 0], [0.5, 0.0, 0.5], atol=1e-3)


@pytest.mark.few(20)
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", KINDS)
def test_no_cell_decides_whether_there_is_a_fit(kind: Any, name: str) -> None:
    """What is not a number is missing and left out, what is infinite is clipped; there was an error that showed it."""
    cell = pytest.importorskip("pandas").NA if name == "pandas.NA" else ODD[name]
    table = np.full((5, 2), 4.0, dtype=object)
    table[:, 0] = [1.0, 2.0, 3.0, cell, 0.0]
    labels = np.array([1, 1, 1, 1, 0], dtype=object)
    precise = {"epsilon": 1e6, "smallest_count": 1} if kind in STATISTICS else {}
    there = [1.0, 2.0, 3.0, *([READ[name]] if name in READ else []), *([] if kind is GaussianNB else [0.0])]
    for x, y in ((table, labels), (table.tolist(), labels.tolist())):
        fitted = ours(kind, **precise).fit(x, y)
        assert all(np.isfinite(each).all() for each in published(fitted))
        if kind in STATISTICS:
            found = fitted.theta_[1] if kind is GaussianNB else fitted.mean_
            np.testing.assert_allclose(found, [np.mean(there), 4.0], atol=1e-2)
        if hasattr(fitted, "var_"):
            np.testing.assert_allclose(np.atleast_2d(fitted.var_)[-1, 0], np.var(there), atol=5e-2)
    labels[2] = cell
    for x, y in ((table, labels), (table.tolist(), labels.tolist())):
        assert all(np.isfinite(each).all() for each in published(ours(kind).fit(x, y)))


@pytest.mark.parametrize("odd", [[1, 2], [], 1, "text", None], ids=str)
def test_one_entry_of_a_list_of_lists_changes_no_other(odd: Any) -> None:
    """The control is what an array makes of it: where one entry is longer, all of them become lists, and no labels."""
    rest, column = [0, 1, 1], [[0], [1], [1]]
    assert labelled([*column, odd], [0, 1], 4)[1][:3].tolist() == rest
    assert targets([*column, odd], 4)[:3].tolist() == rest
    assert labelled([*rest, odd], [0, 1], 4)[1][:3].tolist() == rest
    assert targets([*rest, odd], 4)[:3].tolist() == rest
    plain = np.empty(4, dtype=object)
    plain[:] = [*column, odd]
    assert labelled(plain, [0, 1], 4)[1][:3].tolist() == [-1, -1, -1]


@pytest.mark.parametrize("kind", KINDS)
def test_there_may_be_no_rows(kind: Any) -> None:
    assert all(np.isfinite(each).all() for each in published(ours(kind).fit(np.zeros((0, 3)), [])))
    with pytest.raises(ValueError, match="0 feature"):
        ours(kind).fit(np.zeros((12, 0)), [0, 1] * 6)
    if hasattr(kind, "classes"):
        with pytest.raises(rb.errors.ArgumentError, match="classes: must be given"):
            ours(kind, classes=None).fit(np.zeros((0, 3)), [])


def test_missing_values_say_nothing_when_predicting() -> None:
    x, y = load_iris(return_X_y=True)
    fitted = GaussianNB(bounds=(0.0, 8.0), epsilon=1e5).fit(x, y)
    hidden = x.copy()
    hidden[:, :2] = math.nan
    assert (fitted.predict(hidden) == y).mean() > 0.9  # the petals alone tell them apart
    assert np.allclose(fitted.predict_proba(np.full((1, 4), math.nan)), fitted.class_prior_)
    scaler = StandardScaler(bounds=(0.0, 8.0)).fit(x)
    assert np.isnan(scaler.transform(hidden)[:, :2]).all()
    for call in (fitted.predict, scaler.transform):
        with pytest.raises(rb.errors.ArgumentError, match="infinities"):
            call([[math.inf, 1.0, 1.0, 1.0]])
