"""The plan of plan.toml in Python, released for a trial: python examples/penguins/plan.py"""

from pathlib import Path

import pandas as pd

import rangebound as rb
from rangebound.release import CentralRange, Correlation, Count, Line

TABLES = Path(__file__).resolve().parents[2] / "out" / "tables"

plan = rb.Plan(
    title="Penguins",
    source={"path": "../../out/tables/penguins.csv"},
    budget={"epsilon": 4.0, "delta": 1e-5, "account": "penguins"},
    columns={
        "flipper_length_mm": {"range": [150, 250]},
        "body_mass_g": {"range": [2000, 7000]},
        "bill_length_mm": {"range": [20, 70]},
    },
    keys={"sex": {"values": ["female", "male"], "missing": "unknown"}},
    combinations=[
        {
            "columns": ["species", "island"],
            "keys": [
                ["Adelie", "Biscoe"],
                ["Adelie", "Dream"],
                ["Adelie", "Torgersen"],
                ["Chinstrap", "Dream"],
                ["Gentoo", "Biscoe"],
            ],
        }
    ],
    query=[
        Count(name="birds", by=["species", "island"]),
        Count(name="birds by sex", by=["sex"]),
        Correlation(name="flipper and mass", x="flipper_length_mm", y="body_mass_g"),
        Line(name="mass by flipper", x="flipper_length_mm", y="body_mass_g"),
        CentralRange(name="bills", column="bill_length_mm", share=0.9),
    ],
)

if __name__ == "__main__":
    print(rb.release_table(plan, pd.read_csv(TABLES / "penguins.csv"), ledger=None))
