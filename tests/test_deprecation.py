"""A name that goes warns where it is used, says until when it is there and what to write, and works meanwhile."""

import inspect
import sys
import types
import warnings

import pytest

import rangebound as rb
from rangebound.deprecation import deprecated, moved


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


def test_every_call_warns_and_the_function_is_described_as_before():
    assert len(warned(lambda: (prove(1), prove(1)))[1]) == 2
    assert [*inspect.signature(prove).parameters] == ["number", "more"]
    assert prove.__name__ == "prove"
    assert inspect.getdoc(prove) == "Prove it.\n\nDeprecated, and removed in version 9.0: write rb.certify(m)."


def test_a_method_is_named_with_its_class():
    class Old:
        @deprecated(removal="9.0", instead="Old.new")
        def go(self) -> str:
            return "gone"

    found, (seen,) = warned(lambda: Old().go())
    assert found == "gone"
    assert "Old.go is deprecated" in str(seen.message)


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


def test_a_moved_name_can_be_imported(old):
    with pytest.warns(DeprecationWarning, match="write rangebound.ledger.Cost"):
        from rangebound_old import Cost
    assert Cost is rb.Cost


def test_control_other_names_are_not_there(old):
    assert not hasattr(old, "Price")
    with pytest.raises(AttributeError, match="module 'rangebound_old' has no attribute 'Price'"):
        _ = old.Price


def test_nothing_is_overdue():
    """What was to be removed by this version is gone: the package marks nothing for a version that is already here."""
    import re
    from pathlib import Path

    def number(version: str) -> tuple[int, ...]:
        return tuple(int(each) for each in re.findall(r"\d+", version)[:3])

    sources = Path(rb.__file__).parent.rglob("*.py")
    marked = re.compile(r"^[^>#]*(?:deprecated|moved)\(.*removal=\"([^\"]+)\"", re.MULTILINE)
    due = {(path.name, found) for path in sources for found in marked.findall(path.read_text(encoding="utf-8"))}
    assert [each for each in due if number(each[1]) <= number(rb.__version__)] == []
