"""The tables of a ledger in a PostgreSQL database, the trigger that keeps their order, and who may write what.

The database cannot check a seal, for it does not have the key. It holds what it can: entries are added at the end, one
after the other, and never changed; bytes belong to the last entry and have its digest. With roles, each kind of entry
is written by those who may, under the name of their login.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rangebound.ledger.chain import EntryKind, LedgerEntry

COLUMNS = ", ".join(LedgerEntry._fields)
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

ROLES = ("owner", "approver", "analyst", "auditor")
"""The group roles of a team, each named after the schema, as in `rangebound_owner`."""

WRITES: dict[str, tuple[str, ...]] = {
    "owner": (EntryKind.ACCOUNT.value, "move"),
    "approver": ("approve", "reject"),
    "analyst": ("request", EntryKind.SPEND.value, EntryKind.PUBLISH.value, EntryKind.FAIL.value),
}
"""The kinds of entries that a role may add."""

_ADDED = """
BEGIN
    IF NEW.seq IS DISTINCT FROM coalesce((SELECT max(seq) FROM {schema}.entries), 0) + 1 THEN
        RAISE EXCEPTION 'entry out of order' USING ERRCODE = '{state}';
    END IF;
    RETURN NEW;
END
"""
_STORED = """
BEGIN
    IF NOT EXISTS (
        SELECT FROM {schema}.entries
        WHERE seq = NEW.seq AND seq = (SELECT max(seq) FROM {schema}.entries) AND digest = sha256(NEW.bytes)
    ) THEN
        RAISE EXCEPTION 'bytes of no entry' USING ERRCODE = '{state}';
    END IF;
    RETURN NEW;
END
"""
_KEPT = """
BEGIN
    RAISE EXCEPTION 'a ledger is never changed' USING ERRCODE = '{state}';
END
"""
_FUNCTIONS = {"added": _ADDED, "stored": _STORED, "kept": _KEPT}
_TRIGGERS = {
    "entries": {
        "added": "BEFORE INSERT ON {schema}.entries FOR EACH ROW",
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

FOUND = """
SELECT c.relname, c.relkind, c.relpersistence,
    (SELECT array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END || a.attgenerated::text
        || a.attidentity::text ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    (SELECT array_agg(pg_get_triggerdef(t.oid) || t.tgenabled::text || ' ' || p.prosrc ORDER BY t.tgname)
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = c.oid AND NOT t.tgisinternal),
    (SELECT array_agg(pg_get_indexdef(i.indexrelid) ORDER BY i.indexrelid::regclass::text)
        FROM pg_index i WHERE i.indrelid = c.oid),
    (SELECT count(*) FROM pg_rewrite r WHERE r.ev_class = c.oid)
        + (SELECT count(*) FROM pg_inherits h WHERE c.oid IN (h.inhrelid, h.inhparent))
FROM pg_class c WHERE c.relnamespace = %s::oid AND c.relkind NOT IN ('i', 't', 'I') ORDER BY c.relname
"""
"""What the catalog says of a schema, of which `expected` says what a ledger has."""


class Cursor(Protocol):
    """What runs a statement."""

    def __call__(self, statement: str) -> object:
        """Run it."""
        ...


def expected(schema: str) -> list[tuple[object, ...]]:
    """The rows of `FOUND` for the tables of a ledger."""
    rows: list[tuple[object, ...]] = []
    for table, columns in (("entries", ENTRIES), ("payloads", PAYLOADS)):
        triggers = [
            f"CREATE TRIGGER {name} {text} EXECUTE FUNCTION {schema}.{name}()O {_FUNCTIONS[name]}"
            for name, text in _TRIGGERS[table].items()
        ]
        listed = [_filled(each, schema) for each in triggers]
        indexes = [_filled(each, schema) for each in _INDEXES[table]]
        rows.append((table, "r", "p", [f"{name} {kind}" for name, kind in columns.items()], listed, indexes, 0))
    return rows


def tables(schema: str) -> Iterator[str]:
    """The statements that make the tables of a ledger in a schema that exists."""
    for table, columns in (("entries", ENTRIES), ("payloads", PAYLOADS)):
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        yield f"CREATE TABLE {schema}.{table} ({listed}, CONSTRAINT {table}_pkey PRIMARY KEY (seq))"
    yield _filled(_INDEXES["entries"][1], schema)


def triggers(schema: str) -> Iterator[str]:
    """The statements after which entries are only added, each with the next number."""
    for name, body in _FUNCTIONS.items():
        text = _filled(body, schema)
        yield (
            f"CREATE FUNCTION {schema}.{name}() RETURNS trigger LANGUAGE plpgsql "
            f"SET search_path = pg_catalog, pg_temp AS $body${text}$body$"
        )
    for every in _TRIGGERS.values():
        for name, text in every.items():
            yield f"CREATE TRIGGER {name} {_filled(text, schema)} EXECUTE FUNCTION {schema}.{name}()"


def _filled(text: str, schema: str) -> str:
    return text.replace("{schema}", schema).replace("{state}", OUT_OF_ORDER)
