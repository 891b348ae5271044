"""Differential privacy whose answers stay in range.

    a number    Query, Interval, Union, Grid; calibrate and choose make a mechanism,
                whose method release publishes
    mechanism   Mechanism, of Laplace, Gaussian or TruncatedLaplacian noise with
                TRUNCATE, RECTIFY, QUANTIZE or UNBOUNDED; DiscreteLaplace, Staircase,
                Table, VariableScaleLaplace; optimal, limit and Limit; Law
    afterwards  estimate and Estimates, remap and Remapped
    proof       certify, verify, Certificate, Claim; hockey_stick, renyi, compose
    a table     read_plan, Plan, release_table, sql; rangebound.release has more
    a budget    Ledger, Cost
    errors      RangeboundError, and those that are one: ApprovalNeeded, ArgumentError,
                ArgumentTypeError, BudgetExceeded, CertificateInvalid, ClaimFalse,
                EngineError, EntropyUnavailable, LedgerTampered, LedgerUnavailable,
                MissingExtra, PlanError, RequestConflict, RequestFailed,
                RequestRejected, Undecided, Unsatisfiable
    modules     accounting, audit, errors, learn, ledger, plot, release, web

`help(rangebound.calibrate)` and the like show one of them, with an example. The names are loaded when they are first
asked for, so that an import and the command line's help come at once. What is public, and what may change without
notice, is said in `docs/install.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what the tables below say, for type checkers and editors; a test holds them together
    from rangebound import accounting as accounting
    from rangebound import audit as audit
    from rangebound import errors as errors
    from rangebound import learn as learn
    from rangebound import ledger as ledger
    from rangebound import plot as plot
    from rangebound import release as release
    from rangebound import web as web
    from rangebound.accounting import compose
    from rangebound.errors import (
        ApprovalNeeded,
        ArgumentError,
        ArgumentTypeError,
        BudgetExceeded,
        CertificateInvalid,
        ClaimFalse,
        EngineError,
        EntropyUnavailable,
        LedgerTampered,
        LedgerUnavailable,
        MissingExtra,
        PlanError,
        RangeboundError,
        RequestConflict,
        RequestFailed,
        RequestRejected,
        Undecided,
        Unsatisfiable,
    )
    from rangebound.laws.boundings import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED
    from rangebound.laws.distribution import Law
    from rangebound.laws.gaussian import Gaussian
    from rangebound.laws.laplace import Laplace, TruncatedLaplacian
    from rangebound.ledger import Cost, Ledger
    from rangebound.mechanisms.best_remap import remap
    from rangebound.mechanisms.calibration import calibrate
    from rangebound.mechanisms.certificates import Certificate, certify, verify
    from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
    from rangebound.mechanisms.estimation import Estimates, estimate
    from rangebound.mechanisms.finite import Table
    from rangebound.mechanisms.mechanism import Mechanism
    from rangebound.mechanisms.remapping import Remapped
    from rangebound.mechanisms.staircase import Staircase
    from rangebound.mechanisms.variable_scale import VariableScaleLaplace
    from rangebound.optimum.best_table import optimal
    from rangebound.optimum.choice import choose
    from rangebound.optimum.limit_proof import Limit
    from rangebound.optimum.lower_limit import limit
    from rangebound.privacy.pairs.divergences import hockey_stick, renyi
    from rangebound.privacy.setting import Claim
    from rangebound.release import Plan, read_plan
    from rangebound.release import ask as sql
    from rangebound.release import release as release_table
    from rangebound.values.support import Grid, Interval, Query, Union

    __all__ = [
        "QUANTIZE",
        "RECTIFY",
        "TRUNCATE",
        "UNBOUNDED",
        "ApprovalNeeded",
        "ArgumentError",
        "ArgumentTypeError",
        "BudgetExceeded",
        "Certificate",
        "CertificateInvalid",
        "Claim",
        "ClaimFalse",
        "Cost",
        "DiscreteLaplace",
        "EngineError",
        "EntropyUnavailable",
        "Estimates",
        "Gaussian",
        "Grid",
        "Interval",
        "Laplace",
        "Law",
        "Ledger",
        "LedgerTampered",
        "LedgerUnavailable",
        "Limit",
        "Mechanism",
        "MissingExtra",
        "Plan",
        "PlanError",
        "Query",
        "RangeboundError",
        "Remapped",
        "RequestConflict",
        "RequestFailed",
        "RequestRejected",
        "Staircase",
        "Table",
        "TruncatedLaplacian",
        "Undecided",
        "Union",
        "Unsatisfiable",
        "VariableScaleLaplace",
        "calibrate",
        "certify",
        "choose",
        "compose",
        "estimate",
        "hockey_stick",
        "limit",
        "optimal",
        "read_plan",
        "release_table",
        "remap",
        "renyi",
        "sql",
        "verify",
    ]

__version__ = "0.2.0"

_NAMES = {
    "accounting": ("compose",),
    "errors": (
        "ApprovalNeeded",
        "ArgumentError",
        "ArgumentTypeError",
        "BudgetExceeded",
        "CertificateInvalid",
        "ClaimFalse",
        "EngineError",
        "EntropyUnavailable",
        "LedgerTampered",
        "LedgerUnavailable",
        "MissingExtra",
        "PlanError",
        "RangeboundError",
        "RequestConflict",
        "RequestFailed",
        "RequestRejected",
        "Undecided",
        "Unsatisfiable",
    ),
    "laws.boundings": ("QUANTIZE", "RECTIFY", "TRUNCATE", "UNBOUNDED"),
    "laws.distribution": ("Law",),
    "laws.gaussian": ("Gaussian",),
    "laws.laplace": ("Laplace", "TruncatedLaplacian"),
    "ledger": ("Cost", "Ledger"),
    "mechanisms.best_remap": ("remap",),
    "mechanisms.calibration": ("calibrate",),
    "mechanisms.certificates": ("Certificate", "certify", "verify"),
    "mechanisms.discrete_laplace": ("DiscreteLaplace",),
    "mechanisms.estimation": ("Estimates", "estimate"),
    "mechanisms.finite": ("Table",),
    "mechanisms.mechanism": ("Mechanism",),
    "mechanisms.remapping": ("Remapped",),
    "mechanisms.staircase": ("Staircase",),
    "mechanisms.variable_scale": ("VariableScaleLaplace",),
    "optimum.best_table": ("optimal",),
    "optimum.choice": ("choose",),
    "optimum.limit_proof": ("Limit",),
    "optimum.lower_limit": ("limit",),
    "privacy.pairs.divergences": ("hockey_stick", "renyi"),
    "privacy.setting": ("Claim",),
    "release": ("Plan", "read_plan", "release_table", "sql"),
    "values.support": ("Grid", "Interval", "Query", "Union"),
}
_OWN_NAMES = {"release_table": "release", "sql": "ask"}  # how a module calls it, where that differs
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}
_MODULES = ("accounting", "audit", "errors", "learn", "ledger", "plot", "release", "web")  # the public ones
_EXTRAS = {"release": ("clarabel", "duckdb", "pydantic", "sqlglot")}  # what a module cannot be imported without


def _here(names: Iterable[str]) -> list[str]:
    """Those of the names whose module has what it needs: a star or `help` must not fail for want of an extra."""
    from rangebound.values.extras import missing

    absent = {module for module, packages in _EXTRAS.items() if missing(*packages)}
    hidden = absent.union(*(_NAMES.get(module, ()) for module in absent))
    return sorted(set(names) - hidden)


if not TYPE_CHECKING:  # else a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return globals().setdefault(name, getattr(import_module(_HOMES[name]), _OWN_NAMES.get(name, name)))
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name == "__all__":
            asks = sys._getframe(1).f_globals.get("__name__")
            return [] if asks == "pydoc" else _here(_HOMES)  # `help` would print all of them, 6,000 lines
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*_here((*_HOMES, *_MODULES)), "__all__", *(name for name in globals() if name.startswith("__"))})
