"""Real pictures: a linear probe on 70,000 pictures of clothes, with features of a network trained on a public half.

Figures 3, 4b and 4d again, with the pictures of Debian's package `dataset-fashion-mnist` in place of those that must be
downloaded, as far as two cores train them: 10,000 examples, all of them in each step, of 32 features that a small
network learned from the other half. Multipliers and supports are in proportion to the examples, and fewer than in the
paper. `python -m papers.hu2024.training --data fashion --runs 5 --minutes 60` trains them again, and the network from
scratch too, which takes most of the hour and is not shown here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from papers.hu2024 import training
from papers.report import Claims, Progress, Row

HERE = Path(__file__).parent
MEASURED = HERE / "measured_clothes.json"
FIGURES = {
    f"clothes_{name}": f"{caption}, pictures of clothes"
    for name, caption in training.FIGURES.items()
    if "network" not in name
}


def measured() -> dict[str, Any]:
    """What was found when it was last trained."""
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def notes() -> str:
    """How many trainings there were."""
    parts = [
        f"the {name} has {task['parameters']:,} parameters, and {task['runs']} runs of "
        f"{sum(count for group, count in task['settings'].items() if group != 'Gaussian')} settings"
        for name, task in measured()["tasks"].items()
    ]
    return f"Measured on {measured()['device']}: {'; '.join(parts)}."


def run(progress: Progress) -> list[Row]:
    training.draw(measured(), HERE, "clothes_")
    progress("drawn from what was measured")
    return training.rows(Claims.of(__file__), measured())
