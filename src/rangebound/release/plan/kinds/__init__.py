"""The kinds of questions, one file per family: a kind in a file of this folder is one that a plan can ask for."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _each in iter_modules(__path__):
    import_module(f"{__name__}.{_each.name}")
