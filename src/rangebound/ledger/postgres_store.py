"""A ledger's entries in a PostgreSQL database: one writer at a time, and many that wait for the disk together.

A writer takes an advisory lock, reads what is new, adds its entry and commits. Where others write too, it commits
without waiting for the disk (`synchronous_commit = off`), which lets the next one in. Then it has the server flush its
log, outside the lock, and only when that has returned is the entry durable and the transaction over. Many writers share
one flush.

Why nothing is lost: PostgreSQL writes its log in order, and a record is flushed only together with all before it. The
record of my commit is in the log before the lock is free, so what builds on my entry comes after it: if that is found
after a crash, so is mine. My flush is a transaction of its own that begins after my commit has returned, writes a
message to the log, and commits with `synchronous_commit = on`; when it returns, the message is on the disk, and so is
my entry. A crash before that may lose the entry; then nobody has been told of it, because nothing of a transaction is
given out before all that it has read is flushed in the same way: `end` sees to that, of transactions that only read,
and of those that were refused, too.

A connection that breaks leaves it open whether the last entry is there. `ConnectionLost` says so, and anyone who keeps
a state of the chain must read it anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import postgres_schema
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.postgres_schema import PostgresPlace
from rangebound.ledger.store import COLUMNS, AnyFault, ConnectionLost, NoRoom, Row, Store, Transaction
from rangebound.values import arguments

if TYPE_CHECKING:
    import psycopg

_MARK = 0x52424C47 << 32  # of the lock, with the number of the schema in its lower half
_FLUSH = "pg_catalog.pg_logical_emit_message(true, 'rangebound', '')"
_FLUSHED = f"SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE {_FLUSH} END"
_HELD = (
    "SELECT p.gid, p.owner::text FROM pg_prepared_xacts p JOIN pg_locks x ON x.transactionid = p.transaction "
    "JOIN pg_locks l USING (virtualtransaction) WHERE p.database = current_database() AND x.pid IS NULL AND l.pid IS "
    "NULL AND ((l.relation = %s::regclass AND l.mode <> 'AccessShareLock') OR "  # which does not hinder a writer
    "(l.locktype = 'advisory' AND (l.classid, l.objid) = (%s, %s))) LIMIT 1"  # a prepared one has no process
)
_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_catalog.pg_advisory_xact_lock({lock}); "
_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
_LONG = 2**16  # bytes of a value that is not written into the words of a statement
_MANY = 0  # entries of others since the last transaction, from which on a commit does not wait for the disk

_FAULTS: dict[str, tuple[type[AnyFault], str]] = {
    "55P03": (LedgerUnavailable, "is locked by another process; nothing was written, try again"),
    "42501": (LedgerUnavailable, "the role of this login does not allow that; nothing was written"),
    "25006": (LedgerUnavailable, "is read-only; nothing was written"),
    "23505": (LedgerUnavailable, "somebody wrote past the lock; nothing was written, try again"),
    postgres_schema.OUT_OF_ORDER: (LedgerUnavailable, "somebody wrote past the lock; nothing was written, try again"),
    postgres_schema.OWN_REQUEST: (
        LedgerUnavailable,
        "the login that asked for a request must not approve it, whatever names are stated; ask another person",
    ),
    postgres_schema.CHARGE_OF_ANOTHER: (
        LedgerUnavailable,
        "the charge or its request is one of another login, which alone may complete it; nothing was written",
    ),
    "53": (NoRoom, "the server has no room (disk, memory or connections); nothing was written"),
    "54": (NoRoom, "cannot hold so large a value; nothing was written"),
    "40": (LedgerUnavailable, "the server undid the transaction; nothing was written, try again"),
    "57014": (LedgerUnavailable, "the statement was cancelled; nothing was written"),
    "28": (LedgerUnavailable, "the server refuses this login"),
    "3D": (LedgerUnavailable, "there is no such database"),
    "XX001": (LedgerTampered, "is damaged"),
    "XX002": (LedgerTampered, "is damaged"),
    "42P01": (LedgerTampered, "its tables are gone"),
    "3F": (LedgerTampered, "its tables are gone"),
}

AT_ONCE = 1000
"""This many entries are read in one go, as every transaction does with those that are new."""

_NAMES = itertools.count()  # of cursors, of which several may be open
_PAGE = 2000  # rows that cross the wire together where many are read

Statement: TypeAlias = tuple[str, Sequence[object]]


class PostgresStore(Store):
    """The entries of a ledger in a schema of a PostgreSQL database, which must exist (`create` makes them)."""

    kind = "postgres"

    def __init__(self, place: PostgresPlace, *, patience: float) -> None:
        self.place, self.schema = place, place.schema
        self._entries, self._payloads = f"{place.schema}.entries", f"{place.schema}.payloads"
        self.words = {"entries": self._entries, "payloads": self._payloads, "value": "%s"}
        place.conninfo()  # which is refused now, if it is not one
        import psycopg

        self.foreign = (psycopg.Error,)
        super().__init__(str(place), patience)
        self._connection: psycopg.Connection[Any] | None = None
        self._login: str | None = None
        self._key = 0
        self._known: int | None = None  # the last entry that was read or written here
        self._seen = self._durable = 0
        self._hurried = False  # whether a commit does not wait for the disk
        self._reread: LedgerEntry | None = None

    @property
    def login(self) -> str | None:
        """The name by which the server knows who writes."""
        if self._login is None:
            with self._held():
                self._open()
        return self._login

    def exists(self) -> bool:
        """Whether the schema has tables, of a ledger or others."""
        with self._held():
            connection = self.place.connect(self.patience)
            try:
                return bool(self._tables(connection))
            finally:
                connection.close()

    def name(self) -> str:
        """The ledger's own id, as its first entry states it; the seal on that is not checked here."""
        with self.reading() as transaction:
            first = transaction.entry(1)
        if first is None or first.kind != EntryKind.LEDGER.value or not first.request:
            raise LedgerTampered("entry 1: is missing")
        return first.request

    def many(self, connection: Any, words: str, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Rows that cross the wire in pages."""
        with connection.cursor(name=f"rangebound {next(_NAMES)}") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(words, values)
            yield from cursor

    def reread(self, seq: int) -> LedgerEntry | None:
        """The entry with a number, as `commit` read it back in a transaction that began after its own."""
        return self._reread if self._reread is not None and self._reread.seq == seq else None

    def damage(self) -> list[str]:
        """Nothing: a server keeps its files to itself, and finds damage when it reads."""
        return []

    def create(self, rows: Callable[[], Iterable[Row]], *, roles: bool = False) -> None:
        """Make the tables with the first entries, asked for once they are ours alone, and a team's roles."""
        import psycopg

        with self._held():
            connection = self.place.connect(self.patience)
            try:
                connection.execute("BEGIN")
                found = self._tables(connection)
                if found:
                    raise self.taken()
                if found is None:
                    connection.execute(f"CREATE SCHEMA {self.schema}".encode())
                for statement in (*postgres_schema.tables(self.schema), *postgres_schema.triggers(self.schema)):
                    connection.execute(statement.encode())
                for words, values in self._inserts(rows()):
                    _alone(connection, words, values)
                if roles:
                    row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
                    for statement in postgres_schema.roles(self.schema, keeper=bool(row and row[0])):
                        connection.execute(statement.encode())
                connection.execute("COMMIT")
            except psycopg.errors.DuplicateObject:
                raise ArgumentError(
                    f"path={arguments.shown(str(self.place))}: the server has a role {self.schema}_owner already, of "
                    "another ledger; give this one another name by ?schema="
                ) from None
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):  # another was first
                raise self.taken() from None
            finally:
                connection.close()

    def _tables(self, connection: psycopg.Connection[Any]) -> int | None:
        """How many tables and indexes the schema has; None where it does not exist."""
        words = "SELECT count(c.oid) FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid "
        row = connection.execute(f"{words}WHERE n.nspname = %s GROUP BY n.oid".encode(), (self.schema,)).fetchone()
        return None if row is None else int(row[0])

    def taken(self) -> ArgumentError:
        """The error for a place that is not free."""
        return ArgumentError(
            f"path={arguments.shown(str(self.place))}: there is something in the schema {self.schema}; `Ledger.open` "
            "opens a ledger, and ?schema= names another place for a new one"
        )

    def begin(self, transaction: Transaction) -> None:
        """As stated; also the entries that are new and those of the request, which come in the same message."""
        import psycopg

        used = self._connection is not None
        self._take()
        try:
            connection = self._open()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, psycopg.Error):
                raise self._ours(error) from error
            raise
        try:
            try:
                return self._first(connection, transaction)
            except psycopg.OperationalError:
                if not used or not connection.closed:
                    raise
            self._close()  # the server ended it while nobody used it; nothing was asked of it yet
            return self._first(self._open(), transaction)
        except (LedgerUnavailable, LedgerTampered):  # of a new connection, in which nothing was read
            self._lock.release()
            raise
        except BaseException as error:
            self.end(error)
            raise

    def _first(self, connection: psycopg.Connection[Any], transaction: Transaction) -> None:
        """Begin, take the lock, and read the entries that are new and those of a request, all in one go."""
        from psycopg.sql import quote

        start, request = self._known, transaction.request
        chosen = "ORDER BY seq DESC LIMIT 1" if start is None else f"WHERE seq >= {start} ORDER BY seq LIMIT {AT_ONCE}"
        words = _WRITING.format(lock=self._key) if transaction.write else _READING
        words += f"SELECT {COLUMNS} FROM {self._entries} {chosen}"
        if request is not None:
            words += f"; SELECT {COLUMNS} FROM {self._entries} WHERE request = {quote(request, connection)}"
        results = [rows for _, rows in _results(connection.execute(words.encode()))]
        if request is not None:
            transaction.about = {row[2]: LedgerEntry._make(row) for row in results.pop()}  # by kind
        rows = results[-1]
        self._hurried = start is not None and len(rows) - 1 > _MANY
        last = rows[-1] if rows else None
        if len(rows) == AT_ONCE:
            words = f"SELECT {COLUMNS} FROM {self._entries} ORDER BY seq DESC LIMIT 1"
            last = connection.execute(words.encode()).fetchone()
        elif start is not None:
            transaction.known = {start: rows}
        if last is not None:
            self._known = self._seen = last[0]
        transaction.connection = connection
        transaction.version = None if last is None else (last[0], last[-1])

    def append(self, transaction: Transaction, entry: LedgerEntry, payload: bytes | None) -> bool:
        if entry.request is not None and transaction.find(entry.kind, entry.request) is not None:
            return False
        assert transaction.added is None, "a transaction adds one entry"
        transaction.added = entry, payload
        return True

    def commit(self, transaction: Transaction) -> None:
        """Add an entry with its bytes and commit, which frees the lock; then read it back, and have the server flush
        its log, unless the commit has. All of that is sent together."""
        assert transaction.added is not None
        entry, payload = transaction.added
        connection = self._connection
        assert connection is not None
        self._seen, self._reread = max(self._seen, entry.seq), None
        words = f"SELECT {COLUMNS} FROM {self._entries} WHERE seq = %s"
        statements: list[Statement] = [("SET LOCAL synchronous_commit = off", ())] if self._hurried else []
        statements += [*self._inserts([(entry, payload)]), ("COMMIT", ()), (words, (entry.seq,))]
        if self._hurried:
            statements.append((f"SELECT {_FLUSH}", ()))
        results = self._sent(connection, statements)
        if "COMMIT" not in [status for status, _ in results]:
            raise LedgerUnavailable(f"{self._name}: the server undid the transaction; nothing was written")
        found = results[-2 if self._hurried else -1][1]
        self._reread = LedgerEntry._make(found[0]) if found else None
        self._known, self._durable = entry.seq, max(self._durable, entry.seq)
        transaction.version = entry.seq, entry.seal

    def _inserts(self, rows: Iterable[Row]) -> Iterator[Statement]:
        """Statements that add entries, many in one; bytes follow their entry, since the tables take no others."""
        run: list[LedgerEntry] = []
        for entry, payload in rows:
            run.append(entry)
            if payload is not None or len(run) == AT_ONCE:
                yield self._added(run)
                run = []
            if payload is not None:
                yield f"INSERT INTO {self._payloads} VALUES (%s, %s)", (entry.seq, payload)
        if run:
            yield self._added(run)

    def _added(self, entries: Sequence[LedgerEntry]) -> Statement:
        row = f"({', '.join(['%s'] * len(LedgerEntry._fields))})"
        words = f"INSERT INTO {self._entries} ({COLUMNS}) VALUES {', '.join([row] * len(entries))}"
        return words, [value for entry in entries for value in entry]

    def _sent(
        self, connection: psycopg.Connection[Any], statements: Sequence[Statement]
    ) -> list[tuple[str | None, list[Any]]]:
        """Run statements up to the first that fails, in one message unless that would be a long one."""
        if any(isinstance(each, bytes) and len(each) > _LONG for _, values in statements for each in values):
            return [result for each in statements for result in _results(_alone(connection, *each))]
        words = "; ".join(words for words, _ in statements)
        return _results(connection.execute(words.encode(), [each for _, values in statements for each in values]))

    def end(self, error: BaseException | None) -> None:
        """Undo what was not committed, see that what was read is durable, and give the connection back; an error of
        PostgreSQL becomes one of ours."""
        import psycopg
        from psycopg.pq import TransactionStatus

        held = ""
        try:
            if self._connection is not None:
                status = self._connection.info.transaction_status
                if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                    self._connection.execute("ROLLBACK")
                    held = self._prepared() if isinstance(error, psycopg.errors.LockNotAvailable) else ""
                elif status is not TransactionStatus.IDLE:
                    self._close()  # in the middle of something, or broken
                if self._seen > self._durable and self._connection is not None:
                    self._connection.execute(_FLUSHED.encode())
                    self._durable = self._seen
        except psycopg.Error as fault:
            self._close()
            error = fault
        finally:
            lost = self._connection is None
            self._lock.release()
        if held:
            raise LedgerUnavailable(f"{self._name}: {held}") from error
        if isinstance(error, psycopg.Error):
            raise self._ours(error, lost=lost) from error
        if lost and (error is None or isinstance(error, Exception)):
            raise ConnectionLost(f"{self._name}: {_LOST}") from error

    def _prepared(self) -> str:
        """What to do about a prepared transaction that holds the ledger, which no session does and no restart ends."""
        assert self._connection is not None
        row = self._connection.execute(
            _HELD.encode(), (self._entries, self._key >> 32, self._key & 0xFFFFFFFF)
        ).fetchone()
        if row is None:
            return ""
        gid, owner = map(arguments.shown, row)
        return (
            f"is locked by the prepared transaction {gid} of {owner}, which lasts until it is ended; nothing was "
            f"written; {owner} or a superuser ends it by ROLLBACK PREPARED {gid}"
        )

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            connection = self.place.connect(self.patience)
            try:
                self._key, self._login = self._checked(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._known, self._seen, self._durable = connection, None, 0, 0
        return self._connection

    def _checked(self, connection: psycopg.Connection[Any]) -> tuple[int, str]:
        """The lock and the login, once the tables are those of a ledger."""
        row = connection.execute(
            "SELECT oid, session_user::text FROM pg_namespace WHERE nspname = %s", (self.schema,)
        ).fetchone()
        found = [] if row is None else connection.execute(postgres_schema.FOUND.encode(), (row[0],)).fetchall()
        if row is None or not found:
            raise LedgerUnavailable(
                f"{self._name}: there is no ledger in the schema {self.schema}, or this login may not see it; "
                "`Ledger.create` or `rangebound ledger init` makes one"
            )
        forms = itertools.product((True, False), (False, True))
        if found not in [postgres_schema.expected(self.schema, roles=roles, before=old) for roles, old in forms]:
            raise LedgerTampered(f"{self._name}: has other tables, indexes or triggers than a ledger has")
        return _MARK | row[0], row[1]

    def _ours(self, error: Any, *, lost: bool = False) -> AnyFault:
        """The error in our words; the server's own may hold what was written."""
        state = error.sqlstate or ""
        found = next((fault for prefix, fault in _FAULTS.items() if state.startswith(prefix)), None)
        if lost:
            return ConnectionLost(f"{self._name}: {_LOST}{f' ({state})' if state else ''}")
        kind, what = found or (LedgerUnavailable, "PostgreSQL does not run a statement; its log says why")
        return kind(f"{self._name}: {what} ({state})")


def _alone(connection: psycopg.Connection[Any], words: str, values: Sequence[object]) -> psycopg.Cursor[Any]:
    """The result of one statement, whose values go beside it as they are."""
    import psycopg

    return psycopg.Cursor(connection).execute(words.encode(), values)


def _results(cursor: psycopg.Cursor[Any]) -> list[tuple[str | None, list[Any]]]:
    """The status and the rows of every statement in one message."""
    found: list[tuple[str | None, list[Any]]] = []
    while not found or cursor.nextset():
        found.append((cursor.statusmessage, cursor.fetchall() if cursor.description else []))
    return found


_LOST = (
    "the connection was lost; whether the last entry was written shows when it is asked for again: the same request is "
    "not charged twice"
)
