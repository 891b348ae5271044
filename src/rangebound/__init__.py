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
from importlib.machinery import ModuleSpec

__version__ = "0.2.0"


def _stated(spec: ModuleSpec) -> dict[str, str]:
    """Where the names in the stub of a package are from, which stands beside it; nothing is loaded."""
    (folder,) = spec.submodule_search_locations
    lines = spec.loader.get_data(f"{folder}/__init__.pyi").decode().splitlines()
    return {words[-1]: words[1] for words in map(str.split, lines) if words[:1] == ["from"]}


_NAMES = _stated(__spec__)
_MODULES = tuple(name for name, home in _NAMES.items() if home == __name__)  # the public ones
_HOMES = {name: home for name, home in _NAMES.items() if home != __name__}
_EXTRAS = {"release": ("clarabel", "duckdb", "pydantic", "sqlglot")}  # what a module cannot be imported without


def _here(names: Iterable[str]) -> list[str]:
    """Those of the names whose module has what it needs: a star or `help` must not fail for want of an extra."""
    from rangebound.values.extras import missing

    absent = {module for module, packages in _EXTRAS.items() if missing(*packages)}
    hidden = {name for name, home in _HOMES.items() if home.split(".")[1] in absent}
    return sorted(set(names) - absent - hidden)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "__all__":
        asks = sys._getframe(1).f_globals.get("__name__")
        return [] if asks == "pydoc" else _here(_HOMES)  # `help` would print all of them, 6,000 lines
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*_here((*_HOMES, *_MODULES)), "__all__", *(name for name in globals() if name.startswith("__"))})
