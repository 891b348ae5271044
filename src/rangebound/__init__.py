"""Differential privacy whose answers stay in range."""

from __future__ import annotations

from rangebound.bounding import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED
from rangebound.calibrate import calibrate
from rangebound.certify import Certificate, certify, verify
from rangebound.choose import choose
from rangebound.errors import (
    ArgumentError,
    ArgumentTypeError,
    CertificateInvalid,
    ClaimFalse,
    RangeboundError,
    Undecided,
    Unsatisfiable,
)
from rangebound.law import Law
from rangebound.mechanism import Mechanism
from rangebound.noise import Gaussian, Laplace, TruncatedLaplacian
from rangebound.privacy import hockey_stick, renyi
from rangebound.privacy.variable_scale import VariableScaleLaplace
from rangebound.query import Query
from rangebound.support import Grid, Interval, Union

__version__ = "0.1.0"

__all__ = [
    "QUANTIZE",
    "RECTIFY",
    "TRUNCATE",
    "UNBOUNDED",
    "ArgumentError",
    "ArgumentTypeError",
    "Certificate",
    "CertificateInvalid",
    "ClaimFalse",
    "Gaussian",
    "Grid",
    "Interval",
    "Laplace",
    "Law",
    "Mechanism",
    "Query",
    "RangeboundError",
    "TruncatedLaplacian",
    "Undecided",
    "Union",
    "Unsatisfiable",
    "VariableScaleLaplace",
    "calibrate",
    "certify",
    "choose",
    "hockey_stick",
    "renyi",
    "verify",
]
