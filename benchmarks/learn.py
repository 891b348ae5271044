"""Speed of private training, beside plain PyTorch and Opacus.

    python -m benchmarks.learn [--json FILE] [--quick] [--threads N] [--device cuda] [--model NAME]

Steps alternate with plain ones, so that all see the same machine, and the least of the runs counts; Opacus does so in
an environment of its own (on a GPU in ours, if it is installed there). With one thread on the processor, seconds are
those of the processor, which other programs disturb less. On a GPU times include the end of the work there. Nothing
here is a test.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import nn

import rangebound as rb
from benchmarks import peers, train_models
from benchmarks.report import Row, parser, publish
from benchmarks.train_models import MODELS, Lstm, batch
from rangebound.learn.torch import Elementwise, Euclidean, PrivacyEngine, SecureNoise
from rangebound.learn.torch.accounts.renyi_watcher import LossTable
from rangebound.learn.torch.gradients.sums import blocked, clamped_products
from rangebound.learn.torch.noise_source import step_mechanism

TEXT = (
    "One training step, the least of 7; plain is a step of PyTorch's SGD, in turns with ours. Opacus runs in its own "
    "environment beside a plain step of its own, and its figure is its multiple of that step times our plain step. "
    "Truncated and rectified clip every coordinate by itself, which Opacus does not offer; Euclidean is the same "
    "clipping as in Opacus. On a GPU our steps are captured in CUDA graphs, as they are by default, unless the line "
    "says otherwise; memory is that of a step without a graph. Accounting is the Renyi loss of each coordinate for the "
    "people at hand."
)
REPEATS = 7
HIGHEST_CLOCK = 1.98e9  # of an H200
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
        for _ in range(3):  # a graph is captured in the second
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


def plain(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    inner = copy.deepcopy(model)
    optimizer = torch.optim.SGD([each for each in inner.parameters() if each.requires_grad], lr=0.1)

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
        optimizer=torch.optim.SGD([each for each in inner.parameters() if each.requires_grad], lr=0.1),
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


def with_opacus(name: str, device: str, count: int, threads: int, repeats: int) -> dict[str, dict[str, float]]:
    """Steps of Opacus as multiples of a plain step in the same process, and the most memory of each on a GPU."""
    import copy
    import time

    import opacus
    import torch
    from opacus.layers import DPLSTM
    from torch import nn

    torch.set_num_threads(threads)
    x, y = batch(name, device, count)
    criterion = nn.CrossEntropyLoss()
    model = MODELS[name][0]().to(device)

    def private(mode: str):
        inner = Lstm(DPLSTM).to(device) if name.startswith("LSTM") else copy.deepcopy(model)
        made = opacus.PrivacyEngine().make_private(
            module=inner,
            optimizer=torch.optim.SGD([each for each in inner.parameters() if each.requires_grad], lr=0.1),
            data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x)),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
            grad_sample_mode=mode,
            **({"criterion": criterion} if mode == "ghost" else {}),
        )
        return made[0], made[1], made[2] if mode == "ghost" else criterion

    inner = copy.deepcopy(model)
    steps = {"plain": (inner, torch.optim.SGD([p for p in inner.parameters() if p.requires_grad], lr=0.1), criterion)}
    steps |= {mode: private(mode) for mode in ("hooks", "ghost")}
    clock = time.process_time if threads == 1 and device == "cpu" else time.perf_counter
    times: dict[str, list[float]] = {step: [] for step in steps}
    memory: dict[str, float] = {}
    for _ in range(repeats + 2):
        for step, (module, optimizer, loss) in steps.items():
            if device == "cuda":
                optimizer.zero_grad()
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
            start = clock()
            optimizer.zero_grad()
            loss(module(x), y).backward()
            optimizer.step()
            if device == "cuda":
                torch.cuda.synchronize()
                memory[step] = (torch.cuda.max_memory_allocated() - before) / 2**20
            times[step].append(clock() - start)
            optimizer.zero_grad()
    least = {step: min(some[2:]) for step, some in times.items()}
    return {"times": {step: least[step] / least["plain"] for step in ("hooks", "ghost")}, "memory": memory}


def opacus(name: str, device: str, count: int) -> dict[str, dict[str, float]]:
    """The same from the environment of Opacus, or from ours where it is installed here (on a machine with a GPU)."""
    given = (name, device, count, torch.get_num_threads(), REPEATS)
    if device == "cuda" and find_spec("opacus") is not None:
        return peers.fresh(with_opacus, *given, using=(train_models,))
    return peers.call("opacus", with_opacus, *given, using=(train_models,))


def peak(call: Callable[[], Any]) -> float:
    """The most memory of a call on the GPU beyond what was there before, in MiB."""
    settle("cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    settle("cuda")
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def steps(device: str, names: list[str], *, quick: bool) -> Iterator[Row]:
    for name in names:
        count = 4 if quick else MODELS[name][2 if device == "cuda" else 3]
        model = MODELS[name][0]().to(device)
        x, y = batch(name, device, count)
        clip = Elementwise(clip=0.01)
        bounded = {"clipping": clip, "support": rb.Interval(-1, 1)}
        calls = {
            "plain": plain(model, x, y),
            "Euclidean": ours(model, x, y, clipping=Euclidean(clip=1.0)),
            "truncated": ours(model, x, y, bounding=rb.TRUNCATE, **bounded),
            "rectified": ours(model, x, y, bounding=rb.RECTIFY, **bounded),
        }
        if device == "cuda":
            calls["Euclidean without a graph"] = ours(model, x, y, clipping=Euclidean(clip=1.0), cuda_graphs=False)
        times = together(calls, device)
        memory: dict[str, float] = {}
        if device == "cuda":  # of passes that are not captured: a graph holds as much for as long as it lives
            calls["truncated"] = ours(model, x, y, bounding=rb.TRUNCATE, cuda_graphs=False, **bounded)
            calls["truncated"]()
            calls["Euclidean"] = calls.pop("Euclidean without a graph")
            memory = {step: peak(calls[step]) for step in ("plain", "Euclidean", "truncated")}
        reference = 1e3 * times.pop("plain")
        others: dict[str, float | str] = {}
        theirs: dict[str, float] = {}
        if not quick:
            try:
                found = opacus(name, device, count)
                theirs = found["memory"]
                others = {f"Opacus {mode}": reference * multiple for mode, multiple in found["times"].items()}
                others["faster Opacus"] = min(others.values())
            except peers.Absent as why:
                others = {"Opacus": str(why)}
        own = 1e3 * times["Euclidean"]
        what = f"{name}, batch {count}"
        for step, seconds in times.items():
            like = step.startswith("Euclidean")
            beside = {"plain": reference, **(others if like else {"our Euclidean": own})}
            bar, of = (1.0, "faster Opacus") if like else (1.5, "our Euclidean")
            yield Row(what=f"{what}, {step}", ours=1e3 * seconds, unit="ms", others=beside, bar=bar, of=of)
        for step, most in memory.items():
            if step != "plain":
                beside = {"plain": memory["plain"], **{f"Opacus {mode}": each for mode, each in theirs.items()}}
                yield Row(
                    what=f"memory, {what}, {step}", ours=most, unit="MiB", others=beside, bar=1.0, of="Opacus ghost"
                )


class Unchanged:
    """No noise, to measure what the noise costs."""

    def release(self, mechanism: rb.Mechanism, location: torch.Tensor) -> torch.Tensor:
        return location.clone()


def shares(device: str, names: list[str]) -> Iterator[Row]:
    """What part of a step the noise takes, on models of a million parameters and more."""
    for name in names:
        model, (x, y) = MODELS[name][0]().to(device), batch(name, device, MODELS[name][2 if device == "cuda" else 3])
        if sum(each.numel() for each in model.parameters() if each.requires_grad) < 10**6:
            continue
        bounded = {"clipping": Elementwise(clip=0.01), "support": rb.Interval(-1, 1), "bounding": rb.TRUNCATE}
        for kind, options in (("Euclidean", {"clipping": Euclidean(clip=1.0)}), ("truncated", bounded)):
            calls = {"with": ours(model, x, y, **options), "without": ours(model, x, y, noise=Unchanged(), **options)}
            times = together(calls, device)
            share = 100.0 * (1.0 - times["without"] / times["with"])
            yield Row(what=f"noise, of a step, {name}, {kind}", ours=share, unit="%", bar=15.0)


def noise(device: str) -> Iterator[Row]:
    """Drawing the noise of a step on the GPU, beside the processor with both transfers."""
    for kind, count in (("truncated", 10**6), ("truncated", 10**7), ("rectified", 10**7)) if device == "cuda" else ():
        bounding = rb.TRUNCATE if kind == "truncated" else rb.RECTIFY
        m = step_mechanism(
            clipping=Elementwise(clip=0.01), noise_multiplier=10.0, bounding=bounding, support=rb.Interval(-1, 1)
        )
        location = torch.linspace(-2.0, 2.0, count, dtype=torch.float64, device=device)
        routes: dict[str, Callable[[], Any]] = {
            "there": lambda m=m, x=location: SecureNoise().release(m, x),
            "to and fro": lambda m=m, x=location: SecureNoise().release(m, x.cpu()).to(x.device),
        }
        times = together(routes, device)
        yield Row(
            what=f"{kind} noise for {count:,} coordinates, drawn there",
            ours=1e3 * times["there"],
            unit="ms",
            others={"sent to the processor and back": 1e3 * times["to and fro"]},
        )


def products() -> Iterator[Row]:
    """The clamped sum of a layer, beside what the GPU can do of its arithmetic.

    Each product takes five instructions: a multiplication, a minimum, a maximum, an addition, and an addition of whole
    numbers. A multiprocessor starts at most 128 a cycle, so that is the limit; that some of the five may be slower than
    others is not counted.
    """
    rows, columns, outputs = 4096, 1024, 1024
    a, g = torch.randn(rows, columns, device="cuda"), torch.randn(rows, outputs, device="cuda")
    times = together({"ours": lambda: clamped_products(a, g, Elementwise(clip=0.3))}, "cuda")
    cycles = rows * columns * outputs * 5 / 128 / torch.cuda.get_device_properties(0).multi_processor_count
    limit = 1e3 * cycles / HIGHEST_CLOCK
    yield Row(
        what=f"clamped products of {rows} examples, {columns} inputs, {outputs} outputs",
        ours=1e3 * times["ours"],
        unit="ms",
        others={"arithmetic limit": limit},
        bar=1 / 0.6,
        of="arithmetic limit",
    )


def accounting(device: str, *, quick: bool) -> Iterator[Row]:
    query = rb.Query(range=rb.Interval(-10.0, 10.0), sensitivity=1e-3)
    for count in (10**4,) if quick else (10**6, 10**8) if device == "cuda" else (10**6,):
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
            what = f"accounting, {count:,} coordinates, 64 orders, {bounding.value}"
            bar = 500.0 if device == "cpu" else None
            yield Row(what=f"{what}, with its table", ours=1e3 * first, unit="ms", bar=bar)
            yield Row(
                what=f"{what}, table known",
                ours=1e3 * times["again"],
                unit="ms",
                others={"one read for each order": 1e3 * times["read"]},
                bar=3.0 if device == "cuda" else None,
                of="one read for each order",
            )


def agreement() -> Row:
    """In how many of four sizes the GPU's whole numbers are not those of the processor."""
    generator = torch.Generator().manual_seed(2)
    different = 0
    for rows, columns, outputs in ((5, 3, 2), (700, 70, 3), (4096, 1024, 10), (33, 129, 40)):
        a, g = torch.randn(rows, columns, generator=generator), torch.randn(rows, outputs, generator=generator)
        clip = Elementwise(clip=0.3)
        there = clamped_products(a.cuda(), g.cuda(), clip).cpu()
        different += not torch.equal(there, blocked(a, g / clip.quantum, clip))
    return Row(what="sums on the GPU that differ from the processor's, of 4", ours=different, unit="", bar=0.0)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--model", default="", help="only models with this in their name, and nothing else")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(chosen.threads)
    names = [name for name in MODELS if chosen.model in name]
    rows = [*steps(chosen.device, names, quick=chosen.quick)]
    if not chosen.quick:
        rows += shares(chosen.device, names)
    if not chosen.model:
        rows += [*noise(chosen.device), *accounting(chosen.device, quick=chosen.quick)]
    setting = {"threads": chosen.threads}
    title = "Private learning"
    if chosen.device == "cuda":
        rows += [agreement(), *products()]
        setting["device"] = torch.cuda.get_device_name()
        title = f"Private learning on an {setting['device']}"
    publish(chosen, title, TEXT, rows, **setting)


if __name__ == "__main__":
    main()
