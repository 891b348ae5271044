"""The zone of a plan is one of the time zone database."""

import pytest

from rangebound.errors import PlanError
from rangebound.release import make_plan
from rangebound.release.plan import source

COUNT = {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]}


def test_an_unknown_zone_is_refused_with_a_similar_one():
    assert make_plan({**COUNT, "zone": "Europe/Paris"}).zone == "Europe/Paris"
    assert make_plan(COUNT).zone is None
    with pytest.raises(PlanError, match=r"zone='Europe/Pari': .* did you mean 'Europe/Paris'\?"):
        make_plan({**COUNT, "zone": "Europe/Pari"})
    for other in ("localtime", "../../etc/passwd", "right/UTC", "+02:00", ""):  # not the same zone everywhere
        with pytest.raises(PlanError, match="zone"):
            make_plan({**COUNT, "zone": other})


def test_a_machine_without_the_database_says_what_to_install(monkeypatch):
    monkeypatch.setattr(source, "_zones", frozenset)
    with pytest.raises(PlanError, match="pip install tzdata"):
        make_plan({**COUNT, "zone": "Europe/Paris"})
