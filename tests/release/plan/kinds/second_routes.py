"""What several kinds are compared with: the rows that count as pandas has them, and cells that somebody made up."""

from dataclasses import replace

import numpy as np

from rangebound.release import check_certificate
from rangebound.release.output.table_certificate import write_certificate
from rangebound.release.prepare import prepare
from tests.release.odd_tables import frame


def counted(rows, unit, **ends):
    """Rows with a value in every column that is named, clipped, and the part of each, where a unit has too many."""
    table = frame(rows).dropna(subset=[*ends, *(["who"] if unit else [])])
    table = table.assign(part=1.0, **{name: table[name].clip(*span) for name, span in ends.items()})
    if unit:
        sizes = table.groupby("who")["who"].transform("size")
        table["part"] = np.minimum(sizes, unit["rows"]) / sizes
    return table


def certified(found, cells):
    """The check of a table with other cells and the certificate that would be written for it."""
    other = replace(found, cells=tuple(cells))
    return check_certificate(write_certificate(other, prepare(found.plan), None), other.to_bytes())
