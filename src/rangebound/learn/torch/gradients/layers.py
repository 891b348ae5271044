"""The fast route for chains of common layers: one backward pass, and sums from the inputs of each layer.

Only an `nn.Sequential` (nested ones too) of the layers in the tables below qualifies: these treat each example
separately, so one pass over the batch gives each example's own gradients. The gradient of a layer's weights for one
example is a product of its input and of the gradient of its output; for a linear layer the clamped sum of these
products is taken without storing one of them. Every other module takes the route of `torch.func`.

**An example whose gradient is not finite silently counts with gradient zero**: a single malformed example does not
abort a step. Its row is set to zero in the inputs of each layer before anything is summed, so that no NaN reaches the
others. The same holds for an example for which the criterion raises an error, unless it also raises one for zeros: then
the call itself is wrong, and the error is that of the zeros.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import nn
from torch.func import vmap

from rangebound.errors import ArgumentError
from rangebound.learn.torch.clipping_norm import Clipping, Elementwise, Euclidean
from rangebound.learn.torch.gradients.clamped import clamped_products, clamped_rows

_CACHED = 1 << 17  # doubles

Chain = list[tuple[str, nn.Module]]
Layer = nn.Linear | nn.Conv2d
Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_FREE = (
    nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Identity,
    nn.Dropout, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d,
)  # fmt: skip


def chain(module: nn.Module) -> Chain | None:
    """The layers of a chain in order, with the prefixes of their parameters' names; None for other modules."""
    found: Chain = []

    def walk(name: str, part: nn.Module) -> bool:
        if _is_touched(part):
            return False
        if type(part) is nn.Sequential:
            return all(walk(f"{name}{inner}.", each) for inner, each in zip(part._modules, part, strict=True))
        found.append((name, part))
        if type(part) is nn.Conv2d:
            return part.groups == 1 and part.padding_mode == "zeros" and not isinstance(part.padding, str)
        return type(part) in (*_FREE, nn.Linear) or (type(part) is nn.Flatten and part.start_dim == 1)

    if not walk("", module):
        return None
    owned = [each for _, part in found for each in part.parameters()]
    unshared = len({id(part) for _, part in found}) == len(found) and len({id(each) for each in owned}) == len(owned)
    return found if unshared else None


def block(layers: Chain, x: torch.Tensor, memory: int) -> int:
    """How many examples at a time keep within the memory: convolutions store gradients and patches of each."""
    largest = 8 * x[:1].numel()
    for _, part in layers:
        if isinstance(part, nn.Conv2d):
            patch = part.weight[0].numel()
            largest = max(largest, 8 * (part.weight.numel() + patch * x.shape[-1] * x.shape[-2]))
    return max(1, memory // max(largest, 1))


def sums(
    layers: Chain, criterion: Criterion, x: torch.Tensor, y: torch.Tensor, clip: Clipping
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The sum of the clipped gradients of a block of examples, by the parameters' names, and the losses.

    The loss of an example whose gradient is not finite, and so counts as zero, is NaN.
    """
    seen: list[tuple[str, Layer, torch.Tensor]] = []
    outputs: list[torch.Tensor] = []
    value = x
    for name, part in layers:
        trained = any(each.requires_grad for each in part.parameters())
        if trained:
            assert isinstance(part, Layer)  # the layers of a chain that have parameters
            seen.append((name, part, value.detach()))
        if isinstance(part, nn.Conv2d) and value.dim() != 4:  # otherwise the examples would be mistaken for channels
            raise ArgumentError(f"x={tuple(value.shape)}: images need four axes: examples, channels, rows, columns")
        # An in-place layer would overwrite the stored output of the previous layer.
        value = part(value.clone() if getattr(part, "inplace", False) else value)
        if trained:
            outputs.append(value)
    losses = example_losses(criterion, value, y)
    slopes = torch.autograd.grad(losses.sum(), outputs)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        good = ~torch.isnan(losses)
        for each in (*(inner for _, _, inner in seen), *slopes):
            good &= finite(each)
        everyone = bool(good.all())
        parts = seen if everyone else [(name, part, kept(inner, good)) for name, part, inner in seen]
        slopes = slopes if everyone else tuple(kept(slope, good) for slope in slopes)
        totals = {}
        if isinstance(clip, Elementwise):
            for (name, part, inner), slope in zip(parts, slopes, strict=True):
                found, whole = _clamped(name, part, inner, slope, clip)
                totals.update(found)
                good &= whole
        else:
            rows = [_factors(part, inner, slope) for (_, part, inner), slope in zip(parts, slopes, strict=True)]
            squared = [_square(each, part) for each, (_, part, _) in zip(rows, parts, strict=True)]
            squares = functools.reduce(torch.add, squared)
            weights, whole = shrink(squares, clip), torch.isfinite(squares)
            if not bool(whole.all()):
                rows = [(kept(a, whole), None if g is None else kept(g, whole), kept(b, whole)) for a, g, b in rows]
            for (name, part, _), factors in zip(parts, rows, strict=True):
                totals.update(_weighted(name, part, factors, weights))
            good &= whole
    return totals, without(losses.detach(), good)


def finite(rows: torch.Tensor) -> torch.Tensor:
    """For each example whether all its numbers are finite."""
    if rows.device.type == "cpu":  # a finite sum has finite terms, and takes a third of the time
        sums = torch.isfinite(rows.flatten(1).sum(1))
        if bool(sums.all()):
            return sums
    return torch.isfinite(rows).flatten(1).all(1)


def kept(rows: torch.Tensor, good: torch.Tensor) -> torch.Tensor:
    """The rows of the valid examples, and zeros for the others."""
    return torch.where(good.reshape(-1, *(1 for _ in rows.shape[1:])), rows, torch.zeros((), dtype=rows.dtype).to(rows))


def without(losses: torch.Tensor, good: torch.Tensor) -> torch.Tensor:
    """The losses, NaN for the examples that do not count."""
    return torch.where(good, losses, torch.full_like(losses, math.nan))


def example_losses(criterion: Criterion, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The criterion of each example separately, whatever its reduction; one that vmap cannot run keeps no state.

    Edge cases: NaN, of which no gradient is finite, for an example for which the criterion raises an error.
    """

    def together(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        losses: torch.Tensor = vmap(lambda a, b: criterion(a[None], b[None]).sum(), randomness="different")(o, t)
        return losses

    def alone(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        losses: torch.Tensor = copy.deepcopy(criterion)(o, t).sum()
        return losses[None]

    return torch.cat([torch.zeros_like(output.flatten()[:0]), *spared(together, alone, _lost, output, y)])


def _lost(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (output * math.nan).flatten(1).sum(1)


R = TypeVar("R")
ERRORS = (RuntimeError, IndexError, ValueError)  # what torch raises for numbers outside a function's domain


def spared(
    together: Callable[[torch.Tensor, torch.Tensor], R],
    alone: Callable[[torch.Tensor, torch.Tensor], R],
    lost: Callable[[torch.Tensor, torch.Tensor], R],
    x: torch.Tensor,
    y: torch.Tensor,
) -> list[R]:
    """The results of a function for blocks of examples, in order; `lost` where it raises an error.

    `together` takes several examples at once, `alone` one at a time. Which of them is used, and whether an error is due
    to the call and not to an example, is determined with zeros in place of the examples, so it does not depend on the
    data.
    """
    try:
        return [together(x, y)] if len(x) else []
    except torch.OutOfMemoryError:
        raise
    except ERRORS:
        zeros = torch.zeros_like(x[:1]), torch.zeros_like(y[:1])
    try:
        together(*zeros)
    except ERRORS:  # not a function for several at once
        alone(*zeros)
        pairs = [(x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
        return [_one(alone, lost, *pair) for pair in pairs]
    if len(x) == 1:
        return [lost(x, y)]
    half = len(x) // 2
    parts = [(x[:half], y[:half]), (x[half:], y[half:])]
    return [result for a, b in parts for result in spared(together, alone, lost, a, b)]


def _one(
    alone: Callable[[torch.Tensor, torch.Tensor], R],
    lost: Callable[[torch.Tensor, torch.Tensor], R],
    x: torch.Tensor,
    y: torch.Tensor,
) -> R:
    try:
        return alone(x, y)
    except torch.OutOfMemoryError:
        raise
    except ERRORS:
        return lost(x, y)


def shrink(squares: torch.Tensor, clip: Euclidean) -> torch.Tensor:
    """The factor that scales each example's gradient of this squared norm to at most the clipping norm.

    Edge cases: 0 where the square is not finite, be it that the gradient is not or that its square is too large.
    """
    factors = (clip.target / squares.sqrt()).clamp(max=1.0)
    return torch.where(torch.isfinite(squares), factors, torch.zeros_like(factors))


def _clamped(
    name: str, part: Layer, inner: torch.Tensor, slope: torch.Tensor, clip: Elementwise
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The clamped sums of one layer, and for each example whether its gradient there is finite and counts."""
    a, g = _rows(part, inner, slope)
    bias, good = _bias(part, slope), torch.ones(len(a), dtype=torch.bool, device=a.device)
    if g is None:  # sums of products, which may overflow
        good = finite(bias) & finite(a)
        if not bool(good.all()):
            a, bias = kept(a, good), kept(bias, good)
    found = {}
    if part.weight.requires_grad:
        found[f"{name}weight"] = clamped_products(a, g, clip) if g is not None else clamped_rows(a, clip)
    if part.bias is not None and part.bias.requires_grad:
        found[f"{name}bias"] = clamped_rows(bias, clip)
    return found, good


def _rows(part: Layer, inner: torch.Tensor, slope: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Two factors of each example's gradient, or (with None) the gradients themselves as rows."""
    wide = torch.float64 if torch.float64 in (inner.dtype, slope.dtype) else torch.float32
    inner, slope = inner.to(wide), slope.to(wide)
    if isinstance(part, nn.Conv2d):
        return torch.bmm(slope.flatten(2), _patches(part, inner)).flatten(1), None
    if inner.dim() == 2:
        return inner, slope
    inner, slope = inner.flatten(1, -2), slope.flatten(1, -2)
    return torch.bmm(slope.transpose(1, 2), inner).flatten(1), None


def _patches(part: nn.Conv2d, inner: torch.Tensor) -> torch.Tensor:
    """The input patch of each position of a convolution's output, one row each: a view of the input, copied once."""
    assert not isinstance(part.padding, str)  # or it is not in a chain
    rows, columns = part.padding
    windows = nn.functional.pad(inner, (columns, columns, rows, rows))
    for axis, size, stride, step in zip((2, 3), part.kernel_size, part.stride, part.dilation, strict=True):
        windows = windows.unfold(axis, step * (size - 1) + 1, stride)[..., ::step]
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def _bias(part: Layer, slope: torch.Tensor) -> torch.Tensor:
    if isinstance(part, nn.Conv2d):
        return slope.float().flatten(2).sum(-1) if slope.dtype != torch.float64 else slope.flatten(2).sum(-1)
    wide = slope if slope.dtype == torch.float64 else slope.float()
    return wide if wide.dim() == 2 else wide.flatten(1, -2).sum(1)


def _factors(
    part: Layer, inner: torch.Tensor, slope: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    a, g = _rows(part, inner, slope)
    return a, g, _bias(part, slope)


def _square(rows: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor], part: Layer) -> torch.Tensor:
    a, g, bias = rows
    total = _squares(a) * (1.0 if g is None else _squares(g)) * float(part.weight.requires_grad)
    return total + (_squares(bias) if part.bias is not None and part.bias.requires_grad else 0.0)


def _weighted(
    name: str, part: Layer, rows: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor], weights: torch.Tensor
) -> dict[str, torch.Tensor]:
    a, g, bias = rows
    found = {}
    if part.weight.requires_grad:
        found[f"{name}weight"] = _combined(weights[:, None] if g is None else g.double() * weights[:, None], a)
    if part.bias is not None and part.bias.requires_grad:
        found[f"{name}bias"] = _combined(weights[:, None], bias)
    return found


def _in_doubles(rows: torch.Tensor) -> Iterator[torch.Tensor]:
    """Convert rows to float64 in blocks that reuse one buffer, so that on the CPU they stay in cache.

    Use each block before asking for the next.
    """
    if rows.device.type != "cpu" or rows.dtype == torch.float64:
        yield rows.double()
        return
    size = max(_CACHED // max(rows.shape[1], 1), 1)
    room = torch.empty((min(size, len(rows)), rows.shape[1]), dtype=torch.float64)
    for part in torch.split(rows, size):  # type: ignore[no-untyped-call, unused-ignore]
        yield room[: len(part)].copy_(part)


def _squares(rows: torch.Tensor) -> torch.Tensor:
    """The squared norm of each row."""
    return torch.cat([torch.linalg.vector_norm(each, dim=1).square() for each in _in_doubles(rows)])


def _combined(factors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The sums of the rows, one sum for each column of factors."""
    total = torch.zeros((factors.shape[1], rows.shape[1]), dtype=torch.float64, device=rows.device)
    start = 0
    for each in _in_doubles(rows):
        total += factors[start : start + len(each)].T @ each
        start += len(each)
    return total


def _is_touched(part: nn.Module) -> bool:
    """Whether hooks, or a replaced forward function, change what the module computes."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    everywhere = any(getattr(nn.modules.module, f"_global{each}", None) for each in hooks)
    return everywhere or "forward" in vars(part) or any(getattr(part, each, None) for each in hooks)
