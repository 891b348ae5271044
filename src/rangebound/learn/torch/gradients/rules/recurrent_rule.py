"""LSTM and GRU, layers and cells: linear layers of the inputs and of the states, with the gates between them.

The gates of all steps are one linear layer of the inputs, so one backward pass through the steps gives the gradients of
all weights: those of a state's weights have the same gradient of the gates (for a GRU, times the reset gate where that
stands between), and the states themselves as inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rangebound.learn.torch.gradients import doubles, example_rows
from rangebound.learn.torch.gradients.outer_products import outer
from rangebound.learn.torch.gradients.tape import Tape, Unruled

Tensors = tuple[torch.Tensor, ...]


class LstmSteps(torch.autograd.Function):
    """All steps of one layer: gates of the inputs (steps, examples, 4 sizes) and a first state to the states."""

    @staticmethod
    def forward(ctx: Any, gates: torch.Tensor, h: torch.Tensor, c: torch.Tensor, weight: torch.Tensor) -> Tensors:
        """The state after each step, and the last cell."""
        steps, count, size = len(gates), gates.shape[1], h.shape[1]
        made = torch.empty_like(gates, memory_format=torch.contiguous_format)
        cells, states = gates.new_empty(steps + 1, count, size), gates.new_empty(steps + 1, count, size)
        cells[0], states[0] = c, h
        turned = weight.t()
        for t in range(steps):
            now = torch.addmm(gates[t], states[t], turned, out=made[t])
            now[:, : 2 * size].sigmoid_()
            now[:, 2 * size : 3 * size].tanh_()
            now[:, 3 * size :].sigmoid_()
            i, f, g, o = now.chunk(4, 1)
            torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, g)
            torch.tanh(cells[t + 1], out=states[t + 1]).mul_(o)
        ctx.save_for_backward(made, cells, weight)
        before = states[:-1].clone()
        ctx.mark_non_differentiable(before)
        return states[1:].clone(), cells[-1].clone(), before

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        """The gradients of the gates of all steps, and of the first state."""
        made, cells, weight = ctx.saved_tensors
        outer_h, dc = slopes[0], slopes[1].clone()
        found = torch.empty_like(made)
        dh = torch.zeros_like(dc)
        for t in range(len(made) - 1, -1, -1):
            i, f, g, o = made[t].chunk(4, 1)
            di, df, dg, do = found[t].chunk(4, 1)
            dh = dh + outer_h[t]
            tanh = torch.tanh(cells[t + 1])
            dc.addcmul_(dh * o, 1.0 - tanh * tanh)
            torch.mul(dh, tanh, out=do).mul_(o * (1.0 - o))
            torch.mul(dc, g, out=di).mul_(i * (1.0 - i))
            torch.mul(dc, cells[t], out=df).mul_(f * (1.0 - f))
            torch.mul(dc, i, out=dg).mul_(1.0 - g * g)
            dc.mul_(f)
            dh = found[t] @ weight
        return found, dh, dc, None


class GruSteps(torch.autograd.Function):
    """The same for a GRU, whose gates are reset, update and new; the bias of the states stands inside the new gate."""

    @staticmethod
    def forward(ctx: Any, gates: torch.Tensor, h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Tensors:
        """The state after each step, those before, and the reset gates."""
        steps, count, size = len(gates), gates.shape[1], h.shape[1]
        made = torch.empty_like(gates, memory_format=torch.contiguous_format)
        inner, states = gates.new_empty(steps, count, size), gates.new_empty(steps + 1, count, size)
        states[0] = h
        turned = weight.t()
        for t in range(steps):
            hidden = torch.addmm(bias, states[t], turned)
            inner[t] = hidden[:, 2 * size :]
            now = made[t]
            torch.add(gates[t, :, : 2 * size], hidden[:, : 2 * size], out=now[:, : 2 * size]).sigmoid_()
            r, z, n = now.chunk(3, 1)
            torch.addcmul(gates[t, :, 2 * size :], r, inner[t], out=n).tanh_()
            torch.lerp(n, states[t], z, out=states[t + 1])
        ctx.save_for_backward(made, inner, states, weight)
        before, reset = states[:-1].clone(), made[:, :, :size].clone()
        ctx.mark_non_differentiable(before, reset)
        return states[1:].clone(), before, reset

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        """The gradients of the gates of all steps, and of the first state."""
        made, inner, states, weight = ctx.saved_tensors
        found = torch.empty_like(made)
        dh = torch.zeros_like(states[0])
        for t in range(len(made) - 1, -1, -1):
            r, z, n = made[t].chunk(3, 1)
            dr, dz, dn = found[t].chunk(3, 1)
            dh = dh + slopes[0][t]
            torch.mul(dh, 1.0 - z, out=dn).mul_(1.0 - n * n)
            torch.mul(dh, states[t] - n, out=dz).mul_(z * (1.0 - z))
            torch.mul(dn, inner[t], out=dr).mul_(r * (1.0 - r))
            dh = dh * z + torch.cat([dr, dz, dn * r], 1) @ weight
        return found, dh, None, None


def _layers(tape: Tape, kind: str, given: tuple[Any, ...]) -> Any:
    """All layers and directions of an LSTM or a GRU with one sequence for each example."""
    if len(given) != 9 or not isinstance(given[3], bool):
        raise Unruled  # packed sequences
    x, hx, weights, biased, layers, dropout, training, both, first = given
    states = hx if kind == "lstm" else (hx,)
    each = 4 if biased else 2
    if x.dim() != 3 or x.shape[0 if first else 1] != 1 or len(weights) != each * layers * (1 + both):
        raise Unruled  # no axis of one, or projections

    if any(part.requires_grad and not tape.traced(part) for part in weights):
        raise Unruled  # made from other parameters

    def run(inner: torch.Tensor, *starts: torch.Tensor) -> Tensors:
        inner = inner[:, 0] if first else inner[:, :, 0]
        lasts: list[Tensors] = []
        for layer in range(layers):
            if layer and dropout and training:
                inner = F.dropout(inner, dropout)
            found = []
            for way in range(1 + both):
                place = layer * (1 + both) + way
                own = weights[each * place : each * (place + 1)]
                begin = tuple(start[:, place, 0] for start in starts)
                seen = inner.flip(1) if way else inner
                output, last = (_lstm if kind == "lstm" else _gru)(tape, seen, begin, own)
                found.append(output.flip(1) if way else output)
                lasts.append(last)
            inner = torch.cat(found, 2) if both else found[0]
        ends = (torch.stack(part, 1)[:, :, None] for part in zip(*lasts, strict=True))
        return (inner[:, None] if first else inner[:, :, None]), *ends

    found = tape.folded(run, x, *states)
    return tuple(found)


def _gates(
    tape: Tape, x: torch.Tensor, weight: torch.Tensor, first: torch.Tensor | None, second: torch.Tensor | None
) -> tuple[torch.Tensor, int]:
    """The linear layer of all steps (steps, examples, gates); `first` is its bias, `second` is added to it."""
    bias = tape.copy_of(first) if second is None else tape.copy_of(first) + tape.copy_of(second)
    output = F.linear(x.reshape(-1, x.shape[-1]), tape.copy_of(weight), bias)
    output, place = tape.note_output(output, len(x))
    return output.view(*x.shape[:2], -1).transpose(0, 1), place


def _by_example(g: torch.Tensor, count: int) -> torch.Tensor:
    """Gradients of gates (examples and steps, gates) with an axis for each."""
    return g.view(count, -1, g.shape[-1])


def _note(
    tape: Tape,
    layer: str,
    place: int,
    x: torch.Tensor,
    own: Sequence[torch.Tensor],
    changed: Callable[[torch.Tensor], torch.Tensor],
    before: torch.Tensor,
) -> None:
    count = len(x)
    if tape.traced(own[0]):
        a = tape.note_input(x)
        tape.note_use(own[0], place, layer, lambda g: outer(a, _by_example(g, count)))
    tape.note_use(own[1], place, layer, lambda g: outer(before.transpose(0, 1), changed(_by_example(g, count))))
    if len(own) == 4:
        tape.note_use(own[2], place, layer, lambda g: example_rows.of(_over_steps(_by_example(g, count))))
        tape.note_use(own[3], place, layer, lambda g: example_rows.of(_over_steps(changed(_by_example(g, count)))))


def _over_steps(g: torch.Tensor) -> torch.Tensor:
    return g.sum(1, dtype=doubles.wide(g))


def _lstm(tape: Tape, x: torch.Tensor, start: Tensors, own: Sequence[torch.Tensor]) -> tuple[torch.Tensor, Tensors]:
    biases = own[2:] if len(own) == 4 else (None, None)
    gates, place = _gates(tape, x, own[0], *biases)
    state = (each.to(gates.dtype) for each in (*start, own[1].detach()))
    with torch.autocast(x.device.type, enabled=False):
        states, cell, before = LstmSteps.apply(gates, *state)  # type: ignore[no-untyped-call]
    _note(tape, "LSTM", place, x, own, lambda g: g, before.detach())
    return states.transpose(0, 1), (states[-1], cell)


def _gru(tape: Tape, x: torch.Tensor, start: Tensors, own: Sequence[torch.Tensor]) -> tuple[torch.Tensor, Tensors]:
    biases = own[2:] if len(own) == 4 else (None, None)
    gates, place = _gates(tape, x, own[0], biases[0], None)
    inner = gates.new_zeros(gates.shape[2]) if biases[1] is None else biases[1].detach()
    state = (each.to(gates.dtype) for each in (*start, own[1].detach(), inner))
    with torch.autocast(x.device.type, enabled=False):
        states, before, reset = GruSteps.apply(gates, *state)  # type: ignore[no-untyped-call]
    ones = torch.ones_like(reset)
    factor = torch.cat([ones, ones, reset.detach()], 2).transpose(0, 1)
    _note(tape, "GRU", place, x, own, lambda g: g * factor, before.detach())
    return states.transpose(0, 1), (states[-1],)


def lstm(mode: TorchFunctionMode, tape: Tape, *given: Any) -> Any:
    """`torch.lstm`, as `torch.nn.LSTM` calls it."""
    return _layers(tape, "lstm", given)


def gru(mode: TorchFunctionMode, tape: Tape, *given: Any) -> Any:
    """`torch.gru`, as `torch.nn.GRU` calls it."""
    return _layers(tape, "gru", given)


def lstm_cell(
    mode: TorchFunctionMode,
    tape: Tape,
    input: torch.Tensor,
    hx: Any,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> Tensors:
    """`torch.lstm_cell`: two linear layers and the gates."""
    with mode:
        made = F.linear(input, w_ih, b_ih) + F.linear(hx[0], w_hh, b_hh)
    i, f, g, o = made.chunk(4, -1)
    cell = f.sigmoid() * hx[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_cell(
    mode: TorchFunctionMode,
    tape: Tape,
    input: torch.Tensor,
    hx: Any,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> torch.Tensor:
    """`torch.gru_cell`: two linear layers and the gates."""
    with mode:
        of_input, of_state = F.linear(input, w_ih, b_ih).chunk(3, -1), F.linear(hx, w_hh, b_hh).chunk(3, -1)
    reset, update = (a.add(b).sigmoid() for a, b in zip(of_input[:2], of_state[:2], strict=True))
    new: torch.Tensor = (of_input[2] + reset * of_state[2]).tanh()
    found: torch.Tensor = new + update * (hx - new)
    return found


RULES = {torch.lstm: lstm, torch.gru: gru, torch.lstm_cell: lstm_cell, torch.gru_cell: gru_cell}
