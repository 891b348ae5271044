"""Speed of private training, as a table and as JSON: beside plain PyTorch, and beside Opacus where it is installed.

    python benchmarks/learn.py [--threads N] [--device cuda] [--json FILE]

One process; the steps that are compared alternate, so that all see the same machine, and the least of the runs counts.
With one thread on the processor, seconds are those of the processor, which other programs disturb less. On a GPU times
include the end of the work there. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Elementwise, Euclidean, PrivacyEngine, SecureNoise
from rangebound.learn.torch.clamped import blocked, clamped_products
from rangebound.learn.torch.engine import step_mechanism
from rangebound.learn.torch.table import LossTable

REPEATS = 7
CRITERION = nn.functional.cross_entropy
ORDERS = np.geomspace(1.1, 64.0, 64).tolist()


def clock(device: str) -> float:
    return time.perf_counter() if device == "cuda" or torch.get_num_threads() > 1 else time.process_time()


def settle(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def together(calls: dict[str, Callable[[], Any]], device: str) -> dict[str, float]:
    """Seconds of each call, run in turns: the least of several runs."""
    for call in calls.values():
        call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            settle(device)
            start = clock(device)
            call()
            settle(device)
            found[name].append(clock(device) - start)
    return {name: min(times) for name, times in found.items()}


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def plain(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    inner = copy.deepcopy(model)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        CRITERION(inner(x), y).backward()
        optimizer.step()

    return step


def ours(model: nn.Module, x: torch.Tensor, y: torch.Tensor, **options: Any) -> Callable[[], None]:
    inner = copy.deepcopy(model)
    data = torch.utils.data.TensorDataset(x, y)
    _, optimizer, loader = PrivacyEngine().make_private(
        module=inner,
        optimizer=torch.optim.SGD(inner.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=len(x)),
        criterion=CRITERION,
        noise_multiplier=10.0,
        **options,
    )

    def step() -> None:
        for a, b in loader:
            optimizer.backward(a, b)
            optimizer.step()

    return step


def opacus(model: nn.Module, x: torch.Tensor, y: torch.Tensor, mode: str) -> Callable[[], None]:
    import opacus as peer

    inner = copy.deepcopy(model)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x))
    engine = peer.PrivacyEngine()
    options: dict[str, Any] = {"criterion": nn.CrossEntropyLoss()} if mode == "ghost" else {}
    made = engine.make_private(
        module=inner, optimizer=torch.optim.SGD(inner.parameters(), lr=0.1), data_loader=data, noise_multiplier=1.0,
        max_grad_norm=1.0, poisson_sampling=False, grad_sample_mode=mode, **options,
    )  # fmt: skip
    private, optimizer = made[0], made[1]
    criterion = made[2] if mode == "ghost" else CRITERION

    def step() -> None:
        optimizer.zero_grad()
        criterion(private(x), y).backward()
        optimizer.step()

    return step


def steps(device: str) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    settings = {
        "linear 1024 to 10, batch 4096": (nn.Linear(1024, 10), (4096, 1024)),
        "small CNN on 28x28, batch 256": (small_cnn(), (256, 1, 28, 28)),
    }
    if device == "cuda":
        settings["linear 4096 to 1000, batch 4096"] = (nn.Linear(4096, 1000), (4096, 4096))
    rows = []
    for name, (model, shape) in settings.items():
        model = model.to(device)
        x = torch.randn(shape, generator=generator).to(device)
        y = torch.randint(0, 10, (shape[0],), generator=generator).to(device)
        clip = Elementwise(clip=0.01)
        calls = {
            "plain": plain(model, x, y),
            "truncated": ours(model, x, y, clipping=clip, bounding=rb.TRUNCATE, support=rb.Interval(-1, 1)),
            "rectified": ours(model, x, y, clipping=clip, bounding=rb.RECTIFY, support=rb.Interval(-1, 1)),
            "Euclidean": ours(model, x, y, clipping=Euclidean(clip=1.0)),
        }
        if find_spec("opacus") is not None and "1000" not in name:
            calls |= {f"opacus {mode}": opacus(model, x, y, mode) for mode in ("hooks", "ghost")}
        times = together(calls, device)
        rows += [
            {"what": name, "step": step, "ms": 1e3 * t, "times plain": t / times["plain"]} for step, t in times.items()
        ]
    return rows


def noise(device: str) -> list[dict[str, Any]]:
    """Drawing the noise of a step: on the GPU, and on the processor with both transfers."""
    rows = []
    for kind, count in (("truncated", 10**6), ("truncated", 10**7), ("rectified", 10**7)) if device == "cuda" else ():
        bounding = rb.TRUNCATE if kind == "truncated" else rb.RECTIFY
        m = step_mechanism(
            clipping=Elementwise(clip=0.01), noise_multiplier=10.0, bounding=bounding, support=rb.Interval(-1, 1)
        )
        location = torch.linspace(-2.0, 2.0, count, dtype=torch.float64, device=device)
        routes: dict[str, Callable[[], Any]] = {
            "sent to and fro": lambda m=m, x=location: SecureNoise().release(m, x.cpu()).to(x.device)
        }
        if device == "cuda":
            routes = {"drawn there": lambda m=m, x=location: SecureNoise().release(m, x)} | routes
        times = together(routes, device)
        rows += [
            {"what": f"{count:.0e} coordinates, {kind} noise", "step": step, "ms": 1e3 * t, "times plain": None}
            for step, t in times.items()
        ]
    return rows


def accounting(device: str) -> list[dict[str, Any]]:
    query = rb.Query(range=rb.Interval(-10.0, 10.0), sensitivity=1e-3)
    rows = []
    for count in (10**6, 10**8) if device == "cuda" else (10**6,):
        location = torch.randn(count, generator=torch.Generator(device).manual_seed(1), device=device) * 2.0
        for bounding in (rb.TRUNCATE, rb.RECTIFY):
            m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=query, support=rb.Interval(-4, 4), bounding=bounding)
            start = clock(device)
            table = LossTable(m, ORDERS)
            table.divergence(location)
            settle(device)
            first = clock(device) - start

            def read(location: torch.Tensor = location) -> None:
                for _ in ORDERS:
                    location.sum()

            times = together({"again": lambda t=table, x=location: t.divergence(x), "read": read}, device)
            rows.append(
                {
                    "what": f"{count:.0e} coordinates, 64 orders, {bounding.value}",
                    "step": "with its table",
                    "ms": 1e3 * first,
                    "times plain": None,
                }
            )
            rows.append(
                {
                    "what": f"{count:.0e} coordinates, 64 orders, {bounding.value}",
                    "step": "table known",
                    "ms": 1e3 * times["again"],
                    "times plain": times["again"] / times["read"],
                }
            )
    return rows


def agreement() -> dict[str, Any]:
    """Whether the GPU's whole numbers are those of the processor."""
    generator = torch.Generator().manual_seed(2)
    equal = True
    for rows, columns, outputs in ((5, 3, 2), (700, 70, 3), (4096, 1024, 10), (33, 129, 40)):
        a, g = torch.randn(rows, columns, generator=generator), torch.randn(rows, outputs, generator=generator)
        clip = Elementwise(clip=0.3)
        there = clamped_products(a.cuda(), g.cuda(), clip).cpu()
        equal = equal and bool(torch.equal(there, blocked(a, g / clip.quantum, clip)))
    return {"what": "sums on the GPU equal those of the processor", "step": str(equal), "ms": 0.0, "times plain": None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path, default=Path("out/learn.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    rows = [*steps(options.device), *noise(options.device), *accounting(options.device)]
    if options.device == "cuda":
        rows.append(agreement())
    name = torch.cuda.get_device_name() if options.device == "cuda" else platform.processor() or platform.machine()
    facts = {"device": name, "threads": options.threads, "torch": torch.__version__, "rows": rows}
    for row in rows:
        ratio = "" if row["times plain"] is None else f"{row['times plain']:8.2f}x"
        print(f"{row['what']:48} {row['step']:16} {row['ms']:10.3f} ms {ratio}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
