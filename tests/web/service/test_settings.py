"""Settings: what would be unsafe is refused with its line and field."""

import pytest

from rangebound.errors import ArgumentError, PlanError
from rangebound.web.service.settings import read_settings

GOOD = """folder = "work"
ledger = "people.ledger"
[sources.visits]
path = "visits.csv"
unit = "person"
[accounts.people]
sources = ["visits"]
"""


@pytest.fixture
def read(tmp_path):
    def one(text):
        (tmp_path / "server.toml").write_text(text)
        return read_settings(tmp_path / "server.toml")

    return one


def test_paths_are_relative_to_the_folder_of_the_file(read, tmp_path):
    found = read(GOOD)
    assert found.source("visits").path == str(tmp_path / "visits.csv")
    assert found.ledger == str(tmp_path / "people.ledger")
    assert read(GOOD.replace('"people.ledger"', '"postgresql://db/x"')).ledger == "postgresql://db/x"


WRONG = {
    "no unit": (GOOD.replace('unit = "person"\n', ""), "unit"),
    "two units": (GOOD.replace('unit = "person"', 'unit = "person"\nrows_are_units = true'), "unit"),
    "a public unit": (GOOD.replace('unit = "person"', 'unit = "person"\npublic = true'), "public"),
    "all public": (GOOD.replace('unit = "person"', "public = true"), "nothing to protect"),
    "no such source": (GOOD.replace('["visits"]', '["visit"]'), "'visit'"),
    "two places": (GOOD.replace('unit = "person"', 'unit = "person"\npostgres = "postgresql://db/x"'), "one of path"),
    "a password": (GOOD.replace('path = "visits.csv"', 'postgres = "postgresql://a:b@db/x"\ntable = "t"'), "password"),
    "the network in the clear": (GOOD.replace("[sources", '[listen]\nhost = "0.0.0.0"\n[sources', 1), "certificate"),
    "a name with a slash": (GOOD.replace("[accounts.people]", '[accounts."a/b"]'), "letters"),
    "a misspelt field": (GOOD.replace("[accounts", "[limits]\nbdoy = 5\n[accounts"), "bdoy"),
    "no TOML": ("folder = ", "TOML"),
}


@pytest.mark.parametrize(("text", "word"), WRONG.values(), ids=WRONG)
def test_settings_that_are_unsafe_or_wrong_are_refused(read, text, word):
    with pytest.raises((PlanError, ArgumentError), match=r"server\.toml") as caught:
        read(text)
    assert word in str(caught.value)
    assert "a:b@" not in str(caught.value)


def test_a_proxy_that_encrypts_or_a_certificate_may_listen_to_the_network(read):
    assert read(GOOD.replace("[sources", '[listen]\nhost = "0.0.0.0"\nbehind_proxy = true\n[sources', 1))
    assert read(GOOD.replace("[sources", '[listen]\nhost = "::"\ncertificate = "a"\nkey = "b"\n[sources', 1))
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_settings("no.toml")
