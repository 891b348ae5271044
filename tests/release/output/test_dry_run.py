"""The dry run of a plan as plain data."""

import json

from rangebound.release import explain, forecast, parse_plan
from rangebound.release.output.dry_run import dry_run

PLAN = parse_plan('budget = {epsilon = 0.5, account = "people"}\nquery = [{name = "visits", kind = "count"}]')


def test_a_dry_run_says_what_explain_and_forecast_say():
    found = dry_run(PLAN)
    assert found["explained"] == explain(PLAN)
    assert found["queries"] == [each.to_dict() for each in forecast(PLAN)]
    assert found["privacy"]["epsilon"] >= 0
    assert json.loads(json.dumps(found)) == found
