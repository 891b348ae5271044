"""Which way the gradients of each parameter take, found on made-up examples of the same shape, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import torch

from rangebound.errors import ArgumentError
from rangebound.learn.torch.gradients.bad_examples import ERRORS
from rangebound.learn.torch.gradients.chain_of_layers import is_chain
from rangebound.learn.torch.gradients.one_pass import Criterion, Loose, Pass, Tensors, one_pass
from rangebound.learn.torch.gradients.stand_ins import stand_ins
from rangebound.learn.torch.gradients.whole_module import example_gradients

_TENSORS = 3  # of the size of each that is noted exist at once, about

_KNOWN: WeakKeyDictionary[torch.nn.Module, dict[object, Route]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class SteadyChunk:
    """How many examples are computed at once, and how; `why` their gradients may depend on the place, if they may."""

    size: int
    threads: int
    exact: bool = False  # without TF32 on a GPU
    why: str = ""

    def explain(self) -> str:
        """What it means for an example."""
        how = "without TF32" if self.exact else f"at most {self.threads} threads of the processor"
        return f"chunk size {self.size}, {how}; gradients: {self.why or 'the same bits at every place'}"


@dataclass(kw_only=True)
class Route:
    """How a module's gradients are made; `refused` says why one pass cannot make them, and is empty if it can."""

    separate: bool
    loose: dict[str, str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    stored: int = 0
    noted: int = 0
    refused: str = ""
    chunks: dict[object, SteadyChunk] = field(default_factory=dict)  # that were tried
    judge: Callable[[], object] = lambda: None  # the criterion, if it is still there

    def room(self, *, rows: bool) -> int:
        """The bytes that an example takes in a pass, with or without the rows that are held for its norm."""
        return _TENSORS * self.noted + (4 * self.stored if rows else 0)

    def explain(self, parameters: Tensors) -> str:
        """One line for each parameter: by the rule of a layer, alone, or with the whole module, and why."""
        tried = [each.explain() for each in self.chunks.values()][-1:]
        if self.refused:
            whole = f"every parameter: torch.func.vmap of the whole module, or one example at a time: {self.refused}"
            return "\n".join([whole, *tried])
        ways = {name: f"in the one pass, rule: {layer}" for name, layer in self.layers.items()}
        ways |= {
            name: f"its own view for each example, since {why or 'other code'} uses it and has no rule"
            for name, why in self.loose.items()
        }
        lines = [f"{name}: {ways.get(name, 'not used: its gradient is zero')}" for name in parameters]
        how = "under torch.func.vmap, one example each" if self.separate else "as it is: a chain of known layers"
        return "\n".join([f"the module runs {how}", *lines, *tried])


def survey(
    module: torch.nn.Module, parameters: Tensors, criterion: Criterion, x: torch.Tensor, y: torch.Tensor
) -> Route:
    """The route for examples of this shape, which does not depend on their values: made-up ones stand in for them.

    Raises the error of the module or the criterion where they fail for all of these, whatever the examples are.
    """
    device = x.device.type
    kind = (
        id(criterion), x.shape[1:], x.dtype, y.shape[1:], y.dtype, x.device, module.training, tuple(parameters),
        is_chain(module), torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device),
    )  # fmt: skip
    known = _KNOWN.setdefault(module, {})
    if kind not in known or known[kind].judge() is not criterion:
        known[kind] = _surveyed(module, parameters, criterion, x, y)
    return known[kind]


def _surveyed(
    module: torch.nn.Module, parameters: Tensors, criterion: Criterion, x: torch.Tensor, y: torch.Tensor
) -> Route:
    route = Route(judge=_reference(criterion), separate=not is_chain(module))
    for given in stand_ins(2, x, y):
        try:
            found = _passed(route, module, parameters, criterion, *given)
        except (ArgumentError, torch.OutOfMemoryError):
            raise
        except ERRORS as error:
            route.refused = route.refused or str(error).partition("\n")[0] or type(error).__name__
            continue
        route.layers, route.refused = found.layers, ""
        route.stored = sum(each.stored for each in found.gradients.values())
        route.noted = sum(each.numel() * each.element_size() for each in found.watched) // 2
        return route
    zeros = next(stand_ins(1, x, y))
    example_gradients(module, parameters, criterion, zeros[0], zeros[1])  # an error if the call is wrong
    return route


def _passed(
    route: Route, module: torch.nn.Module, parameters: Tensors, criterion: Criterion, x: torch.Tensor, y: torch.Tensor
) -> Pass:
    while True:
        try:
            return one_pass(module, parameters, criterion, x, y, loose=route.loose.keys(), separate=route.separate)
        except Loose as more:
            route.separate = True
            route.loose |= more.names


def _reference(criterion: Criterion) -> Callable[[], object]:
    """A weak reference, where there can be one: a criterion may hold the module, which then would live for ever."""
    try:
        return ref(criterion)
    except TypeError:
        return lambda: criterion
