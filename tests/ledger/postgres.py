"""Ledgers in the PostgreSQL server of the tests, each in a schema of its own."""

import itertools
import os

_NUMBER = itertools.count()


def fresh_address(server: str) -> str:
    """The address of a place where no ledger has been."""
    return f"{server}&schema=test_{os.getpid()}_{next(_NUMBER)}"


def schema_of(address: str) -> str:
    """The schema that an address names."""
    return address.rpartition("schema=")[2]
