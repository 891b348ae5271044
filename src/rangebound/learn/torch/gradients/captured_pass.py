"""Passes over blocks of one shape as CUDA graphs: small steps on a GPU take the time of launching their work.

A graph repeats the operations on tensors that it was captured from, on the examples that are copied in. No code of the
module runs then, so nothing new can let one example affect another: in the captured pass each was by itself.

Whether a graph is used does not depend on examples: it is captured from made-up ones of their shape, and its sums are
compared with those of a pass that is run as it is. What code in Python did while it was captured, it does not do again,
so a graph holds for one state of the module and of the criterion, plain numbers and texts in their attributes included;
one that counts its calls has a new state each time, and is run as it is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch.random import fork_rng

from rangebound.learn.torch.batch_tree import Leaves
from rangebound.learn.torch.gradients.bad_examples import fixed_work, numbers
from rangebound.learn.torch.gradients.survey import float_precision

Measured = tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]
"""Sums, losses, and squared norms or nothing."""
Run = Callable[[Leaves, "int | torch.Tensor"], Measured]

_MOST = 2  # graphs, each with the memory of its pass
_WARM = 2
_HELD = 32  # objects of a criterion that are looked into
_STATES = 4  # seen once, that are remembered
_CLOSE = 1e-5  # of the largest sum: a graph may multiply matrices in another order


class _Captured:
    """A pass as a graph, and the tensors that it reads and writes."""

    def __init__(self, passed: Run, leaves: Leaves) -> None:
        self.source = passed  # holds the criterion, so that no other one is taken for it by its id
        self.leaves, self.count, device = tuple(each.clone() for each in leaves), len(leaves[0]), leaves[0].device
        self.counted = torch.ones(self.count, dtype=torch.bool, device=device)
        beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call, unused-ignore]
        beside.wait_stream(torch.cuda.current_stream(device))
        with fixed_work():
            with torch.cuda.stream(beside):
                for _ in range(_WARM):
                    passed(self.leaves, self.counted)
            torch.cuda.current_stream(device).wait_stream(beside)
            self.graph = torch.cuda.CUDAGraph()
            torch.clear_autocast_cache()  # type: ignore[no-untyped-call, unused-ignore]  # copies that live no longer
            # Without a stream, it is one of the device that was in use when the first graph was captured.
            with torch.cuda.graph(self.graph, stream=beside):
                sums, self.losses, self.squares = passed(self.leaves, self.counted)
                self.joined = torch.cat([each.flatten() for each in sums.values()])
            torch.clear_autocast_cache()  # type: ignore[no-untyped-call, unused-ignore]
        self.sizes = {name: each.numel() for name, each in sums.items()}

    def run(self, leaves: Leaves, count: int) -> Measured:
        """What the pass returns for these examples, of which the first `count` count."""
        for held, given in zip(self.leaves, leaves, strict=True):
            held.copy_(given)
        if self.count != count:
            self.counted.copy_(torch.arange(len(self.counted), device=self.counted.device) < count)
            self.count = count
        self.joined[:1].fill_(math.nan)  # a graph that did not run gives no sum of earlier examples
        self.graph.replay()
        parts = torch.split(self.joined.clone(), [*self.sizes.values()])  # type: ignore[no-untyped-call, unused-ignore]
        sums = dict(zip(self.sizes, parts, strict=True))
        return sums, self.losses[:count].clone(), self.squares[:count].clone()


class CapturedPasses:
    """Graphs of passes, each captured when its shape and state come for the second time; the latest two are kept.

    Assumes: module and criterion do the same operations on tensors in each pass that begins in the same state.
    Edge cases: `refused` says why a pass could not be captured, in a warning, too; such a pass is run as it is.
    """

    def __init__(self) -> None:
        self._seen: list[object] = []
        self._graphs: dict[object, _Captured] = {}
        self.refused = ""

    def run(
        self, passed: Run, module: torch.nn.Module, criterion: object, setting: object, leaves: Leaves, count: int
    ) -> Measured:
        """What `passed(leaves, count)` returns, by a graph if there is one."""
        if self.refused:
            return passed(leaves, count)
        key = _key(module, criterion, setting, leaves)
        found = self._graphs.get(key)
        if found is None:
            if key not in self._seen:
                self._seen = [*self._seen, key][-_STATES:]
                return passed(leaves, count)
            found = self._tried(passed, leaves)
            if found is None or _key(module, criterion, setting, leaves) != key:  # each pass moves the state
                return passed(leaves, count)
            while len(self._graphs) >= _MOST:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[key] = found
        return found.run(leaves, count)

    def _tried(self, passed: Run, leaves: Leaves) -> _Captured | None:
        """A graph whose sums, for made-up examples, are those of a pass that is run as it is; None if there is none."""
        why = "no examples that were made up have gradients"
        for given in _made_up(leaves):
            try:
                with fork_rng([leaves[0].device]):
                    if not any(bool(each.any()) for each in passed(given, len(leaves[0]))[0].values()):
                        continue
                    found = _Captured(passed, given)
                    others = tuple(0.75 * each if each.is_floating_point() else each for each in given)
                    if _agree(found, passed, given) and _agree(found, passed, others):
                        return found
                    why = "its sums are others than those of a pass that is run as it is"
            except torch.OutOfMemoryError:
                why = "the memory of the GPU does not suffice for one"
            except Exception as error:  # one of made-up examples, so that it says nothing of true ones
                why = str(error).partition("\n")[0] or type(error).__name__
            break
        self.refused = why
        warnings.warn(f"passes are not captured in CUDA graphs, and so take longer: {why}", stacklevel=2)
        return None


def _made_up(leaves: Leaves) -> Iterator[Leaves]:
    """Batches of those shapes: of numbers that differ, and of whole numbers, which are classes or words, 0 or 1."""
    for whole, lower in ((0, -1.0), (0, 0.0), (1, -1.0), (1, 0.0)):
        yield tuple(
            numbers(each, lower) if each.is_floating_point() else torch.full_like(each, whole) for each in leaves
        )


def _agree(found: _Captured, passed: Run, leaves: Leaves) -> bool:
    """Whether the graph has the same sums, with the same random numbers (those of dropout)."""
    torch.manual_seed(0)
    wanted = passed(leaves, len(leaves[0]))[0]
    torch.manual_seed(0)
    sums = found.run(leaves, len(leaves[0]))[0]
    return all(float((sums[i] - each).abs().max()) <= _CLOSE * float(each.abs().max()) for i, each in wanted.items())


def _key(module: torch.nn.Module, criterion: object, setting: object, leaves: Leaves) -> object:
    """What the operations depend on beside the examples: where numbers are, and how module and criterion are set."""
    device = leaves[0].device.type
    return (
        tuple((each.shape, each.dtype, each.device) for each in leaves), setting,
        tuple((each.data_ptr(), each.dtype, each.requires_grad) for each in (*module.parameters(), *module.buffers())),
        tuple(_state(vars(each).values()) for each in module.modules()), tuple(map(_state, _held(criterion))),
        torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device),
        float_precision(),
    )  # fmt: skip


_MARKS: dict[type, Callable[[Any], object]] = {
    **dict.fromkeys((bool, int, float, str, torch.dtype), lambda value: value),
    **dict.fromkeys((list, dict, set), len),
    **dict.fromkeys((torch.Tensor, torch.nn.Parameter), torch.Tensor.data_ptr),
}


def _state(held: Iterable[object]) -> tuple[object, ...]:
    """Plain values as they are, how long lists are, and where tensors are."""
    return tuple(mark(each) for each in held if (mark := _MARKS.get(type(each))))


def _held(criterion: object) -> Iterator[list[object]]:
    """What a criterion holds, and what the functions and objects hold that it calls: attributes, closure, defaults."""
    seen: set[int] = set()
    left = [criterion]
    while left and len(seen) < _HELD:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        held = [*each.values()] if isinstance(each, dict) else [*getattr(each, "__dict__", {}).values()]
        for cell in getattr(each, "__closure__", None) or ():
            with suppress(ValueError):  # of a name without a value
                held.append(cell.cell_contents)
        held += [*(getattr(each, "__defaults__", None) or ()), *getattr(each, "args", ())]
        held += [getattr(each, name, None) for name in ("__self__", "func", "keywords")]
        yield held
        left += [one for one in held if callable(one) or isinstance(one, dict)]
