"""The pictures and features of the paper, where they can be had: torchvision and timm, which download them.

`python -m papers.hu2024.training --data cifar10 --device cuda --minutes 6000` trains over the same grids on CIFAR-10:
the probe on the features of a pretrained model, the network as a wide residual one with groups in place of batches.
`--data cifar100` and `--data pets` are the other panels of Figure 3. Neither package is a dependency of rangebound.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from papers.hu2024._tasks import Data, Task, linear, probe

MODELS = ("beitv2_large_patch16_224", "vit_large_patch16_384")  # both have 1,024 features
FOLDER, WORKERS = "out/papers", 8


def sets(name: str, transform: Any) -> tuple[Any, Any]:
    """Training and test pictures."""
    from torchvision import datasets

    if name == "pets":
        return tuple(
            datasets.OxfordIIITPet(FOLDER, s, transform=transform, download=True) for s in ("trainval", "test")
        )
    kind = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[name]
    return tuple(kind(FOLDER, train=each, transform=transform, download=True) for each in (True, False))


def features(name: str, model: str, device: str) -> Data:
    """The features of all pictures before the last layer of a pretrained model, kept in a file once they are known."""
    import timm

    kept = Path(FOLDER) / f"{name}-{model}.pt"
    if kept.exists():
        return tuple(torch.load(kept))
    body = timm.create_model(model, pretrained=True, num_classes=0).eval().to(device)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(body))
    parts: list[torch.Tensor] = []
    for pictures in sets(name, transform):
        with torch.no_grad():
            found = [
                (body(x.to(device)).cpu(), y)
                for x, y in torch.utils.data.DataLoader(pictures, 256, num_workers=WORKERS)
            ]
        parts += [torch.cat(each) for each in zip(*found, strict=True)]
    torch.save(parts, kept)
    return tuple(parts)


def pixels(name: str) -> Data:
    """The pictures themselves."""
    from torchvision import transforms

    parts: list[torch.Tensor] = []
    for each in sets(name, transforms.ToTensor()):
        x, y = zip(*each, strict=True)
        parts += [torch.stack(x), torch.tensor(y)]
    return tuple(parts)


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(16, inner),
            nn.ReLU(),
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.GroupNorm(16, outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
        )
        same = inner == outer and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.shortcut(x)


def wide_residual(classes: int) -> nn.Module:
    """A wide residual network, 16 layers deep and four times as wide as the narrow ones."""
    parts: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    inner = 16
    for outer, stride in ((64, 1), (128, 2), (256, 2)):
        parts += [Residual(inner, outer, stride), Residual(outer, outer, 1)]
        inner = outer
    return nn.Sequential(
        *parts, nn.GroupNorm(16, 256), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes)
    )


def tasks(name: str, device: str) -> list[Task]:
    """The probes of Fig. 3 on one of its datasets, and for CIFAR-10 the network of Fig. 4, with their own grids."""
    classes = {"cifar10": 10, "cifar100": 100, "pets": 37}[name]
    tables: dict[str, dict[str, Any]] = {
        "cifar10": {},
        "cifar100": {
            "clips": (5e-5, 1e-4, 2e-4, 5e-4),
            "multipliers": (1e3, 2e3, 5e3, 1e4, 2e4),
            "between": (1.4e3, 3.2e3, 7.1e3, 1.4e4),
            "ends": (2.0, 4.0, 8.0, 16.0, 32.0),
            "rates": (50.0, 100.0),
            "slower": (0.8, 3.0, 12.0),
        },
        "pets": {
            "clips": (1e-6, 2e-6, 5e-6),
            "multipliers": (2e2, 5e2, 1e3, 2e3, 5e3),
            "between": (3.2e2, 7.1e2, 1.4e3, 3.2e3),
            "ends": (0.01, 0.02, 0.05, 0.1),
            "rates": (50.0, 100.0, 200.0),
            "slower": (0.8, 3.0, 12.0),
        },
    }
    snapshots = (5, 10, 20) if name == "pets" else (10, 20)
    found = [
        replace(
            probe(),
            name="probe" if model == MODELS[0] else f"probe of {model}",
            examples=3680 if name == "pets" else 50_000,
            data=partial(features, name, model, device),
            model=partial(linear, 1024, classes),
            snapshots=snapshots,
            **tables[name],
        )
        for model in MODELS
    ]
    if name == "cifar10":
        scratch = Task(
            name="network",
            examples=50_000,
            data=partial(pixels, name),
            model=partial(wide_residual, classes),
            batch=200,
            snapshots=(2500, 5000),
            watched=1000,
            losses=None,
        )
        found.append(scratch)
    return found
