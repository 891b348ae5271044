"""Differential privacy whose answers stay in range.

The names below are loaded when they are first asked for, so that an import and the command line's help come at once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what `_HOMES` says, for type checkers and editors; a test holds the two together
    from rangebound.bounding import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED
    from rangebound.calibration import calibrate
    from rangebound.certificates import Certificate, certify, verify
    from rangebound.choice import choose
    from rangebound.discrete_laplace import DiscreteLaplace
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
    from rangebound.privacy.claim import Claim
    from rangebound.published.variable_scale import VariableScaleLaplace
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
    "Claim",
    "ClaimFalse",
    "DiscreteLaplace",
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

_ROOMS = {
    "bounding": ("QUANTIZE", "RECTIFY", "TRUNCATE", "UNBOUNDED"),
    "calibration": ("calibrate",),
    "certificates": ("Certificate", "certify", "verify"),
    "choice": ("choose",),
    "discrete_laplace": ("DiscreteLaplace",),
    "errors": (
        "ArgumentError",
        "ArgumentTypeError",
        "CertificateInvalid",
        "ClaimFalse",
        "RangeboundError",
        "Undecided",
        "Unsatisfiable",
    ),
    "law": ("Law",),
    "mechanism": ("Mechanism",),
    "noise": ("Gaussian", "Laplace", "TruncatedLaplacian"),
    "privacy": ("hockey_stick", "renyi"),
    "privacy.claim": ("Claim",),
    "published.variable_scale": ("VariableScaleLaplace",),
    "query": ("Query",),
    "support": ("Grid", "Interval", "Union"),
}
_HOMES = {name: f"{__name__}.{room}" for room, names in _ROOMS.items() for name in names}


if not TYPE_CHECKING:  # else a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))
        room = f"{__name__}.{name}"
        try:
            if not name.startswith("_"):
                return import_module(room)
        except ModuleNotFoundError as missing:
            if missing.name != room:
                raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    from pkgutil import iter_modules

    rooms = {each.name for each in iter_modules(__path__)} - {"__main__"}
    return sorted({*__all__, *rooms, *(name for name in globals() if name.startswith("__"))})
