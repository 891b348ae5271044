"""Wanted sums of consecutive cells, each by its first cell and the one after its last."""


def running_totals(length):
    """The sums of the first cell, of the first two, and so on."""
    return tuple((0, stop) for stop in range(1, length + 1))


def periods(starts, length):
    """Periods that begin at the given cells, each up to the next."""
    return tuple(zip(starts, [*starts[1:], length], strict=True))
