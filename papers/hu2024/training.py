"""Training: accuracy against per-instance epsilon and Fisher loss, on data of the paper's shape.

At full size the linear probe is as large as the paper's, with all examples in each step; the network is small, from
scratch, in batches of 200. The data are made up from a few public parameters (`papers/hu2024/_tasks.py`), the
hyperparameters are those of appendix G, Table 1. `python -m papers.hu2024.training --device cuda` trains them again, in
ten minutes of a large GPU; `--data cifar10` takes the real pictures and pretrained features, where torchvision and timm
can download them. Epsilon is the corrected per-instance one at delta 1e-5, an odometer reading of each run and no
guarantee of it.

In each comparison one run chooses the settings of a front, and the other runs say how good these are, so that being
the best of many by chance does not count; every run takes its turn at choosing, and the spread is over these turns.
Between the points of a front the cost is interpolated. Bounded noise has five supports for each setting of Gaussian
noise, and a narrow support also makes the steps smaller. So there is a control: Gaussian noise with more multipliers
and smaller learning rates, which no account sees, about as many settings as each bounded mechanism has.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from papers.report import Claims, Progress, Row, Verdict, save

HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
OUT = Path("out/papers/hu2024")
FIGURES = {
    "ratio.png": "Fig. 3: per-instance epsilon over that of Gaussian noise at the same test accuracy; dashed: over "
    "Gaussian noise with more settings",
    "largest_network.png": "Fig. 4a: test accuracy against the largest Fisher loss, network from scratch",
    "largest_probe.png": "Fig. 4b: test accuracy against the largest Fisher loss, linear probe",
    "median_network.png": "Fig. 4c: test accuracy against the median Fisher loss, network from scratch",
    "median_probe.png": "Fig. 4d: test accuracy against the median Fisher loss, linear probe",
}
BOUNDED = ("rectified", "truncated")
GROUPS = ("Gaussian", "Gaussian, more settings", *BOUNDED)
Point = tuple[float, float, float, float, float]  # accuracies that choose and count, cost, information, centre


def complete(records: list[Any], settings: list[Any]) -> list[Any]:
    """The records of one task for the multipliers up to the largest at which every run that counts has all settings.

    Trainings that the time did not allow leave a grid with holes, in which mechanisms cannot be compared.
    """
    wanted = Counter(each.multiplier for each in settings)
    steps = len({each.steps for each in records})
    have = Counter((each.run, each.multiplier) for each in records)

    def whole(run: int) -> list[float]:
        full = itertools.takewhile(lambda m: have[run, m] == steps * wanted[m], sorted(wanted))
        return list(full)

    paper = {each.multiplier for each in settings if each.paper}
    last = max((m for m in whole(0) if m in paper), default=0.0)
    runs = list(itertools.takewhile(lambda run: last in whole(run), itertools.count()))
    return [each for each in records if each.multiplier <= last and each.run in runs]


def groups(records: list[Any], cost: str) -> dict[str, dict[Any, list[Any]]]:
    """The settings of each group, with their records by run."""
    found: dict[str, dict[Any, list[Any]]] = {name: {} for name in GROUPS}
    for each in records:
        names = [GROUPS[1], *([GROUPS[0]] if each.paper else [])] if each.kind == "Gaussian" else [each.kind]
        for name in names:
            found[name].setdefault((*each[1:6], each.steps), []).append(each)
    return {
        name: {key: some for key, some in settings.items() if all(0.0 < getattr(r, cost) < math.inf for r in some)}
        for name, settings in found.items()
    }


def points(settings: dict[Any, list[Any]], cost: str, chooser: int) -> list[Point]:
    """One point for each setting: how good it is to the run that chooses, and to the others; what it costs."""
    found = []
    for some in settings.values():
        first = next(each for each in some if each.run == chooser)
        rest = [each for each in some if each.run != chooser] or [first]
        numbers = [float(np.mean([getattr(each, n) for each in rest])) for n in ("accuracy", cost)]
        found.append((first.accuracy, *numbers, first.information, first.centre))
    return found


def front(found: list[Point]) -> np.ndarray:
    """The settings that no other beats in both: accuracy, log cost (both rising), information and centre."""
    best, kept = 0.0, []
    for point in sorted(found, key=lambda p: (round(np.log(p[2]), 3), -p[0])):  # one cost but for rounding counts once
        if point[0] > best:
            best = point[0]
            kept.append((point[1], float(np.log(point[2])), *point[3:]))
    result = np.asarray(kept)
    result[:, 0] = np.maximum.accumulate(result[:, 0])
    return result


def ratios(ours: np.ndarray, theirs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """What ours costs over what theirs does at the same accuracies; NaN where one of the fronts does not reach."""
    outside = (targets < max(ours[0, 0], theirs[0, 0])) | (targets > min(ours[-1, 0], theirs[-1, 0]))
    logs = np.interp(targets, ours[:, 0], ours[:, 1]) - np.interp(targets, theirs[:, 0], theirs[:, 1])
    return np.where(outside, np.nan, np.exp(logs))


def summary(records: list[Any], facts: dict[str, Any], grids: dict[str, list[Any]]) -> dict[str, Any]:
    """The fronts of one choice, and the ratios at each accuracy: middle, smallest and largest over the choices."""
    result: dict[str, Any] = {**facts, "tasks": {}}
    for name in dict.fromkeys(each.task for each in records):
        own = complete([each for each in records if each.task == name], grids[name])
        runs = max((each.run for each in own), default=-1) + 1
        multipliers = sorted({each.multiplier for each in own if each.paper})
        task: dict[str, Any] = {"runs": runs, "multipliers": multipliers, "settings": {}, "fronts": {}, "ratios": {}}
        for cost in ("epsilon", "largest", "median"):
            parts = groups(own, cost)
            if not all(parts.values()):
                continue
            task["settings"] = {group: len(settings) for group, settings in parts.items()}
            fronts = [{g: front(points(settings, cost, r)) for g, settings in parts.items()} for r in range(runs)]
            task["fronts"][cost] = {
                group: [[round(row[0], 4), float(f"{np.exp(row[1]):.4g}"), *row[2:].round(4).tolist()] for row in rows]
                for group, rows in fronts[0].items()
            }
            task["ratios"][cost] = {
                kind: {base: _spread([(f[kind], f[base]) for f in fronts]) for base in GROUPS[:2]} for kind in BOUNDED
            }
        result["tasks"][name] = task
    return result


def _spread(pairs: list[tuple[np.ndarray, np.ndarray]]) -> list[list[float]]:
    """Accuracy, and the middle, smallest and largest ratio there, where every choice reaches."""
    targets = np.arange(0.1, 1.0, 0.01)
    table = np.stack([ratios(*pair, targets) for pair in pairs])
    found = []
    for target, column in zip(targets, table.T, strict=True):
        if np.isfinite(column).all():
            found.append([round(each, 4) for each in (target, np.median(column), column.min(), column.max())])
    return found


def best(rows: list[list[float]]) -> list[float] | None:
    """The accuracy with the smallest ratio, in the middle of the choices."""
    return min(rows, key=lambda row: row[1], default=None)


def change(ratio: float) -> str:
    """A ratio as a percentage less or more."""
    return f"{abs(100.0 * (1.0 - ratio)):.0f} % {'less' if ratio <= 1.0 else 'more'}"


def _between(row: list[float]) -> str:
    return "" if row[2] == row[3] else f" ({change(row[2])} to {change(row[3])})"


def compared(task: dict[str, Any], cost: str) -> str:
    """Both mechanisms against both baselines, in words."""
    parts = []
    for kind, bases in task["ratios"].get(cost, {}).items():
        for base, rows in bases.items():
            at = best(rows)
            if at is None:
                parts.append(f"{kind} and {base}: no accuracy in common")
                continue
            middle = change(float(np.median([row[1] for row in rows])))
            parts.append(
                f"{kind} against {base}: {middle} in the median over {100 * rows[0][0]:.0f} to {100 * rows[-1][0]:.0f} "
                f"%, at best {change(at[1])}{_between(at)} at {100 * at[0]:.0f} %"
            )
    return "; ".join(parts)


def verdict(task: dict[str, Any], cost: str, kind: str, published: float) -> Verdict:
    """True if the published saving is reached against both baselines; no further if against the paper's grid alone."""
    reached, some = [], []
    for base in GROUPS[:2]:
        at = best(task["ratios"].get(cost, {}).get(kind, {}).get(base, []))
        reached.append(at is not None and 1.0 - at[1] >= published)
        some.append(at is not None and at[1] < 0.95)
    if reached[0]:
        return Verdict.TRUE if reached[1] else Verdict.SCOPE
    return Verdict.SMALLER if all(some) else Verdict.ELSEWHERE


def measured() -> dict[str, Any]:
    """What was found when it was last trained."""
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def notes() -> str:
    """How it was measured, and where the savings come from, in numbers of the measurement."""
    found = measured()
    sizes, causes = [], []
    for name, task in found["tasks"].items():
        settings = sum(count for group, count in task["settings"].items() if group != "Gaussian")
        sizes.append(
            f"the {name} has {task['examples']:,} examples and {task['parameters']:,} parameters, with Fisher losses "
            f"of {task['watched']:,} examples, multipliers of {', '.join(f'{m:,g}' for m in task['multipliers'])} and "
            f"{task['runs']} {'run' if task['runs'] == 1 else 'runs'} of {settings:,} settings"
        )
        for kind in BOUNDED:
            rows = task["fronts"].get("largest", {}).get(kind, [])
            inside, centre = (float(np.median([row[k] for row in rows] or [1.0])) for k in (2, 3))
            causes.append(f"{inside:.2f} = {centre:.2f} x {inside / centre:.2f} ({kind}, {name})")
    alone = any(task["runs"] == 1 for task in found["tasks"].values())
    return (
        f"Measured on {found['device']}: {'; '.join(sizes)}."
        + (" With a single run, that run chooses and counts, and there is no spread.\n\n" if alone else "\n\n")
        + "Why a bound saves: along the fronts, in the median, a published coordinate reveals so much of the Fisher "
        f"information that Gaussian noise of the same scale would: {', '.join(causes)}. The first factor is that of a "
        "coordinate at the centre of the support; there a bound costs at least as much signal as it saves information, "
        "so that to first order Gaussian noise of another scale does as well. The second is there because sums lie "
        "away from the centre, and is what remains. What is saved beyond it is a matter of the grid, of how many "
        "settings there are and how small the steps are: most of it is gone beside Gaussian noise with more settings."
    )


def draw(found: dict[str, Any], folder: Path, prefix: str = "") -> None:
    """The pictures; their names begin with `prefix`."""
    from rangebound.plot import style

    probe = found["tasks"]["probe"]
    ax = style.axes(None, title="Linear probe", x="test accuracy", y="epsilon / epsilon of Gaussian noise")
    for (kind, bases), look in zip(probe["ratios"].get("epsilon", {}).items(), style.lines(), strict=False):
        for base, rows in bases.items():
            table = np.asarray(rows).reshape(-1, 4)
            dashes = "--" if base == GROUPS[1] else "-"
            ax.plot(table[:, 0], table[:, 1], label=f"{kind}, over {base}", **{**look, "linestyle": dashes})
            ax.fill_between(table[:, 0], table[:, 2], table[:, 3], color=look["color"], alpha=0.12, linewidth=0.0)
    ax.axhline(1.0, color=style.GREY, linewidth=0.8, linestyle=":")
    style.legend(ax)
    save(ax, folder / f"{prefix}ratio.png")
    for cost in ("largest", "median"):
        for name, task in found["tasks"].items():
            ax = style.axes(None, title=f"The {name}", x=f"{cost} Fisher loss", y="test accuracy")
            for (group, rows), look in zip(task["fronts"].get(cost, {}).items(), style.lines(), strict=False):
                table = np.asarray(rows)
                ax.semilogx(table[:, 1], table[:, 0], marker="o", markersize=3, label=group, **look)
            style.legend(ax)
            save(ax, folder / f"{prefix}{cost}_{name}.png")


def run(progress: Progress) -> list[Row]:
    draw(measured(), HERE)
    progress("drawn from what was measured")
    return rows(Claims.of(__file__), measured())


def rows(claims: Claims, found: dict[str, Any]) -> list[Row]:
    """What was published beside what was found, of the tasks that were trained."""
    probe, network = found["tasks"]["probe"], found["tasks"].get("network")
    highest = {
        f"{kind} against {base}": max(table, key=lambda row: row[1])
        for kind, bases in probe["ratios"].get("epsilon", {}).items()
        for base, table in bases.items()
        if table
    }
    worst = ", ".join(f"{row[1]:.2f} ({name}, at {100 * row[0]:.0f} %)" for name, row in highest.items()) or "unknown"
    made = [
        claims.row("front", compared(probe, "epsilon"), verdict(probe, "epsilon", "truncated", claims.value("front"))),
        claims.row(
            "never",
            "so in the limit of a wide support; with the supports of the grid alone the epsilon is at most so many "
            f"times that of Gaussian noise: {worst}",
            Verdict.SCOPE if any(row[1] > 1.0 for row in highest.values()) else Verdict.TRUE,
        ),
    ]
    if network is not None:
        saved = verdict(network, "largest", "rectified", claims.value("fisher"))
        made.append(claims.row("fisher", compared(network, "largest"), saved))
    made.append(claims.row("fisher_probe", compared(probe, "largest"), lower(probe, "largest")))
    if network is not None:
        made.append(claims.row("median", compared(network, "median"), lower(network, "median")))
    return [*made, claims.row("median_probe", compared(probe, "median"), lower(probe, "median"))]


def lower(task: dict[str, Any], cost: str) -> Verdict:
    """True if both mechanisms are below both baselines in the median over accuracies; no further if below the first."""
    middles = [
        [
            float(np.median([row[1] for row in bases[base]] or [np.inf]))
            for bases in task["ratios"].get(cost, {}).values()
        ]
        for base in GROUPS[:2]
    ]
    if max(middles[0], default=math.inf) < 1.0:
        return Verdict.TRUE if max(middles[1]) < 1.0 else Verdict.SCOPE
    return Verdict.ELSEWHERE


def main() -> int:
    parser = argparse.ArgumentParser(description="Train over the grids of appendix G.")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--data", default="made", choices=("made", "cifar10", "cifar100", "pets", "fashion"))
    parser.add_argument("--task", default="", help="the only one to train now, of those in runs.json")
    parser.add_argument("--jobs", type=int, default=1, help="how many trainings at a time")
    parser.add_argument("--runs", type=int, default=4, help="trainings of each setting, if the time allows")
    parser.add_argument("--minutes", type=float, default=8.5, help="no training starts after this time")
    parser.add_argument("--quick", action="store_true", help="tiny data and a thin grid, in seconds")
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        help="folder for measured.json, and for runs.json, which the next call continues",
    )
    asked = parser.parse_args()

    import torch

    from papers.hu2024 import _real, _tasks
    from papers.hu2024._trainings import Record, grid, measure

    if asked.quick:
        tasks = _tasks.quick()
    elif asked.data == "made":
        tasks = [_tasks.probe(), _tasks.network()]
    else:
        tasks = _real.tasks(asked.data, asked.device)
    asked.out.mkdir(parents=True, exist_ok=True)
    raw = asked.out / "runs.json"
    records = [Record(*each) for each in json.loads(raw.read_text(encoding="utf-8"))] if raw.exists() else []
    start, saved = time.time(), time.time()
    for found in measure(
        [task for task in tasks if asked.task in ("", task.name)],
        runs=asked.runs,
        device=asked.device,
        jobs=asked.jobs,
        minutes=asked.minutes,
        known=list(records),
    ):
        records += found
        if time.time() - saved > 30.0:
            raw.write_text(json.dumps(records), encoding="utf-8")
            saved = time.time()
    raw.write_text(json.dumps(records), encoding="utf-8")
    device = torch.cuda.get_device_name() if asked.device == "cuda" else "the processor"
    facts = {"device": device, "data": asked.data, "seconds": round(time.time() - start)}
    result = summary(records, facts, {task.name: grid(task) for task in tasks})
    for task in tasks:
        if task.name in result["tasks"]:
            size = sum(each.numel() for each in task.model().parameters())
            result["tasks"][task.name] |= {"examples": task.examples, "watched": task.watched, "parameters": size}
    (asked.out / "measured.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(f"{asked.out / 'measured.json'} written after {time.time() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
