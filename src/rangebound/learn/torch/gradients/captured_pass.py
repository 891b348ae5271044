"""Passes over blocks of one shape as CUDA graphs: small steps on a GPU take the time of launching their work.

A graph repeats the operations on tensors that it was captured from, on the examples that are copied in. No code of the
module runs then, so nothing new can let one example affect another: in the captured pass each was by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from rangebound.learn.torch.gradients.bad_examples import fixed_work
from rangebound.learn.torch.gradients.survey import float_precision

Measured = tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]
"""Sums, losses, and squared norms or nothing."""
Run = Callable[[torch.Tensor, torch.Tensor, "int | torch.Tensor"], Measured]

_MOST = 2  # graphs, each with the memory of its pass
_WARM = 2


class _Captured:
    """A pass as a graph, and the tensors that it reads and writes."""

    def __init__(self, passed: Run, x: torch.Tensor, y: torch.Tensor) -> None:
        self.source = passed  # holds the criterion, so that no other one is taken for it by its id
        self.x, self.y, self.count = x.clone(), y.clone(), len(x)
        self.counted = torch.ones(len(x), dtype=torch.bool, device=x.device)
        beside = torch.cuda.Stream(x.device)  # type: ignore[no-untyped-call, unused-ignore]
        beside.wait_stream(torch.cuda.current_stream(x.device))
        with fixed_work():
            with torch.cuda.stream(beside):
                for _ in range(_WARM):
                    passed(self.x, self.y, self.counted)
            torch.cuda.current_stream(x.device).wait_stream(beside)
            self.graph = torch.cuda.CUDAGraph()
            torch.clear_autocast_cache()  # type: ignore[no-untyped-call, unused-ignore]  # copies that live no longer
            # Without a stream, it is one of the device that was in use when the first graph was captured.
            with torch.cuda.graph(self.graph, stream=beside):
                sums, self.losses, self.squares = passed(self.x, self.y, self.counted)
                self.joined = torch.cat([each.flatten() for each in sums.values()])
            torch.clear_autocast_cache()  # type: ignore[no-untyped-call, unused-ignore]
        self.sizes = {name: each.numel() for name, each in sums.items()}


class CapturedPasses:
    """Graphs of passes, each captured when its shape and setting come for the second time; the latest two are kept.

    Assumes: module and criterion do the same operations on tensors in each pass, whatever the numbers are; what they do
    beside, in Python, is done while a graph is captured and not again.
    Edge cases: `refused` says why a pass could not be captured; such a pass is run as it is.
    """

    def __init__(self) -> None:
        self._seen: set[object] = set()
        self._graphs: dict[object, _Captured] = {}
        self.refused = ""

    def run(
        self, passed: Run, module: torch.nn.Module, setting: object, x: torch.Tensor, y: torch.Tensor, count: int
    ) -> Measured:
        """What `passed(x, y, count)` returns, by a graph if there is one."""
        key = _key(module, setting, x, y)
        found = self._graphs.get(key)
        if found is None:
            if self.refused or key not in self._seen:
                self._seen.add(key)
                return passed(x, y, count)
            try:
                found = _Captured(passed, x, y)
            except RuntimeError as why:
                self.refused = str(why).partition("\n")[0]
                return passed(x, y, count)
            while len(self._graphs) >= _MOST:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[key] = found
        found.x.copy_(x)
        found.y.copy_(y)
        if found.count != count:
            found.counted.copy_(torch.arange(len(x), device=x.device) < count)
            found.count = count
        found.joined[:1].fill_(math.nan)  # a graph that did not run gives no sum of earlier examples
        found.graph.replay()
        parts = torch.split(found.joined.clone(), [*found.sizes.values()])  # type: ignore[no-untyped-call, unused-ignore]
        sums = dict(zip(found.sizes, parts, strict=True))
        return sums, found.losses[:count].clone(), found.squares[:count].clone()


def _key(module: torch.nn.Module, setting: object, x: torch.Tensor, y: torch.Tensor) -> object:
    """What the operations depend on beside the examples: where the module's numbers are, and how it is set."""
    device = x.device.type
    tensors = [*module.parameters(), *module.buffers()]
    return (
        x.shape, x.dtype, y.shape, y.dtype, x.device, setting,
        tuple((each.data_ptr(), each.dtype, each.requires_grad) for each in tensors),
        tuple(each.training for each in module.modules()),
        torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device),
        float_precision(),
    )  # fmt: skip
