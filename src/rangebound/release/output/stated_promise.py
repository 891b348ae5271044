"""The weaker promise of an account with periods, as a certificate states it: reports and tables repeat it."""

from __future__ import annotations

import json


def stated_entry(certificate: str) -> dict[str, str] | None:
    """Where a certificate says that its release was charged: account, request and head; None where it was not.

    >>> stated_entry('{"ledger": {"account": "a", "request": "r", "head": "h"}}')
    {'account': 'a', 'request': 'r', 'head': 'h'}
    """
    try:
        entry = json.loads(certificate)["ledger"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(entry, dict) or not all(isinstance(each, str) for each in entry.values()):
        return None
    return entry if {"account", "request", "head"} <= entry.keys() else None


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
