"""Estimators with scikit-learn's interface whose published parameters are private and stay in range."""

from __future__ import annotations

from rangebound.errors import MissingExtra

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise MissingExtra("sklearn: is not installed; pip install 'rangebound[sklearn]'") from None

from rangebound.learn.sklearn.budget import LedgerBudget
from rangebound.learn.sklearn.naive_bayes import GaussianNB
from rangebound.learn.sklearn.scaler import MeanEstimator, StandardScaler

__all__ = ["GaussianNB", "LedgerBudget", "MeanEstimator", "StandardScaler"]
