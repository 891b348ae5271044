"""A server to try: made-up visits, a ledger, settings and tokens in a folder, and what to type."""

from __future__ import annotations

from pathlib import Path

from rangebound.ledger.book import Ledger
from rangebound.release import demo
from rangebound.web.service.job_store import database
from rangebound.web.service.token_store import TokenRole, TokenStore

SETTINGS = """folder = "work"
ledger = "clinics.ledger"

[listen]
port = PORT

[release]
delay = 5

[sources.visits]
path = "visits.csv"
unit = "person_id"

[accounts.clinics]
sources = ["visits"]

[accounts.reviewed]
sources = ["visits"]
"""


def demo_plan() -> str:
    """A plan for the made-up visits as an analyst would send it: the source by its public name, and no ledger."""
    return demo.plan().replace('path = "visits.csv"', 'table = "visits"').replace('ledger = "clinics.ledger"\n', "")


def make_demo(folder: Path, port: int) -> dict[str, str]:
    """Fill a folder with all that a server needs; the tokens of an analyst and of an approver, by their names."""
    (folder / demo.TABLE).write_text(demo.table(), encoding="utf-8")
    (folder / "plan.toml").write_text(demo_plan(), encoding="utf-8")
    (folder / "server.toml").write_text(SETTINGS.replace("PORT", str(port)), encoding="utf-8")
    with Ledger.create(folder / demo.LEDGER) as ledger:
        ledger.open_account("clinics", epsilon=20, who="owner")
        ledger.open_account("reviewed", epsilon=20, approval=True, who="owner")
    connection = database(folder / "work")
    tokens = TokenStore(connection)
    accounts = ("clinics", "reviewed")
    found = {
        "anna": tokens.make(who="anna", role=TokenRole.ANALYST, accounts=accounts, days=1),
        "berta": tokens.make(who="berta", role=TokenRole.APPROVER, accounts=accounts, days=1),
    }
    connection.close()
    return found


def what_to_type(folder: Path, url: str, tokens: dict[str, str]) -> str:
    """The commands to try the server with."""
    return f"""A server with made-up visits runs at {url}, with all its files in {folder}.
A page about it: {url}/ ; Ctrl-C ends it and removes the files.

With curl, in another shell:
  export TOKEN={tokens["anna"]}
  curl -s -H "Authorization: Bearer $TOKEN" {url}/v1/accounts
  curl -s -H "Authorization: Bearer $TOKEN" {url}/v1/accounts/clinics/sources

In Python:
  from rangebound.web.client import Client
  client = Client("{url}", "{tokens["anna"]}", account="clinics")
  print(client.release("{folder / "plan.toml"}").csv)

The account "reviewed" needs approval. Ask with account="reviewed", and decide as somebody else:
  Client("{url}", "{tokens["berta"]}", account="reviewed").approve("the id of the request")
"""
