"""Small models, data and noise for the tests of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Elementwise, PrivacyEngine

CRITERION = nn.functional.cross_entropy


class Custom(nn.Module):
    """A module outside the quick route: a parameter of its own, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 4)
        self.free = nn.Parameter(torch.full((4,), 0.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.free + self.free.sin()


class Mixing(nn.Module):
    """A module that lets the examples of a batch reach into each other."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x - x.mean(0, keepdim=True))


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


SHAPES = {linear: (6,), chain: (6,), images: (2, 8, 8), words: (3, 4), Custom: (6,)}


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
    module: nn.Module, x: torch.Tensor, y: torch.Tensor, *, watchers: tuple[Any, ...] = (), **options: Any
) -> tuple[PrivacyEngine, Any, Any]:
    """An engine, its optimizer and its loader, with defaults for what a test does not care about."""
    engine = PrivacyEngine(*watchers)
    size = options.pop("batch_size", len(x))
    inner = options.pop("inner", lambda parameters: torch.optim.SGD(parameters, lr=0.5))
    settings = {"clipping": Elementwise(clip=0.125), "noise_multiplier": 4.0, "criterion": CRITERION, **options}
    _, optimizer, loader = engine.make_private(
        module=module,
        optimizer=inner(module.parameters()),
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=size),
        **settings,
    )
    return engine, optimizer, loader


def train(optimizer: Any, loader: Any, steps: int) -> None:
    taken = 0
    while taken < steps:
        for x, y in loader:
            optimizer.backward(x, y)
            optimizer.step()
            taken += 1
            if taken == steps:
                return
