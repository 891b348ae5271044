"""What others have used: published deployments with their epsilon, delta and unit, and where that is written."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One published use of differential privacy: `unit` is what its epsilon protects, `source` says where it stands."""

    who: str
    what: str
    year: int
    epsilon: float
    delta: float = 0.0
    unit: str
    note: str = ""
    source: str
    link: str

    def to_dict(self) -> dict[str, object]:
        """The deployment as plain data."""
        return asdict(self)


@cache
def deployments() -> tuple[Deployment, ...]:
    """The deployments of the file beside this module, the smallest epsilon first.

    >>> min(each.epsilon for each in deployments()) > 0
    True
    """
    text = files("rangebound.web.explorer").joinpath("deployments.toml").read_text(encoding="utf-8")
    found = (Deployment(**each) for each in tomllib.loads(text)["deployment"])
    return tuple(sorted(found, key=lambda each: each.epsilon))
