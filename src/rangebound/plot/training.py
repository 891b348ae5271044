"""Pictures of a training run: epsilon against steps, and the distribution of the Fisher losses of the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.plot import style
from rangebound.values import arguments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rangebound.learn.torch import FisherWatcher, PrivacyEngine, RenyiWatcher

_POINTS = 60  # at which a long curve is computed


@arguments.guided
def steps(
    engine: PrivacyEngine,
    *,
    delta: float,
    until: int | None = None,
    reveal: RenyiWatcher | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the worst-case epsilon against the number of steps: those taken so far, or planned ones up to `until`.

    Its label names the neighbouring relation (`PrivacyEngine.relation`). With `reveal`, the per-instance reading of the
    run so far is drawn beside it. That curve is as private as the data, and not a guarantee of the run.

    Edge cases: refused before the first step if `until` is left out.
    """
    if not hasattr(engine, "make_private"):
        raise ArgumentTypeError(f"engine={arguments.shown(engine)}: must be a PrivacyEngine")
    taken = engine.steps
    last = taken if until is None else until
    if last < 1:
        raise ArgumentError("until: no step was taken yet; give the number of steps to draw")
    at = np.unique(np.linspace(1, last, min(last, _POINTS)).round().astype(int)).tolist()
    ax = style.axes(ax, title="Privacy loss of training", x="steps", y=f"epsilon at delta {delta:g}")
    looks = style.lines()
    ax.plot(at, engine.epsilons(delta, at), label=f"worst case, {engine.relation.value}", **next(looks))
    if reveal is not None:
        path = [each.reveal() for each in reveal.epsilons(delta)]
        ax.plot(range(1, len(path) + 1), path, label="reading of this run: private, not a guarantee", **next(looks))
    if 0 < taken < last:
        ax.axvline(taken, color=style.GREY, linewidth=0.9, linestyle=":", label="steps taken so far")
    ax.set_xlim(0, None)
    ax.set_ylim(0.0, None)
    ax.locator_params(axis="x", integer=True)
    style.legend(ax)
    return ax


@arguments.guided
def fisher_losses(reveal: FisherWatcher, *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the Fisher information losses of all examples. It is as private as the data."""
    if not hasattr(reveal, "reveal_histogram"):
        raise ArgumentTypeError(f"reveal={arguments.shown(reveal)}: must be a FisherWatcher of a training run")
    counts, edges = reveal.reveal_histogram(bins)
    ax = style.axes(ax, title="Fisher losses of the examples: private", x="Fisher information loss", y="examples")
    ax.stairs(counts, edges, fill=True, color=style.COLOURS[0], alpha=0.35)
    ax.stairs(counts, edges, color=style.COLOURS[0], linewidth=1.2)
    for value, name, look in zip(
        (reveal.median().reveal(), reveal.largest().reveal()), ("median", "largest"), ("--", "-"), strict=True
    ):
        ax.axvline(value, color=style.COLOURS[1], linestyle=look, linewidth=1.4, label=f"{name}: {value:.3g}")
    ax.set_ylim(0.0, None)
    style.legend(ax)
    return ax
