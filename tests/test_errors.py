"""The exceptions: one tree, and each survives the way to another process with all that it says."""

import copy
import pickle

import pytest

from rangebound import errors

FACTS = {
    errors.PlanError: {"field": "budget.epsilon", "line": 3},
    errors.ClaimFalse: {"pair": (0.0, 1.0), "epsilon": 1.5, "delta": 0.25},
    errors.Undecided: {"lower": 0.5, "upper": 0.75},
    errors.BudgetExceeded: {"account": "people", "remaining": "0.1", "requested": "1"},
    errors.ApprovalNeeded: {"account": "people", "request": "1", "filed": True},
    errors.LedgerTampered: {"findings": ("entry 2", "entry 3")},
}
KINDS = [each for each in vars(errors).values() if isinstance(each, type)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_arrives_whole(kind, again):
    facts = FACTS.get(kind, {})
    error = kind("name=value: rule", **facts)
    error.add_note("seen in chapter 3")
    twin = again(error)
    assert type(twin) is kind
    assert (str(twin), twin.args, twin.__notes__) == ("name=value: rule", error.args, ["seen in chapter 3"])
    assert {name: getattr(twin, name) for name in facts} == facts


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_ours_and_but_the_root_a_builtin(kind):
    assert issubclass(kind, errors.RangeboundError)
    assert kind is errors.RangeboundError or any(each.__module__ == "builtins" for each in kind.__mro__[2:-3])
