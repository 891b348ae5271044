"""Settings of a training in groups, or by single names: the same training, and never both."""

from typing import Any

import pytest

import rangebound as rb
from rangebound.learn.torch import Charge, Noise, PrivacyEngine, Sampling, SecureNoise
from rangebound.ledger import Ledger
from tests.learn.torch.models import simple

BOUNDED = {"bounding": rb.TRUNCATE, "support": rb.Interval(-9, 9)}
TARGET = {"target_epsilon": 3.0, "target_delta": 1e-5}
STATED = {"rate": 0.25, "expected_batch": 10, "neighbours": "zero-out"}


def made(**options: Any) -> tuple[Any, ...]:
    """All that groups decide of a training."""
    engine, _, loader = simple(40, epochs=1, **{"noise_multiplier": None, **options})
    return engine._step, engine._target, loader.expected, loader.relation


@pytest.mark.parametrize(
    ("groups", "single"),
    [
        ({"noise": Noise(multiplier=4.0, **BOUNDED)}, {"noise_multiplier": 4.0, **BOUNDED}),
        ({"noise": Noise(**TARGET), "sampling": Sampling(**STATED)}, {**TARGET, **STATED}),
        (
            {"noise": Noise(multiplier=4.0), "sampling": Sampling(way="random-allocation")},
            {"noise": SecureNoise(), "noise_multiplier": 4.0, "sampling": "random-allocation"},
        ),
        ({"noise": Noise(multiplier=4.0), "rate": 0.25, "sampling": Sampling(expected_batch=10)}, {
            "noise_multiplier": 4.0, "rate": 0.25, "expected_batch": 10
        }),
    ],
    ids=["bounded", "target", "allocation", "mixed"],
)  # fmt: skip
def test_groups_say_what_single_names_say(groups: dict[str, Any], single: dict[str, Any]) -> None:
    assert made(**groups) == made(**single) != made(noise_multiplier=5.0)


@pytest.mark.parametrize(
    ("group", "field", "single", "value"),
    [
        *[(Noise, each, each, value) for each, value in {**BOUNDED, **TARGET}.items()],
        *[(Sampling, each, each, value) for each, value in STATED.items()],
        (Noise, "multiplier", "noise_multiplier", 4.0),
    ],
)
def test_one_field_given_both_ways_is_refused(group: Any, field: str, single: str, value: Any) -> None:
    with pytest.raises(rb.errors.ArgumentError, match=rf"{group.__name__}\({field}=.* and {single}="):
        made(**{group.__name__.lower(): group(**{field: value}), single: value})


def test_a_charge_is_made_once(tmp_path: Any) -> None:
    ledger = Ledger.create(str(tmp_path / "budget.ledger"))
    ledger.open_account("patients", epsilon=10, delta="0.0001")
    charge = {"ledger": ledger, "account": "patients", "request": "1"}
    noise = Noise(multiplier=8.0, target_delta=1e-5)
    with pytest.raises(rb.errors.ArgumentError, match="charge, ledger"):
        made(noise=noise, charge=Charge(**charge), **charge)
    assert ledger.account("patients").spends == 0
    made(noise=noise, charge=Charge(**charge))
    assert ledger.account("patients").spends == 1
    with pytest.raises(rb.errors.ArgumentTypeError, match="ledger"):
        Charge(**{**charge, "ledger": "budget.ledger"})


def test_single_names_are_not_taken_for_unknown_where_another_argument_is_missing() -> None:
    with pytest.raises(rb.errors.ArgumentTypeError, match=r"clipping are missing; write .*, \*\*single"):
        PrivacyEngine().make_private(noise_multiplier=4.0)
