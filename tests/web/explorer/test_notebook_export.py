"""The notebook runs, and has the numbers of the page."""

import contextlib
import io
import json

import pytest

from rangebound.release import make_plan, parse_plan
from rangebound.web.explorer.notebook_export import notebook
from rangebound.web.explorer.plan_view import plan_view

PLAN = 'title = "TITLE"\nbudget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count", margin = 9}]'


@pytest.mark.few(2)
@pytest.mark.parametrize("title", ["Visits", "It''''s", "back\\\\slash", "quote '"])
def test_a_notebook_runs_and_says_what_the_page_says(title):
    plan = parse_plan(PLAN.replace("TITLE", title))
    found = json.loads(notebook(plan))
    cells = found["cells"]
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({each["id"] for each in cells}) == len(cells)
    assert all({"cell_type", "metadata", "source"} <= each.keys() for each in cells)
    assert all((each["cell_type"] == "code") == ("outputs" in each) for each in cells)
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


def test_a_title_is_one_heading_and_no_markup():
    title = "# x\r\n<img src='//a'>\u2028[b](c)"
    plan = make_plan({"title": title, "budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]})
    first = "".join(json.loads(notebook(plan))["cells"][0]["source"])
    assert first.splitlines()[0] == r"# \# x\\r\\n\<img src='//a'\>\\u2028\[b\](c)"
