"""Rules: how layers run on a batch, and what their parameters' gradients for each example are.

A rule takes the tape and the arguments of the function that it stands for. It must treat the examples separately: that
is what the guarantee rests on.

- Linear layers, and products with a matrix of weights: the gradient of the weights is a sum of outer products over
  the positions of an example.
- Convolutions in one to three dimensions, with strides, padding, dilation, groups (depthwise too), and transposed ones:
  a product of the gradient of the output with the patches of the input that made it; of a transposed convolution, a
  product of the input with the patches of the gradient of the output.
- Group, layer and RMS norms: the gradient of the output times the normalised input.
- Embeddings: a row for each token of an example, the sum over the places where it stands.
- Attention: the product of softmax and values runs on the batch; its projections are linear layers.
- Cross entropy and log likelihood of each example run on the batch: vmap would take them apart. A label of no class
  makes its example's loss NaN, and nothing else, where torch raises an error for the whole batch or, on a GPU, ends all
  work of the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import signature
from types import FunctionType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from rangebound.learn.torch.gradients import sums
from rangebound.learn.torch.gradients.gradient_forms import (
    ExampleRows,
    Gradients,
    TokenRows,
    gathered,
    held,
    outer,
    products,
)
from rangebound.learn.torch.gradients.recurrent_rule import RECURRENT
from rangebound.learn.torch.gradients.tape import Rules, Tape, Unruled

Sizes = tuple[int, ...]


def _by_place(g: torch.Tensor, count: int, width: int) -> torch.Tensor:
    """The sums for each example and place of the last axes."""
    return g.reshape(count, -1, width).sum(1, dtype=sums.wide(g))


def _by_channel(g: torch.Tensor, count: int) -> torch.Tensor:
    """The sums for each example and channel, the second axis."""
    return g.reshape(count, -1, g.shape[1], g[0, 0].numel()).sum((1, 3), dtype=sums.wide(g))


def linear(
    tape: Tape, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, turned: bool = False
) -> torch.Tensor:
    """`torch.nn.functional.linear`, for inputs with any number of axes; the weight may be `turned`."""
    if weight.dim() != 2 or input.shape[-1:] != weight.shape[-2 if turned else -1 :][:1]:
        raise Unruled  # a vector of weights; or a mistake, which torch names
    inputs, outputs = weight.shape if turned else weight.shape[::-1]

    def gradients(a: torch.Tensor, g: torch.Tensor) -> Gradients:
        g = g.reshape(len(a), -1, outputs)
        return outer(g, a) if turned else outer(a, g)

    def run(x: torch.Tensor) -> torch.Tensor:
        count, matrix = len(x), tape.copy_of(weight)
        output = F.linear(x.reshape(-1, inputs), matrix.t() if turned else matrix, tape.copy_of(bias))
        output = tape.note(
            "linear", output, x.reshape(count, -1, inputs), weight, gradients,
            bias, lambda g: _by_place(g, count, outputs),
        )  # fmt: skip
        return output.view(*x.shape[:-1], outputs)

    return tape.batched(run, input, weight, bias)


def product(tape: Tape, input: Any, other: Any) -> torch.Tensor:
    """`torch.matmul` with a matrix of weights on the right."""
    if not tape.traced(other):
        raise Unruled
    return linear(tape, input, other, turned=True)


def product_and_bias(tape: Tape, input: Any, mat1: Any, mat2: Any) -> torch.Tensor:
    """`torch.addmm`, as the layers of GPT-2 call it: a bias, inputs, and a matrix of weights."""
    if input.dim() != 1 or not tape.traced(mat2):
        raise Unruled
    return linear(tape, mat1, mat2, input, turned=True)


class Window(NamedTuple):
    """What a convolution sees of its input at once, and where, for each axis."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes


def patches(x: torch.Tensor, window: Window) -> torch.Tensor:
    """The patches (examples, channels * kernel, *positions) of a convolution's input; no copy for a kernel of one."""
    axes = len(window.kernel)
    if any(window.padding):
        x = F.pad(x, [each for size in reversed(window.padding) for each in (size, size)])
    for axis, (size, step, gap) in enumerate(zip(window.kernel, window.stride, window.dilation, strict=True), start=2):
        x = x.unfold(axis, gap * (size - 1) + 1, step)[..., ::gap]
    return x.permute(0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)).flatten(1, 1 + axes)


def _convolution(function: Callable[..., torch.Tensor], axes: int, *, transposed: bool) -> Callable[..., torch.Tensor]:
    def rule(
        tape: Tape, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Any = 1,
        padding: Any = 0, *rest: Any, **named: Any,
    ) -> torch.Tensor:  # fmt: skip
        options = dict(zip(("output_padding", "groups", "dilation") if transposed else ("dilation", "groups"), rest))  # noqa: B905
        options.update(named)
        groups, dilation, kernel = options.get("groups", 1), _sizes(options.get("dilation", 1), axes), weight.shape[2:]
        if isinstance(padding, str):
            total = [gap * (size - 1) if padding == "same" else 0 for gap, size in zip(dilation, kernel, strict=True)]
            if any(each % 2 for each in total):
                raise Unruled
            padding = tuple(each // 2 for each in total)
        window = Window(tuple(kernel), _sizes(stride, axes), _sizes(padding, axes), dilation)

        def run(x: torch.Tensor) -> torch.Tensor:
            count, alone = len(x), x.dim() == axes + 2  # one image for each example, without an axis of one
            flat = x if alone else x.flatten(0, 1)
            if tape.traced(weight) and len(flat) != count:
                raise Unruled
            output = function(flat, tape.copy_of(weight), tape.copy_of(bias), stride, padding, *rest, **named)
            output = tape.note(
                "convolution", output, flat, weight, lambda a, g: convolved(a, g, transposed, groups, window),
                bias, lambda g: _by_channel(g, count),
            )  # fmt: skip
            return output if alone else output.reshape(*x.shape[:2], *output.shape[1:])

        return tape.batched(run, input, weight, bias)

    return rule


def convolved(a: torch.Tensor, g: torch.Tensor, transposed: bool, groups: int, window: Window) -> ExampleRows:
    """The gradients of the weights of a convolution from its inputs and the gradients of its outputs."""
    dtype = sums.wide(a, g)
    inner, slope = (g, a) if transposed else (a, g)

    def factors(first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
        factor = slope[first:last].to(dtype)
        shared: list[Any] = [slice(size) for size in factor.shape[2:]]  # output padding makes more patches
        return patches(inner[first:last].to(dtype), window)[(..., *shared)].flatten(2).mT, factor.flatten(2).mT

    sizes = slope[0, 0].numel(), inner.shape[1] // groups * torch.Size(window.kernel).numel(), slope.shape[1]
    return products(len(a), a[:0].to(dtype), sizes, factors, groups)


def _sizes(value: int | Sequence[int], axes: int) -> Sizes:
    several = (value,) if isinstance(value, int) else tuple(value)
    return several * axes if len(several) == 1 else several


def _norm(function: Callable[..., torch.Tensor], *, channels: bool = False) -> Callable[..., torch.Tensor]:
    """A norm over the last axes, or over groups of channels."""
    named_as = signature(function)

    def rule(tape: Tape, *given: Any, **named: Any) -> torch.Tensor:
        settings = named_as.bind(*given, **named).arguments
        input, own = settings.pop("input"), {name: settings.pop(name, None) for name in ("weight", "bias")}
        weight, bias = own.values()

        def run(x: torch.Tensor) -> torch.Tensor:
            count, flat = len(x), x.flatten(0, 1) if channels else x

            def summed(g: torch.Tensor) -> torch.Tensor:
                like = bias if weight is None else weight
                return _by_channel(g, count) if channels else _by_place(g, count, like.numel())

            learned = {name: tape.copy_of(each) for name, each in own.items() if each is not None}
            output = tape.note(
                "norm", function(flat, **settings, **learned), flat, weight,
                lambda a, g: held(summed(function(a, **settings) * g)), bias, summed,
            )  # fmt: skip
            return output.view(*x.shape[:2], *output.shape[1:]) if channels else output

        return tape.batched(run, input, weight, bias)

    return rule


def embedding(
    tape: Tape, input: torch.Tensor, weight: torch.Tensor, padding_idx: int | None = None,
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
        output, place = tape.note_output(F.embedding(ids, tape.copy_of(weight), blank))

        def gradients(g: torch.Tensor) -> TokenRows:
            g = g.reshape(count, -1, width)
            return gathered(ids, g if blank is None else g.masked_fill((ids == blank)[..., None], 0.0), tokens)

        tape.note_use(weight, place, "embedding", gradients)
        return output.view(*x.shape, width)

    return tape.batched(run, input, weight)


def lookup(tape: Tape, weight: torch.Tensor, indices: torch.Tensor, *rest: object) -> None:
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


def attention(
    tape: Tape, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
    *rest: Any, **named: Any,
) -> torch.Tensor:  # fmt: skip
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


def multi_head(tape: Tape, *given: object, **named: object) -> Any:
    """`torch.nn.functional.multi_head_attention_forward`: two linear layers around an attention."""
    with tape:
        return _MULTI_HEAD(*given, **named)


def _of_labels(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The mean or the sum over the labels of one example that are not ignored.

    Edge cases: the mean is NaN, as in torch, where all labels are ignored, and the sum 0.
    """

    def rule(
        tape: Tape, input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None,
        size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None,
        reduction: str = "mean", *rest: float, **named: float,
    ) -> torch.Tensor:  # fmt: skip
        plain = weight is None and size_average is None and reduce is None and reduction in ("mean", "sum")
        fits = input.dim() >= 2 and target.shape == input.shape[:1] + input.shape[2:] and not target.is_floating_point()
        if not plain or not fits:
            raise Unruled

        def run(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            examples, outputs, labels = len(labels), outputs.flatten(0, 1), labels.flatten(0, 1)
            counted = labels != ignore_index
            unknown = counted & ((labels < 0) | (labels >= outputs.shape[1]))
            known = labels.masked_fill(unknown, 0)
            losses = loss(outputs, known, None, None, ignore_index, None, "none", *rest, **named)
            total = losses.masked_fill(unknown, math.nan).reshape(examples, -1).sum(1)
            if reduction == "sum":
                return total
            count = counted.reshape(examples, -1).sum(1)
            return (total / count.clamp(min=1)).masked_fill(count == 0, math.nan)

        found: torch.Tensor = tape.folded(run, input, target)
        return found

    return rule


RULES: Rules = {
    F.linear: linear,
    **dict.fromkeys((torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.__matmul__), product),
    torch.addmm: product_and_bias,
    F.conv1d: _convolution(F.conv1d, 1, transposed=False),
    F.conv2d: _convolution(F.conv2d, 2, transposed=False),
    F.conv3d: _convolution(F.conv3d, 3, transposed=False),
    F.conv_transpose1d: _convolution(F.conv_transpose1d, 1, transposed=True),
    F.conv_transpose2d: _convolution(F.conv_transpose2d, 2, transposed=True),
    F.conv_transpose3d: _convolution(F.conv_transpose3d, 3, transposed=True),
    F.layer_norm: _norm(F.layer_norm),
    F.rms_norm: _norm(F.rms_norm),
    F.group_norm: _norm(F.group_norm, channels=True),
    F.embedding: embedding,
    torch.embedding: lookup,
    torch.ops.aten.embedding: lookup,
    torch.ops.aten.embedding.default: lookup,
    F.scaled_dot_product_attention: attention,
    F.multi_head_attention_forward: multi_head,
    **RECURRENT,
    F.cross_entropy: _of_labels(F.cross_entropy),
    F.nll_loss: _of_labels(F.nll_loss),
}
