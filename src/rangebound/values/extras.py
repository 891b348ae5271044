"""What an installation may lack: optional packages, by the extra that brings them, and compiled kernels."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from rangebound.errors import MissingExtra

EXTRAS = {
    "clarabel": "tables",
    "duckdb": "tables",
    "pydantic": "tables",
    "sqlglot": "tables",
    "yaml": "tables",
    "rich": "cli",
    "typer": "cli",
    "pyarrow": "parquet",
    "xlsxwriter": "xlsx",
    "openpyxl": "xlsx",
    "pyspark": "spark",
    "grpc": "spark",
    "grpc_status": "spark",
    "psycopg": "postgres",
    "httpx": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "torch": "torch",
    "sklearn": "sklearn",
    "matplotlib": "plot",
    "dp_accounting": "dp-accounting",
}
"""The extra that brings a package, which is named as it is imported."""


def missing(*packages: str) -> list[str]:
    """Those of the packages that are not installed.

    Edge cases: a package that is installed and broken is not missing, so that its own error is shown.

    >>> missing("numpy", "no_such_package")
    ['no_such_package']
    """
    return [name for name in packages if importlib.util.find_spec(name) is None]


def need(*packages: str, what: str = "") -> None:
    """Raise `MissingExtra` unless all packages are installed; `what` is the argument or feature that needs them.

    Guarantee: nothing is imported. The message names the missing packages and the command that installs them.
    Edge cases: a package that no extra brings is installed by its own name.

    >>> need("numpy", "nothing", what="this example")
    Traceback (most recent call last):
    rangebound.errors.MissingExtra: this example: needs nothing, which is not installed; pip install nothing
    """
    absent = missing(*packages)
    if not absent:
        return
    names, are = ", ".join(absent), "is" if len(absent) == 1 else "are"
    extras = {EXTRAS[name]: None for name in absent if name in EXTRAS}
    ours = [installable(extras)] if extras else []
    wanted = [*ours, *(name for name in absent if name not in EXTRAS)]
    said = f"{what}: needs {names}, which {are} not installed" if what else f"{names}: {are} not installed"
    raise MissingExtra(f"{said}; pip install {' '.join(wanted)}")


def installable(extras: Iterable[str]) -> str:
    """What pip is to install for some extras: this package with them, from where it was installed."""
    import json  # a message is rare, and an import must be light
    import shlex
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    named = f"[{','.join(extras)}]"
    try:
        found = json.loads(metadata.distribution("rangebound").read_text("direct_url.json") or "{}")
        url, vcs = str(found.get("url", "")), found.get("vcs_info")
        if "dir_info" in found:
            editable = "-e " if found["dir_info"].get("editable") else ""
            return editable + shlex.quote(url2pathname(urlsplit(url).path) + named)
        place = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
    except Exception:  # what cannot be told must not hide what is missing
        place = ""
    return shlex.quote(f"rangebound{named} @ {place}" if place else f"rangebound{named}")


KERNELS = {"sampling": ("draws", "NumPy"), "learn": ("training", "PyTorch")}
"""For each room with a kernel: what the kernel does, and what does it where the kernel is missing."""

_REMEDY = (
    "install the wheel for this platform, or with a C compiler "
    "pip install --force-reinstall --no-deps --no-binary rangebound rangebound"
)
_said: set[str] = set()


def has_kernel(room: str) -> bool:
    """Whether the kernel of a room is there and can be loaded; nothing else of the room is.

    >>> has_kernel("noise")
    False
    """
    spec = PathFinder.find_spec("_kernel", [os.path.join(os.path.dirname(os.path.dirname(__file__)), room)])
    if spec is None or spec.loader is None:
        return False
    try:
        spec.loader.exec_module(module_from_spec(spec))
    except ImportError:  # made for another platform
        return False
    return True


def kernel_lines() -> list[str]:
    """A line for each kernel: compiled, or what runs in its place."""
    return [
        f"{work}: compiled kernel" if has_kernel(room) else f"{work}: {instead}, slower; to have the kernel, {_REMEDY}"
        for room, (work, instead) in KERNELS.items()
    ]


def warn_of_slow_path(room: str) -> None:
    """Warn, once in a process, that the kernel of a room is missing.

    Guarantee: nothing else changes. What runs instead makes the same numbers of the same random words, more slowly.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     _said.discard("sampling")
    ...     for _ in range(2):
    ...         warn_of_slow_path("sampling")
    >>> print(*(str(each.message).partition(";")[0] for each in seen))
    draws: no compiled kernel, so NumPy does the work and takes longer
    """
    if room not in _said:
        _said.add(room)
        work, instead = KERNELS[room]
        warnings.warn(
            f"{work}: no compiled kernel, so {instead} does the work and takes longer; {_REMEDY}",
            RuntimeWarning,
            stacklevel=2,
        )
