"""Which ledger of which database an address names, and how a connection to it is made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rangebound.errors import ArgumentError, LedgerUnavailable
from rangebound.values import arguments
from rangebound.values.extras import need
from rangebound.values.postgres_address import NO_PASSWORD, checked_address

if TYPE_CHECKING:
    import psycopg

DEFAULT_SCHEMA = "rangebound"
CONNECTING = 10  # seconds for a server to answer
_IDLE = 60_000  # milliseconds after which the server ends a transaction that asks for nothing more
_SETTINGS = {
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    "row_security": "on",
    "jit": "off",
    "client_connection_check_interval": "10s",
    "idle_in_transaction_session_timeout": f"{_IDLE}ms",
    "statement_timeout": "0",
}
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}", re.ASCII)  # room for the names of roles, and no need for quotes


@dataclass(frozen=True, kw_only=True)
class PostgresPlace:
    """The ledger in the schema `schema` of the database at `address`.

    >>> postgres_place("postgresql://db.example/office?schema=census")
    PostgresPlace(address='postgresql://db.example/office', schema='census')
    >>> str(postgres_place("service=office"))
    'service=office'
    """

    address: str
    schema: str

    def __str__(self) -> str:
        mark = "&" if "?" in self.address else "?"
        return self.address if self.schema == DEFAULT_SCHEMA else f"{self.address}{mark}schema={self.schema}"

    def conninfo(self) -> str:
        """What libpq is asked to connect to; a password in it is refused, wherever it hides."""
        need("psycopg", what="ledger")
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        try:
            parts = conninfo_to_dict(self.address)
        except psycopg.Error:
            raise ArgumentError('ledger: must be an address such as "postgresql://host/database"') from None
        if any("password" in name for name in parts):
            raise ArgumentError(f"ledger: {NO_PASSWORD}")
        fixed = {"client_encoding": "UTF8", "application_name": "rangebound ledger"}
        try:
            return make_conninfo(self.address, **{"connect_timeout": CONNECTING, **parts, **fixed})
        except psycopg.Error:
            raise LedgerUnavailable("ledger: the address cannot be read") from None

    @property
    def shown(self) -> str:
        """The place in an error message."""
        return f"ledger={arguments.shown(str(self))}"

    def connect(self, patience: float) -> psycopg.Connection[Any]:
        """A connection, in which every statement is a transaction of its own until one begins; a lock is waited for as
        long as `patience`, in seconds."""
        import psycopg

        try:
            # With values written into the words, several statements are one message.
            connection = psycopg.connect(self.conninfo(), autocommit=True, cursor_factory=psycopg.ClientCursor)
        except (psycopg.Error, UnicodeError):
            rule = "no connection; see that the server answers, and that the password is in PGPASSFILE, PGPASSWORD or "
            raise LedgerUnavailable(f"{self.shown}: {rule}a service (pg_service.conf)") from None
        try:
            settings = {**_SETTINGS, "lock_timeout": f"{max(1, round(patience * 1000))}ms"}
            for name, value in settings.items():
                connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            self.check_server(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def check_server(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse a server that would lose what is written, or change it."""
        row = connection.execute("SELECT current_setting('fsync'), current_setting('server_encoding')").fetchone()
        assert row is not None
        if row[0] != "on":
            raise LedgerUnavailable(f"{self.shown}: the server has fsync = off, and would lose charges in a crash")
        if row[1] != "UTF8":
            raise LedgerUnavailable(f"{self.shown}: the encoding of the database is {row[1]}; it must be UTF8")


def postgres_place(text: str) -> PostgresPlace:
    """The ledger that an address names: the parameter `schema` is ours, the rest is libpq's."""
    address, _, query = text.partition("?")
    parts = query.split("&") if query else []
    ours = [each.removeprefix("schema=") for each in parts if each.startswith("schema=")]
    rest = "&".join(each for each in parts if not each.startswith("schema="))
    if len(ours) > 1:
        raise ArgumentError("schema: must be given once")
    address += f"?{rest}" if rest else ""
    schema = ours[0] if ours else DEFAULT_SCHEMA
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ArgumentError(
            "schema: must be a short name of small letters, digits and _, which does not begin with pg_"
        )
    return PostgresPlace(address=_without_password(address), schema=schema)


def _without_password(address: str) -> str:
    try:
        return checked_address(address)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("postgres: ", "ledger: ", 1)) from None
