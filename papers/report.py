"""What a script of a paper says: one row for each published statement, with the published and our number side by side.

A script `papers/<key>/<name>.py` has a docstring (its first line is its title), a table `FIGURES` from the name of a
picture to its caption, and a function `run(progress) -> list[Row]` that draws the pictures beside the script. What was
published stands in `papers/<key>/expected.json`, under the name of the script. A script may have a function
`notes() -> str`: paragraphs for the page whose numbers come from a measurement that is kept.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Progress = Callable[[str], None]


class Verdict(enum.Enum):
    """What becomes of a published statement."""

    REPRODUCED = "reproduced"  # the same number, to the digits printed
    TRUE = "true"  # a statement in words that our numbers confirm
    LOOSE = "true, but loose"  # it holds, and more is lost than need be
    SCOPE = "true, and no further"  # it holds where it is stated, and fails beyond
    SMALLER = "true, but smaller on our data"  # a saving that is there, and not as large as published
    ELSEWHERE = "not on our data"  # measured on data that we do not have, and not seen on ours
    FALSE = "false"  # our numbers refute it
    DIFFERENT = "different"  # a number that we do not get


@dataclass(frozen=True, kw_only=True)
class Row:
    """One statement: where it stands, what was published, what we find, and the verdict."""

    where: str
    published: str
    ours: str
    verdict: Verdict


@dataclass(frozen=True)
class Claims:
    """The published statements of one script, from expected.json."""

    entries: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, script: str) -> Claims:
        """Those of the script with this `__file__`."""
        path = Path(script).resolve()
        return cls(json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem])

    def value(self, key: str) -> Any:
        """The published number."""
        return self.entries[key]["value"]

    def row(self, key: str, ours: str, verdict: Verdict) -> Row:
        """The row of a statement, with our finding."""
        entry = self.entries[key]
        return Row(where=entry["where"], published=entry["published"], ours=ours, verdict=verdict)

    def number(self, key: str, ours: float, *, shown: str = ".6g") -> Row:
        """The row of a published number: reproduced if ours rounds to it at the digits that were printed."""
        published = self.value(key)
        digits = len(repr(published).partition(".")[2])
        same = abs(ours - published) <= 0.5000001 * 10.0**-digits
        return self.row(key, format(ours, shown), Verdict.REPRODUCED if same else Verdict.DIFFERENT)

    def holds(self, key: str, ours: str, true: bool) -> Row:
        """The row of a statement in words."""
        return self.row(key, ours, Verdict.TRUE if true else Verdict.FALSE)


def save(ax: Axes, path: Path) -> None:
    """Write a picture and forget it."""
    from matplotlib import pyplot as plt

    figure: Any = ax.figure
    figure.savefig(path)
    plt.close(figure)
