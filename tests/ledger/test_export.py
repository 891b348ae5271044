"""Exports, and their check with the key alone: every field, every balance, and nothing that is not under a seal."""

import csv
import io
import json
import random
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import verify_export
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import LedgerEntry
from rangebound.ledger.export import COLUMNS, plain_cell, to_csv, to_csv_before, to_json, to_lines, to_lines_before
from rangebound.ledger.head import read_key
from rangebound.ledger.record import record_of
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, PlainSum, RenyiCost, RenyiFilter
from tests.ledger.memory_store import chained

ODD = [
    "=1+1",
    "early\u2029",
    "'=1+1",
    "''x",
    "-x",
    "two\nlines",
    "a\r\nb\rc",
    'a "quoted", word',
    "Zürich 北京 🙂\u2028\x85",
    "ok\r=cmd|' /C calc'!A0",
    "a;=1+1",
    "'\\u000d",
    "\\u000d\n\\",
    "",
]


def test_amounts_stand_in_the_columns_of_their_kind(ledger):
    ledger.open_account("model", epsilon=2, delta="1e-6", rule=RenyiFilter(order=16))
    ledger.reserve(account="people", request="1", cost=Cost(epsilon=0.1, delta="1e-12"))
    ledger.reserve(account="model", request="2", cost=RenyiCost(order=16, divergence="0.25"))
    ledger.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter(spare="0.5"))
    ledger.reserve(account="tables", request="3", cost=GaussianCost(mu="0.1", delta="1e-9"))
    table = list(csv.DictReader(io.StringIO(to_csv(ledger.history()), newline="")))
    assert list(table[0]) == COLUMNS
    amounts = [[row[name] for name in ("epsilon", "delta", "order", "divergence", "mu", "mu_squared")] for row in table]
    assert amounts == [
        ["", "", "", "", "", ""],
        ["1", "0.000001", "", "", "", ""],
        ["", "", "16", "1.328343732089", "", ""],
        ["0.1", "0.000000000001", "", "", "", ""],
        ["", "", "16", "0.25", "", ""],
        ["", "0.0000005", "", "", "0.229086942727", "0.052480827328"],
        ["", "0.000000001", "", "", "0.1", "0.01"],
    ]


def test_the_json_has_the_head_and_every_seal(ledger):
    data = json.loads(to_json(ledger))
    assert data["head"] == ledger.head == f"2:{data['entries'][-1]['seal']}"
    assert data["accounts"] == [account.to_dict() for account in ledger.accounts()]


@pytest.fixture
def rich(path):
    """A ledger with every kind of entry, every rule, and odd texts."""
    with Ledger.create(path, note="'first") as made:
        made.open_account("people", epsilon=1, delta="1e-6", who="=anna")
        made.open_account("model", epsilon=2, delta="1e-6", rule=RenyiFilter(order=16))
        made.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter(), approval=True, period="quarter")
        for number, text in enumerate(ODD):
            made.reserve(
                account="people", request=f"r{number}", cost=Cost(epsilon="0.01"), note=text, what=text, who=text
            )
        made.release(account="model", request="m", cost=RenyiCost(order=16, divergence="0.25"), compute=lambda _: b"x")
        asked = {"account": "tables", "request": "t", "cost": GaussianCost(mu="0.01", delta="1e-9"), "what": "=t"}
        made.file_request(**asked, dry_run=b"dry", who="anna")
        made.approve("t", who="berta", note="'fine'")
        made.release(**asked, compute=lambda _: b"y")
        made.file_request(**{**asked, "request": "u"}, dry_run=b"dry", who="anna")
        made.reject("u", who="berta", note="@no")
        yield made


@pytest.fixture(params=["csv", "lines"])
def exported(request, rich, tmp_path):
    """The export in a folder of its own, with a copy of the key and nothing else."""
    text = (to_csv if request.param == "csv" else to_lines)(rich.history())
    (tmp_path / "export").write_bytes(text.encode())
    return tmp_path / "export"


@pytest.fixture
def key(path, tmp_path, rich):
    copy = tmp_path / "the.key"
    copy.write_bytes(path.with_name(path.name + ".key").read_bytes())
    copy.chmod(0o600)
    return copy


def test_an_export_is_verified_with_the_key_alone(rich, exported, key, path):
    accounts, head = rich.accounts(), rich.head
    rich.close()
    for each in path.parent.iterdir():  # nothing of the ledger is left
        each.unlink()
    found = verify_export(exported, key=key, head=head)
    assert found.head == head
    assert found.entries == int(head.partition(":")[0])
    assert list(found.accounts) == accounts


def test_an_entry_is_one_line_for_every_reader_and_nothing_in_it_is_run(rich):
    records = rich.history()
    for text, more in ((to_csv(records), 1), (to_lines(records), 0)):
        assert len(text.splitlines()) == len(records) + more
    for line in to_csv(records).splitlines():
        assert not [each for each in line.split(";") if each.strip('" ').startswith(("=", "+", "-", "@"))]
    before = to_csv_before(records)  # the control
    assert len(before.splitlines()) > len(records) + 1
    assert len(to_lines_before(records).splitlines()) > len(records)
    assert [each for line in before.splitlines() for each in line.split(";") if each.strip('" ').startswith("=")]


def test_exports_of_earlier_versions_are_verified_and_mixed_ones_are_not(rich, key, tmp_path):
    records, target = rich.history(), tmp_path / "before"
    for before, now in ((to_csv_before, to_csv), (to_lines_before, to_lines)):
        target.write_bytes(before(records).encode())
        assert verify_export(target, key=key).head == rich.head
        assert before(records) != now(records)
        half = len(ODD) // 2 + 3
        target.write_bytes((now(records[:half]) + before(records[half:]).removeprefix(before([]))).encode())
        with pytest.raises(LedgerTampered, match="not in the form"):
            verify_export(target, key=key)


def test_every_field_is_in_the_export(rich, exported):
    text = exported.read_bytes().decode()
    if text.startswith("{"):
        rows = [json.loads(line) for line in text.removesuffix("\n").split("\n")]
        assert all(set(rows[0]) == set(row) for row in rows)
    else:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert list(rows[0]) == COLUMNS
        rows = [{name: plain_cell(name, cell) for name, cell in row.items()} for row in rows]
    fields = set(LedgerEntry._fields) - {"time"} | {"microseconds", "head"}
    assert fields <= set(rows[0])
    with rich._chain.store.reading() as transaction:
        for row, entry in zip(rows, transaction.entries(1), strict=True):
            own = entry._asdict()
            assert row["microseconds"] == own.pop("time")
            assert row["head"] == f"{entry.seq}:{entry.seal.hex()}"
            for name in ("digest", "seal"):
                value = own.pop(name)
                assert row[name] == (None if value is None else value.hex())
            assert {name: row[name] for name in own} == own


def lines_of(data: bytes) -> list[bytes]:
    """Lines of JSON, or rows of CSV: every cell of ours is quoted, so that a row ends with a quotation mark."""
    return [each + b"\n" for each in data.removesuffix(b"\n").split(b"\n")]


def test_a_line_removed_moved_or_doubled_is_found_and_one_cut_off_at_the_end_by_a_later_head(rich, key, tmp_path):
    lines = lines_of(to_lines(rich.history()).encode())
    target = tmp_path / "changed"
    for at in (0, 1, 5, len(lines) - 2):
        for changed in (
            [*lines[:at], *lines[at + 1 :]],
            [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
            [*lines[: at + 1], lines[at], *lines[at + 1 :]],
        ):
            target.write_bytes(b"".join(changed))
            with pytest.raises(LedgerTampered):
                verify_export(target, key=key)
    target.write_bytes(b"".join(lines[:-1]))
    assert verify_export(target, key=key).entries == len(lines) - 1  # it is the export of an earlier day
    with pytest.raises(LedgerTampered, match=r"head: the export has no entry \d+"):
        verify_export(target, key=key, head=rich.head)


def test_every_single_changed_byte_is_found(exported, key, tmp_path):
    """A hundred places at random, and whatever comes out of them: never a report."""
    data, chance = exported.read_bytes(), random.Random(1)
    for _ in range(100):
        at = chance.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << chance.randrange(7)
        if chance.random() < 0.2:
            del changed[at]
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(LedgerTampered):
            verify_export(tmp_path / "changed", key=key)


@pytest.mark.parametrize(
    ("name", "value"),
    [("time", "2026-01-01T00:00:00+00:00"), ("cost", {"epsilon": "0.001", "delta": "0"}), ("head", "1:" + "0" * 64)],
)
def test_what_is_shown_beside_the_sealed_fields_is_checked_too(name, value, rich, key, tmp_path):
    rows = [json.loads(line) for line in lines_of(to_lines(rich.history()).encode())]
    rows[6][name] = value
    with pytest.raises(LedgerTampered, match="entry 7: its line shows something else"):
        verify_export(written(rows, tmp_path / "changed"), key=key)


def written(rows: list[dict[str, object]], target: Path) -> Path:
    target.write_bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    return target


def test_a_field_of_another_value_or_type_is_refused(rich, key, tmp_path):
    lines, target = lines_of(to_lines(rich.history()).encode()), tmp_path / "changed"
    for name in [*LedgerEntry._fields[2:-1], "microseconds", "seal"]:
        for value in (None, 3, "x", [], {}, True, 1.5):
            rows = [json.loads(line) for line in lines]
            if rows[6][name] != value:
                rows[6][name] = value
                with pytest.raises(LedgerTampered):
                    verify_export(written(rows, target), key=key)
        del rows[6][name]
        with pytest.raises(LedgerTampered, match="line 7: a field is missing"):
            verify_export(written(rows, target), key=key)
    found = verify_export(written([json.loads(line) for line in lines], target), key=key)
    assert found.entries == len(lines)  # control


def test_the_same_facts_in_another_form_are_refused(rich, key, tmp_path):
    records = rich.history()
    for text in (
        to_lines(records).replace('", "', '","'),
        to_lines(records) + "\n",
        to_csv(records).replace("\n", "\r\n"),
        to_csv(records).replace('"1"', '"01"'),
        to_csv(records) + '"x"\n',
        to_csv(records).replace('"seq"', '"sequence"', 1),
        to_json(rich),
        "",
        "{}",
        "[1]\n",
        "{" * 99999,
        '"',
        *(to_lines(records).replace('"who": "berta"', f'"who": "{half}"') for half in ("\\ud800", "\\udcff")),
    ):
        (tmp_path / "changed").write_bytes(text.encode())
        with pytest.raises(LedgerTampered):
            verify_export(tmp_path / "changed", key=key)
    (tmp_path / "changed").write_bytes(to_lines(records).encode())
    assert verify_export(tmp_path / "changed", key=key)  # the control
    (tmp_path / "changed").write_bytes(b"\xff\xfe")
    with pytest.raises(LedgerTampered, match="not text in UTF-8"):
        verify_export(tmp_path / "changed", key=key)


def test_an_export_of_a_forged_chain_that_overspends_is_refused(key, tmp_path):
    """Sealed with the key: by the rules of spending alone."""
    what = '{"promise": ["1", "0"], "rule": "sum"}'
    drafts = [
        LedgerEntry(0, 0, "account", account="people", first=10**12, second=0, what=what),
        LedgerEntry(0, 0, "spend", account="people", request="1", first=10**12, second=0),
        LedgerEntry(0, 0, "spend", account="people", request="2", first=1, second=0),
    ]
    records = [record_of(each, {"people": PlainSum()}) for each in chained(*drafts, key=read_key(key))]
    (tmp_path / "forged").write_text(to_csv(records[:3]))
    assert verify_export(tmp_path / "forged", key=key).entries == 3  # control
    (tmp_path / "forged").write_text(to_csv(records))
    with pytest.raises(LedgerTampered, match="entry 4: breaks the rules"):
        verify_export(tmp_path / "forged", key=key)


def test_a_key_must_be_named_and_a_file_be_there(exported, key, tmp_path, monkeypatch):
    with pytest.raises(ArgumentError, match="key: missing"):
        verify_export(exported)
    with pytest.raises(LedgerUnavailable, match="cannot be read"):
        verify_export(tmp_path / "nowhere", key=key)
    with pytest.raises(ArgumentError, match="head="):
        verify_export(exported, key=key, head="x")
    monkeypatch.setenv("RANGEBOUND_LEDGER_KEY", str(key))
    verify_export(exported)
