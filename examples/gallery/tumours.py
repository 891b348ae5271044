"""A classifier of tumours at several epsilons: python examples/gallery/tumours.py"""

# %% [markdown]
# # Tumours: train a model
#
# 569 tumours, each with thirty measurements and a diagnosis (scikit-learn, CC BY 4.0). How well does a logistic regression distinguish the two diagnoses, if its weights must not reveal who was in the study?

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as WithoutPrivacy
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rangebound.learn.sklearn import LogisticRegression

data = load_breast_cancer()
chosen = ["mean radius", "mean texture", "mean smoothness", "mean concavity", "worst area"]
columns = [list(data.feature_names).index(name) for name in chosen]
X, X_test, y, y_test = train_test_split(data.data[:, columns], data.target, random_state=0)
X.shape

# %% [markdown]
# The ranges of the measurements are public knowledge of the laboratory, and so are the two classes.

# %%
lower, upper = np.array([5, 5, 0.04, 0, 150]), np.array([30, 40, 0.18, 0.5, 4500])
plain = make_pipeline(StandardScaler(), WithoutPrivacy()).fit(X, y).score(X_test, y_test)
scores = {}
for epsilon in (0.3, 1.0, 3.0, 10.0):
    model = LogisticRegression(epsilon=epsilon, delta=1e-6, bounds=(lower, upper), classes=[0, 1])
    scores[epsilon] = [model.fit(X, y).score(X_test, y_test) for _ in range(10)]
{epsilon: round(float(np.mean(found)), 3) for epsilon, found in scores.items()}, round(plain, 3)

# %% [markdown]
# Each of the ten models of an epsilon is a release of its own; we look at ten to see how much luck there is. Training ten models and publishing the best of them may spend ten times the epsilon.

# %%
figure, axes = plt.subplots(figsize=(6, 3))
for epsilon, found in scores.items():
    axes.plot([epsilon] * len(found), found, "o", color="tab:blue", alpha=0.4)
axes.plot(list(scores), [np.mean(found) for found in scores.values()], color="tab:blue", label="private")
axes.axhline(plain, color="black", linewidth=0.8, label="without privacy")
axes.set_xscale("log")
axes.set_xlabel("epsilon")
axes.set_title("Share of tumours that are classified correctly")
axes.legend()

# %% [markdown]
# A table of 569 rows is small for training. [Train a model, fit an estimator](../learning.md) has the other estimators and PyTorch.
