"""The plan of plan.toml in Python, released for a trial: python examples/films/plan.py"""

from pathlib import Path

import pandas as pd

import rangebound as rb
from rangebound.release import Correlation, Count, Histogram, Mean, Mode, Share

TABLES = Path(__file__).resolve().parents[2] / "out" / "tables"

plan = rb.Plan(
    title="Directors and their films",
    source={"path": "../../out/tables/films.parquet"},
    unit={"column": "director"},
    budget={"epsilon": 1.0, "delta": 1e-6, "account": "films"},
    columns={"rating": {"range": [0, 10]}, "oscars": {"range": [0, 11]}, "many": "films >= 3"},
    per_unit={
        "films": {"value": "COUNT(*)", "range": [0, 50]},
        "best": "max(rating)",
        "won": {"value": "sum(oscars)", "range": [0, 20]},
        "genre": "ARG_MIN(genre, released)",
    },
    keys={
        "genre": {
            "values": ["Comedy", "Documentary", "Drama", "Horror", "Romance", "Sci-Fi", "Thriller"],
            "other": "other",
            "missing": "unknown",
        }
    },
    query=[
        Count(name="directors", by=["genre"]),
        Histogram(name="films of a director", column="films", bins=[1, 2, 3, 5, 10, 50]),
        Share(name="won an Oscar", of="won >= 1"),
        Mean(name="best rating", column="best", by=["genre"]),
        Correlation(
            name="films and rating",
            x={"column": "films", "range": [3, 20]},
            y={"column": "best", "range": [4, 9]},
            where="many",
        ),
        Mode(name="first genre", column="genre"),
    ],
)

if __name__ == "__main__":
    print(rb.release_table(plan, pd.read_parquet(TABLES / "films.parquet"), ledger=None))
