"""What a notebook shows of an object: a small table in which every text is only text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from rangebound.values.serial import visible

_LONGEST = 2000


def as_html(caption: str, facts: Mapping[str, object]) -> str:
    """Facts by their names, as HTML.

    >>> as_html("Plan <of visits>", {"unit": "person"})
    '<table><caption>Plan &lt;of visits&gt;</caption><tr><th>unit</th><td>person</td></tr></table>'
    """
    rows = (f"<tr><th>{escaped(name)}</th><td>{escaped(str(each))}</td></tr>" for name, each in facts.items())
    return f"<table><caption>{escaped(caption)}</caption>{''.join(rows)}</table>"


def rows_as_html(head: Sequence[str], rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """Rows of texts below a head, as HTML."""
    above = f"<caption>{escaped(caption)}</caption>" if caption else ""
    names = "".join(f"<th>{escaped(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escaped(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table>{above}<tr>{names}</tr>{body}</table>"


def escaped(text: str) -> str:
    """A text that is no markup, and on one line; one of more than 2,000 letters is cut."""
    return html.escape(visible(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."))
