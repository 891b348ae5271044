"""A server whose ledger is in PostgreSQL, with the roles of a team: one login writes for all analysts."""

import json
import subprocess
import sys
from contextlib import contextmanager

import psycopg
import pytest

from rangebound.errors import ArgumentError
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.web.client import ServerRefusal
from tests.ledger.postgres import fresh_address, schema_of
from tests.web.service.running import PLAN, running, until

ME = "/v1/accounts/people"
pytestmark = pytest.mark.slow  # the ledger in a database, and the server, have tests of their own


class Database:
    """A ledger with roles, and logins: `service` for the server, `anna` for requests, `paul` for decisions."""

    def __init__(self, postgres: str) -> None:
        self.server, self.address = postgres, fresh_address(postgres)
        self.ledger = Ledger.create(self.address, roles=True)
        schema = schema_of(self.address)
        roles = {"service": ("service",), "anna": ("analyst", "approver"), "paul": ("approver",)}
        self.logins = {name: f"{name}_{schema}" for name in roles}
        with psycopg.connect(postgres, autocommit=True) as admin:
            for name, login in self.logins.items():
                members = ", ".join(f"{schema}_{role}" for role in roles[name])
                admin.execute(f"CREATE ROLE {login} LOGIN IN ROLE {members}")

    def place(self, name: str) -> str:
        return self.address.replace("//postgres@", f"//{self.logins[name]}@")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Keys and heads of this user, in a folder of their own, also for the processes that a test starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield


@pytest.fixture(scope="module")
def database(folders, postgres):
    return Database(postgres)


@pytest.fixture(scope="module")
def shared(database, tmp_path_factory):
    place = database.place("service")
    with running(tmp_path_factory.mktemp("shared"), ledger=database.ledger, address=place, DELAY=1) as found:
        yield found


def test_a_decision_by_the_command_line_of_another_login_is_followed(shared, database):
    token = shared.token(accounts=("reviewed",))
    for id, verb, end in (("approved", "approve", "published"), ("rejected", "reject", "rejected")):
        shared.asked(token, id)
        request = f"reviewed/visits/{id}"
        assert shared.entries(EntryKind.SPEND, request) == []
        command = ["ledger", verb, database.place("paul"), request, "--note", "seen"]
        done = subprocess.run([sys.executable, "-m", "rangebound", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert shared.ended(token, id, "reviewed")["state"] == end
        assert len(shared.entries(EntryKind.SPEND, request)) == (end == "published")
    (decided,) = shared.entries(EntryKind.APPROVE, "reviewed/visits/approved")
    assert decided.who == database.logins["paul"] or decided.who.startswith(database.logins["paul"] + "/")


def test_approvers_of_the_server_decide_through_its_login(shared, database):
    anna = database.logins["anna"]
    token = shared.token(who=anna, accounts=("reviewed",))
    shared.asked(token, "own")
    with pytest.raises(ServerRefusal, match="must not approve"):
        shared.client(who=anna, role="approver", accounts=("reviewed",)).approve("own")
    with Ledger.open(database.place("anna")) as ledger, pytest.raises(ArgumentError, match="must not approve"):
        ledger.approve("reviewed/visits/own")  # by her own login, past the server
    berta = shared.client(who="berta", role="approver", accounts=("reviewed",))
    assert berta.approve("own")["state"] in ("running", "published")
    assert shared.ended(token, "own", "reviewed")["state"] == "published"


@contextmanager
def shut_out(database):
    """The server's login is refused, and its connections are ended."""
    login = database.logins["service"]
    with psycopg.connect(database.server, autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {login} NOLOGIN")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [login])
        try:
            yield
        finally:
            admin.execute(f"ALTER ROLE {login} LOGIN")


def test_a_database_that_is_away_is_said_in_public_words_and_the_server_goes_on(shared, database):
    token = shared.token(accounts=("people", "reviewed"))
    with shut_out(database):
        found = [shared.ask("GET", "/v1/accounts", token=token), shared.ask("GET", f"{ME}/sources", token=token)]
        found += [shared.ask("POST", f"{ME}/dry-runs", token=token, body={"plan": PLAN}), shared.submit(token, "away")]
    for status, _, data in found:
        assert status == 503
        assert "postgresql" not in json.dumps(data)
        assert database.logins["service"] not in json.dumps(data)
    assert shared.ask("GET", "/v1/accounts", token=token)[0] == 200
    assert shared.released(token, "away") == "published"


def test_a_database_that_was_away_after_a_charge_costs_no_second_one(shared, database):
    token = shared.token()
    request = shared.charged_and_held(token, "cut")
    with shut_out(database):
        shared.hold.unlink()
        until(lambda: shared.log().count(f"{request}: the ledger or the data source could not be used") > 2)
    assert shared.ended(token, "cut")["state"] == "published"
    for kind in (EntryKind.SPEND, EntryKind.PUBLISH):
        assert [each.who for each in shared.entries(kind, request)] == [f"{database.logins['service']}/anna"]
