"""What an epsilon buys, before any data are read: python examples/gallery/doctor_visits.py"""

# %% [markdown]
# # Visits to a doctor: choose epsilon
#
# The RAND health insurance experiment noted how often people went to a doctor in a year (statsmodels, public domain). Is a plan with epsilon 0.5 good enough? The noise follows from the plan alone, so this can be answered before any data are read, and costs nothing.

# %%
from matplotlib import pyplot as plt
from statsmodels.datasets import randhie

import rangebound as rb
from rangebound.release import explain, forecast, parse_plan

plan = parse_plan("""
budget = {epsilon = 0.5}
keys = {hlthp = [0, 1]}

[[query]]
name = "people"
kind = "count"
by = ["hlthp"]

[[query]]
name = "visits"
kind = "sum"
column = "mdvis"
range = [0, 20]
by = ["hlthp"]
""")
print(explain(plan))

# %% [markdown]
# `forecast` has the same as numbers: half the width of the intervals, for this epsilon, for half of it and for twice as much.

# %%
figure, axes = plt.subplots(figsize=(6, 3))
for each in forecast(plan):
    axes.loglog(
        [0.25, 0.5, 1.0], [each.at_half_epsilon, each.half_width, each.at_twice_epsilon], "o-", label=each.query
    )
    print(f"{each.query}: {each.half_width:.0f} at epsilon 0.5, {each.error}")
axes.set_xticks([0.25, 0.5, 1.0], ["0.25", "0.5", "1"], minor=False)
axes.minorticks_off()
axes.set_xlabel("epsilon")
axes.set_title("Half the width of the intervals, by epsilon")
axes.legend()

# %% [markdown]
# About 300 of the 20,190 people said that their health was poor. A margin of 15 people is 5 % of them, and epsilon 0.5 meets that. The release then reads the data once.

# %%
visits = randhie.load_pandas().data
print(rb.release_table(plan, visits, ledger=None))

# %% [markdown]
# The width of an interval is one half of the choice. What an attacker gains is the other: [choose epsilon](../budget.md#choose-epsilon-on-a-page), [say what an attacker gains](../explain.md#what-an-attacker-gains).
