"""The time zone of a plan: the one whose days and hours count for instants."""

from __future__ import annotations

import zoneinfo
from functools import cache
from typing import Annotated

from pydantic import AfterValidator

from rangebound.release.plan.fields import Name
from rangebound.values import arguments

_OWN = frozenset({"localtime", "Factory"})  # whatever the machine says, and no place at all


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _OWN)


def _known(name: str) -> str:
    """Refuse the name of a zone that the time zone database does not have."""
    if not _zones():
        raise ValueError("this machine has no time zone database; pip install tzdata")
    if name not in _zones():
        found = arguments.similar(name, _zones())
        rule = 'must be a name of the time zone database, such as "Europe/Paris"'
        raise ValueError(f"{rule}; {found}" if found else rule)
    return name


Zone = Annotated[Name, AfterValidator(_known)]
"""The name of a time zone, such as "Europe/Paris"."""
