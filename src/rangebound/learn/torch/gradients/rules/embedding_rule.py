"""Embeddings: the gradient has a row for each token of an example, the sum over the places where it stands."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rangebound.learn.torch.gradients.tape import Tape, Unruled
from rangebound.learn.torch.gradients.token_rows import TokenRows, gathered


def embedding(
    mode: TorchFunctionMode, tape: Tape, input: torch.Tensor, weight: torch.Tensor, padding_idx: int | None = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> torch.Tensor:  # fmt: skip
    """`torch.nn.functional.embedding`, for tokens that differ between examples."""
    _check_tokens(tape, input, weight)
    if not tape.traced(weight) or max_norm is not None or scale_grad_by_freq:
        raise Unruled
    tokens, width = weight.shape
    blank = None if padding_idx is None else padding_idx % tokens

    def run(x: torch.Tensor) -> torch.Tensor:
        count, ids = len(x), x.reshape(len(x), -1)
        output, place = tape.note_output(F.embedding(ids, tape.copy_of(weight), blank), count)

        def gradients(g: torch.Tensor) -> TokenRows:
            g = g.reshape(count, -1, width)
            return gathered(ids, g if blank is None else g.masked_fill((ids == blank)[..., None], 0.0), tokens)

        tape.note_use(weight, place, "embedding", gradients)
        return output.view(*x.shape, width)

    return tape.batched(run, input, weight)


def lookup(mode: TorchFunctionMode, tape: Tape, weight: torch.Tensor, indices: torch.Tensor, *rest: object) -> None:
    """`torch.embedding`, which modules seldom call themselves: without a rule, but checked."""
    _check_tokens(tape, indices, weight)
    raise Unruled


def _check_tokens(tape: Tape, ids: object, weight: torch.Tensor) -> None:
    """Raise an error for a token that is not in the table, where each example has its own view of the table.

    vmap joins these views to one table, in which such a token would be one of another example.
    """
    found = tape.of_all(ids)
    if found is not None and tape.of_all(weight) is not None and bool(((found < 0) | (found >= len(weight))).any()):
        raise IndexError("index out of range in self")


RULES: dict[object, Callable[..., torch.Tensor | None]] = {
    F.embedding: embedding,
    torch.embedding: lookup,
    torch.ops.aten.embedding: lookup,
    torch.ops.aten.embedding.default: lookup,
}
