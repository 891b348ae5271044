"""The kinds of questions, one file a kind: a file that is put into this folder is a kind that a plan can ask for."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _each in iter_modules(__path__):
    import_module(f"{__name__}.{_each.name}")
