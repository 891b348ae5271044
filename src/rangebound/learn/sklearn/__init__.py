"""Estimators with scikit-learn's interface whose published parameters are private and stay in range."""

from __future__ import annotations

from rangebound.values.extras import need

need("sklearn")

from rangebound.learn.sklearn.feature_statistics import GaussianNB, MeanEstimator, StandardScaler
from rangebound.learn.sklearn.linear_models import LinearRegression, LogisticRegression
from rangebound.learn.sklearn.private_estimator import LedgerBudget
from rangebound.learn.sklearn.random_forest import RandomForestClassifier, RandomForestRegressor
from rangebound.learn.sklearn.transformers import PCA, KMeans, QuantileTransformer

__all__ = [
    "PCA",
    "GaussianNB",
    "KMeans",
    "LedgerBudget",
    "LinearRegression",
    "LogisticRegression",
    "MeanEstimator",
    "QuantileTransformer",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "StandardScaler",
]
