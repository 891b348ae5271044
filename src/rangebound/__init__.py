"""Differential privacy whose answers stay in range."""

from __future__ import annotations

from rangebound.bounding import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED
from rangebound.calibrate import calibrate
from rangebound.certify import Certificate, certify, verify
from rangebound.choose import choose
from rangebound.law import Law
from rangebound.mechanism import Mechanism
from rangebound.noise import Gaussian, Laplace, TruncatedLaplacian
from rangebound.privacy import hockey_stick, renyi
from rangebound.query import Query
from rangebound.support import Grid, Interval, Union

__version__ = "0.1.0"

__all__ = [
    "QUANTIZE",
    "RECTIFY",
    "TRUNCATE",
    "UNBOUNDED",
    "Certificate",
    "Gaussian",
    "Grid",
    "Interval",
    "Laplace",
    "Law",
    "Mechanism",
    "Query",
    "TruncatedLaplacian",
    "Union",
    "calibrate",
    "certify",
    "choose",
    "hockey_stick",
    "renyi",
    "verify",
]
