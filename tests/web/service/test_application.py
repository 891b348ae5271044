"""A real client against a real server process: what analysts can do, and what they cannot, whatever they send."""

import dataclasses
import hashlib
import json
import re
import tomllib
import zlib

import pytest
import yaml

from rangebound.errors import CertificateInvalid
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.release import check_certificate, check_entry
from rangebound.web.client import Client, ServerRefusal
from rangebound.web.service.application import OPERATIONS, document, page
from tests.ledger.processes import together
from tests.web.service.running import PLAN, RunningServer

ME = "/v1/accounts/people"


@pytest.fixture(scope="module")
def anna(server: RunningServer) -> str:
    return server.token(who="anna", accounts=("people", "reviewed"))


@pytest.mark.claim("page")
def test_three_lines_of_python_get_a_table_whose_certificate_holds(server):
    client = Client(server.url, server.token())
    found = client.release(PLAN)
    assert [row["clinic"] for row in found.rows()] == ["north", "south"]
    checked = check_certificate(found.certificate, found.table)
    assert checked.epsilon == 0.5
    with Ledger.open(server.folder / "people.ledger") as ledger:
        check_entry(checked, found.table, ledger)
    assert "<h1>" in found.report
    filed = yaml.safe_load(found.record)["deployment"]
    assert filed["dp_variant"]["variant_name"] == "Pure DP"
    assert "OPEN" in filed["basic"]["publication_date"]  # neither the account nor the charge is in it
    with pytest.raises(CertificateInvalid):
        check_certificate(found.certificate, found.table.replace(b"north", b"nowhere"))
    assert client.release(PLAN) == found  # the same plan is the same release
    for each in server.folder.rglob("record.yaml"):  # as of a release from before there were records
        each.unlink()
    assert dataclasses.replace(client.release(PLAN), record=found.record) == found
    assert client.release(PLAN).record == ""
    (spent,) = server.entries(EntryKind.SPEND, f"people/visits/{found.id}")
    assert spent.who == "anna"


def test_a_dry_run_and_sources_say_what_is_public_and_charge_nothing(server):
    client = server.client()
    before = server.ask("GET", "/v1/accounts", token=server.token())[2]
    found = client.dry_run(PLAN)
    assert found["cost"] == "epsilon 0.5"
    assert found["queries"][0]["query"] == "visits"
    assert "visits" in found["explained"]
    assert server.ask("GET", "/v1/accounts", token=server.token())[2] == before
    found = {each["source"]: each for each in client.sources()}
    assert list(found["visits"]["columns"]) == ["person", "clinic", "age"]
    assert (found["visits"]["unit"], found["regions"]["public"]) == ("person", True)
    assert ".csv" not in json.dumps(found)


@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_plan_with_joins_reads_the_sources_of_its_account(server, form):
    joined = '[[join]]\ntable = "regions"\npublic = true\non = ["clinic"]\ncolumns = ["region"]\n'
    plan = PLAN.replace("[[query]]", joined + "[[query]]") + "where = \"region = 'coast'\"\n"
    given = plan if form == "toml" else tomllib.loads(plan)
    assert len(server.client().release(given, id=f"joined-{form}").rows()) == 2


WRONG = {
    "none": {},
    "another": {"Authorization": "Bearer rb_" + "A" * 43},
    "no scheme": {"Authorization": "TOKEN"},
    "basic": {"Authorization": "Basic TOKEN"},
    "its hash": {"Authorization": "Bearer HASH"},
    "in another header": {"X-Authorization": "Bearer TOKEN"},
    "cut short": {"Authorization": "Bearer CUT"},
    "in SQL": {"Authorization": "Bearer rb_' OR 1=1 --"},
    "very long": {"Authorization": "Bearer rb_" + "A" * 5000},
    "not ASCII": {"Authorization": "Bearer rb_\xe9"},
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_a_wrong_token_opens_nothing(server, anna, headers):
    values = {"TOKEN": anna, "HASH": hashlib.sha256(anna.encode()).hexdigest(), "CUT": anna[:-1]}
    sent = {name: re.sub("|".join(values), lambda word: values[word[0]], text) for name, text in headers.items()}
    status, answered, found = server.ask("GET", "/v1/accounts", headers=sent)
    assert (status, list(found)) == (401, ["error"])
    assert answered["www-authenticate"] == "Bearer"
    assert server.ask("GET", f"/v1/accounts?token={anna}")[0] == 401
    assert server.ask("GET", "/v1/accounts", headers={"Authorization": f"Bearer {anna}"})[0] == 200  # the control


def test_an_expired_and_a_revoked_token_open_nothing_and_none_is_kept(server):
    assert server.ask("GET", "/v1/accounts", token=server.token(days=1e-9))[0] == 401
    token = server.token(who="carl")
    assert server.ask("GET", "/v1/accounts", token=token)[0] == 200
    server.tokens.revoke(hashlib.sha256(token.encode()).hexdigest()[:16])
    assert server.ask("GET", "/v1/accounts", token=token)[0] == 401
    for path in (server.folder / "work").glob("server.sqlite*"):
        assert token[3:20].encode() not in path.read_bytes()
    assert token not in server.log()


def test_another_account_is_not_there_for_a_token(server, anna):
    assert server.released(anna, "mine") == "published"
    stranger = server.token(who="carl", accounts=("staff",))
    for path in ("releases", "releases/mine", "releases/mine/table.csv", "sources", "releases/mine/request"):
        theirs = server.ask("GET", f"{ME}/{path}", token=stranger)
        nobodys = server.ask("GET", f"/v1/accounts/nobody/{path}", token=stranger)
        assert theirs == nobodys
        assert theirs[0] == 404
    assert server.submit(stranger, "theirs")[0] == 404
    accounts = server.ask("GET", "/v1/accounts", token=stranger)[2]["accounts"]
    assert [each["account"] for each in accounts] == ["staff"]
    assert server.ask("GET", f"{ME}/releases/mine/table.csv", token=anna)[0] == 200  # the control


def test_a_role_can_do_what_it_is_for_alone(server, anna):
    approver = server.token(who="berta", role="approver")
    assert server.submit(approver, "as-approver")[0] == 403
    assert server.ask("POST", f"{ME}/releases/x/approve", token=anna, body={})[0] == 403
    assert server.ask("POST", f"{ME}/releases/x/reject", token=anna, body={})[0] == 403


OUTSIDE = {
    "a path": ('source = {path = "/etc/passwd"}', "source"),
    "a path beside a table": ('source = {path = "visits.csv", table = "visits"}', "source"),
    "a database": ('source = {postgres = "postgresql://db/x", table = "visits"}', "source"),
    "another source": ('source = {table = "wages"}', "source"),
    "a public source": ('source = {table = "regions"}', "source"),
    "a file of keys": ('keys.age = {file = "/etc/passwd", column = "root"}', "file"),
    "a ledger": ("budget.ledger = 'mine.ledger'", "budget.ledger"),
    "another account": ("budget.account = 'staff'", "budget.account"),
    "a join of a path": (
        '[[join]]\npath = "/etc/hosts.csv"\npublic = true\non = ["clinic"]\ncolumns = ["region"]',
        "join",
    ),
    "a join of a table elsewhere": (
        '[[join]]\ntable = "wages"\npublic = true\non = ["clinic"]\ncolumns = ["wage"]',
        "join",
    ),
    "a private table as public": (
        '[[join]]\ntable = "drugs"\npublic = true\non = {person = "patient"}\ncolumns = ["drug"]',
        "public",
    ),
    "a private table by another column": (
        '[[join]]\ntable = "drugs"\npublic = false\nrows = 1\non = {person = "drug"}\ncolumns = {d = "drug"}',
        "on",
    ),
    "another unit": ('unit = {column = "clinic"}', "unit"),
    "rows as units": ("unit = {}", "unit"),
    "other neighbours": ('unit = {column = "person", neighbours = "replace", size = 150}', "unit"),
}


@pytest.mark.parametrize(("piece", "field"), OUTSIDE.values(), ids=OUTSIDE)
def test_a_plan_reads_its_own_sources_and_protects_their_units_or_is_refused(server, anna, piece, field):
    plain = PLAN.replace("budget = {epsilon = 0.5}", "budget.epsilon = 0.5").replace("keys = {", "keys.clinic = ")
    plain = plain.replace("clinic = clinic = ", "clinic = ").replace('"south"]}', '"south"]')
    lines = [each for each in plain.splitlines() if not each.startswith(f"{piece.partition(' =')[0]} =")]
    plan = "\n".join([*lines, piece] if piece.startswith("[[") else [piece, *lines])
    status, _, found = server.submit(anna, "outside", plan)
    assert status == 422, found
    assert field in found["error"]
    assert "/etc" not in found["error"] or field == "file"
    assert server.ask("GET", f"{ME}/releases/outside", token=anna)[0] == 404
    assert server.submit(anna, f"inside-{len(plain)}", plain)[0] == 202  # the control


BODIES = {
    "nothing": b"",
    "a list": b"[]",
    "deep JSON": b'{"id": "x", "plan": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "rather deep JSON": b'{"id": "x", "plan": ' + b"[" * 100 + b"]" * 100 + b"}",
    "a deep object": b'{"id": "x", "plan": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "NaN": b'{"id": "x", "plan": {"a": NaN}}',
    "an infinity": b'{"id": "x", "plan": {"a": 1e999}}',
    "a huge number": b'{"id": "x", "plan": {"a": ' + b"9" * 10_000 + b"}}",
    "a long number in TOML": json.dumps({"id": "x", "plan": "a = " + "9" * 10_000}).encode(),
    "deep TOML": json.dumps({"id": "x", "plan": "a = " + "[" * 20_000 + "]" * 20_000}).encode(),
    "dotted TOML": json.dumps({"id": "x", "plan": ".".join("a" * 3000) + " = 1"}).encode(),
    "UTF-16": json.dumps({"id": "x", "plan": PLAN}).encode("utf-16"),
    "NUL bytes": b'{"id": "x", "plan": "a\x00b"}',
    "a NUL in a text": b'{"id": "x", "plan": "title = \\"a\\\\u0000\\""}',
    "half of a pair": b'{"id": "x", "plan": "\\ud800"}',
    "a name twice": b'{"id": "x", "id": "y", "plan": "a"}',
    "an unknown field": b'{"id": "x", "plan": "a", "path": "/etc/passwd"}',
    "an id of numbers": b'{"id": 5, "plan": "a"}',
    "compressed": zlib.compress(b" " * 1_000_000),
    "dates that are none": b'{"id": "x", "plan": {"budget": {"date": "2025-99-99"}, "query": []}}',
    "a date that is none in a question": b'{"id": "x", "source": "visits", "plan": {"a": [{"date": "2025-99-99"}]}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_hostile_body_gets_a_plain_refusal_and_the_server_goes_on(server, anna, body):
    for place in ("releases", "dry-runs"):
        status, _, found = server.ask("POST", f"{ME}/{place}", token=anna, body=body)
        assert status in (400, 422), found
        assert list(found) == ["error"]
        assert len(found["error"]) < 600
        assert "Traceback" not in found["error"]
    assert server.ask("GET", "/v1/accounts", token=anna)[0] == 200


def test_a_body_that_is_too_large_or_not_plain_json_is_refused(server, anna):
    large = json.dumps({"id": "x", "plan": "#" * 300_000}).encode()
    assert server.ask("POST", f"{ME}/releases", token=anna, body=large)[0] == 413

    def pieces():
        for _ in range(100):
            yield b" " * 10_000

    try:
        status = server.ask("POST", f"{ME}/releases", token=anna, body=pieces())[0]
    except (BrokenPipeError, ConnectionResetError):  # it does not read the rest
        status = 413
    assert status == 413
    for headers in ({"Content-Encoding": "gzip"}, {"Content-Type": "text/plain"}, {"Content-Type": "application/toml"}):
        assert server.ask("POST", f"{ME}/releases", token=anna, body=b"{}", headers=headers)[0] == 415


def test_an_id_that_is_no_plain_name_is_refused(server, anna):
    for id in ("../x", ".", "a/b", "%2e%2e%2f", "a b", "-a", "", "a" * 65, "a\x00", "é", "a."):
        status, _, found = server.submit(anna, id)
        assert (status, list(found)) == (400, ["error"]), id


PATHS = [
    "/v1/accounts/people/releases/../../../../etc/passwd",
    "/v1/accounts/people/releases/..%2f..%2f..%2fetc%2fpasswd",
    "/v1/accounts/people/releases/x/..%2ftable.json",
    "/v1/accounts/people/releases/x/table.json%00.csv",
    "//etc/passwd",
    "/v1/accounts/people/releases/" + "a" * 5000,
    "/v1/accounts/%70eople/releases/%78/%74able.json",
    "/static/server.toml",
    "/v1/accounts/",
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:60])
def test_no_path_leads_out_of_the_table_of_operations(server, anna, path):
    status, _, found = server.ask("GET", path, token=anna)
    assert status in (400, 404, 414)
    assert b"root:" not in json.dumps(found).encode() if isinstance(found, dict) else b"root:" not in found


def test_methods_and_headers_that_are_no_operation_change_nothing(server, anna):
    assert server.released(anna, "kept") == "published"
    for method in ("DELETE", "PUT", "PATCH", "TRACE", "OPTIONS"):
        assert server.ask(method, f"{ME}/releases/kept", token=anna)[0] == 405
    tricks = {
        "X-HTTP-Method-Override": "DELETE",
        "X-Original-URL": "/server.toml",
        "X-Forwarded-User": "berta",
        "Host": "evil.example",
        "Range": "bytes=0-0,0-0,0-0",
        "Cookie": "role=approver",
    }
    status, headers, found = server.ask("GET", f"{ME}/releases/kept", token=anna, headers=tricks)
    assert (status, found["state"]) == (200, "published")
    assert set(found) == {"account", "id", "who", "source", "state", "answers"}  # public facts alone
    listed = server.ask("GET", f"{ME}/releases", token=anna)[2]["releases"]
    assert {name for each in listed for name in each} <= {*found, "again_in", "message"}
    assert server.folder.name not in json.dumps([found, listed])
    assert "evil.example" not in json.dumps([headers, found])
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize("plans", [[PLAN] * 2, [PLAN, PLAN.replace("0.5", "0.25")]], ids=["one plan", "two plans"])
def test_one_id_asked_for_at_once_is_the_release_of_one_plan(server, anna, plans):
    id = f"at-once-{len(set(plans))}"
    found = together(8, lambda at: server.submit(anna, id, plans[at % 2]))
    won = {plans[at % 2] for at, (status, _, _) in enumerate(found) if status == 202}
    assert len(won) == 1
    assert {status for at, (status, _, _) in enumerate(found) if plans[at % 2] not in won} <= {409}
    assert {status for at, (status, _, _) in enumerate(found) if plans[at % 2] in won} == {202}
    assert server.ended(anna, id)["state"] == "published"
    tables = together(4, lambda _: server.ask("GET", f"{ME}/releases/{id}/table.json", token=anna)[2])
    assert all(each == tables[0] for each in tables)
    (spent,) = server.entries(EntryKind.SPEND, f"people/visits/{id}")
    assert str(spent.cost) == f"epsilon {0.5 if PLAN in won else 0.25}"


def test_a_budget_that_is_spent_refuses_at_the_deadline_in_public_words(server):
    token = server.token(who="carl", accounts=("staff",))
    plan = 'budget.epsilon = 0.75\n[[query]]\nname = "n"\nkind = "count"\n'
    assert server.released(token, "first", plan, "staff") == "published"
    assert server.submit(token, "second", plan, account="staff")[0] == 202
    found = server.ended(token, "second", "staff")
    assert found["state"] == "refused"
    assert "0.25" in found["message"]
    assert server.ask("GET", "/v1/accounts/staff/releases/second/table.csv", token=token)[0] == 404


def test_an_account_that_needs_approval_waits_for_somebody_else_and_what_is_rejected_is_not_charged(server, anna):
    client = Client(server.url, anna, account="reviewed")
    server.asked(anna, "asked")
    assert server.entries(EntryKind.SPEND, "reviewed/visits/asked") == []
    berta = server.client(who="berta", role="approver", accounts=("reviewed",))
    assert {each["source"]: each["columns"] for each in berta.sources()} == {"visits": None}  # nothing is opened
    asked = berta.asked("asked")
    assert asked["who"] == "anna"
    assert "visits" in asked["explained"]
    own = server.client(who="anna", role="approver", accounts=("reviewed",))
    with pytest.raises(ServerRefusal, match="anna") as caught:
        own.approve("asked")
    assert caught.value.status == 409
    assert berta.approve("asked", "a count is fine")["state"] in ("running", "published")
    assert len(client.release(PLAN, id="asked").rows()) == 2
    assert len(server.entries(EntryKind.SPEND, "reviewed/visits/asked")) == 1
    with pytest.raises(ServerRefusal):
        berta.reject("asked", "too late")
    server.asked(anna, "rejected")
    assert berta.reject("rejected", "too much")["state"] == "rejected"
    with pytest.raises(ServerRefusal, match="rejected; too much"):
        client.release(PLAN, id="rejected")
    assert server.entries(EntryKind.SPEND, "reviewed/visits/rejected") == []


@pytest.mark.parametrize("size", [6, pytest.param(50, marks=pytest.mark.long)])
def test_many_analysts_at_once_each_get_their_own_table(server, size):
    tokens = [server.token(who=f"analyst {at}") for at in range(size)]

    def work(at):
        client = Client(server.url, tokens[at], account="people", timeout=300.0)
        plan = PLAN.replace('name = "visits"', f'name = "visits {at}"')
        assert client.dry_run(plan)["cost"] == "epsilon 0.5"
        return client.release(plan, id=f"crowd-{size}-{at}")

    for at, each in enumerate(together(size, work)):
        assert {row["query"] for row in each.rows()} == {f"visits {at}"}
        assert len(server.entries(EntryKind.SPEND, f"people/visits/crowd-{size}-{at}")) == 1


def described(found):
    return {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}


def test_every_operation_is_in_the_document_and_on_the_page_and_has_an_answer(server):
    routes = {(each.method, each.path) for each in OPERATIONS}
    assert len(routes) == len(OPERATIONS)
    status, _, found = server.ask("GET", "/openapi.json")
    assert (status, found) == (200, json.loads(json.dumps(document())))
    assert described(found) == routes
    assert described(document(OPERATIONS[1:])) != routes  # the control
    status, headers, text = server.ask("GET", "/")
    assert status == 200
    policy = headers["content-security-policy"].split("; ")
    assert {f"{each} 'none'" for each in ("default-src", "base-uri", "form-action", "frame-ancestors")} <= {*policy}
    assert "script-src" not in " ".join(policy)
    assert text.decode() == page()
    for each in OPERATIONS:
        assert f"<code>{each.path}</code>" in text.decode()


def test_every_route_of_the_document_is_one_of_the_server(server):
    token = server.token()
    for method, path in described(document()):
        filled = path.replace("{account}", "people").replace("{id}", "nothing")
        body = {} if method == "POST" else None
        status, _, _ = server.ask(method, filled, token=token, body=body)
        assert status in (200, 400, 403, 404)
        assert status != 404 or "{id}" in path
        assert server.ask(method, filled, body=body)[0] == 401
        assert server.ask("DELETE", filled, token=token)[0] == 405
