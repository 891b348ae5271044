"""Where the table of a plan is, and the time zone whose days and hours count for instants."""

from __future__ import annotations

import zoneinfo
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from rangebound.release.plan.fields import Name
from rangebound.release.plan.text_format import TextFormat
from rangebound.values import arguments
from rangebound.values.postgres_address import address_fault


class Source(TextFormat):
    """Where the table is: a text file, a workbook, a Parquet file, or a table of DuckDB, PostgreSQL or a Spark server.

    Edge cases: a plan is published with its table, so an address with a token is refused here, which `--spark` takes,
    and so is one with a password.
    """

    path: Name | None = None
    table: Name | None = None
    spark: Annotated[Name, Field(pattern="^sc://[^/]")] | None = None
    postgres: Name | None = None

    @model_validator(mode="after")
    def _fits(self) -> Source:
        if sum(each is not None for each in (self.path, self.spark, self.postgres)) != 1:
            raise ValueError("needs one of path, postgres (the address of a database) and spark (that of a server)")
        if self.path is None and self.table is None:
            raise ValueError(f"{'postgres' if self.spark is None else 'spark'} goes with the name of a table")
        if self.postgres is not None and (misfit := address_fault(self.postgres)):
            raise ValueError(f"postgres: {misfit}")
        if self.spark is not None and "token=" in self.spark.lower():
            raise ValueError("spark: must hold no token, since plans are published; give the whole address by --spark")
        if self.misfit_of_format:
            raise ValueError(self.misfit_of_format)
        return self


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
