"""A made-up table of clinic visits, the same whenever it is made: 2,000 people, 10,000 visits."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import math
from functools import cache
from importlib.resources import files

PEOPLE, VISITS = 2_000, 10_000
CLINICS = ("north", "south", "harbour", "hill")
FIRST = datetime.date(2025, 1, 6)  # a Monday
WEEKS = 12
TABLE, LEDGER = "visits.csv", "clinics.ledger"


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
        weekday, week = _number("weekday", visit) % 5, _number("week", visit) % WEEKS
        found.append(
            {
                "person_id": f"P{person:05d}",
                "clinic": clinic,
                "age": str(age),
                "waiting": f"{waiting:.1f}",
                "satisfaction": str(max(0, min(100, round(95 - 0.5 * waiting + 20 * (_uniform("mood", visit) - 0.5))))),
                "day": (FIRST + datetime.timedelta(days=7 * week + weekday)).isoformat(),
            }
        )
    return found


@cache
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
    return (files("rangebound.release") / "demo.toml").read_text(encoding="utf-8").replace("SPANS", spans)
