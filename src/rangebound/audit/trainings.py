"""Trainings as functions of coins, for `rangebound.audit.training`: any function of data, and those of libraries.

The libraries train a linear model without bias on one-hot canaries: canary i moves coordinate i of the sum of gradients
by the clipping norm, and no other. A row of scores is what each step published there. Its event is Gaussian noise of
sensitivity 1 and scale `noise_multiplier`, on a Poisson sample at `rate`, `steps` times. Canaries are `_LOUDER` times
as long as the norm, so that clipping is audited too; the norm has many bits, so that the noise's last bits are. Noise
and samples are each library's own, by default. Tried with Opacus 1.6.0, JAX-Privacy 2.0.0 and Opake 0.16.1.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rangebound.audit.training import Run
from rangebound.values import arguments
from rangebound.values.array_types import Bools, Floats
from rangebound.values.extras import need

Example = TypeVar("Example")
Parameters = TypeVar("Parameters")

_LOUDER = 100.0


def _seed() -> int:
    """63 random bits, for the generators of other libraries."""
    return int.from_bytes(os.urandom(8)) >> 1


def fitted(
    train: Callable[[list[Example]], Parameters],
    examples: Sequence[Example],
    score: Callable[[Parameters, Example], npt.ArrayLike],
    others: Iterable[Example] = (),
) -> Run:
    """Any function from data to parameters; `score` is a number, or a row, for an example under the parameters.

    `others` are always in the data, before the canaries.

    >>> run = fitted(sum, [1.0, 2.0, 4.0], lambda total, example: total - example)
    >>> run(np.asarray([True, False, True])).tolist()
    [4.0, 3.0, 1.0]
    """
    arguments.function("train", train, 1, "a function from a list of examples to parameters")
    arguments.function("score", score, 2, "a function of parameters and an example")
    always = list(others)

    def run(coins: Bools) -> Floats:
        parameters = train([*always, *(each for each, coin in zip(examples, coins, strict=True) if coin)])
        return np.asarray([score(parameters, each) for each in examples], dtype=np.float64)

    return run


def rangebound(*, noise_multiplier: float, rate: float, steps: int, clip: float = 0.7) -> Run:
    """Training with `rangebound.learn.torch`; a canary that is out is not in the data.

    >>> run = rangebound(noise_multiplier=1.0, rate=0.5, steps=3)
    >>> run(np.arange(20) % 2 == 0).shape
    (20, 3)
    """
    need("torch", what="trainings.rangebound")
    import torch

    from rangebound.learn import torch as learn

    def run(coins: Bools) -> Floats:
        model, x = torch.nn.Linear(len(coins), 1, bias=False), torch.from_numpy(_one_hot(coins, clip))
        expected = max(rate * len(coins) / 2.0, 1.0)
        _, optimizer, loader = learn.PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=max(len(x), 1)),
            loss=lambda module, batch: module(batch[0]).sum(dim=1),
            clipping=learn.Euclidean(clip=clip),
            noise=learn.Noise(multiplier=noise_multiplier),
            sampling=learn.Sampling(rate=rate, expected_batch=expected),
        )
        found = []
        for (x,) in _batches(loader, steps):
            torch.nn.init.zeros_(model.weight)
            optimizer.backward([x])
            optimizer.step()
            found.append(-expected * model.weight.detach().numpy().ravel().astype(np.float64))  # a step of 1 from 0
        return np.stack(found, axis=1)

    return run


def opacus(*, noise_multiplier: float, rate: float, steps: int, clip: float = 0.7) -> Run:
    """Training with Opacus; a canary that is out is an example without a gradient, as the rate follows from the size.

    Edge cases: the rate is one over a whole number, that of the batches of an epoch.
    """
    need("torch", "opacus", what="trainings.opacus")
    engine, torch = import_module("opacus").PrivacyEngine, import_module("torch")

    def run(coins: Bools) -> Floats:
        model, rows = torch.nn.Linear(len(coins), 1, bias=False), np.zeros((len(coins),) * 2, dtype=np.float32)
        rows[coins] = _one_hot(coins, clip)
        data = torch.utils.data.TensorDataset(torch.from_numpy(rows))
        model, optimizer, loader = engine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=torch.utils.data.DataLoader(data, batch_size=math.ceil(rate * len(coins))),
            noise_multiplier=noise_multiplier,
            max_grad_norm=clip,
            loss_reduction="sum",
        )
        found = []
        for (x,) in _batches(loader, steps):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            found.append(next(model.parameters()).grad.numpy().ravel().astype(np.float64))  # a copy
        return np.stack(found, axis=1)

    return run


def jax_privacy(*, noise_multiplier: float, rate: float, steps: int, clip: float = 0.7) -> Run:
    """Training with JAX-Privacy, not compiled; a canary that is out is not in the data."""
    need("jax", "jax_privacy", what="trainings.jax_privacy")
    clipping, noising, sampling = (
        import_module(f"jax_privacy.{each}") for each in ("clipping", "noise_addition", "batch_selection")
    )

    def run(coins: Bools) -> Floats:
        rows, weights = _one_hot(coins, clip), np.zeros(len(coins), dtype=np.float32)
        summed = clipping.clipped_grad(lambda w, x: (x @ w).sum(), l2_clip_norm=clip, batch_argnums=1)
        noise = noising.gaussian_privatizer(stddev=noise_multiplier * clip, prng_key=_seed() >> 32)
        state, found = noise.init(weights), []
        for batch in sampling.CyclicPoissonSampling(rate, steps).batch_iterator(len(rows), _seed()):
            published, state = noise.update(summed(weights, rows[batch]), state)
            found.append(np.asarray(published, dtype=np.float64))
        return np.stack(found, axis=1)

    return run


def opake(*, noise_multiplier: float, rate: float, steps: int, clip: float = 0.7) -> Run:
    """Training with Opake; a canary that is out is not in the data."""
    need("torch", "opake", what="trainings.opake")
    torch, random = import_module("torch"), import_module("opake.random")
    clipping, noising, sampling = (import_module(f"opake.dpsgd.{each}") for each in ("clipping", "noise", "sampling"))

    def run(coins: Bools) -> Floats:
        rows, weights = torch.from_numpy(_one_hot(coins, clip)), torch.zeros(len(coins))
        summed, clipped = clipping.clipped_grad(lambda w, x: (x @ w).sum(), clipping_norm=clip, batch_argnums=1)
        first, second = (random.key(_seed()) for _ in range(2))
        noise, state = noising.gaussian_noise(noise_multiplier=noise_multiplier, key=first)
        found = []
        for batch in sampling.PoissonSampler(rows, sample_rate=rate, n_steps=steps, key=second):
            gradient, clipped = summed(weights, rows[list(batch)], state=clipped)
            published, state = noise(gradient, state)
            found.append(published.pytree.numpy().astype(np.float64))
        return np.stack(found, axis=1)

    return run


def _one_hot(coins: Bools, clip: float) -> npt.NDArray[np.float32]:
    """The canaries that are in."""
    return np.eye(len(coins), dtype=np.float32)[coins] * np.float32(_LOUDER * clip)


def _batches(loader: Iterable[Any], steps: int) -> Iterator[Any]:
    """This many batches, over as many epochs as that takes."""
    return itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), steps)
