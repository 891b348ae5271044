"""A made-up table of clinic visits, the same whenever it is made: 2,000 people, 10,000 visits."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import math

PEOPLE, VISITS = 2_000, 10_000
CLINICS = ("north", "south", "harbour", "hill")
FIRST = datetime.date(2025, 1, 6)  # a Monday
WEEKS = 12
TABLE, LEDGER = "visits.csv", "clinics.ledger"

PLAN = """title = "Visits to four clinics"
consistent = true

[source]
path = "visits.csv"

[unit]
column = "person_id"
rows = 5
groups = 2

[budget]
epsilon = 4.0
account = "clinics"
ledger = "clinics.ledger"

[keys]
clinic = ["north", "south", "harbour", "hill"]

[[query]]
name = "visits by clinic"
kind = "count"
by = ["clinic"]

[[query]]
name = "patients"
kind = "count of units"
by = ["clinic"]

[[query]]
name = "waiting minutes"
kind = "mean"
column = "waiting"
range = [0, 120]
step = 0.1
by = ["clinic"]

[[query]]
name = "spread of waiting"
kind = "standard deviation"
column = "waiting"
range = [0, 120]

[[query]]
name = "satisfaction in percent"
kind = "mean"
column = "satisfaction"
range = [0, 100]

[[query]]
name = "contented"
kind = "share"
of = [{column = "satisfaction", is = ">=", value = 80}]
by = ["clinic"]

[[query]]
name = "age quartiles"
kind = "quantiles"
weight = 3
levels = [0.25, 0.5, 0.75]
column = "age"
range = [0, 110]
step = 1

[[query]]
name = "ages"
kind = "histogram"
column = "age"
range = [0, 100]
bins = 5

[[query]]
name = "median day of visit"
kind = "median"
column = "day"
range = [2025-01-06, 2025-03-28]
support = [SPANS]
"""


def _number(*parts: object) -> int:
    """A fixed pseudo-random number for a name; the table is made up, so nothing secret hangs on it."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big")


def _uniform(*parts: object) -> float:
    return _number(*parts) / 2.0**64


def rows() -> list[dict[str, str]]:
    """The visits, one mapping each."""
    found = []
    for visit in range(VISITS):
        person = visit if visit < PEOPLE else int(PEOPLE * _uniform("person", visit) ** 2)
        home = CLINICS[_number("home", person) % len(CLINICS)]
        clinic = home if _uniform("away", visit) < 0.8 else CLINICS[_number("clinic", visit) % len(CLINICS)]
        age = min(int(95 * (0.6 * _uniform("age", person) + 0.4 * _uniform("age again", person))), 95)
        rush = 1.0 + 0.5 * CLINICS.index(clinic)
        waiting = min(5.0 + 18.0 * rush * -math.log(1.0 - 0.999 * _uniform("waiting", visit)), 180.0)
        satisfaction = max(0, min(100, round(95 - 0.5 * waiting + 20 * (_uniform("mood", visit) - 0.5))))
        weekday, week = _number("weekday", visit) % 5, _number("week", visit) % WEEKS
        day = FIRST + datetime.timedelta(days=7 * week + weekday)
        found.append(
            {
                "person_id": f"P{person:05d}",
                "clinic": clinic,
                "age": str(age),
                "waiting": f"{waiting:.1f}",
                "satisfaction": str(satisfaction),
                "day": day.isoformat(),
            }
        )
    return found


def table() -> str:
    """The visits as CSV."""
    found, text = rows(), io.StringIO()
    writer = csv.DictWriter(text, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def plan() -> str:
    """A plan for the visits beside it, with the closed weekends as gaps in the support of the day."""
    weeks = [FIRST + datetime.timedelta(days=7 * week) for week in range(WEEKS)]
    spans = ", ".join(f"[{day}, {day + datetime.timedelta(days=4)}]" for day in weeks)
    return PLAN.replace("SPANS", spans)
