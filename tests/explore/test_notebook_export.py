"""The notebook runs, and has the numbers of the page."""

import contextlib
import io
import json

import pytest

from rangebound.explore.notebook_export import notebook
from rangebound.explore.plan_view import plan_view
from rangebound.release import parse_plan

PLAN = 'title = "TITLE"\nbudget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count", margin = 9}]'


@pytest.mark.parametrize("title", ["Visits", "It''''s", "back\\\\slash", "quote '"])
def test_a_notebook_runs_and_says_what_the_page_says(title):
    plan = parse_plan(PLAN.replace("TITLE", title))
    cells = json.loads(notebook(plan))["cells"]
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    assert names["plan"] == plan
    view, _ = plan_view(plan)
    assert view["risk"]["odds"] in said.getvalue()
    assert str(view["risk"]["advantage"]) in said.getvalue()
    assert view["explained"] in said.getvalue()


def test_a_notebook_is_of_the_fourth_format():
    found = json.loads(notebook(parse_plan(PLAN)))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    ids = [each["id"] for each in found["cells"]]
    assert len(ids) == len(set(ids))
    for each in found["cells"]:
        assert set(each) >= {"cell_type", "id", "metadata", "source"}
        assert (each["cell_type"] == "code") == ("outputs" in each)
