"""The plan of plan.toml in Python, released for a trial: python examples/survey/plan.py"""

from pathlib import Path

import pandas as pd

import rangebound as rb
from rangebound.release import Bounds, Count, Mean, Share

TABLES = Path(__file__).resolve().parents[2] / "out" / "tables"

weight = {"column": "finalwgt", "range": [0, 80000]}
plan = rb.Plan(
    title="Health of the population",
    source={"path": "../../out/tables/survey.csv"},
    budget={"epsilon": 1.0, "delta": 1e-6, "account": "survey"},
    columns={"zinc": {"range": [30, 250]}},
    keys={
        "region": {"fold": {"Northeast": [1], "Midwest": [2], "South": [3], "West": [4]}},
        "race": {"fold": {"White": [1], "Black": [2]}, "other": "other"},
    },
    query=[
        Count(name="persons", by=["region"], weighted_by=weight),
        Share(name="high blood pressure", of="highbp = 1", by=["region"], weighted_by=weight),
        Mean(name="zinc", column="zinc", by=["race"], weighted_by=weight),
        Bounds(name="weights", column="finalwgt"),
    ],
)

if __name__ == "__main__":
    print(rb.release_table(plan, pd.read_csv(TABLES / "survey.csv"), ledger=None))
