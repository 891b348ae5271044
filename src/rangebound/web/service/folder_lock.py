"""One server process for one folder: two would run each other's requests, and count those in flight by themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rangebound.errors import ArgumentError
from rangebound.web.service.job_store import private_folder

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def sole_server(folder: Path) -> Iterator[None]:
    """Hold a folder for this process until the block ends; an `ArgumentError` where another one holds it.

    Guarantee: the lock ends with the process, however that ends, and no worker has it.
    Edge cases: on Windows, where there is no `flock`, a second process is not noticed.
    """
    private_folder(folder)
    file = folder / "server.lock"
    handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)  # not inherited by other processes
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number = file.read_text(encoding="ascii", errors="replace").strip()
                raise ArgumentError(
                    f"folder={str(folder)!r}: process {number} serves this folder already; a second server needs a "
                    "folder of its own"
                ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)
