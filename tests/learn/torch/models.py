"""Small models, data and noise for the tests of training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.fx.experimental.symbolic_shapes  # 800 modules, which the first vmap would load: no test pays for them
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Elementwise, PrivacyEngine
from rangebound.learn.torch.batch_tree import taken_apart
from rangebound.learn.torch.called_criterion import CalledCriterion
from rangebound.learn.torch.gradients import per_example
from rangebound.learn.torch.gradients.one_pass import Problem, learned
from rangebound.privacy.pairs.divergences import renyi_formula

CRITERION = nn.functional.cross_entropy


@cache
def called(criterion: Any) -> CalledCriterion:
    """The same objective for the same criterion, as an optimizer has it."""
    return CalledCriterion(criterion)


def problem(module: nn.Module, criterion: Any, x: Any, y: Any) -> Problem:
    """The problem of an optimizer for examples like these."""
    structure, _ = taken_apart((((x,), {}), y), "batch")
    return Problem(module, called(criterion), learned(module), structure, frozenset({"mean", "calls", "m", "v"}))


def clipped_sum(module: nn.Module, criterion: Any, x: torch.Tensor, y: torch.Tensor, *rest: Any) -> Any:
    return per_example.clipped_sum(problem(module, criterion, x, y), (x, y), *rest)


class Built(nn.Module):
    """A module of these parts, whose forward pass is a function of it and the input; tensors become buffers."""

    def __init__(self, run: Callable[[Any, torch.Tensor], torch.Tensor], **parts: Any) -> None:
        super().__init__()
        self._run = (run,)
        for name, each in parts.items():
            if isinstance(each, torch.Tensor) and not isinstance(each, nn.Parameter):
                self.register_buffer(name, each)
            else:
                setattr(self, name, each)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._run[0](self, x)


def custom() -> nn.Module:
    """A module outside the quick route: a parameter of its own, used twice."""
    own = nn.Parameter(torch.full((4,), 0.3))
    return Built(lambda m, x: m.inner(x) * m.free + m.free.sin(), inner=nn.Linear(6, 4), free=own)


def mixing() -> nn.Module:
    """A module that lets the examples of a batch reach into each other."""
    return Built(lambda m, x: m.inner(x - x.mean(0, keepdim=True)), inner=nn.Linear(6, 3))


def deciding() -> nn.Module:
    """A module that vmap cannot run: it decides by values, so that examples go one at a time."""
    return Built(lambda m, x: m.a(x) if x.sum() > 0.0 else m.b(x), a=nn.Linear(6, 3), b=nn.Linear(6, 3))


def linear() -> nn.Module:
    return nn.Linear(6, 3)


def chain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Sequential(nn.Linear(5, 3, bias=False)))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(3, 4, 2, bias=False),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def words() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Flatten(), nn.Linear(15, 3))


SHAPES = {linear: (6,), chain: (6,), images: (2, 8, 8), words: (3, 4), custom: (6,)}


def data(shape: tuple[int, ...], count: int = 12, seed: int = 0, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *shape, generator=generator)
    return x, torch.randint(0, classes, (count,), generator=generator)


@dataclass(frozen=True, kw_only=True)
class NoNoise:
    """A stand-in that publishes the sums as they are, so that tests can look at them."""

    seen: list[torch.Tensor]

    def release(self, mechanism: rb.Mechanism, location: torch.Tensor) -> torch.Tensor:
        self.seen.append(location.clone())
        return location.clone()


def private(
    module: nn.Module, x: Any, y: torch.Tensor | None = None, *, watchers: tuple[Any, ...] = (), **options: Any
) -> tuple[PrivacyEngine, Any, Any]:
    """An engine, its optimizer and its loader, with defaults for what a test does not care about.

    `x` may be a dataset or a loader.
    """
    engine = options.pop("engine", None) or PrivacyEngine(*watchers)
    size = options.pop("batch_size", len(x))
    dataset = x if y is None else torch.utils.data.TensorDataset(x, y)
    given = x if isinstance(x, torch.utils.data.DataLoader) else torch.utils.data.DataLoader(dataset, batch_size=size)
    inner = options.pop("inner", lambda parameters: torch.optim.SGD(parameters, lr=0.5))
    settings = {"clipping": Elementwise(clip=0.125), "noise_multiplier": 4.0, "criterion": CRITERION, **options}
    _, optimizer, loader = engine.make_private(
        module=module,
        optimizer=inner(module.parameters()),
        data_loader=given,
        **settings,
    )
    return engine, optimizer, loader


def simple(count: int = 12, **options: Any) -> tuple[PrivacyEngine, Any, Any]:
    """The same for a linear layer and this many made-up examples."""
    return private(linear(), *data((6,), count), **options)


def many_runs(x: torch.Tensor, runs: int, **options: Any) -> np.ndarray:
    """The weights after three steps of a whole training, for an audit: each row is a model of 8 weights by itself.

    So thousands of runs take place at once.
    """
    model = nn.Linear(8, runs, bias=False).double()
    nn.init.zeros_(model.weight)
    given: dict[str, Any] = {"criterion": lambda output, target: output.sum(), **options}
    _, optimizer, loader = private(model, x.double(), torch.zeros(len(x)), **given)
    train(optimizer, loader, 3)
    return model.weight.detach().numpy()


def train(optimizer: Any, loader: Any, steps: int) -> None:
    taken = 0
    while taken < steps:
        for x, y in loader:
            optimizer.backward(x, y)
            optimizer.step()
            taken += 1
            if taken == steps:
                return


def exact_divergence(mechanism: rb.Mechanism, location: Any, orders: Sequence[float]) -> Any:
    """The sums of divergences that `RenyiWatcher` bounds, coordinate by coordinate, by the formula of the core.

    In float64, and not rounded up; one number for each order, as an array of the kind of `location` (NumPy or torch).
    """
    noise, shape, c = mechanism.noise, mechanism.shape, mechanism.query.sensitivity
    hull = mechanism.query.range.hull
    wide = isinstance(location, torch.Tensor)
    xp: Any = torch if wide else np
    at = location.to(torch.float64) if wide else np.asarray(location, dtype=np.float64)
    at = at.clip(hull.lower, hull.upper)
    totals = []
    for order in orders:
        ways = [
            (renyi_formula(noise, shape, at, at + s, order), renyi_formula(noise, shape, at + s, at, order))
            for s in (c, -c)
        ]
        forward, backward = (xp.maximum(ways[0][k], ways[1][k]).sum() for k in (0, 1))
        totals.append(xp.maximum(forward, backward))
    return torch.stack(totals) if wide else np.asarray(totals)
