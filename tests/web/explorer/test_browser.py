"""The page in a real browser: what it shows is what `--dry-run` and the calls say, whatever is moved."""

import json

import pytest

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.privacy.attack_risk import guaranteed
from rangebound.release import parse_plan, read_plan, release, solve
from rangebound.release.output.forecast import expected_widths
from rangebound.release.plan.kinds import written_kinds
from rangebound.web.explorer.edited_plan import without_query
from rangebound.web.explorer.plan_view import plan_view
from tests.web.explorer.browsing import changed, opened, running_explorer

CUT = """() => [...document.querySelectorAll("html, input, output, td, th, dd, dt, figcaption, p, li, .scroll")]
    .filter(each => each.checkVisibility() && !each.closest("thead") && each.scrollWidth > each.clientWidth + 1
        && each.clientWidth > 0).map(each => each.id || each.outerHTML.slice(0, 80))"""
CONTROLS = "input:not([disabled]), select:not([disabled]), textarea, button, summary, a[href]"


@pytest.fixture
def page(browser, explorer):
    found = opened(browser, explorer)
    yield found
    assert found.faults == []
    found.close()


@pytest.fixture(scope="module")
def one_number(browser):
    with running_explorer() as address:
        yield address


def numbers_shown(page):
    """What the table of questions shows, by question: the exact numbers behind the texts."""
    rows = page.eval_on_selector_all(
        "#question-table tbody tr",
        """rows => rows.map(row => [row.dataset.query, Object.fromEntries([
             ["share", row.querySelector("td.share output").dataset.value],
             ...[...row.querySelectorAll("[data-field]")].map(cell => [cell.dataset.field, cell.dataset.value])])])""",
    )
    return {name: {key: None if value is None else float(value) for key, value in row.items()} for name, row in rows}


def numbers_wanted(queries):
    fields = {
        "share": "share",
        "half-width": "half_width",
        "at-half-epsilon": "at_half_epsilon",
        "at-twice-epsilon": "at_twice_epsilon",
        "above-limit": "above_limit",
    }
    return {each["query"]: {name: each[key] for name, key in fields.items()} | {"error": None} for each in queries}


def shown_equals(page, plan):
    """Every number on the page is that of the plan."""
    question = page.input_value("#law-question")
    answers = [float(page.input_value(f"#answer-{at}") or 0) for at in range(3)]
    view, _ = plan_view(plan, question=question, answers=answers)
    assert numbers_shown(page) == numbers_wanted(view["queries"])
    risk = page.eval_on_selector_all("#risk-numbers dd", "all => all.map(each => Number(each.dataset.value))")
    wanted = view["risk"]
    assert risk == [
        *(wanted[name] for name in ("advantage", "success", "posterior")),
        *(after for _, after in wanted["reconstruction"]),
        wanted["mu"],
    ]
    assert page.inner_text("#odds") == wanted["odds"]
    if "reason" in view["law"]:
        assert view["law"]["reason"] in page.inner_text("#law-words")
    else:
        laws = page.eval_on_selector_all("#laws figure", "all => all.map(each => Number(each.dataset.bias))")
        assert laws == [each["bias"] for each in view["law"]["cells"]]
        for each in view["law"]["boundings"]:
            row = f"#boundings tr[data-bounding={each['bounding']}] [data-of="
            assert float(page.get_attribute(f"{row}scale]", "data-value")) == each["scale"]
            assert float(page.get_attribute(f"{row}worst-mae]", "data-value")) == each["worst_mae"]
    return view


@pytest.mark.slow
def test_the_page_opens_with_the_numbers_of_the_dry_run(page, demo_folder, capsys):
    assert run(["release", str(demo_folder / "plan.toml"), "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert numbers_shown(page) == numbers_wanted(said["queries"])
    shown_equals(page, read_plan(demo_folder / "plan.toml"))
    assert page.text_content("#explained") == said["explained"]
    assert page.inner_text("#title") == "Visits to four clinics"
    other = numbers_wanted(said["queries"])
    other["patients"]["half-width"] += 1.0
    assert numbers_shown(page) != other  # the control


@pytest.mark.slow
def test_every_control_moves_what_it_says(page, demo_folder, tmp_path):
    text = (demo_folder / "plan.toml").read_text()
    changed(page, lambda: page.fill("#epsilon-exact", "2.5") or page.press("#epsilon-exact", "Enter"))
    shown_equals(page, parse_plan(text.replace("epsilon = 4.0", "epsilon = 2.5")))
    changed(page, lambda: page.focus("#delta") or page.press("#delta", "End"))
    assert page.inner_text("#delta-shown") == "0.003"
    shown_equals(page, parse_plan(text.replace("epsilon = 4.0", "epsilon = 2.5\ndelta = 0.003")))
    changed(page, lambda: page.press("#delta", "Home"))

    changed(page, lambda: page.focus("#share-1") or page.press("#share-1", "PageUp"))
    assert numbers_shown(page)["patients"]["share"] == pytest.approx(0.19, abs=0.02)
    changed(page, lambda: page.click("#even-shares"))
    shown_equals(page, parse_plan(text.replace("epsilon = 4.0", "epsilon = 2.5")))

    changed(page, lambda: page.select_option("#law-question", "patients"))
    changed(page, lambda: page.fill("#answer-1", "44") or page.press("#answer-1", "Enter"))
    shown_equals(page, parse_plan(text.replace("epsilon = 4.0", "epsilon = 2.5")))
    changed(page, lambda: page.select_option("#law-question", "age quartiles"))
    assert page.inner_text("#law-words").startswith("No picture")

    page.click("#make-trial")
    page.wait_for_selector("#trial-table td")
    assert "Nothing was charged" in page.inner_text("#trial-words")
    changed(page, lambda: page.select_option("#law-question", "patients"))
    assert page.locator("#trial-table td").count() > 0  # the control: the plan is the same
    for name, words in (("plan.toml", "Save a copy"), ("plan.ipynb",) * 2, ("record.yaml",) * 2):
        with page.expect_download() as download:
            page.click(f"#exports >> text={words}")
        download.value.save_as(tmp_path / name)
    assert read_plan(tmp_path / "plan.toml").budget.epsilon == 2.5

    changed(page, lambda: page.fill("#plan-text", text.replace("4.0", "3.0")) or page.click("#apply-plan"))
    shown_equals(page, parse_plan(text.replace("epsilon = 4.0", "epsilon = 3.0")))
    assert page.locator("#trial-table td").count() == 0
    assert "has changed since" in page.inner_text("#trial-words")
    page.fill("#plan-text", "budget = 1")
    page.click("#apply-plan")
    page.wait_for_selector("body[data-state=error]")
    assert "budget" in page.inner_text("#status")
    assert "budget" in page.inner_text("#plan-words")
    assert "fault" in page.get_attribute("#plan-words", "class")
    page.faults.clear()  # the browser notes the refusal


@pytest.mark.slow
def test_wanted_margins_find_their_epsilon(page, demo_folder):
    text = (demo_folder / "plan.toml").read_text()
    assert [page.is_visible(each) for each in ("#no-sliders", "#by-the-data")] == [False, True]
    changed(page, lambda: page.fill("#margin-0", "50") or page.press("#margin-0", "Tab"))
    changed(page, lambda: page.fill("#margin-1", "15") or page.press("#margin-1", "Tab"))
    assert page.is_visible("#no-sliders")
    assert page.inner_text("tr[data-query=patients] td.share .why") == "by its margin"
    assert page.locator("tr[data-query=patients] td.share input").count() == 0
    shares = [float(each.split()[0]) for each in page.locator("td.share output").all_inner_texts()]
    assert round(sum(shares), 6) == 100.0
    for name, margin in (("visits by clinic", 50), ("patients", 15)):
        text = text.replace(f'name = "{name}"', f'name = "{name}"\nmargin = {margin}')
    found = solve(parse_plan(text), rest=0.1)
    page.wait_for_selector(f"#offers [data-epsilon='{found.epsilon}']")
    assert float(page.get_attribute("#solution", "data-value")) == found.margins_alone
    assert page.locator(f"#offers [data-epsilon='{solve(parse_plan(text)).epsilon}']").count() == 1
    changed(page, lambda: page.click("#offers button >> nth=0"))
    view = shown_equals(page, found.plan)
    assert view["queries"][0]["half_width"] <= 50.0
    assert float(page.input_value("#epsilon-exact")) == found.epsilon
    changed(page, lambda: page.fill("#unit-groups", "1") or page.press("#unit-groups", "Enter"))
    fewer = text.replace("groups = 2", "groups = 1")
    page.wait_for_selector(f"#offers [data-epsilon='{solve(parse_plan(fewer)).epsilon}']")  # of the plan as it is now
    changed(page, lambda: page.click("tr[data-query='waiting minutes'] button"))  # a question less
    left = solve(parse_plan(without_query(fewer, "waiting minutes"))).epsilon
    assert left != solve(parse_plan(fewer)).epsilon
    page.wait_for_selector(f"#offers [data-epsilon='{left}']")
    page.faults.clear()  # at the plan's epsilon the margins may be refused


@pytest.mark.slow
def test_a_quick_estimate_is_marked_as_one(page):
    page.route("**/api/certified", lambda route: None)  # never answered
    page.focus("#epsilon")
    page.press("#epsilon", "ArrowLeft")
    page.wait_for_selector("body[data-state=quick]")
    page.wait_for_selector("#risk-words:not(:empty)")
    assert "Quick estimate" in page.inner_text("#status")
    epsilon = float(page.input_value("#epsilon-exact"))
    assert float(page.get_attribute("#advantage", "data-value")) == guaranteed(epsilon, 0.0).advantage()
    assert page.inner_text("[data-risk=advantage]") == page.inner_text("#advantage")
    cell = page.locator("tr[data-query='patients'] [data-field=half-width]")
    assert cell.inner_text().startswith("≈")
    assert "stale" in cell.get_attribute("class")


@pytest.mark.slow
def test_an_epsilon_that_is_none_is_said_beside_its_box_and_nothing_is_certified(page):
    for text in ("0", "-1", "", "1,5", "abc", "100.5"):
        page.fill("#epsilon-exact", text)
        page.press("#epsilon-exact", "Enter")
        page.wait_for_selector("body[data-state=error]")
        words = "comma" if "," in text else "not a number" if text == "abc" else "above 0 and at most 100"
        assert words in page.inner_text("#epsilon-words")
        assert "fault" in page.get_attribute("#epsilon-words", "class")
        assert "Not certified" in page.inner_text("#status")
        assert page.inner_text("#odds") == ""
        assert page.inner_text("#advantage") == "not proved"
        page.click("text=Save a copy")
        page.wait_for_selector("#plan-words.fault:not(:empty)")  # and no file
        changed(page, lambda: page.fill("#epsilon-exact", "1.5") or page.press("#epsilon-exact", "Enter"))
        assert page.inner_text("#epsilon-words") == ""
        assert page.inner_text("#odds") != ""


@pytest.mark.slow
def test_a_text_that_is_edited_keeps_what_was_changed(page, demo_folder):
    text = (demo_folder / "plan.toml").read_text()
    changed(page, lambda: page.fill("#epsilon-exact", "3") or page.press("#epsilon-exact", "Enter"))
    shown = page.input_value("#plan-text")
    assert shown == text.replace("epsilon = 4.0", "epsilon = 3.0")  # all that was changed, as it would be saved
    assert page.inner_text("#save-words") == "Not saved yet."
    page.fill("#plan-text", shown.replace("Visits to four clinics", "Visits"))
    assert "press Check and show" in page.inner_text("#plan-words")
    changed(page, lambda: page.fill("#epsilon-exact", "2.5") or page.press("#epsilon-exact", "Enter"))
    assert "Visits to four clinics" not in page.input_value("#plan-text")  # what is being edited stays
    changed(page, lambda: page.click("#apply-plan"))
    assert page.inner_text("#title") == "Visits"
    assert float(page.input_value("#epsilon-exact")) == 2.5
    assert "epsilon = 2.5" in page.input_value("#plan-text")
    changed(page, lambda: page.fill("#epsilon-exact", "20") or page.press("#epsilon-exact", "Enter"))
    assert "epsilon 20 is above 10" in page.inner_text("#warnings")


@pytest.mark.slow
def test_the_keyboard_alone_reaches_every_control(page):
    wanted = page.eval_on_selector_all(
        CONTROLS, "all => all.filter(each => each.checkVisibility()).map((each, at) => each.dataset.stop = String(at))"
    )
    reached, last = [], None
    page.focus("body")
    for _ in range(len(wanted) + 3):
        page.keyboard.press("Tab")
        last = page.evaluate("document.activeElement.dataset.stop ?? null")
        reached.append(last)
    assert set(wanted) <= set(reached)
    page.focus("#epsilon")
    before = float(page.input_value("#epsilon-exact"))
    changed(page, lambda: page.keyboard.press("ArrowLeft"))
    assert float(page.input_value("#epsilon-exact")) < before
    assert page.evaluate("document.activeElement.id") == "epsilon"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}],
    ids=["light", "dark", "narrow"],
)
def test_no_serious_fault_for_those_who_read_otherwise(browser, explorer, options):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    page = opened(browser, explorer, **options)
    page.click("#make-trial")
    page.click("summary")
    page.wait_for_selector("#trial-table td")
    assert serious(axe, page) == []
    page.fill("#epsilon-exact", "0.123456")
    assert page.evaluate(CUT) == []
    page.evaluate("document.getElementById('epsilon-exact').style.width = '2rem'")
    assert page.evaluate(CUT) == ["epsilon-exact"]  # the control
    page.evaluate("document.body.innerHTML = '<main><h1>odd</h1><p role=odd>words</p></main>'")
    assert serious(axe, page) != []  # the control
    page.close()


def serious(axe, page):
    found = axe.run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]


@pytest.mark.slow
def test_one_number_is_described_in_a_form(browser, one_number):
    page = opened(browser, one_number)
    changed(page, lambda: page.fill("#answer-0", "0") or page.press("#answer-0", "Enter"))
    drawn = page.eval_on_selector_all(
        "#laws figure:first-child rect[data-mass]",
        "all => all.map(each => [Number(each.dataset.mass), Number(each.getAttribute('height'))])",
    )
    per_mass = [height / mass for mass, height in drawn if height > 0.5]
    assert per_mass == pytest.approx([per_mass[0]] * len(per_mass), rel=1e-6)  # spikes and bars have one scale
    assert len(drawn) > 3
    assert max(mass for mass, _ in drawn) > 0.5  # the spike at 0
    changed(page, lambda: page.fill("#number-rows", "3") or page.press("#number-rows", "Enter"))
    assert "rows = 3" in page.input_value("#plan-text")
    view = shown_equals(page, parse_plan(page.input_value("#plan-text")))
    changed(page, lambda: page.select_option("#number-kind", "sum"))
    assert page.inner_text("#upper-words") == "Each value is at most"
    assert numbers_shown(page)["number"]["half-width"] != view["queries"][0]["half_width"]
    assert "names no [source]" in page.inner_text("#no-account")
    assert page.faults == []
    page.close()


@pytest.mark.slow
def test_a_question_is_added_in_a_form(browser, one_number):
    page = opened(browser, one_number)
    page.click("#add summary")
    assert page.is_hidden("#add-column")
    page.select_option("#add-kind", "mean")
    page.click("#add-question")
    page.wait_for_selector("#add-words.fault >> text=a mean needs a column")
    offered = page.eval_on_selector_all("#add-kind option", "all => all.map(each => each.value)")
    assert sorted(offered) == list(written_kinds())
    assert page.is_hidden("#add-groups")
    form = {"column": "age", "lower": "0", "upper": "110", "by": "clinic", "keys": "north, south", "groups": "2"}
    for name, text in form.items():
        page.fill(f"#add-{name}", text)
    page.faults.clear()  # the browser notes the refusal
    before = page.input_value("#plan-text")
    changed(page, lambda: page.click("#add-question"))
    assert list(numbers_shown(page)) == ["number", "mean of age by clinic"]
    assert page.input_value("#plan-text").startswith(before.rstrip())
    assert page.inner_text("#add-words") == "Added."
    assert [page.input_value(f"#add-{name}") for name in form] == [""] * len(form)
    shown_equals(page, parse_plan(page.input_value("#plan-text")))
    assert parse_plan(page.input_value("#plan-text")).query[1].groups == 2
    changed(page, lambda: page.click("[aria-label='Remove mean of age by clinic']"))
    assert list(numbers_shown(page)) == ["number"]
    assert parse_plan(page.input_value("#plan-text")) == parse_plan(before)
    assert page.faults == []
    page.click("[aria-label='Remove number']")
    page.wait_for_selector("#remove-words.fault >> text=a plan needs one")  # the last question stays, and it says why
    page.close()


@pytest.mark.slow
def test_rows_and_groups_of_the_unit_are_set_on_the_page(page, demo_folder):
    text = (demo_folder / "plan.toml").read_text()
    assert "person_id" in page.inner_text("#unit-words")
    assert (page.input_value("#unit-rows"), page.input_value("#unit-groups")) == ("5", "2")
    changed(page, lambda: page.fill("#unit-rows", "3") or page.press("#unit-rows", "Enter"))
    changed(page, lambda: page.fill("#unit-groups", "1") or page.press("#unit-groups", "Enter"))
    shown_equals(page, parse_plan(text.replace("rows = 5\ngroups = 2", "rows = 3\ngroups = 1")))
    assert page.input_value("#plan-text") == text.replace("rows = 5\ngroups = 2", "rows = 3\ngroups = 1")
    assert "if no person_id has more than 10 rows" in page.inner_text("#unit-example")
    page.fill("#unit-rows", "0")
    page.press("#unit-rows", "Enter")
    page.wait_for_selector("#unit-fault.fault:not(:empty)")
    assert "at least 1" in page.inner_text("#unit-fault")


@pytest.mark.slow
def test_a_first_plan_becomes_one_that_is_checked_and_saved(browser, tmp_path, capsys):
    """The walk of a newcomer: `plan new`, who is protected, a question, rows, a margin, its epsilon, save."""
    file, table = tmp_path / "stays.toml", tmp_path / "stays.csv"
    table.write_text("guest_id,nights,room\na,3,12\n")
    assert run(["plan", "new", str(table), "-o", str(file)]) == 0
    draft = file.read_text()
    with running_explorer(file) as address:
        page = opened(browser, address, until="unready")
        assert "who is protected" in page.inner_text("#status")
        changed(page, lambda: page.fill("#unit-column", "guest_id") or page.press("#unit-column", "Enter"))
        page.wait_for_selector("#column-names option[value=nights]", state="attached")
        page.select_option("#add-kind", "mean")  # the form is open
        for name, text in {"column": "nights", "lower": "0", "upper": "30"}.items():
            page.fill(f"#add-{name}", text)
        changed(page, lambda: page.click("#add-question"))
        row = "tr[data-query='mean of nights'] [data-field=half-width]"
        for rows, hopeless in ((3, True), (3000, False)):
            changed(page, lambda rows=rows: page.fill("#about-rows", str(rows)) or page.press("#about-rows", "Enter"))
            assert ("Hopeless" in page.inner_text(row), page.is_visible("#hopeless")) == (hopeless, hopeless)
        wanted = expected_widths(parse_plan(page.input_value("#plan-text")), 3000)[1].half_width
        assert float(page.get_attribute(f"{row} .at-rows", "data-value")) == wanted
        page.fill("#margin-0", "2,5")
        page.press("#margin-0", "Tab")
        page.wait_for_selector("#margin-fault-0.fault:has-text('comma')")
        page.fill("#margin-0", "1")
        page.press("#margin-0", "Tab")
        page.wait_for_selector("#margin-fault-0.fault:has-text('larger epsilon')")
        assert page.get_attribute("#margin-0", "aria-invalid") == "true"
        page.wait_for_selector("#offers button")
        changed(page, lambda: page.click("#offers button"))
        assert page.inner_text("#margin-fault-0") == ""
        assert page.inner_text("#save-words") == "Not saved yet."
        assert file.read_text() == draft
        page.click("#save-plan")
        page.wait_for_selector("#save-words:has-text('Saved to stays.toml. Checked')")
        assert file.read_text() == page.input_value("#plan-text")
        assert page.faults == ["Failed to load resource: the server responded with a status of 400 (Bad Request)"]
        page.close()
    saved = read_plan(file)
    asked = saved.model_copy(update={"budget": saved.budget.model_copy(update={"epsilon": 1.0})})
    assert saved.budget.epsilon == solve(asked, rest=0.1).epsilon
    assert [each for each in draft.splitlines() if each.startswith("#") and each not in file.read_text()] == []
    capsys.readouterr()
    assert run(["plan", "check", str(file)]) == 0
    assert capsys.readouterr().out == "ok: 2 queries\n"


@pytest.mark.slow
def test_the_real_table_is_asked_for_and_charged(page, demo_folder):
    with Ledger.open(demo_folder / "clinics.ledger") as ledger:
        before = ledger.account("clinics").left
    page.wait_for_selector("#ask-publish")
    assert before in page.inner_text("#no-account")
    page.click("#ask-publish")
    page.wait_for_selector("#publish[open]")  # the account is asked again before the dialog opens
    assert before in page.inner_text("#publish-words")
    assert "epsilon 4" in page.inner_text("#publish-words")
    page.click("#cancel-publish")
    changed(page, lambda: page.fill("#epsilon-exact", "3") or page.press("#epsilon-exact", "Enter"))
    page.wait_for_selector("#no-account:has-text('spend epsilon 3')")  # it follows the page
    with Ledger.open(demo_folder / "clinics.ledger") as ledger:
        assert ledger.account("clinics").left == before
    page.click("#ask-publish")
    page.fill("#publish-request", "from-the-page")
    page.click("#confirm-publish")
    page.wait_for_selector("text=charged to the ledger as from-the-page")
    with Ledger.open(demo_folder / "clinics.ledger") as ledger:
        assert ledger.published("from-the-page") is not None
        assert ledger.account("clinics").left in page.inner_text("#trial-words")
    with page.expect_download() as download:
        page.click("text=certificate.json")
    assert download.value.suggested_filename == "certificate.json"


BEYOND = """() => [...document.querySelectorAll("td, text, li, p, dd")].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1);
}).map((each) => each.textContent)"""


@pytest.mark.slow
def test_no_value_of_a_report_is_off_the_screen_of_a_phone(browser, demo_folder, tmp_path):
    release(read_plan(demo_folder / "plan.toml"), ledger=None).write(tmp_path / "report.html")
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate(BEYOND) == []
    page.add_style_tag(content="svg { min-width: 36rem }")  # the control: as on a desk
    assert len(page.evaluate(BEYOND)) > 10
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desk", "phone"])
def test_budget_half_widths_and_risk_stay_in_sight_while_one_edits(browser, explorer, demo_folder, size):
    page = opened(browser, explorer, viewport={"width": size[0], "height": size[1]})
    view, _ = plan_view(read_plan(demo_folder / "plan.toml"))
    pairs = page.eval_on_selector_all(
        "#in-sight div", "all => all.map(each => [...each.children].map(one => one.innerText))"
    )
    shown = dict(pairs)
    assert shown.pop("Attacker gains") == view["risk"]["texts"]["advantage"]
    assert page.inner_text("#terms") == view["terms"]
    assert f"mu {shown.pop('Mu')} " in view["terms"]  # as the report has it
    widths = [each["half-width"] for each in view["cells"]]
    assert list(shown.values()) == [f"± {each}" if each != "by the data" else each for each in widths]
    for place in ("#unit", "#questions", "#law", "#plan"):
        page.evaluate("each => document.querySelector(each).scrollIntoView()", place)
        for each in ("#epsilon", "#sight"):
            box = page.locator(each).bounding_box()
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= size[1]
    page.evaluate("document.getElementById('dials').style.position = 'static'")  # the control
    assert not 0 <= page.locator("#epsilon").bounding_box()["y"] <= size[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.close()
