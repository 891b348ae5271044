"""CSV on the Web: the description of a published .csv file, as JSON-LD beside it."""

from __future__ import annotations

import json
import math
from urllib.parse import quote

from rangebound.errors import plain
from rangebound.release.output.facts import Published, Row, table_facts
from rangebound.release.output.rendering import FLAGS, NUMBERS
from rangebound.values.serial import spreadsheet_cell

ENDING = "-metadata.json"
"""What stands behind the name of a .csv file in that of its description, by the standard."""
_SAID = {
    "query": "the question of the plan",
    "kind": "the kind of the question",
    "part": "which part of the answer, such as a bin or a level",
    "value": "the published number, with noise",
    "lower": "the lower end of its interval, for the noise alone",
    "upper": "the upper end of its interval, for the noise alone",
    "unbiased": "the number before it was moved into its support",
    "bias": "a bound on how far the number is off on average",
    "unreliable": "whether the interval is wider than the number",
    "date": "the number as a date",
    "rank_error": "a bound on how many rows lie between the answer and the quantile",
    "scope": "what the number is of: what was left out, cut or clipped before the noise",
    "mechanism": "how the noise was made",
    "epsilon": "what the number has cost",
    "delta": "what the number has cost",
    "mu": "what the numbers of the question have cost together, in a Gaussian account",
}


def csvw_description(release: Published, columns: tuple[str, ...], url: str) -> str:
    """The description of the .csv form of a table, by the W3C's CSVW: names, types and meaning of its columns.

    `columns` are those of the table, and `url` is the name of the .csv file, relative to the description.

    Guarantee: made of the published table and its plan. Names of columns are percent-encoded where the standard asks
    for it, and their titles are the cells of the file's first row.
    Edge cases: a column with an infinite number is described as text.
    """
    facts, rows = table_facts(release), release.rows()
    notes = [facts.spent, *([facts.promise] if facts.promise else []), *facts.warnings, *facts.scopes, *facts.notes]
    found = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "@type": "Table",
        "url": quote(url),
        "dc:title": plain(facts.title),
        "dc:description": "Numbers with noise, by differential privacy; each with an interval for the noise.",
        "dc:identifier": f"sha256:{facts.sha256}",
        "rdfs:comment": [plain(each) for each in notes],
        "dialect": {"encoding": "utf-8", "header": True, "delimiter": ",", "doubleQuote": True},
        "tableSchema": {
            "columns": [_column(at, name, rows) for at, name in enumerate(columns)],
        },
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _column(at: int, name: str, rows: list[Row]) -> dict[str, object]:
    said = _SAID.get(name, f"the group, by {name!r}")
    return {
        "name": quote(name, safe="") if name in _SAID else f"group_{at}",
        "titles": spreadsheet_cell(name),
        "dc:description": plain(said),
        "datatype": _datatype(name, rows),
    }


def _datatype(name: str, rows: list[Row]) -> object:
    """The type of a column; as people write numbers and truth values in Python."""
    if name in NUMBERS and all(row[name] is None or math.isfinite(row[name]) for row in rows):
        return "double"
    if name in FLAGS:
        return {"base": "boolean", "format": "True|False"}
    return "date" if name == "date" else "string"
