"""The pictures and features of the paper, where they can be had: torchvision and timm, which download them.

`python -m papers.hu2024.training --data cifar10 --device cuda --minutes 6000` trains over the same grids on CIFAR-10:
the probe on the features of a pretrained model, the network as a wide residual one with groups in place of batches.
`--data cifar100` and `--data pets` are the other panels of Figure 3. Neither package is a dependency of rangebound.
`--data fashion` needs neither: it takes the 70,000 pictures of clothes of Debian's package `dataset-fashion-mnist`,
with features of a small network that was trained on a public half, and grids that two cores train in an hour.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from papers.hu2024._tasks import CRITERION, Data, Task, convolutions, linear, network, picture_losses, probe

MODELS = ("beitv2_large_patch16_224", "vit_large_patch16_384")  # both have 1,024 features
FOLDER, WORKERS = "out/papers", 8
CLOTHES = Path("/usr/share/datasets/fashion-mnist")
PUBLIC, FEATURES = 30_000, 32  # pictures of the public half, and features that are learned from it


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


@cache
def clothes() -> Data:
    """Pictures from 0 to 1 and their classes, 60,000 to train and 10,000 to test."""
    parts: list[torch.Tensor] = []
    for name in ("train", "t10k"):
        pictures, labels = (
            np.frombuffer(gzip.decompress(Path(CLOTHES, f"{name}-{kind}-ubyte.gz").read_bytes()), np.uint8)
            for kind in ("images-idx3", "labels-idx1")
        )
        parts.append(torch.from_numpy(pictures[16:].reshape(-1, 1, 28, 28) / np.float32(255.0)))
        parts.append(torch.from_numpy(labels[8:].astype(np.int64)))
    return tuple(parts)


def small_clothes(examples: int) -> Data:
    """Pictures of 10 by 10, of the half that is not public."""
    x, y, test_x, test_y = clothes()
    own, test = (
        nn.functional.interpolate(each, size=(10, 10), mode="area") for each in (x[PUBLIC : PUBLIC + examples], test_x)
    )
    middle, width = own.mean(), own.std()
    return (own - middle) / width, y[PUBLIC : PUBLIC + examples], (test - middle) / width, test_y


def features_of_clothes(examples: int) -> Data:
    """What a network that was trained on the public half sees in the other: its last layer but one, times 3."""
    x, y, test_x, test_y = clothes()
    kept = Path(FOLDER, "fashion-features.pt")
    if not kept.exists():
        torch.manual_seed(0)
        body = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(1568, FEATURES), nn.ReLU(),
        )  # fmt: skip
        whole = nn.Sequential(body, nn.Linear(FEATURES, 10))
        optimizer = torch.optim.Adam(whole.parameters(), 2e-3)
        for _ in range(3):
            for part in torch.randperm(PUBLIC).split(200):
                optimizer.zero_grad()
                CRITERION(whole(x[part]), y[part]).backward()
                optimizer.step()
        with torch.no_grad():
            public, own, test = body(x[:PUBLIC]), body(x[PUBLIC:]), body(test_x)
        scale = 3.0 / (public.std(0) + 0.1)
        kept.parent.mkdir(parents=True, exist_ok=True)
        torch.save(((own - public.mean(0)) * scale, (test - public.mean(0)) * scale), kept)
    own, test = torch.load(kept)
    return own[:examples], y[PUBLIC : PUBLIC + examples], test, test_y


def fashion() -> list[Task]:
    """A probe of features from a public half, and a network from scratch: multipliers as many examples allow."""
    return [
        replace(
            probe(examples=10_000, watched=200),
            data=partial(features_of_clothes, 10_000),
            model=partial(linear, FEATURES),
            clips=(2e-3, 1e-2),
            multipliers=(200.0, 400.0, 2e3),
            between=(280.0, 900.0),
            ends=(0.8, 1.6, 3.2, 6.4, 12.8),
        ),
        replace(
            network(examples=5000, watched=50, snapshots=(60, 120)),
            data=partial(small_clothes, 5000),
            model=convolutions,
            losses=picture_losses,
            every=40,
            clips=(5e-3,),
            multipliers=(100.0, 200.0),
            between=(),
            ends=(0.4, 1.6, 6.4),
        ),
    ]


def tasks(name: str, device: str) -> list[Task]:
    """The probes of Fig. 3 on one of its datasets, and for CIFAR-10 the network of Fig. 4, with their own grids."""
    if name == "fashion":
        return fashion()
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
