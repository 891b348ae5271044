"""Estimators with Gaussian noise of one account: scikit-learn's checks, refusals, ledgers, and that no cell leaks."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_iris  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.gdp import largest_mu  # noqa: E402
from rangebound.learn.sklearn import (  # noqa: E402
    PCA,
    KMeans,
    LedgerBudget,
    LinearRegression,
    LogisticRegression,
    QuantileTransformer,
    RandomForestClassifier,
    RandomForestRegressor,
)
from rangebound.learn.sklearn.class_labels import labelled, targets  # noqa: E402
from rangebound.ledger.book import Ledger  # noqa: E402
from rangebound.ledger.rule import GaussianFilter  # noqa: E402
from tests.learn.sklearn.test_estimators import JANE, ODD  # noqa: E402

# Of each kind: settings that are right for features in [0, 10], and the names of what a fit publishes.
KINDS: dict[Any, tuple[dict[str, Any], tuple[str, ...]]] = {
    LinearRegression: ({"target_bounds": (0, 3)}, ("coef_", "intercept_")),
    LogisticRegression: ({"classes": [0, 1], "steps": 3}, ("coef_", "intercept_")),
    RandomForestClassifier: ({"classes": [0, 1], "trees": 5, "depth": 2}, ()),
    RandomForestRegressor: ({"target_bounds": (0, 3), "trees": 5, "depth": 2}, ()),
    KMeans: ({"clusters": 2}, ("cluster_centers_",)),
    QuantileTransformer: ({"bins": 4}, ("ranks_",)),
    PCA: ({"components": 1}, ("mean_", "components_", "explained_variance_")),
}
PRECISE: dict[Any, dict[str, Any]] = {
    LinearRegression: {"target_bounds": (-200.0, 200.0), "clip": 1.0},
    LogisticRegression: {"steps": 60, "learning_rate": 64.0, "clip": 1.0},
    RandomForestClassifier: {"depth": 7},
    RandomForestRegressor: {"target_bounds": (-200.0, 200.0), "depth": 9},
    KMeans: {"clusters": 3, "steps": 10, "clip": 1.0},
    QuantileTransformer: {"bins": 16},
    PCA: {"components": 1, "clip": 1.0},
}
FRESH = "each fit is a fresh draw, so two fits never agree exactly"
EMPTY = "whether there are rows must not be told by an error, which is what this check asks for"
CLAMPED = "a target that is infinite is clipped and a missing one left out, silently: an error would tell of one row"
SKIPPED = {
    (LinearRegression, "check_estimators_empty_data_messages"): EMPTY,
    (PCA, "check_estimators_empty_data_messages"): EMPTY,
    (KMeans, "check_estimators_empty_data_messages"): EMPTY,
    (QuantileTransformer, "check_estimators_empty_data_messages"): EMPTY,
    (RandomForestRegressor, "check_estimators_empty_data_messages"): EMPTY,
    (RandomForestRegressor, "check_supervised_y_no_nan"): CLAMPED,
    (RandomForestRegressor, "check_regressors_int"): FRESH,
    (RandomForestRegressor, "check_regressor_data_not_an_array"): FRESH,
    (RandomForestClassifier, "check_classifier_data_not_an_array"): FRESH,
    (KMeans, "check_clustering"): "it asks for labels_ of the rows of the fit, which are private",
    (KMeans, "check_transformer_general"): FRESH,
    (KMeans, "check_transformer_data_not_an_array"): FRESH,
    (LinearRegression, "check_supervised_y_no_nan"): CLAMPED,
    **{(kind, check): FRESH for kind in KINDS for check in ("check_fit_idempotent", "check_supervised_y_2d")},
}


def ours(kind: Any, **more: Any) -> Any:
    return kind(**{"bounds": (0, 10), **KINDS[kind][0], **more})


def published(fitted: Any) -> list[Any]:
    made = [fitted._forest.cuts, fitted._forest.leaves] if hasattr(fitted, "_forest") else []
    return made + [np.asarray(getattr(fitted, name)) for name in KINDS[type(fitted)][1]]


@parametrize_with_checks([kind(epsilon=4e11, bounds=(-5.0, 5.0), **more) for kind, more in PRECISE.items()])
def test_scikit_learn_accepts_the_estimators(estimator: Any, check: Any) -> None:
    """All of scikit-learn's checks but those above, with wide ranges and next to no noise."""
    why = SKIPPED.get((type(estimator), check.func.__name__))
    if why:
        pytest.skip(why)
    check(estimator)


@pytest.mark.parametrize("kind", KINDS)
class TestRefusals:
    def test_ranges_are_never_guessed(self, kind: Any) -> None:
        with pytest.raises(rb.errors.ArgumentError, match="bounds=None"):
            ours(kind, bounds=None).fit(np.zeros((4, 2)), [0, 1, 0, 1])

    def test_partial_fit_says_why_not(self, kind: Any) -> None:
        with pytest.raises(AttributeError, match="release numbers about the same people again"):
            kind().partial_fit([[0.0]], [0])

    @pytest.mark.parametrize(
        "wrong",
        [{"bounds": (1.0, 1.0)}, {"bounds": 3.0}, {"epsilon": 0.0}, {"epsilon": math.nan}, {"delta": 0.0},
         {"delta": 1.0}, {"budget": 3}],
        ids=str,
    )  # fmt: skip
    def test_bad_settings(self, kind: Any, wrong: dict[str, Any]) -> None:
        with pytest.raises(rb.errors.RangeboundError):
            ours(kind, **wrong).fit(np.zeros((4, 2)), [0, 1, 0, 1])

    def test_no_error_shows_a_cell_or_counts_rows(self, kind: Any) -> None:
        y = [0, 1] * 48
        wrong: list[tuple[Any, Any]] = [
            ([41.75] * 96, y), ([[41.75]] * 95 + [[41.75, 3.0]], y), (np.full((96, 1), 41.75j), y),
            ({"a": [41.75]}, y), (JANE, y), (41.75, y), (np.array([JANE] * 96), y),
        ]  # fmt: skip
        for x, labels in wrong:
            with pytest.raises((ValueError, TypeError)) as caught:
                ours(kind).fit(x, labels)
            assert not any(part in str(caught.value) for part in ("41", "Jane", "96", "95"))
            assert caught.value.__suppress_context__ or caught.value.__context__ is None


WRONG = [
    (LinearRegression, {"target_bounds": None}, "target_bounds=None"),
    (LinearRegression, {"target_bounds": (3, 3)}, "target_bounds="),
    (LinearRegression, {"target_bounds": 3}, "target_bounds=3"),
    (LinearRegression, {"clip": 0.0}, "clip=0"),
    (LinearRegression, {"clip": 1.5}, "clip=1.5: must be at most 1"),
    (LogisticRegression, {"clip": 1.5}, "clip=1.5: must be at most 1"),
    (LogisticRegression, {"steps": 0}, "steps=0"),
    (LogisticRegression, {"steps": 1.5}, "steps=1.5: must be an integer"),
    (LogisticRegression, {"learning_rate": 0.0}, "learning_rate=0"),
    (LogisticRegression, {"penalty": -1.0}, "penalty=-1"),
    (RandomForestClassifier, {"depth": 0}, "depth=0: must lie between 1 and 12"),
    (RandomForestClassifier, {"depth": 13}, "depth=13: must lie between 1 and 12"),
    (RandomForestClassifier, {"trees": 0}, "trees=0: must lie between 1 and 10000"),
    (RandomForestRegressor, {"trees": 2.0}, "trees=2.0: must be an integer"),
    (RandomForestRegressor, {"target_bounds": None}, "target_bounds=None"),
    (KMeans, {"clip": 2.0}, "clip=2.0: must be at most 1"),
    (KMeans, {"clusters": 0}, "clusters=0: must lie between 1 and"),
    (KMeans, {"steps": 0}, "steps=0: must lie between 1 and"),
    (QuantileTransformer, {"bins": 0}, "bins=0: must lie between 1 and 1024"),
    (PCA, {"clip": 2.0}, "clip=2.0: must be at most 1"),
    (PCA, {"components": 0}, "components=0: must lie between 1 and 2"),
    (PCA, {"components": 3}, "components=3: must lie between 1 and 2"),
]


@pytest.mark.parametrize(("kind", "wrong", "reason"), WRONG, ids=str)
def test_a_wrong_setting_is_found_before_the_charge(kind: Any, wrong: Any, reason: str, tmp_path: Any) -> None:
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=1, delta=1e-6)
        budget = LedgerBudget(ledger=ledger, account="iris", request="one")
        with pytest.raises(rb.errors.RangeboundError, match=reason):
            ours(kind, budget=budget, **wrong).fit(np.zeros((4, 2)), [0, 1, 0, 1])
        assert not any(ledger.account("iris").spent.units)
        ours(kind, budget=budget).fit(np.zeros((4, 2)), [0, 1, 0, 1])  # the control
        assert all(ledger.account("iris").spent.units)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_has_the_same_numbers_and_is_of_one_setting(kind: Any, tmp_path: Any) -> None:
    x, y = load_iris(return_X_y=True)
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=1, delta=1e-6)
        budget = LedgerBudget(ledger=ledger, account="iris", request="one")
        first = ours(kind, budget=budget).fit(x, y)
        again = clone(first).fit(x[:50], y[:50])
        assert all((a == b).all() for a, b in zip(published(first), published(again), strict=True))
        assert not any(ledger.account("iris").remaining.units)
        with pytest.raises(rb.errors.ArgumentError, match="other settings"):
            ours(kind, budget=budget, bounds=(0, 20)).fit(x, y)
        with pytest.raises(rb.errors.BudgetExceeded):
            ours(kind, budget=LedgerBudget(ledger=ledger, account="iris", request="two")).fit(x, y)
        kept = pickle.loads(pickle.dumps(first.set_params(budget=None)))
        assert all((a == b).all() for a, b in zip(published(first), published(kept), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_an_account_of_gaussian_privacy_is_charged_mu(kind: Any, tmp_path: Any) -> None:
    x, y = load_iris(return_X_y=True)
    with Ledger.create(tmp_path / "models.ledger") as ledger:
        ledger.open_account("iris", epsilon=5, delta="1e-5", rule=GaussianFilter())
        ours(kind, budget=LedgerBudget(ledger=ledger, account="iris", request="one")).fit(x, y)
        spent: Any = ledger.account("iris").spent
        assert float(spent.mu_squared) == pytest.approx(largest_mu(1.0, 1e-6) ** 2, abs=2e-12)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", KINDS)
def test_no_cell_decides_whether_there_is_a_fit(kind: Any, name: str) -> None:
    cell = pytest.importorskip("pandas").NA if name == "pandas.NA" else ODD[name]
    table = np.full((4, 2), 4.0, dtype=object)
    table[3, 0] = cell
    labels = np.array([0, 1, 0, 0], dtype=object)
    for x, y in ((table, labels), (table.tolist(), labels.tolist())):
        assert all(np.isfinite(each).all() for each in published(ours(kind).fit(x, y)))
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
    fitted = ours(kind).fit(np.zeros((0, 3)), [])
    assert all(np.isfinite(each).all() for each in published(fitted))


@pytest.mark.parametrize("kind", [LogisticRegression, RandomForestClassifier])
def test_classes_are_asked_for_where_there_are_no_labels(kind: Any) -> None:
    with pytest.raises(rb.errors.ArgumentError, match="classes: must be given"):
        ours(kind, classes=None).fit(np.zeros((0, 3)), [])


@pytest.mark.parametrize("kind", KINDS)
def test_two_fits_differ(kind: Any) -> None:
    x, y = load_iris(return_X_y=True)
    first, second = (published(ours(kind).fit(x, y)) for _ in range(2))
    assert not all((a == b).all() for a, b in zip(first, second, strict=True))
