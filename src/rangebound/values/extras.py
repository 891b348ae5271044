"""The optional dependencies: which extra brings which package, and the error if one is missing."""

from __future__ import annotations

import importlib.util

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
    ours = [f"'rangebound[{','.join(extras)}]'"] if extras else []
    wanted = [*ours, *(name for name in absent if name not in EXTRAS)]
    said = f"{what}: needs {names}, which {are} not installed" if what else f"{names}: {are} not installed"
    raise MissingExtra(f"{said}; pip install {' '.join(wanted)}")
