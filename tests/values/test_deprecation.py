"""A name that goes warns where it is used, says until when it is there and what to write, and works meanwhile."""

import inspect
import re
import sys
import types
import warnings
from pathlib import Path

import pytest

import rangebound as rb
from rangebound.values.deprecation import deprecated, moved


@deprecated(removal="9.0", instead="rb.certify(m)")
def prove(number: int, *, more: int = 0) -> int:
    """Prove it."""
    return number + more


def warned(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = call()
    return found, seen


def test_a_call_warns_where_it_stands_and_works():
    here = inspect.currentframe().f_lineno + 1
    found, (seen,) = warned(lambda: prove(2, more=1))
    assert found == 3
    assert seen.category is DeprecationWarning
    assert str(seen.message) == "prove is deprecated and will be removed in version 9.0; write rb.certify(m)"
    assert (seen.filename, seen.lineno) == (__file__, here)
    assert [*inspect.signature(prove).parameters] == ["number", "more"]
    assert inspect.getdoc(prove) == "Prove it.\n\nDeprecated, and removed in version 9.0: write rb.certify(m)."


@pytest.fixture
def old(monkeypatch):
    module = types.ModuleType("rangebound_old")
    module.__getattr__ = moved("rangebound_old", {"Cost": "rangebound.ledger.Cost"}, removal="9.0")
    monkeypatch.setitem(sys.modules, "rangebound_old", module)
    return module


def test_a_moved_name_is_the_new_one_and_warns_where_it_is_looked_at(old):
    here = inspect.currentframe().f_lineno + 1
    found, (seen,) = warned(lambda: old.Cost)
    assert found is rb.Cost
    words = "rangebound_old.Cost is deprecated and will be removed in version 9.0; write rangebound.ledger.Cost"
    assert str(seen.message) == words
    assert (seen.filename, seen.lineno) == (__file__, here)


def test_control_other_names_are_not_there(old):
    with pytest.raises(AttributeError, match="module 'rangebound_old' has no attribute 'Price'"):
        _ = old.Price


def test_nothing_is_overdue():
    """What was to be removed by this version is gone: the package marks nothing for a version that is already here."""

    def number(version: str) -> tuple[int, ...]:
        return tuple(int(each) for each in re.findall(r"\d+", version)[:3])

    marked = re.compile(r"^[^>#]*(?:deprecated|moved)\(.*removal=\"([^\"]+)\"", re.MULTILINE)
    texts = [path.read_text(encoding="utf-8") for path in Path(rb.__file__).parent.rglob("*.py")]
    due = [number(found) for text in texts if "removal=" in text for found in marked.findall(text)]
    assert [each for each in due if each <= number(rb.__version__)] == []
