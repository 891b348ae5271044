"""What people type who come from Opacus, and what it is called here."""

from __future__ import annotations

from collections.abc import Iterable

from rangebound.errors import ArgumentTypeError

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


def unknown_attribute(name: str) -> AttributeError:
    """The error for an attribute that an engine does not have."""
    ours = f", as the one of Opacus has; here it is {_ATTRIBUTES[name]}" if name in _ATTRIBUTES else ""
    return AttributeError(f"PrivacyEngine has no {name}{ours}")
