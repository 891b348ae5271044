"""Estimators with scikit-learn's interface whose published parameters are private and stay in range."""

from __future__ import annotations

from rangebound.values.extras import need

need("sklearn")

from rangebound.learn.sklearn.budget import LedgerBudget
from rangebound.learn.sklearn.clusters import KMeans
from rangebound.learn.sklearn.linear_regression import LinearRegression
from rangebound.learn.sklearn.logistic_regression import LogisticRegression
from rangebound.learn.sklearn.naive_bayes import GaussianNB
from rangebound.learn.sklearn.principal_components import PCA
from rangebound.learn.sklearn.quantile_transformer import QuantileTransformer
from rangebound.learn.sklearn.random_forest import RandomForestClassifier, RandomForestRegressor
from rangebound.learn.sklearn.scaler import MeanEstimator, StandardScaler

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
