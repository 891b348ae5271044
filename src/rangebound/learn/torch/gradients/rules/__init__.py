"""Rules: how layers run on a batch, and what their parameters' gradients for each example are; one file for each kind.

A rule takes the mode, the tape and the arguments of the function that it stands for. It must treat the examples
separately: that is what the guarantee rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rangebound.learn.torch.gradients.rules import (
    attention_rule,
    convolution_rule,
    embedding_rule,
    linear_rule,
    loss_rule,
    norm_rule,
    recurrent_rule,
)

RULES: Mapping[Any, Callable[..., Any]] = {
    **linear_rule.RULES,
    **convolution_rule.RULES,
    **norm_rule.RULES,
    **embedding_rule.RULES,
    **attention_rule.RULES,
    **recurrent_rule.RULES,
    **loss_rule.RULES,
}
