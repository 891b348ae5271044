"""One pass over a batch that records, for each use of a parameter, what its examples' gradients are made of.

A module runs as it is. A mode of torch sees each function that it calls; a function with a rule
(`rangebound.learn.torch.gradients.layer_rules`) runs on the whole batch, its inputs are noted, and the gradient of its
output is asked for in the one backward pass. The gradient of no weight is computed in that pass.

**No example can affect another, whatever the module does**: the module runs under `torch.func.vmap`, in which each
example is a batch of one. Only the functions with rules see the batch, and they treat its examples separately.

**No use of a parameter is missed**: functions with rules use a copy of it that shares its memory, all others a
view of it for each example, whose gradient the same pass computes. If the loss depends on the parameter itself, its
gradient there shows that it is used where this mode does not see it, and the module takes another route.

**A pass leaves nothing in a module**: what it writes into itself there is discarded. A module may keep what it saw: a
running mean, the last activations, a counter. Kept beyond a pass, it would put numbers of one example into the
gradients of others, and the number of passes, which depends on the size of the batch, into a released model.
"""

from __future__ import annotations

import copy
import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet, ref

import torch
from torch import nn
from torch._C import _functorch as functorch
from torch.autograd.graph import get_gradient_edge, increment_version
from torch.nn.utils.parametrize import ParametrizationList
from torch.overrides import TorchFunctionMode

from rangebound.errors import ArgumentError
from rangebound.learn.torch.gradients.gradient_forms import Gradients, held
from rangebound.learn.torch.gradients.sums import wide

Found = TypeVar("Found")
Rules = Mapping[Any, Callable[..., Any]]

_DATA: Any = torch.Tensor.data.__get__  # type: ignore[attr-defined]
_NO_GRADIENT = -1  # the number of an output that has none
_CONTAINERS = (list, dict, set, deque)
_MEMORY = frozenset({"numpy", "__array__", "__dlpack__", "storage", "untyped_storage"})  # where torch counts no writes
_PARTS = {"_parameters", "_buffers", "_modules"}
_HOOKS = frozenset(vars(nn.Module())) - _PARTS  # torch's own, of all modules


class Unruled(Exception):
    """A call for which a rule does not apply."""


@dataclass(frozen=True, kw_only=True)
class Use:
    """A use of a parameter: which of the noted outputs it made, and its gradients given the gradient of that output."""

    name: str
    output: int
    gradients: Callable[[torch.Tensor], Gradients]
    layer: str


class Tape(TorchFunctionMode):
    """What one pass noted: a mode that calls the rules in place of the functions that have one.

    Raises `RuntimeError` for functions whose own rule for vmap may let examples affect each other, or which vmap drops
    silently; the module then takes another route.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], rules: Rules, *, count: int = 0) -> None:
        super().__init__()
        self._rules = rules
        self._names = {id(each): name for name, each in parameters.items()}
        self._copies = {id(each): each.detach().requires_grad_() for each in parameters.values()}
        self._level: int | None = None  # of the vmap that keeps examples apart, among those that a module may use
        self.uses: list[Use] = []
        self.edges: list[Any] = []
        self._count = count  # of examples
        self._views: dict[str, torch.Tensor] = {}
        self._inputs: list[tuple[torch.Tensor, int]] = []
        self._born: list[ref[torch.Tensor]] = []
        self._lent: list[tuple[torch.Tensor, torch.Tensor]] = []  # tensors whose memory was asked for, and copies

    def enter(self, x: torch.Tensor) -> None:
        """Begin with an example of the vmap that keeps the examples apart."""
        self._level = functorch.maybe_get_level(x)

    def copy_of(self, value: Any) -> Any:
        """The copy of a parameter that the rules use; other values as they are."""
        return self._copies.get(id(value), value)

    def traced(self, *values: object) -> bool:
        """Whether one of the values is a parameter whose gradients are wanted."""
        return any(id(each) in self._names for each in values)

    def batched(self, run: Callable[..., torch.Tensor], x: torch.Tensor, *others: object) -> torch.Tensor:
        """`run` of the batch of x: its axes are those of the module's own tensor, after one for the examples.

        Raises `Unruled` where x is the same for all examples, or something else is not.
        """
        value, differs = _first(x, self._level)
        if not differs or any(_first(each, self._level)[1] for each in others):
            raise Unruled
        found: torch.Tensor = _below(run, self._level, value)
        return found

    def of_all(self, x: object) -> torch.Tensor | None:
        """The tensor of all examples of one that differs between them, or nothing."""
        value, differs = _first(x, self._level)
        return value if differs and isinstance(value, torch.Tensor) else None

    def folded(self, run: Callable[..., Any], *tensors: torch.Tensor) -> Any:
        """`run` of the batches of all tensors, those that are the same for all examples repeated."""
        given = [_first(each, self._level) for each in tensors]
        count = next((len(value) for value, differs in given if differs), 0)
        if not count:
            raise Unruled
        moved = [value if differs else value.expand(count, *value.shape) for value, differs in given]
        return _below(run, self._level, *moved)

    def note_input(self, x: torch.Tensor) -> torch.Tensor:
        """The inputs of a layer, to be used after the backward pass."""
        value = x.detach()
        self._inputs.append((value, value._version))
        return value

    def note_output(self, output: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The output, whose gradient is asked for, and its number; its first axis begins with that of the examples."""
        if not output.requires_grad:  # all that it is made of is frozen, or the module asked for no gradient
            return output, _NO_GRADIENT
        if output._is_view():  # a layer in place would give the view another history
            output = output.clone()
        self.edges.append(get_gradient_edge(output))
        return output, len(self.edges) - 1

    def note_use(self, parameter: Any, output: int, layer: str, gradients: Callable[[torch.Tensor], Gradients]) -> None:
        """A use of a parameter, if its gradients are wanted."""
        name = self._names.get(id(parameter))
        if name is not None and output != _NO_GRADIENT:
            self.uses.append(Use(name=name, output=output, gradients=gradients, layer=f"rule: {layer}"))

    def note(
        self, layer: str, output: torch.Tensor, x: torch.Tensor, weight: Any,
        of_weight: Callable[[torch.Tensor, torch.Tensor], Gradients], bias: Any,
        of_bias: Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:  # fmt: skip
        """The output of a layer, noted: the weights' gradients follow from x and its gradient, the bias's from that."""
        if not self.traced(weight, bias):
            return output
        output, place = self.note_output(output)
        if self.traced(weight):
            a = self.note_input(x)
            self.note_use(weight, place, layer, lambda g: of_weight(a, g))
        self.note_use(bias, place, layer, lambda g: held(of_bias(g)))
        return output

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The inputs noted; an error if something has been written over them, as in any backward pass."""
        if any(value._version != version for value, version in self._inputs):
            raise RuntimeError("module: an operation in place has written over the input of a layer")
        return [value for value, _ in self._inputs]

    def __torch_function__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        func = torch.Tensor.detach if func == _DATA and args[0].is_leaf else func  # which counts what is written
        rule = self._rules.get(func)
        if rule is not None:
            try:
                return self._noted(rule(self, *args, **named))
            except Unruled:
                pass
        if getattr(func, "__name__", "") in _MEMORY and not functorch.is_batchedtensor(args[0]):
            self._lent.append((args[0].detach(), args[0].detach().clone()))
        if self._level is not None:
            _refuse(func, args)
            if self._names and torch.is_grad_enabled():
                name = getattr(func, "__name__", str(func))
                args, named = self._viewed(args, name), {key: self._viewed(each, name) for key, each in named.items()}
        return self._noted(func(*args, **named))

    def _viewed(self, value: Any, function: str) -> Any:
        """The value with a view for each example in place of each parameter, which is noted as used."""
        if type(value) in (tuple, list):
            return type(value)(self._viewed(each, function) for each in value)
        name = self._names.get(id(value))
        if name is None or self._level is None:
            return value
        if name not in self._views:
            layers = []  # vmap, and what the module itself uses of transforms
            while (functorch.maybe_current_level() or 0) >= self._level:
                layers.append(functorch.pop_dynamic_layer_stack())
            try:
                view = value.detach().expand(self._count, *value.shape).requires_grad_()
                self.edges.append(view)
            finally:
                for layer in reversed(layers):
                    functorch.push_dynamic_layer_stack(layer)
            self._views[name] = functorch._add_batch_dim(view, 0, self._level)
            way = f"a view for each example, since {function} uses it and has no rule"
            use = Use(name=name, output=len(self.edges) - 1, gradients=lambda g: held(g.to(wide(g))), layer=way)
            self.uses.append(use)
        return self._views[name]

    def _noted(self, found: Found) -> Found:
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(each, torch.Tensor) and functorch.is_batchedtensor(each):
                self._born.append(ref(each))
        return found

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        for value, before in self._lent:
            if not torch.equal(value, before):
                increment_version(value)  # and of what shares its memory, as after any other write
        self._lent.clear()

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


@contextmanager
def passing(tape: Tape, *parts: object) -> Iterator[None]:
    """A pass that only the tape sees: nothing of it is left in the parts, and no tensor of single examples anywhere."""
    with discarded_state(*parts), tape:
        yield
    tape.check_nothing_is_kept()


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


@contextmanager
def discarded_state(*parts: object, whole: bool = False) -> Iterator[set[str]]:
    """Restore the attributes, containers (in containers too) and buffers of the modules in parts after the block.

    What is yielded then has the names of the buffers that were written, those of parametrizations left out. Raises
    `ArgumentError` if a parameter has been written over. Edge cases: objects of other kinds that are attributes are
    restored only for the `whole`, for which they are copied; see
    `rangebound.learn.torch.gradients.tape.Tape.check_nothing_is_kept`.
    """
    found = {each: path for part in parts if isinstance(part, nn.Module) for path, each in part.named_modules()}
    named, modules = [(path, each) for each, path in found.items()], [*found]
    own_parameters = (each for part in modules for each in part._parameters.values() if each is not None)
    versions = [(each, each._version, each.data_ptr()) for each in own_parameters]
    shared: dict[int, object] = {id(each): each for part in modules for each in (part, *part._parameters.values())}
    saved: list[tuple[object, object]] = []
    copies: dict[int, torch.Tensor] = {}
    for part in modules:
        own = vars(part)
        state = {name: each for name, each in own.items() if name not in _HOOKS}
        saved.append((own, dict(own)))
        saved += [(each, each.copy()) for name, each in state.items() if name in _PARTS]
        saved += _inside([each for name, each in state.items() if name not in _PARTS], set(), top=True)
        if whole:  # generators are shared: those of copies would give every example the same numbers, in every step
            own |= {
                name: each.detach().clone() if isinstance(each, torch.Tensor) else copy.deepcopy(each, shared)
                for name, each in state.items()
                if name not in _PARTS and not isinstance(each, torch.Generator)
            }
        else:
            tensors = {name: each for name, each in state.items() if type(each) is torch.Tensor}
            own |= {name: copies.setdefault(id(each), each.clone()) for name, each in tensors.items()}
    from_parameters = {each for part in modules if isinstance(part, ParametrizationList) for each in part.modules()}
    clones: list[tuple[str, nn.Module, str, torch.Tensor, int]] = []
    for path, part in named:
        for name, each in part._buffers.items():
            if each is not None:
                part._buffers[name] = made = copies.setdefault(id(each), each.clone())
                if part not in from_parameters:
                    clones.append((f"{path}.{name}".lstrip("."), part, name, made, made._version))
    written: set[str] = set()
    try:
        with Tape({}, {}) if whole else nullcontext():
            yield written
    finally:
        for path, part, name, made, version in clones:
            if part._buffers.get(name) is not made or made._version != version:
                written.add(path)
        for container, before in reversed(saved):
            _restore(container, before)
    if any((each._version, each.data_ptr()) != (version, place) for each, version, place in versions):
        raise ArgumentError(
            "module: writes over a parameter in its forward pass, which no noise covers; keep such numbers in a buffer"
        )


def _inside(value: object, seen: set[int], top: bool = False) -> Iterator[tuple[object, object]]:
    """The containers in a container with copies of them, and the tensors in these with their version and numbers."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, Iterable) else ():
        if not isinstance(each, (*_CONTAINERS, tuple, torch.Tensor)) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, _CONTAINERS):
            yield each, each.copy()
        if not isinstance(each, torch.Tensor):
            yield from _inside(each, seen)
        elif type(each) is torch.Tensor and not top:
            yield each, (each._version, each.detach().clone())


def _restore(container: object, before: object) -> None:
    if isinstance(container, torch.Tensor) and isinstance(before, tuple):
        if container._version != before[0]:
            with torch.no_grad():
                container.copy_(before[1])
        return
    held: Any = container
    kept: Any = before
    if isinstance(held, dict) and held.keys() == kept.keys() and [*map(id, held.values())] == [*map(id, kept.values())]:
        return
    held.clear()
    (held.update if isinstance(held, (dict, set)) else held.extend)(kept)


TRACED: WeakSet[nn.Module] = WeakSet()  # modules that vmap runs only as if they were compiled


@contextmanager
def as_if_compiled(module: nn.Module) -> Iterator[None]:
    """Run a module of `TRACED` as where it is compiled.

    Code that asks for values of tensors only to take a short cut (whether a mask is full) does not ask where it is
    compiled, nor under vmap, where no value can be asked for.
    """
    flags: Any = torch.compiler
    before = flags._is_compiling_flag
    flags._is_compiling_flag = before or module in TRACED
    try:
        yield
    finally:
        flags._is_compiling_flag = before
