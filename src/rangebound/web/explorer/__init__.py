"""The explorer: a page on a local address that shows what an epsilon buys, and what it means for a person."""

from rangebound.values.extras import need

need("starlette", "uvicorn", "duckdb", "pydantic", what="rangebound explore")
