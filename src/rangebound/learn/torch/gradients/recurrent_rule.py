"""LSTM and GRU, layers and cells: linear layers of the inputs and of the states, with the gates between them.

The gates of all steps are one linear layer of the inputs, so one backward pass through the steps gives the gradients of
all weights: those of a state's weights have the same gradient of the gates (for a GRU, times the reset gate where that
stands between), and the states themselves as inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from rangebound.learn.torch.gradients import sums
from rangebound.learn.torch.gradients.gradient_forms import held, outer
from rangebound.learn.torch.gradients.tape import Rules, Tape, Unruled

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


def _layers(kind: str, tape: Tape, *given: Any) -> Any:
    """`torch.lstm` and `torch.gru`: all layers and directions with one sequence for each example."""
    if len(given) != 9 or not isinstance(given[3], bool):
        raise Unruled  # packed sequences
    x, hx, weights, biased, layers, dropout, training, both, first = given
    states = hx if kind == "LSTM" else (hx,)
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
                output, last = _layer(kind, tape, inner.flip(1) if way else inner, begin, own)
                found.append(output.flip(1) if way else output)
                lasts.append(last)
            inner = torch.cat(found, 2) if both else found[0]
        ends = (torch.stack(part, 1)[:, :, None] for part in zip(*lasts, strict=True))
        return (inner[:, None] if first else inner[:, :, None]), *ends

    return tuple(tape.folded(run, x, *states))


def _layer(
    kind: str, tape: Tape, x: torch.Tensor, start: Tensors, own: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, Tensors]:
    """The states of one layer in one direction, and the last ones; the weights `own` are noted."""
    count = len(x)
    of_input, of_state = own[2:] if len(own) == 4 else (None, None)
    bias = tape.copy_of(of_input)
    if kind == "LSTM" and of_state is not None:
        bias = bias + tape.copy_of(of_state)
    output = F.linear(x.reshape(-1, x.shape[-1]), tape.copy_of(own[0]), bias)
    output, place = tape.note_output(output)
    gates = output.view(*x.shape[:2], -1).transpose(0, 1)  # (steps, examples, gates)
    state = [each.to(gates.dtype) for each in (*start, own[1].detach())]
    factor: torch.Tensor | None = None
    with torch.autocast(x.device.type, enabled=False):
        if kind == "LSTM":
            states, cell, before = LstmSteps.apply(gates, *state)  # type: ignore[no-untyped-call]
            last: Tensors = (states[-1], cell)
        else:
            inside = gates.new_zeros(gates.shape[2]) if of_state is None else of_state.detach().to(gates.dtype)
            states, before, reset = GruSteps.apply(gates, *state, inside)  # type: ignore[no-untyped-call]
            last = (states[-1],)
            ones = torch.ones_like(reset)
            factor = torch.cat([ones, ones, reset.detach()], 2).transpose(0, 1)

    def by_example(g: torch.Tensor) -> torch.Tensor:
        return g.view(count, -1, g.shape[-1])

    def changed(g: torch.Tensor) -> torch.Tensor:
        return by_example(g) if factor is None else by_example(g) * factor

    if tape.traced(own[0]):
        a = tape.note_input(x)
        tape.note_use(own[0], place, kind, lambda g: outer(a, by_example(g)))
    tape.note_use(own[1], place, kind, lambda g: outer(before.detach().transpose(0, 1), changed(g)))
    tape.note_use(of_input, place, kind, lambda g: held(by_example(g).sum(1, dtype=sums.wide(g))))
    tape.note_use(of_state, place, kind, lambda g: held(changed(g).sum(1, dtype=sums.wide(g))))
    return states.transpose(0, 1), last


def _lstm_cell(
    tape: Tape, input: torch.Tensor, hx: Any, w_ih: torch.Tensor, w_hh: torch.Tensor, b_ih: Any = None,
    b_hh: Any = None,
) -> Tensors:  # fmt: skip
    """`torch.lstm_cell`: two linear layers and the gates."""
    with tape:
        made = F.linear(input, w_ih, b_ih) + F.linear(hx[0], w_hh, b_hh)
    i, f, g, o = made.chunk(4, -1)
    cell = f.sigmoid() * hx[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru_cell(
    tape: Tape, input: torch.Tensor, hx: Any, w_ih: torch.Tensor, w_hh: torch.Tensor, b_ih: Any = None,
    b_hh: Any = None,
) -> torch.Tensor:  # fmt: skip
    """`torch.gru_cell`: two linear layers and the gates."""
    with tape:
        of_input, of_state = F.linear(input, w_ih, b_ih).chunk(3, -1), F.linear(hx, w_hh, b_hh).chunk(3, -1)
    reset, update = (a.add(b).sigmoid() for a, b in zip(of_input[:2], of_state[:2], strict=True))
    new: torch.Tensor = (of_input[2] + reset * of_state[2]).tanh()
    found: torch.Tensor = new + update * (hx - new)
    return found


RECURRENT: Rules = {
    torch.lstm: partial(_layers, "LSTM"),
    torch.gru: partial(_layers, "GRU"),
    torch.lstm_cell: _lstm_cell,
    torch.gru_cell: _gru_cell,
}
