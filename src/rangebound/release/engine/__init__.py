"""Where the data are: an engine tells the schema of a table and runs statements on it."""

from __future__ import annotations

from rangebound.release.engine.interface import Engine

__all__ = ["Engine"]
