"""The settings of a server, `server.toml`: data sources under public names, accounts, ledger, limits."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.plan.faults import reported
from rangebound.release.plan.fields import Name, Part, as_tuple
from rangebound.release.plan.source import Source, TextFormat
from rangebound.release.plan.toml import lines
from rangebound.values.postgres_address import is_address

ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
"""What names of accounts and sources on a server, and ids of releases, look like: they stand in addresses."""
ID_RULE = "must have 1 to 64 letters, digits, points, dashes or underscores, and begin with a letter or digit"


def _public_name(value: str) -> str:
    if not ID.fullmatch(value):
        raise ValueError(ID_RULE)
    return value


PublicName = Annotated[str, AfterValidator(_public_name)]
Seconds = Annotated[float, Field(gt=0.0, le=1e6)]
Number = Annotated[int, Field(ge=1, le=1_000_000)]


class DataSource(TextFormat):
    """A table under its public name: where it is, and whom its releases protect.

    `unit` is the column that names the owner of a row; `rows_are_units = true` says that each row is one. A `public`
    table has neither: what it holds is known to everybody, and it can only be joined.
    """

    path: Name | None = None
    table: Name | None = None
    spark: Name | None = None
    postgres: Name | None = None
    public: bool = False
    unit: Name | None = None
    rows_are_units: bool = False
    neighbours: Literal["add or remove", "replace"] = "add or remove"
    size: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> DataSource:
        self.source(self.path)
        if self.public and (self.unit is not None or self.rows_are_units):
            raise ValueError("a public table protects nobody; leave out unit and rows_are_units")
        if not self.public and (self.unit is None) != self.rows_are_units:
            raise ValueError("needs either unit, the column of those who are protected, or rows_are_units = true")
        return self

    def source(self, path: str | None) -> Source:
        """The table, as the release reads it; its file is at the path."""
        return Source(path=path, table=self.table, spark=self.spark, postgres=self.postgres, **self.text_fields)


class AccountSettings(Part):
    """An account of the ledger that the server may charge, and the sources that it pays for."""

    sources: Annotated[tuple[PublicName, ...], Field(min_length=1), BeforeValidator(as_tuple)]


class Listen(Part):
    """Where the server listens. Without a certificate only this machine can reach it, unless a proxy encrypts."""

    host: Name = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8800
    certificate: Name | None = None
    key: Name | None = None
    behind_proxy: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Listen:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together")
        try:
            local = ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            local = self.host == "localhost"
        if self.certificate is None and not self.behind_proxy and not local:
            raise ValueError(
                f"host={self.host!r}: tokens would cross the network in the clear; give a certificate and its key, or "
                "say behind_proxy = true where a proxy encrypts"
            )
        return self


class Running(Part):
    """How releases run: in `workers` processes, ended after `time` seconds, answered at multiples of `delay`."""

    delay: Seconds = 60.0
    time: Seconds = 600.0
    attempts: Annotated[int, Field(ge=1, le=10)] = 2
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    checkers: Annotated[int, Field(ge=1, le=64)] = 1
    threads: Annotated[int, Field(ge=1)] | None = None
    memory: Name | None = None


class ClientLimits(Part):
    """What a client may ask for: bytes of a body, requests per minute, releases in flight, seconds."""

    body: Annotated[int, Field(ge=1000, le=10_000_000)] = 1_000_000
    requests: Number = 240
    strangers: Number = 60
    in_flight: Number = 20
    in_flight_in_all: Number = 500
    connections: Number = 256
    connections_of_one: Number = 64
    reading: Seconds = 10.0
    sending: Seconds = 60.0
    dry_run: Seconds = 60.0
    tick: Seconds = 0.5


class Settings(Part):
    """All settings of a server; paths are relative to the folder of its file."""

    folder: Name
    ledger: Name
    key: Name | None = None
    listen: Listen = Listen()
    release: Running = Running()
    limits: ClientLimits = ClientLimits()
    sources: Annotated[dict[PublicName, DataSource], Field(min_length=1)]
    accounts: Annotated[dict[PublicName, AccountSettings], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        for name, account in self.accounts.items():
            unknown = [each for each in account.sources if each not in self.sources]
            if unknown:
                raise ValueError(f"accounts.{name}.sources: {unknown[0]!r} is not in sources")
            if all(self.sources[each].public for each in account.sources):
                raise ValueError(f"accounts.{name}.sources: all are public; there is nothing to protect")
        return self


class Server:
    """Settings with the folder of their file, which paths are relative to.

    `folder` has requests, answers, tokens and logs; `ledger` is a path, or the address of a database as it is, and
    `key` its key file, where one is named. `secrets` is what no answer for an analyst may contain: paths and addresses
    of this machine.
    """

    def __init__(self, settings: Settings, home: Path) -> None:
        self.settings, self.home = settings, home.absolute()
        self.folder = self.home / settings.folder
        self.ledger = settings.ledger if is_address(settings.ledger) else str(self.home / settings.ledger)
        self.key = None if settings.key is None else self.home / settings.key
        places = [place for each in settings.sources.values() for place in (each.path, each.spark, each.postgres)]
        self.secrets = (str(self.home), settings.ledger.partition("?")[0], *(each for each in places if each))

    def source(self, name: str) -> Source:
        """A data source, as the release reads it."""
        found = self.settings.sources[name]
        return found.source(None if found.path is None else str(self.home / found.path))


def read_settings(path: str | Path) -> Server:
    """The settings in a file; a fault is a `PlanError` with its line and field."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as reason:
        raise ArgumentError(f"config={str(file)!r}: cannot be read ({reason.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as reason:
        raise PlanError(f"{file}: not valid TOML: {reason}", field="config") from None
    with reported(str(file), lambda: lines(text)):
        return Server(Settings.model_validate(data), file.parent)
