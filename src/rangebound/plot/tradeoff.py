"""What an attacker can reach: the trade-off curve of mechanisms, compositions, plans and training runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.mechanisms.certificates import PRIVATE
from rangebound.plot import style
from rangebound.privacy.risk import AttackRisk
from rangebound.values import arguments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOLERANCE = 1e-4  # less than a line is wide
_A_RISK = "a mechanism, or what compose(...), plan_risk(...) or engine.risk() returns"


@arguments.guided
def tradeoff(
    *risks: AttackRisk,
    false_positive_rates: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Draw the least miss rate of an attacker against the false positive rate, over all neighbouring datasets.

    The straight line is an attacker who sees nothing and guesses; the nearer a curve is to it, the better.

    Guarantee: no attacker is below a curve, which is at most 1e-4 below what the profile allows.

    >>> import rangebound as rb
    >>> ax = tradeoff(rb.DiscreteLaplace(scale=1.0), false_positive_rates=[0.0, 0.1, 0.5, 1.0])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('false positive rate', 'miss rate')
    """
    if not risks:
        raise ArgumentError("risks=(): give at least one mechanism")
    for each in risks:
        arguments.instance("risk", each, AttackRisk, _A_RISK)
    names = [each._words() if isinstance(each, PRIVATE) else f"composition {at}" for at, each in enumerate(risks, 1)]
    given = _RATES if false_positive_rates is None else arguments.reals("false_positive_rates", false_positive_rates)
    ax = style.axes(ax, title="What an attacker can reach", x="false positive rate", y="miss rate")
    for each, name, look in zip(risks, style.named(labels, names), style.lines(), strict=False):
        ax.plot(given, each.tradeoff(given, tolerance=_TOLERANCE), label=name, **look)
    ax.plot([0.0, 1.0], [1.0, 0.0], color=style.GREY, linewidth=1.0, label="a guess")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    style.legend(ax)
    return ax


_RATES = np.unique(
    np.concatenate([np.linspace(0.0, 1.0, 41), np.geomspace(1e-3, 0.025, 8), 1.0 - np.geomspace(1e-3, 0.025, 8)])
)
