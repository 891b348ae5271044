"""The weaker promise of an account with periods, as a certificate states it: reports and tables repeat it."""

from __future__ import annotations

import json


def stated_promise(certificate: str) -> str | None:
    """The sentence in a certificate about the periods of its account; None where the budget is for good, or unknown.

    >>> stated_promise('{"ledger": {"promise": "The budget is for each year."}}')
    'The budget is for each year.'
    >>> stated_promise("") is stated_promise('{"ledger": null}') is None
    True
    """
    try:
        entry = json.loads(certificate)["ledger"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    said = entry.get("promise") if isinstance(entry, dict) else None
    return said if isinstance(said, str) else None
