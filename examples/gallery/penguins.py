"""Penguins by species and island, with intervals: python examples/gallery/penguins.py"""

# %% [markdown]
# # Penguins: a small table
#
# The Palmer archipelago has three kinds of penguins on three islands, and 344 of them were measured (palmerpenguins, CC0). Think of each bird as a person. How many live where, and how heavy are they, if nobody may learn whether one bird was in the study?

# %%
import pandas as pd
from matplotlib import pyplot as plt
from palmerpenguins import load_penguins

import rangebound as rb

penguins = load_penguins()
penguins[["species", "island", "body_mass_g"]].head(3)

# %% [markdown]
# Which kinds live on which island is known to everybody, so the groups are public. The range of the weights comes from a field guide, not from the table. A range that was read off the table would reveal its largest bird.

# %%
plan = rb.Plan(
    budget={"epsilon": 2.0, "delta": 1e-6},
    keys={"species": ["Adelie", "Chinstrap", "Gentoo"], "island": ["Biscoe", "Dream", "Torgersen"]},
    query=[
        {"name": "birds", "kind": "crosstab", "by": ["species", "island"]},
        {"name": "weight", "kind": "mean", "column": "body_mass_g", "range": [2500, 6500], "by": ["species"]},
    ],
)
table = rb.release_table(plan, penguins, ledger=None)
print(table)

# %% [markdown]
# `ledger=None` says that this is a trial: the table is public. With real data, name a ledger and an account.
#
# Cells and margins add up to the last bird, and none is negative. The picture shows the published weights with their intervals, and the true means, which only we can draw.

# %%
rows = pd.DataFrame(table.rows()).query("query == 'weight'").set_index("species")
true = penguins.groupby("species")["body_mass_g"].mean()
figure, axes = plt.subplots(figsize=(6, 3))
axes.hlines(rows.index, rows["lower"], rows["upper"], linewidth=6, color="tab:cyan", label="interval, 95 %")
axes.plot(rows["value"], rows.index, "o", color="tab:blue", label="published")
axes.plot(true[rows.index], rows.index, "|", markersize=18, color="black", label="true")
axes.set_title("Mean weight of penguins, in grams")
axes.legend()

# %% [markdown]
# Few Chinstraps were measured, so their interval is the widest. If these intervals are too wide for you, ask fewer questions or choose a larger epsilon: [choose epsilon from the margins you want](../budget.md#start-from-the-margins).
