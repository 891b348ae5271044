"""Modules whose extra is not installed are left out; one that cannot be imported for another reason is an error.

Without this a test file that cannot be imported would be skipped in silence, with all its tests.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each worker has a core; threads that wait for another one spin
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # the same for torch, which keeps its threads: they sleep
_NEEDS = {
    "src/rangebound/cli": ("typer", "rich"),
    "src/rangebound/learn/sklearn": ("sklearn",),
    "src/rangebound/learn/torch": ("torch",),
    "src/rangebound/learn/torch/triton_kernels.py": ("triton",),
    "src/rangebound/plot": ("matplotlib",),
    "src/rangebound/release": ("clarabel", "duckdb", "pydantic", "sqlglot"),
}
pytest_plugins = ["tests.tiers"]
collect_ignore = [path for path, names in _NEEDS.items() if not all(map(find_spec, names))]
