"""Attention: the product of softmax and values runs on the batch; its projections are linear layers."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rangebound.learn.torch.gradients.tape import Tape, Unruled


def attention(
    mode: TorchFunctionMode,
    tape: Tape,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    *rest: Any,
    **named: Any,
) -> torch.Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`, which has no parameters; vmap would loop over examples."""
    axes = query.dim()
    if axes not in (3, 4) or key.dim() != axes or value.dim() != axes:
        raise Unruled

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        q, k, v = (each if axes == 3 else each.flatten(0, 1) for each in tensors[:3])
        mask = None
        if attn_mask is not None:
            lead = tensors[3].shape[:1] if axes == 3 else (len(tensors[0]), tensors[0].shape[1])
            mask = tensors[3].reshape(len(tensors[3]), *(1,) * (axes - attn_mask.dim()), *attn_mask.shape)
            mask = mask if axes == 3 else mask.expand(*lead, *mask.shape[2:]).flatten(0, 1)
        output = F.scaled_dot_product_attention(q, k, v, mask, *rest, **named)
        return output if axes == 3 else output.reshape(*tensors[0].shape[:2], *output.shape[1:])

    found: torch.Tensor = tape.folded(run, query, key, value, *([] if attn_mask is None else [attn_mask]))
    return found


def _unguarded(function: Any) -> Any:
    """The function without its first question, whether a mode is at work: its parts are then seen by the mode."""
    around = {**function.__globals__, "has_torch_function": lambda given: False}
    made = FunctionType(function.__code__, around, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


_MULTI_HEAD = _unguarded(F.multi_head_attention_forward)


def multi_head(mode: TorchFunctionMode, tape: Tape, *given: object, **named: object) -> Any:
    """`torch.nn.functional.multi_head_attention_forward`: two linear layers around an attention."""
    with mode:
        return _MULTI_HEAD(*given, **named)


RULES = {F.scaled_dot_product_attention: attention, F.multi_head_attention_forward: multi_head}
