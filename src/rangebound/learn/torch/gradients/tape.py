"""One pass over a batch that records, for each use of a parameter, what its examples' gradients are made of.

A module runs as it is. A mode of torch sees each function that it calls; a function with a rule
(`rangebound.learn.torch.gradients.rules`) runs on the whole batch, its inputs are noted, and the gradient of its output
is asked for in the one backward pass. The gradient of no weight is computed in that pass.

**No example can affect another, whatever the module does**: the module runs under `torch.func.vmap`, in which each
example is a batch of one. Only the functions with rules see the batch, and they treat its examples separately. A chain
of known layers needs no `vmap`, since each of them treats examples separately.

**No use of a parameter is missed**: functions with rules use a copy of it that shares its memory, all others the
parameter itself. If the loss depends on the parameter itself, its gradient there shows that it is used where no rule
applies, and it then falls back: each example gets its own view of it, whose gradient the same pass computes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from weakref import ref

import torch
from torch._C import _functorch as functorch
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode

from rangebound.errors import ArgumentError
from rangebound.learn.torch.clipping_norm import Elementwise

_NO_GRADIENT = -1  # the number of an output that has none


Found = TypeVar("Found")


class Gradients(Protocol):
    """The gradients of one parameter for each example, in whichever form norms and sums cost least."""

    @property
    def count(self) -> int:
        """The number of examples."""

    @property
    def stored(self) -> int:
        """How many numbers of an example are held for a Euclidean clip."""

    def rows(self, first: int, last: int) -> torch.Tensor:
        """The gradients of some examples, a row each."""

    def keep(self, good: torch.Tensor) -> None:
        """Set the gradients of the other examples to zero."""

    def trim(self, count: int) -> None:
        """Let the first `count` examples count, and no other, in the clamped sum."""

    def squares(self) -> torch.Tensor:
        """The squared norm for each example, in float64."""

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of the gradients times the weights of their examples, in float64."""

    def clamped(self, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the clamped gradients in quanta, and for each example whether it counts."""


class Unruled(Exception):
    """A call for which a rule does not apply."""


@dataclass(frozen=True, kw_only=True)
class Use:
    """A use of a parameter: which of the noted outputs it made, and its gradients given the gradient of that output."""

    name: str
    output: int
    gradients: Callable[[torch.Tensor], Gradients]
    layer: str


class Tape:
    """What one pass noted."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], *, separate: bool) -> None:
        self.names = {id(each): name for name, each in parameters.items()}
        self._copies = {id(each): each.detach().requires_grad_() for each in parameters.values()}
        self.separate = separate  # whether each example is a batch of one, under vmap
        self.level: int | None = None  # of that vmap, among those that the module itself may use
        self.uses: list[Use] = []
        self.edges: list[Any] = []
        self.sizes: list[int] = []
        self._inputs: list[tuple[torch.Tensor, int]] = []

    def enter(self, x: torch.Tensor) -> None:
        """Begin with an example of the vmap that keeps the examples apart."""
        self.level = functorch.maybe_get_level(x)

    def copy_of(self, value: Any) -> Any:
        """The copy of a parameter that the rules use; other values as they are."""
        return self._copies.get(id(value), value)

    def traced(self, *values: object) -> bool:
        """Whether one of the values is a parameter whose gradients are wanted."""
        return any(id(each) in self.names for each in values)

    def batched(self, run: Callable[..., torch.Tensor], x: torch.Tensor, *others: object) -> torch.Tensor:
        """`run` of the batch of x: its axes are those of the module's own tensor, after one for the examples.

        Raises `Unruled` where x is the same for all examples, or something else is not.
        """
        if self.separate:
            value, differs = _first(x, self.level)
            if not differs or any(_first(each, self.level)[1] for each in others):
                raise Unruled
            found: torch.Tensor = _below(run, self.level, value)
            return found
        return run(x.unsqueeze(1)).squeeze(1)

    def of_all(self, x: object) -> torch.Tensor | None:
        """The tensor of all examples of one that differs between them, or nothing."""
        value, differs = _first(x, self.level) if self.separate else (x, False)
        return value if differs and isinstance(value, torch.Tensor) else None

    def folded(self, run: Callable[..., Any], *tensors: torch.Tensor) -> Any:
        """`run` of the batches of all tensors, those that are the same for all examples repeated."""
        if not self.separate:
            raise Unruled
        given = [_first(each, self.level) for each in tensors]
        count = next((len(value) for value, differs in given if differs), 0)
        if not count:
            raise Unruled
        moved = [value if differs else value.expand(count, *value.shape) for value, differs in given]
        return _below(run, self.level, *moved)

    def note_input(self, x: torch.Tensor) -> torch.Tensor:
        """The inputs of a layer, to be used after the backward pass."""
        value = x.detach()
        self._inputs.append((value, value._version))
        return value

    def note_output(self, output: torch.Tensor, count: int) -> tuple[torch.Tensor, int]:
        """The output, whose gradient is asked for, and its number; its first axis begins with that of the examples."""
        if not output.requires_grad:  # all that it is made of is frozen, or the module asked for no gradient
            return output, _NO_GRADIENT
        if output._is_view():  # a layer in place would give the view another history
            output = output.clone()
        self.edges.append(get_gradient_edge(output))
        self.sizes.append(output.numel() // count)
        return output, len(self.edges) - 1

    def note_use(self, parameter: Any, output: int, layer: str, gradients: Callable[[torch.Tensor], Gradients]) -> None:
        """A use of a parameter, if its gradients are wanted."""
        name = self.names.get(id(parameter))
        if name is not None and output != _NO_GRADIENT:
            self.uses.append(Use(name=name, output=output, gradients=gradients, layer=layer))

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The inputs noted; an error if something has been written over them, as in any backward pass."""
        if any(value._version != version for value, version in self._inputs):
            raise RuntimeError("module: an operation in place has written over the input of a layer")
        return [value for value, _ in self._inputs]


class Interception(TorchFunctionMode):
    """Calls the rules in place of the functions that have one; `seen` holds which other functions took a parameter.

    Raises `RuntimeError` for functions whose own rule for vmap may let examples affect each other, or which vmap
    drops silently; the module then takes another route.
    """

    def __init__(self, tape: Tape, rules: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._tape, self._rules = tape, rules
        self.seen: dict[str, set[str]] = {}
        self._born: list[ref[torch.Tensor]] = []

    def __torch_function__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        rule = self._rules.get(func)
        if rule is not None:
            try:
                return self._noted(rule(self, self._tape, *args, **named))
            except Unruled:
                pass
        if self._tape.separate:
            _refuse(func, args)
        for each in (*args, *named.values()):
            name = self._tape.names.get(id(each))
            if name is not None:
                self.seen.setdefault(name, set()).add(getattr(func, "__name__", str(func)))
        return self._noted(func(*args, **named))

    def _noted(self, found: Found) -> Found:
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(each, torch.Tensor) and functorch.is_batchedtensor(each):
                self._born.append(ref(each))
        return found

    def check_nothing_is_kept(self) -> None:
        """Raise `ArgumentError` if a tensor of single examples outlives the pass.

        It would be that of the examples of this pass in the next one, and so put their numbers into other gradients.
        """
        if any(each() is not None for each in self._born):
            gc.collect()  # cycles
        if any(each() is not None for each in self._born):
            raise ArgumentError(
                "module: keeps tensors of its examples after its forward pass, which would reach other examples; "
                "keep them in attributes of the module, which are discarded after each pass, or not at all"
            )
        self._born.clear()


def _refuse(func: object, args: tuple[object, ...]) -> None:
    """Raise an error for what must not run under vmap.

    torch fills all examples' tensors at once by index, so that an index beyond an example's own is one of the next
    example. An `autograd.Function` with a rule of its own for vmap sees all examples. Hooks of tensors are not called.
    """
    name = getattr(func, "__name__", "")
    if name.partition(".")[0] in ("index_fill", "index_fill_", "register_hook"):
        raise RuntimeError(f"{name} does not keep examples apart under torch.func.vmap, or is not called there")
    called = args[0] if args else None
    plain = torch.autograd.Function
    if isinstance(called, type) and issubclass(called, plain) and called.vmap is not plain.vmap:
        raise RuntimeError(f"{called.__name__} has a rule of its own for torch.func.vmap, which sees all examples")


def _first(x: Any, level: int | None) -> tuple[torch.Tensor, bool]:
    """The tensor of all examples with their axis first, and whether they differ in it."""
    if not isinstance(x, torch.Tensor) or not functorch.is_batchedtensor(x):
        return x, False
    value = functorch.get_unwrapped(x)
    if functorch.maybe_get_level(x) != level or functorch.is_batchedtensor(value):
        raise Unruled  # the module itself uses vmap
    place = functorch.maybe_get_bdim(x)
    return value.movedim(place, 0) if place else value, True


def _below(run: Callable[..., Any], level: int | None, *tensors: torch.Tensor) -> Any:
    """`run` of tensors of all examples, outside of vmap; what it returns is what vmap sees, one example each."""
    if level is None or functorch.maybe_current_level() != level:
        raise Unruled  # the module itself uses a transform of functions
    layer = functorch.pop_dynamic_layer_stack()
    try:
        found = run(*tensors)
    finally:
        functorch.push_dynamic_layer_stack(layer)
    if isinstance(found, tuple):
        return tuple(functorch._add_batch_dim(each, 0, level) for each in found)
    return functorch._add_batch_dim(found, 0, level)
