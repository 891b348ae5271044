"""A worker process: it takes one task at a time as a line of JSON, and answers with a line of JSON.

It may be killed at any moment: the ledger is charged before a row is read, and the same request may be run again. What
goes wrong is written to the error stream, which is the custodian's log, and the answer says only that it failed.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any

from rangebound.errors import EngineError, LedgerUnavailable
from rangebound.ledger.book import Ledger
from rangebound.web.service import release_tasks
from rangebound.web.service.settings import Server, read_settings

Task = Callable[[Server, Ledger, Mapping[str, Any]], dict[str, Any]]


def _columns(server: Server, _: Ledger, message: Mapping[str, Any]) -> dict[str, Any]:
    return {"columns": release_tasks.columns(server, message["source"])}


TASKS: Mapping[str, Task] = {"check": release_tasks.check, "run": release_tasks.run, "columns": _columns}
"""What a worker can do."""


def answer(server: Server, ledger: Ledger, message: Mapping[str, Any]) -> dict[str, Any]:
    """Do a task; every outcome is an answer."""
    try:
        return {"ok": True, **TASKS[message["do"]](server, ledger, message)}
    except release_tasks.Refused as refusal:
        return {"ok": False, "refused": str(refusal)}
    except Exception as error:
        sys.stderr.write(f"{message.get('do')} {message.get('request', '')}\n{traceback.format_exc()}")
        sys.stderr.flush()
        return {"ok": False, "away": _is_away(error), "lost": _is_away(error.__cause__)}


def _is_away(error: BaseException | None) -> bool:
    """Whether the ledger or the data source could not be reached, which no request can help; behind an error after the
    charge, whether it was lost in the middle."""
    return isinstance(error, LedgerUnavailable) or (isinstance(error, EngineError) and error.away)


def main(config: str) -> None:
    """Work until the server closes the line."""
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    server = read_settings(config)
    try:
        book = Ledger.open(server.ledger, key=server.key)
    except LedgerUnavailable:
        _tell(line, {"ready": False})
        raise
    with book as ledger:
        _tell(line, {"ready": True})
        for text in sys.stdin:
            _tell(line, answer(server, ledger, json.loads(text)))


def _tell(line: IO[str], facts: Mapping[str, Any]) -> None:
    line.write(json.dumps(facts) + "\n")
    line.flush()


if __name__ == "__main__":
    main(sys.argv[1])
