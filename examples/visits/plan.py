"""The plan of plan.toml in Python, released for a trial: python examples/visits/plan.py"""

from pathlib import Path

import pandas as pd

import rangebound as rb
from rangebound.release import CentralRange, Count, Histogram, Mean, Share

TABLES = Path(__file__).resolve().parents[2] / "out" / "tables"

plan = rb.Plan(
    title="Visits to a doctor",
    source={"path": "../../out/tables/visits.parquet"},
    budget={"epsilon": 1.0, "delta": 1e-6, "account": "visits"},
    columns={
        "mdvis": {"range": [0, 80]},
        "disea": {"range": [0, 60]},
        "health": (
            "CASE WHEN hlthp = 1 THEN 'poor' WHEN hlthf = 1 THEN 'fair' WHEN hlthg = 1 THEN 'good' ELSE 'excellent' END"
        ),
        "free": "lncoins = 0",
    },
    keys={
        "health": ["excellent", "good", "fair", "poor"],
        "mdvis": {
            "bins": [0, 1, 3, 6, 12, 80],
            "names": ["none", "1 or 2", "3 to 5", "6 to 11", "12 and more"],
        },
        "free": [True, False],
    },
    query=[
        Count(name="persons", by=["health", "mdvis"]),
        Mean(name="visits", column="mdvis", by=["free"]),
        Histogram(
            name="chronic diseases",
            column="disea",
            bins=[0, 5, 10, 15, 20, 60],
            bin_names=["under 5", "5 to 9", "10 to 14", "15 to 19", "20 and more"],
        ),
        CentralRange(name="most persons have", column="disea", share=0.8, by=["free"]),
        Share(name="any visit", of="mdvis >= 1", by=["health"]),
    ],
)

if __name__ == "__main__":
    print(rb.release_table(plan, pd.read_parquet(TABLES / "visits.parquet"), ledger=None))
