"""The style of all pictures: one size, one order of colours and dashes, plain axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rangebound.accounting.event import Private
from rangebound.errors import ArgumentError
from rangebound.mechanisms.certificates import A_MECHANISM, PRIVATE
from rangebound.values import arguments
from rangebound.values.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

M = TypeVar("M", bound=Private)

# The colours of Okabe and Ito that are dark enough for thin lines on white paper; their greys differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#56B4E9")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (8, 3)))
MARKERS = ("o", "s", "^", "D", "v", "h")
GREY = "#6E6E6E"
SIZE = (6.4, 3.6)  # inches
RESOLUTION = 120  # pixels per inch, which keeps a saved picture small


def axes(ax: Axes | None, *, title: str, x: str, y: str) -> Axes:
    """The axes to draw on, labelled: those given, or those of a new figure.

    Edge cases: without matplotlib the error names the extra to install.
    """
    need("matplotlib")
    from matplotlib import axes as known
    from matplotlib import pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=SIZE, dpi=RESOLUTION, layout="constrained")
    arguments.instance("ax", ax, known.Axes, "axes of matplotlib, as plt.subplots() returns them beside the figure")
    ax.set_title(title, fontsize=11)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def lines() -> Iterator[dict[str, Any]]:
    """The styles of the lines of one picture, in order, repeated."""
    for colour, dashes in itertools.cycle(zip(COLOURS, DASHES, strict=True)):
        yield {"color": colour, "linestyle": dashes, "linewidth": 1.7}


def mark(i: int, colour: str) -> dict[str, Any]:
    """The style of the i-th mark: hollow, and smaller than the previous one, so that overlapping marks stay visible."""
    size = max(11.0 - 2.5 * i, 3.5)
    return {"color": colour, "markersize": size, "markerfacecolor": "none", "markeredgewidth": 1.5, "zorder": 6}


def ticks(axis: Axis, base: float, subs: tuple[float, ...] = (1.0,)) -> None:
    """Plain numbers on a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    axis.set_major_locator(LogLocator(base=base, subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def legend(ax: Axes, *, columns: int = 1, beside: Axes | None = None) -> None:
    """Show the legend, where lines have names; those of the axes `beside` come first."""
    handles, names = ax.get_legend_handles_labels()
    if beside is not None:
        more, other = beside.get_legend_handles_labels()
        handles, names = more + handles, other + names
    if names:
        ax.legend(handles, names, fontsize=9, handlelength=3.2, edgecolor="none", framealpha=0.85, ncols=columns)


def labelled(mechanisms: Sequence[M], labels: Sequence[str] | None) -> list[tuple[M, str]]:
    """Mechanisms with the words for them: the given ones, or what they are in a few words."""
    if not mechanisms:
        raise ArgumentError("mechanisms=(): give at least one mechanism")
    for each in mechanisms:
        arguments.instance("mechanism", each, PRIVATE, A_MECHANISM)
    return list(zip(mechanisms, named(labels, [each._words() for each in mechanisms]), strict=True))


def named(labels: Sequence[str] | None, default: list[str]) -> list[str]:
    """The labels given, one for each line, or the default ones."""
    if labels is None:
        return default
    if isinstance(labels, str) or len(labels) != len(default):
        raise ArgumentError(
            f"labels={arguments.shown(labels)}: must be {arguments.counted(len(default), 'string')}, one for each line"
        )
    return [str(each) for each in labels]
