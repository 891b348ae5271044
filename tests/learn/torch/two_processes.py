"""One of several processes that train together: run by test_distributed.py with its rank, their number, a port file."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

import rangebound as rb
from rangebound.learn.torch import Adaptive, SecureNoise
from tests.learn.torch.models import CRITERION, custom, data, images, private, train


@dataclass(frozen=True, kw_only=True)
class Counting(SecureNoise):
    """In place of the secure draw the same "noise" in every run, so that whole runs can be compared."""

    locations: list[torch.Tensor] = field(default_factory=list)

    def release(self, mechanism: rb.Mechanism, location: torch.Tensor) -> torch.Tensor:
        self.locations.append(location.clone())
        return location + torch.linspace(-1.0, 1.0, len(location), dtype=torch.float64)


def run(kind: str) -> dict[str, object]:
    torch.manual_seed(11)
    model = images() if kind == "images" else custom()
    shape = (2, 8, 8) if kind == "images" else (6,)
    x, y = data(shape, count=13)
    if kind == "bad":  # an example of the second process
        x[5] = float("nan")
    noise = Counting()
    more = {"clipping": Adaptive(clip=0.5)} if kind == "adaptive" else {}
    engine, optimizer, loader = private(model, x, y, noise=noise, **more)
    if kind == "attached":
        net = engine.attach(model, reduction="sum")
        for _ in range(3):
            for a, b in loader:
                CRITERION(net(a), b, reduction="sum").backward()
                optimizer.step()
    else:
        train(optimizer, loader, 3)
    return {
        "locations": noise.locations,
        "state": model.state_dict(),
        "steps": engine.steps,
        "epsilon": engine.epsilon(delta=1e-5),
        "bad": optimizer.bad_examples.reveal(),
        "clip": optimizer.clipping.clip,
    }


def refused(rank: int) -> str:
    """What is said to processes of which each brings a part of the data."""
    x, y = data((6,), count=13 - rank)
    try:
        private(custom(), x, y, batch_size=4)
    except rb.errors.ArgumentError as error:
        return str(error)
    return ""


def epochs_of(restarts: tuple[bool, ...]) -> dict[str, int]:
    """How many epochs of random allocation are counted where this process begins a new one at some of the steps."""
    x, y = data((6,), count=40)
    engine, optimizer, loader = private(custom(), x, y, batch_size=10, sampling="random-allocation")
    batches = iter(loader)
    for restart in restarts:
        batches = iter(loader) if restart else batches
        optimizer.backward(*next(batches))
        optimizer.step()
    (entry,) = engine.state_dict()["history"]
    return {"epochs": entry["times"], "steps": entry["steps"]}


if __name__ == "__main__":
    rank, processes, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=processes)
    if rank == 1:
        torch.manual_seed(99)  # whatever a process starts with, the first one's parameters count
    found = {kind: run(kind) for kind in ("images", "custom", "bad", "attached", "adaptive")}
    found["epochs"] = dict(epochs_of((True, *[rank == 1] * 2, False)))
    found["refused"] = {"words": refused(rank)}
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()
