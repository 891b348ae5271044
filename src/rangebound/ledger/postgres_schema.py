"""A ledger in a PostgreSQL database: its address and tables, the triggers that keep order, and who may write.

The database cannot check a seal, for it does not have the key. It holds what it can: entries are added at the end, one
after the other, and never changed; bytes belong to the last entry and have its digest; a transaction that adds one
cannot be prepared, and hold the lock when its session is gone. With roles, each kind of entry is written by those who
may, under the name of their login; no login approves what it asked for, under whatever names, unless it is that of a
service, and none takes up the approved request of another, or completes its charge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rangebound.errors import ArgumentError, LedgerUnavailable
from rangebound.ledger.chain import EntryKind, LedgerEntry
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
    try:
        checked_address(address)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("postgres: ", "ledger: ", 1)) from None
    return PostgresPlace(address=address, schema=schema)


_TYPES = {
    **dict.fromkeys(("seq", "time"), "bigint NOT NULL"),
    **dict.fromkeys(("first", "second", "ref"), "bigint"),
    **dict.fromkeys(("kind", "who", "what", "note"), "text NOT NULL"),
    **dict.fromkeys(("account", "request"), "text"),
    "digest": "bytea",
    "seal": "bytea NOT NULL",
}
ENTRIES = {name: _TYPES[name] for name in LedgerEntry._fields}
PAYLOADS = {"seq": "bigint NOT NULL", "bytes": "bytea NOT NULL"}

OUT_OF_ORDER = "RB001"
"""The state of a statement that the triggers refuse."""
OWN_REQUEST = "RB002"
"""The state of an approval by the login that has asked."""
CHARGE_OF_ANOTHER = "RB003"
"""The state of bytes, or of a failure, for a charge of another login, and of a charge for its request."""

ROLES = ("owner", "approver", "analyst", "auditor")
"""The group roles of a team, each named after the schema, as in `rangebound_owner`."""
SERVICE = "service"
"""The group role of a server that writes for many people, analysts and approvers, whose names its login states."""

WRITES: dict[str, tuple[str, ...]] = {
    "owner": (EntryKind.ACCOUNT.value, EntryKind.MOVE.value),
    "approver": (EntryKind.APPROVE.value, EntryKind.REJECT.value),
    "analyst": (EntryKind.REQUEST.value, EntryKind.SPEND.value, EntryKind.PUBLISH.value, EntryKind.FAIL.value),
}
"""The kinds of entries that a role may add."""

_TEXT = files("rangebound.ledger").joinpath("postgres_schema.sql").read_text(encoding="utf-8")
_SQL = {name: f"\n{body}" for name, body in (each.split("\n", 1) for each in re.split("^--- ", _TEXT, flags=re.M)[1:])}
_FUNCTIONS = {name: _SQL[name] for name in ("added", "stored", "kept")}
_OF_ROLES = {"by_whom": _SQL["by_whom"]}
_TRIGGERS = {
    "entries": {
        "added": "BEFORE INSERT ON {schema}.entries FOR EACH ROW",
        "by_whom": "BEFORE INSERT ON {schema}.entries FOR EACH ROW",
        "kept": "BEFORE DELETE OR UPDATE OR TRUNCATE ON {schema}.entries FOR EACH STATEMENT",
    },
    "payloads": {
        "kept": "BEFORE DELETE OR UPDATE OR TRUNCATE ON {schema}.payloads FOR EACH STATEMENT",
        "stored": "BEFORE INSERT ON {schema}.payloads FOR EACH ROW",
    },
}
_INDEXES = {
    "entries": (
        "CREATE UNIQUE INDEX entries_pkey ON {schema}.entries USING btree (seq)",
        "CREATE UNIQUE INDEX requests ON {schema}.entries USING btree (request, kind) WHERE (request IS NOT NULL)",
    ),
    "payloads": ("CREATE UNIQUE INDEX payloads_pkey ON {schema}.payloads USING btree (seq)",),
}

FOUND = _SQL["found"]
"""What the catalog says of a schema, of which `expected` says what a ledger has."""


def expected(schema: str, *, roles: bool, before: bool = False) -> list[tuple[object, ...]]:
    """The rows of `FOUND` for the tables of a ledger, with the roles of a team or without; or as 0.2 made them."""
    rows: list[tuple[object, ...]] = []
    functions = _FUNCTIONS | ({"added": _SQL["added by 0.2"]} if before else _OF_ROLES if roles else {})
    for table, columns in (("entries", ENTRIES), ("payloads", PAYLOADS)):
        triggers = [
            f"CREATE TRIGGER {name} {text} EXECUTE FUNCTION {schema}.{name}()O {functions[name]}"
            for name, text in _TRIGGERS[table].items()
            if name in functions
        ]
        listed = [_filled(each, schema) for each in triggers]
        indexes = [_filled(each, schema) for each in _INDEXES[table]]
        policies = _policies(schema)[table] if roles else {}
        named = sorted(
            f"{name} {'r' if command == 'SELECT' else 'a'}true{','.join(sorted(to))}"
            for name, (command, to, _) in policies.items()
        )
        kinds = [f"{name} {kind}" for name, kind in columns.items()]
        rows.append((table, "r", "p", kinds, listed, indexes, 0, roles, named))
    return rows


def tables(schema: str) -> Iterator[str]:
    """The statements that make the tables of a ledger in a schema that exists."""
    for table, columns in (("entries", ENTRIES), ("payloads", PAYLOADS)):
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        yield f"CREATE TABLE {schema}.{table} ({listed}, CONSTRAINT {table}_pkey PRIMARY KEY (seq))"
    yield _filled(_INDEXES["entries"][1], schema)


def triggers(schema: str) -> Iterator[str]:
    """The statements after which entries are only added, each with the next number."""
    yield from _made(schema, _FUNCTIONS)


def _made(schema: str, functions: Mapping[str, str]) -> Iterator[str]:
    for name, body in functions.items():
        yield (
            f"CREATE FUNCTION {schema}.{name}() RETURNS trigger LANGUAGE plpgsql "
            f"SET search_path = pg_catalog, pg_temp AS $body${_filled(body, schema)}$body$"
        )
    for every in _TRIGGERS.values():
        for name, text in every.items():
            if name in functions:
                yield f"CREATE TRIGGER {name} {_filled(text, schema)} EXECUTE FUNCTION {schema}.{name}()"


_NAMED = (
    "strpos(session_user::text, '/') = 0 AND (who = session_user::text OR starts_with(who, session_user::text || '/'))"
)


def _policies(schema: str) -> dict[str, dict[str, tuple[str, tuple[str, ...], str]]]:
    """By table and name: what a policy is for, whom it lets do that, and with which rows."""
    everyone = tuple(f"{schema}_{role}" for role in ROLES)
    entries = {"seen": ("SELECT", everyone, "true")}
    for role, kinds in WRITES.items():
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        entries[f"by_{role}"] = ("INSERT", (f"{schema}_{role}",), f"kind IN ({listed}) AND {_NAMED}")
    own = f"EXISTS (SELECT FROM {schema}.entries e WHERE e.seq = payloads.seq AND {_NAMED.replace('who', 'e.who')})"
    payloads = {"seen": ("SELECT", everyone, "true"), "by_analyst": ("INSERT", (f"{schema}_analyst",), own)}
    return {"entries": entries, "payloads": payloads}


def roles(schema: str, *, keeper: bool) -> Iterator[str]:
    """The statements after which the tables belong to a team: the roles, and what each may read and add.

    With `keeper`, the tables belong to a role of which nobody is a member, so that only a superuser can change them.
    What is there already, such as the entries of a ledger that moves here, is not asked by whom it is.
    """
    team = [f"{schema}_{role}" for role in ROLES]
    service = f"{schema}_{SERVICE}"
    for name in [*team, service, *([f"{schema}_keeper"] if keeper else [])]:
        yield f"CREATE ROLE {name} NOLOGIN"
    yield f"GRANT {schema}_analyst, {schema}_approver TO {service}"
    yield from _made(schema, _OF_ROLES)
    yield f"GRANT USAGE ON SCHEMA {schema} TO {', '.join(team)}"
    for table, policies in _policies(schema).items():
        yield f"REVOKE ALL ON {schema}.{table} FROM PUBLIC"
        for name, (command, to, rows) in policies.items():
            words = f"USING ({rows})" if command == "SELECT" else f"WITH CHECK ({rows})"
            yield f"GRANT {command} ON {schema}.{table} TO {', '.join(to)}"
            yield f"CREATE POLICY {name} ON {schema}.{table} FOR {command} TO {', '.join(to)} {words}"
        yield f"ALTER TABLE {schema}.{table} ENABLE ROW LEVEL SECURITY"
        yield f"ALTER TABLE {schema}.{table} FORCE ROW LEVEL SECURITY"
    if keeper:
        for table in _TRIGGERS:
            yield f"ALTER TABLE {schema}.{table} OWNER TO {schema}_keeper"
        for name in (*_FUNCTIONS, *_OF_ROLES):
            yield f"ALTER FUNCTION {schema}.{name}() OWNER TO {schema}_keeper"
        yield f"ALTER SCHEMA {schema} OWNER TO {schema}_keeper"


def _filled(text: str, schema: str) -> str:
    states = {"{state}": OUT_OF_ORDER, "{own}": OWN_REQUEST, "{another}": CHARGE_OF_ANOTHER}
    for name, value in {"{schema}": schema, **states}.items():
        text = text.replace(name, value)
    return text
