"""Convolutions in one to three dimensions: strides, padding, dilation, groups (depthwise too), and transposed ones.

For each example, the gradient of the weights is a product of the gradient of the output with the patches of the input
that made it; of a transposed convolution, a product of the input with the patches of the gradient of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rangebound.errors import ArgumentError
from rangebound.learn.torch.gradients import doubles, example_rows
from rangebound.learn.torch.gradients.example_rows import ExampleRows
from rangebound.learn.torch.gradients.summed_products import SummedProducts, are_cheaper
from rangebound.learn.torch.gradients.tape import Tape, Unruled

Sizes = tuple[int, ...]


def patches(x: torch.Tensor, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> torch.Tensor:
    """The patches (examples, channels * kernel, positions) of a convolution's input; no copy for a kernel of one."""
    axes = len(kernel)
    if any(padding):
        x = F.pad(x, [each for size in reversed(padding) for each in (size, size)])
    for axis, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True), start=2):
        x = x.unfold(axis, gap * (size - 1) + 1, step)[..., ::gap]
    return x.permute(0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)).flatten(2 + axes).flatten(1, 1 + axes)


def _convolution(function: Callable[..., torch.Tensor], axes: int, *, transposed: bool) -> Callable[..., torch.Tensor]:
    def rule(
        mode: TorchFunctionMode,
        tape: Tape,
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        *rest: Any,
        **named: Any,
    ) -> torch.Tensor:
        options = dict(zip(("output_padding", "groups", "dilation") if transposed else ("dilation", "groups"), rest))  # noqa: B905
        options.update(named)
        groups, dilation = options.get("groups", 1), _sizes(options.get("dilation", 1), axes)
        steps, kernel = _sizes(stride, axes), tuple(weight.shape[2:])
        if isinstance(padding, str):
            total = [gap * (size - 1) if padding == "same" else 0 for gap, size in zip(dilation, kernel, strict=True)]
            if any(each % 2 for each in total):
                raise Unruled
            padding = tuple(each // 2 for each in total)
        margins = _sizes(padding, axes)
        if not tape.separate and input.dim() != axes + 2:  # otherwise the examples would be mistaken for channels
            words = {1: "three axes: examples, channels, places", 2: "four axes: examples, channels, rows, columns"}
            raise ArgumentError(f"x={tuple(input.shape)}: images need {words.get(axes, 'an axis for the examples')}")

        def run(x: torch.Tensor) -> torch.Tensor:
            count, alone = len(x), x.dim() == axes + 2  # one image for each example, without an axis of one
            flat = x if alone else x.flatten(0, 1)
            output = function(flat, tape.copy_of(weight), tape.copy_of(bias), stride, padding, *rest, **named)
            if tape.traced(weight, bias):
                output, place = tape.note_output(output, count)
                if tape.traced(weight):
                    if len(flat) != count:
                        raise Unruled
                    a = tape.note_input(flat)
                    tape.note_use(
                        weight,
                        place,
                        "convolution",
                        lambda g: _rows(a, g, transposed, groups, kernel, steps, margins, dilation),
                    )
                tape.note_use(bias, place, "convolution", lambda g: example_rows.of(_over_positions(g, count)))
            return output if alone else output.reshape(*x.shape[:2], *output.shape[1:])

        return tape.batched(run, input, weight, bias)

    return rule


def _rows(
    a: torch.Tensor,
    g: torch.Tensor,
    transposed: bool,
    groups: int,
    kernel: Sizes,
    steps: Sizes,
    margins: Sizes,
    dilation: Sizes,
) -> ExampleRows:
    dtype = doubles.wide(a, g)
    inner, slope = (g, a) if transposed else (a, g)
    width = slope.shape[1] * (inner.shape[1] // groups) * torch.Size(kernel).numel()

    def factors(first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
        factor = slope[first:last].to(dtype)
        pieces = patches(inner[first:last].to(dtype), kernel, steps, margins, dilation)
        return _fitting(factor, pieces, inner, kernel, steps, margins, dilation)

    def by_position(first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
        factor, pieces = factors(first, last)
        return pieces.mT, factor.mT

    def make(first: int, last: int) -> torch.Tensor:
        factor, pieces = factors(first, last)
        if groups > 1:
            factor = factor.reshape(-1, factor.shape[1] // groups, factor.shape[2])
            pieces = pieces.reshape(-1, pieces.shape[1] // groups, pieces.shape[2])
        return torch.bmm(factor, pieces.transpose(1, 2)).reshape(last - first, -1)

    positions, outputs = slope[0, 0].numel(), slope.shape[1]
    if groups == 1 and are_cheaper(a.device, dtype, positions, width // outputs, outputs):
        return SummedProducts(
            count=len(a), width=width, make=make, device=a.device, positions=positions,
            factors=by_position,
        )  # fmt: skip
    return ExampleRows(count=len(a), width=width, make=make, device=a.device)


def _fitting(
    factor: torch.Tensor,
    pieces: torch.Tensor,
    inner: torch.Tensor,
    kernel: Sizes,
    steps: Sizes,
    margins: Sizes,
    dilation: Sizes,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both with the positions that they share: the output padding of a transposed convolution makes more patches."""
    sizes = zip(inner.shape[2:], kernel, steps, margins, dilation, strict=True)
    there = [(n + 2 * pad - gap * (size - 1) - 1) // step + 1 for n, size, step, pad, gap in sizes]
    if there != list(factor.shape[2:]):
        pieces = pieces.reshape(*pieces.shape[:2], *there)
        pieces = pieces[(slice(None), slice(None), *(slice(size) for size in factor.shape[2:]))].flatten(2)
    return factor.flatten(2), pieces


def _over_positions(g: torch.Tensor, count: int) -> torch.Tensor:
    return g.reshape(count, -1, g.shape[1], g[0, 0].numel()).sum((1, 3), dtype=doubles.wide(g))


def _sizes(value: int | Sequence[int], axes: int) -> Sizes:
    several = (value,) if isinstance(value, int) else tuple(value)
    return several * axes if len(several) == 1 else several


RULES = {
    F.conv1d: _convolution(F.conv1d, 1, transposed=False),
    F.conv2d: _convolution(F.conv2d, 2, transposed=False),
    F.conv3d: _convolution(F.conv3d, 3, transposed=False),
    F.conv_transpose1d: _convolution(F.conv_transpose1d, 1, transposed=True),
    F.conv_transpose2d: _convolution(F.conv_transpose2d, 2, transposed=True),
    F.conv_transpose3d: _convolution(F.conv_transpose3d, 3, transposed=True),
}
