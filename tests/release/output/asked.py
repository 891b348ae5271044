"""Plans of some questions and their releases, in as few words as most tests need."""

import pyarrow as pa

from rangebound.release import make_plan, release


def asked(*questions, epsilon=1.0, delta=0.0, **parts):
    """A plan of questions, which are named q0, q1 and so on where they have no name of their own."""
    query = [{"name": f"q{at}", **each} for at, each in enumerate(questions)]
    return make_plan({"budget": {"epsilon": epsilon, "delta": delta}, "query": query, **parts})


def released(plan, rows):
    """The release of a plan on a table, which may be given by its columns."""
    return release(plan, rows if isinstance(rows, pa.Table) else pa.table(rows), ledger=None)
