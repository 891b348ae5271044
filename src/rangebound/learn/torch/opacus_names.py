"""Names of arguments that are called otherwise here: those of Opacus, and the single ones that groups hold now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypedDict, TypeVar

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.boundings import Bounding
from rangebound.learn.torch.loader import Relation
from rangebound.ledger import Ledger
from rangebound.values.support import Support

Group = TypeVar("Group")


class SingleNames(TypedDict, total=False):
    """What `make_private` takes by names of its own, beside groups."""

    noise_multiplier: float | None
    target_epsilon: float | None
    target_delta: float | None
    bounding: Bounding | None
    support: Support | None
    rate: float | None
    expected_batch: float | None
    neighbours: str | Relation | None
    ledger: Ledger | None
    account: str | None
    request: str | None


_SINGLE = {"multiplier": "noise_multiplier"}

_ARGUMENTS = {
    "max_grad_norm": "clipping=Euclidean(clip=...)",
    "poisson_sampling": 'sampling="poisson", which is the default, or "random-allocation"',
    "batch_first": "nothing: the first axis of each tensor is that of the examples",
    "loss_reduction": "engine.attach(model, reduction=...); no gradient depends on it",
    "noise_generator": "nothing, or noise=InsecureTorchNoise(...), which guarantees nothing",
    "grad_sample_mode": "nothing: engine.explain() says how gradients are made",
    "accountant": "nothing: the account is the tightest one that is proved",
    "secure_mode": "nothing: the draw is always exact and secure",
    "alphas": "nothing: the account has no orders to choose",
}
_ATTRIBUTES = {
    "make_private_with_epsilon": "make_private(target_epsilon=..., target_delta=..., epochs=...)",
    "get_epsilon": "epsilon(delta=...)",
    "get_privacy_spent": "epsilon(delta=...)",
    "accountant": "epsilon(delta=...), statement(delta=...) and state_dict()",
    "save_checkpoint": "state_dict(), beside those of the model and of the optimizer",
    "load_checkpoint": "load_state_dict(state)",
    "is_compatible": "make_private, which names the module that does not fit",
}


def refuse_arguments(called: str, names: Iterable[str]) -> None:
    """Raise an error for the first argument of another name, which says ours where it is known."""
    for name in names:
        ours = f" (the name in Opacus); here it is {_ARGUMENTS[name]}" if name in _ARGUMENTS else ""
        raise ArgumentTypeError(f"{called}(...): it has no argument {name}{ours}")


def joined(name: str, given: object, kind: type[Group], first: str, single: Mapping[str, Any]) -> Group:
    """The group that was given, or one of which `first` was given, with what was given by single names.

    Edge cases: refused where a field is given both ways.
    """
    whole: Any = given if isinstance(given, kind) else kind(**({} if given is None else {first: given}))
    for field in (each.name for each in fields(whole)):
        other = _SINGLE.get(field, field)
        if single.get(other) is not None:
            if getattr(whole, field) is not None:
                both = f"{kind.__name__}({field}=...) and {other}=..."
                raise ArgumentError(f"{name}, {other}: {both} say the same; give one of them")
            whole = replace(whole, **{field: single[other]})
    return whole  # type: ignore[no-any-return]


def unknown_attribute(name: str) -> AttributeError:
    """The error for an attribute that an engine does not have."""
    ours = f", as the one of Opacus has; here it is {_ATTRIBUTES[name]}" if name in _ATTRIBUTES else ""
    return AttributeError(f"PrivacyEngine has no {name}{ours}")
