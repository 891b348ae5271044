"""The two tasks of Figures 3 and 4: a linear probe of 1,024 features, and a network from scratch in batches of 200.

The data are made up, with public parameters, in the shape of the paper's: `--data cifar10` takes the real ones, where
torchvision and timm and their downloads can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, jacfwd, vmap

from rangebound.learn.torch import Elementwise, FisherWatcher

CLASSES = 10
CRITERION = nn.functional.cross_entropy
Losses = Callable[[nn.Module, torch.Tensor, torch.Tensor, Elementwise, torch.Tensor], torch.Tensor]
Data = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # training and test examples, and their classes


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is learned, and with which of the hyperparameters of the paper's appendix G."""

    name: str
    examples: int
    data: partial[Data]
    model: Callable[[], nn.Module]
    batch: int  # 0 for all examples
    snapshots: tuple[int, ...]  # numbers of steps after which accuracy and cost are taken
    watched: int  # examples whose Fisher losses are taken
    losses: Losses | None  # how; None for the library's own account
    every: int = 1  # steps for which one evaluation of these stands
    clips: Sequence[float] = (1e-3, 2e-3, 5e-3, 1e-2)
    multipliers: Sequence[float] = (1e3, 2e3, 1e4, 2e4, 5e4)
    between: Sequence[float] = (1.4e3, 4.5e3, 1.4e4, 3.2e4)  # more of them, for Gaussian noise alone
    ends: Sequence[float] = (4.0, 8.0, 16.0, 32.0, 64.0)
    rates: Sequence[float] = (8.0, 16.0)
    slower: Sequence[float] = (0.125, 0.5, 2.0)  # more of them, for Gaussian noise alone


def probe(*, examples: int = 50_000, features: int = 1024, watched: int = 1000) -> Task:
    """The linear probe, all examples in each step: Fig. 3, and Fig. 4b and d."""
    return Task(
        name="probe",
        examples=examples,
        data=partial(separable, examples, features),
        model=partial(linear, features),
        batch=0,
        snapshots=(10, 20),
        watched=watched,
        losses=probe_losses,
    )


def network(*, examples: int = 5000, watched: int = 1000, snapshots: tuple[int, int] = (125, 250)) -> Task:
    """The network from scratch in batches of 200: Fig. 4a and c.

    It takes some hundred steps in place of thousands, so multipliers and supports are a tenth of the paper's, and the
    two largest multipliers, with which it learns nothing, are left out.
    """
    return Task(
        name="network",
        examples=examples,
        data=partial(pictures, examples),
        model=convolutions,
        batch=200,
        snapshots=snapshots,
        watched=watched,
        losses=picture_losses,
        every=10,
        multipliers=(100.0, 200.0, 1e3),
        between=(140.0, 450.0),
        ends=(0.4, 0.8, 1.6, 3.2, 6.4),
    )


def quick() -> list[Task]:
    """Both with tiny data and a few settings: does everything run?"""
    few = {"clips": (1e-2,), "between": (), "ends": (0.2,), "rates": (16.0,), "slower": (4.0,)}
    return [
        replace(probe(examples=500, features=64, watched=20), snapshots=(2, 4), multipliers=(3.0,), **few),
        replace(network(examples=400, watched=20), snapshots=(3, 6), multipliers=(1.0,), **few),
    ]


def separable(examples: int, features: int, *, signal: float = 0.5, rank: int = 32) -> Data:
    """Near-separable classes: centres in general position, some examples on the way from one to another.

    x = signal ((1 - t) m_y + t m_z) + A u + e, with m, u and e standard normal, z another class, t uniform in
    [0, 0.45] and A of `rank` columns with unit variance in each coordinate: what pretrained features share
    within a class.
    """
    source = torch.Generator().manual_seed(0)
    total = examples + examples // 5
    y = torch.randint(CLASSES, (total,), generator=source)
    other = (y + 1 + torch.randint(CLASSES - 1, (total,), generator=source)) % CLASSES
    centres = signal * torch.randn(CLASSES, features, generator=source)
    shared = torch.randn(rank, features, generator=source) / rank**0.5
    t = 0.45 * torch.rand(total, 1, generator=source)
    x = (1.0 - t) * centres[y] + t * centres[other]
    x += torch.randn(total, rank, generator=source) @ shared
    x += torch.randn(total, features, generator=source)
    return x[:examples], y[:examples], x[examples:], y[examples:]


def pictures(examples: int, *, side: int = 10, noise: float = 0.7) -> Data:
    """Smooth random pictures, one for each class, moved by up to one pixel each way, in noise."""
    source = torch.Generator().manual_seed(0)
    total = examples + 2000
    y = torch.randint(CLASSES, (total,), generator=source)
    coarse = torch.randn(CLASSES, 1, 4, 4, generator=source)
    smooth = nn.functional.interpolate(coarse, size=(side + 2, side + 2), mode="bilinear", align_corners=True)[:, 0]
    moved = torch.randint(3, (2, total, 1, 1), generator=source)
    rows, columns = moved[0] + torch.arange(side)[:, None], moved[1] + torch.arange(side)
    x = smooth[y[:, None, None], rows, columns] + noise * torch.randn(total, side, side, generator=source)
    return x[:examples, None], y[:examples], x[examples:, None], y[examples:]


def linear(features: int, classes: int = CLASSES) -> nn.Module:
    """A linear probe from zero, without a bias."""
    found = nn.Sequential(nn.Linear(features, classes, bias=False))
    nn.init.zeros_(found[0].weight)
    return found


def convolutions() -> nn.Module:
    """Two convolutions and a linear layer, 3,130 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


def probe_losses(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, clip: Elementwise, information: torch.Tensor, rounds: int = 20
) -> torch.Tensor:
    """Squared Fisher losses of examples of a linear probe, in closed form but for a power iteration.

    With p the probabilities, r = p - (class of the example) and S = diag(p) - p p', the gradient is r x', clipped where
    it is beyond the clip, and its derivative along v is r v' + (S W v) x' where it is not.
    """
    weight: torch.Tensor = next(model.parameters()).detach()
    p = torch.softmax(x @ weight.T, 1)
    r = p - nn.functional.one_hot(y, len(weight))
    inside = (r[:, :, None] * x[:, None, :]).abs() <= clip.bound
    unit = information.max()
    kept = inside * (information / unit).to(x.dtype).reshape(1, *weight.shape)

    def softened(c: torch.Tensor) -> torch.Tensor:
        return p * c - p * (p * c).sum(1, keepdim=True)

    v = (torch.arange(1, x.shape[1] + 1, dtype=torch.float64) * 0.6180339887498949 % 1.0 - 0.5).to(x).expand(x.shape)
    value = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    for _ in range(rounds):
        v = v / v.norm(dim=1, keepdim=True).clamp(min=1e-30)
        u = kept * (r[:, :, None] * v[:, None, :] + softened(v @ weight.T)[:, :, None] * x[:, None, :])
        v = torch.einsum("bk,bkj->bj", r, u) + softened(torch.einsum("bkj,bj->bk", u, x)) @ weight
        value = torch.maximum(value, v.norm(dim=1))
    return value.double() * unit


def picture_losses(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, clip: Elementwise, information: torch.Tensor, block: int = 250
) -> torch.Tensor:
    """Squared Fisher losses of examples of any small model, from the whole Jacobian: one forward derivative a pixel."""
    values = {name: each.detach() for name, each in model.named_parameters()}
    unit = information.max()
    weights = (information / unit).to(x.dtype).sqrt()[None, :, None]

    def gradient(one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        def loss(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            return CRITERION(functional_call(model, parameters, (one[None],)), target[None])

        parts = grad(loss)(values)
        return torch.cat([parts[name].reshape(-1) for name in values]).clamp(-clip.bound, clip.bound)

    found = []
    for start in range(0, len(x), block):
        jacobian = vmap(jacfwd(gradient))(x[start : start + block], y[start : start + block]).flatten(2) * weights
        gram = jacobian.transpose(1, 2) @ jacobian
        power = gram
        for _ in range(6):  # to the 64th power, in which the largest eigenvalue is left alone
            power = power / power.flatten(1).norm(dim=1).clamp(min=1e-30)[:, None, None]
            power = power @ power
        v = power.sum(2, keepdim=True)
        v = v / v.norm(dim=1, keepdim=True).clamp(min=1e-30)
        found.append((gram @ v).norm(dim=1)[:, 0].double() * unit)
    return torch.cat(found)


class SomeFisher:
    """The library's own account of the Fisher losses, of the first examples alone: for models of any size, slowly."""

    needs_batches = True

    def __init__(self, watched: int, iterations: int = 10) -> None:
        self._inner, self._watched = FisherWatcher(iterations=iterations), watched

    def start(self, *given: Any) -> None:
        self._inner.start(*given)

    def saw(self, location: torch.Tensor, batches: Any) -> None:
        chosen = [(members < self._watched, x, y, members) for x, y, members in batches]
        self._inner.saw(location, [(x[ours], y[ours], members[ours]) for ours, x, y, members in chosen if ours.any()])

    def squares(self) -> torch.Tensor:
        return torch.tensor([self._inner.loss(i).reveal() ** 2 for i in range(self._watched)])
