"""Chains of layers that are known to treat each example separately, so that they run on a batch as they are."""

from __future__ import annotations

from torch import nn

_FREE = (
    nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Identity,
    nn.Dropout, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d,
)  # fmt: skip
_RULED = (nn.Linear, nn.Conv2d, nn.GroupNorm)


def is_chain(module: nn.Module) -> bool:
    """Whether the module is an `nn.Sequential` (nested ones too) of layers that treat each example separately.

    Guarantee: then no example affects the output of another. Edge cases: not if a hook or a replaced forward function
    may change what a layer computes.
    """
    if _is_touched(module):
        return False
    if type(module) is nn.Sequential:
        return all(is_chain(part) for part in module)
    return type(module) in (*_FREE, *_RULED) or (type(module) is nn.Flatten and module.start_dim == 1)


def _is_touched(part: nn.Module) -> bool:
    """Whether hooks, or a replaced forward function, change what the module computes."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    everywhere = any(getattr(nn.modules.module, f"_global{each}", None) for each in hooks)
    return everywhere or "forward" in vars(part) or any(getattr(part, each, None) for each in hooks)
