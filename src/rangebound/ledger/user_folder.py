"""Where a user's keys and heads of ledgers in databases are kept, since there is no file to lie beside."""

from __future__ import annotations

import os
from pathlib import Path

from rangebound.errors import LedgerUnavailable
from rangebound.values import arguments

_PLACES = {"key": ("XDG_DATA_HOME", ".local/share"), "head": ("XDG_STATE_HOME", ".local/state")}
"""By the XDG Base Directory Specification: what must not be lost is data, what only this machine knows is state."""


def user_folder(what: str) -> Path:
    """The folder for the keys (`what="key"`) or the heads (`what="head"`) of this user, whether or not it exists.

    >>> user_folder("key").name
    'rangebound'
    """
    variable, default = _PLACES[what]
    base = os.environ.get(variable, "") if os.name == "posix" else os.environ.get("LOCALAPPDATA", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / default
    return home / "rangebound"


def made_folder(path: Path) -> Path:
    """The folder, made if it is not there, for its owner alone."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerUnavailable(f"folder={arguments.shown(str(path))}: cannot be made ({error.strerror})") from None
    return path
