"""The plan of plan.toml in Python, released for a trial: python examples/flights/plan.py"""

from datetime import date
from pathlib import Path

import pandas as pd

import rangebound as rb
from rangebound.release import Count, CountOfUnits, Ratio, Share, TopK

TABLES = Path(__file__).resolve().parents[2] / "out" / "tables"
YEAR = [date(2013, 1, 1), date(2013, 12, 31)]

airports, airlines = (pd.read_csv(TABLES / name) for name in ("airports.csv", "airlines.csv"))
plan = rb.Plan(
    title="Flights from New York, 2013",
    zone="America/New_York",
    source={"path": "../../out/tables/flights.parquet"},
    unit={"column": "tailnum"},
    budget={"epsilon": 2.0, "delta": 1e-6, "account": "flights"},
    join=[{"path": "../../out/tables/airlines.csv", "public": True, "on": ["carrier"], "columns": ["name"]}],
    columns={"late": "arr_delay > 15", "clock": "hour(hour)"},
    keys={
        "day": {"months": YEAR},
        "clock": {"numbers": [5, 23]},
        "dest": list(airports["faa"]),
        "name": list(airlines["name"]),
    },
    query=[
        Count(name="flights a month", by=["day"], rows=30, groups=12),
        Count(name="days in the air", rows=1, period={"column": "day", "each": "day", "range": YEAR}),
        Share(name="late arrivals", of="late", where="not missing(arr_delay)", by=["name"], rows=200, groups=2),
        CountOfUnits(name="planes by the hour", by=["clock"], groups=19),
        Ratio(
            name="minutes a mile",
            numerator={"column": "air_time", "range": [0, 700]},
            denominator={"column": "distance", "range": [0, 5000]},
            support=[0, 1],
            rows=200,
        ),
        TopK(name="most planes", column="dest", k=5),
    ],
)

if __name__ == "__main__":
    flights = pd.read_parquet(TABLES / "flights.parquet")
    print(rb.release_table(plan, flights, ledger=None))
