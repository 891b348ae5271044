"""Logical batches, drawn with secure coins: Poisson samples, random allocation, fixed sizes, or all examples.

And what a guarantee of training on them protects: the neighbouring relation of training sets.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch.utils import data
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset, default_collate

from rangebound.errors import ArgumentError
from rangebound.learn.torch.batch_tree import emptied
from rangebound.sampling.entropy import SECURE
from rangebound.values import arguments


class _Explained(enum.Enum):
    """A name with its `meaning` in words."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """A member whose value is its name alone."""
        made = object.__new__(cls)
        made._value_, made.meaning = value, meaning
        return made


class Relation(_Explained):
    """How two neighbouring training sets may differ.

    Zero-out protects the contents of an example, not the number of examples, on which the published numbers may depend.
    Add-remove protects both. It requires that everything except the noisy sums is computed from numbers that were
    stated beforehand: the sampling rate, the divisor, the length of an epoch.

    >>> Relation("zero-out").meaning
    'one example is replaced by one without a gradient; the number of examples is public'
    """

    ADD_REMOVE = "add-remove", "one example is added or removed; the number of examples is private"
    ZERO_OUT = "zero-out", "one example is replaced by one without a gradient; the number of examples is public"


def named_relation(neighbours: object, *, stated: bool) -> Relation:
    """The relation of a training, by name, or by what was stated; refused where the two do not fit.

    `stated` is whether sampling rate and divisor are public numbers of the user. Add-remove needs that; zero-out, which
    add-remove implies, holds either way.

    >>> named_relation(None, stated=True) is Relation.ADD_REMOVE
    True
    """
    if neighbours is None:
        return Relation.ADD_REMOVE if stated else Relation.ZERO_OUT
    found = arguments.member("neighbours", neighbours, Relation)
    if found is Relation.ADD_REMOVE and not stated:
        raise ArgumentError(
            'neighbours="add-remove": needs rate=... and expected_batch=..., numbers that you state from public '
            'knowledge; from the number of examples they would reveal that number. Or neighbours="zero-out"'
        )
    return found


class BatchSampling(_Explained):
    """How examples come into batches; what is drawn is secret.

    `POISSON`: each example is in each batch with the same probability, independently. `ALLOCATION`: in each epoch, each
    example is in one batch, chosen at random (balls in bins). `FIXED`: each batch is as many examples, drawn without
    replacement; its size makes the number of examples public, so it is for zero-out alone, and it costs far more: where
    all others pull the other way, an example that is in the batch is not only there, but another one is missing.

    >>> BatchSampling("random-allocation").meaning
    'in each epoch each example is in one batch, chosen at random'
    """

    POISSON = "poisson", "each example is in each batch with the same probability, independently"
    ALLOCATION = "random-allocation", "in each epoch each example is in one batch, chosen at random"
    FIXED = "fixed-size", "each batch has the same number of examples, drawn without replacement"


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How examples come into batches, for `PrivacyEngine.make_private`; nothing here may be computed from the data.

    `way` is "poisson" (the default), "random-allocation" or "fixed-size" (`BatchSampling`). Each example is in a batch
    with probability `rate`, and the released sum is divided by `expected_batch`: for about 60,000 examples and batches
    of about 256, `rate=256/60_000, expected_batch=256`, whatever the exact number of examples is; an epoch then has
    round(1/rate) steps, and the loader's batch size is not used. Without the two, the rate is batch_size/len(dataset)
    and the divisor the batch size, or all examples if they are fewer: the number of examples is then public, and the
    guarantee is labelled zero-out. `neighbours`, "add-remove" or "zero-out", names the relation that you count on; one
    that the numbers do not support is refused.

    >>> Sampling(rate=0.1, expected_batch=64).expected_batch
    64
    """

    way: str | BatchSampling | None = None
    rate: float | None = None
    expected_batch: float | None = None
    neighbours: str | Relation | None = None


def chosen_sampling(sampling: object) -> BatchSampling:
    """The way that was named; refused where it has no account."""
    if sampling in ("shuffle", "shuffled"):
        raise ArgumentError(
            'sampling="shuffle": shuffled batches have no account that is proved, and those of Poisson samples are too '
            'small for them; use sampling="random-allocation", which also visits each example once in an epoch'
        )
    return arguments.member("sampling", sampling, BatchSampling)


class PrivateLoader:
    """Batches that contain each example with probability `rate`, as `BatchSampling` says; all of them at rate 1.

    An epoch has about 1/rate batches. A sampled batch may be empty; it is still a step. What is stated and what is left
    out, `Sampling` says.

    It reads as the loader that it is made from does: its `collate_fn`, and its `num_workers`, which prepare batches
    ahead, `prefetch_factor`, `pin_memory` and the like. Its length is that of an epoch, round(1/rate): the steps that a
    scheduler needs. Workers draw nothing: which examples a batch has is drawn here.

    A batch that was handed over and made no step, since its loop was left, is the first of the next loop: so no batch
    is left out for what is in it. Batches that workers prepared, and nobody saw, are forgotten.

    `members` are the indices of the examples in the last batch, which are private, and so is `examples` for add-remove.
    `epoch` counts the epochs that were begun: the one that the last batch belongs to.

    Assumes: only the trainer sees the members of a batch, and the loader's collate function treats each example
    separately: if it pads to the longest of a batch, other examples affect an example's gradient.
    Edge cases: with several processes, process r of w has the examples r, r + w, r + 2w, ... A `TensorDataset` may be
    empty for add-remove.
    """

    def __init__(
        self, source: object, *, rate: float | None = None, expected: float | None = None, neighbours: object = None,
        sampling: BatchSampling = BatchSampling.POISSON, rank: int = 0, processes: int = 1,
    ) -> None:  # fmt: skip
        given: Any = arguments.instance("data_loader", source, DataLoader, "a torch DataLoader")
        self.dataset = given.dataset
        try:
            self.examples: int = len(self.dataset)
        except TypeError:
            raise ArgumentError("data_loader: its dataset must have a length") from None
        if isinstance(self.dataset, IterableDataset):
            raise ArgumentError(
                "data_loader: must have a dataset that is indexed by integers, so that examples can be sampled"
            )
        stated = _stated(rate, expected)
        self._rows = _Rows(self.dataset, given.collate_fn)
        if given.batch_size is None or (self.examples < 1 and not (stated and self._rows.by_index)):
            raise ArgumentError("data_loader: must have a batch_size and at least one example")
        if type(given.sampler) not in (data.SequentialSampler, data.RandomSampler):
            raise ArgumentError(
                f"data_loader: has a {type(given.sampler).__name__}, but every example is sampled independently; "
                "leave the sampler out, and give a part of a dataset as torch.utils.data.Subset"
            )
        if sampling is BatchSampling.FIXED:
            if stated is not None or neighbours in (Relation.ADD_REMOVE, Relation.ADD_REMOVE.value):
                raise ArgumentError(
                    'sampling="fixed-size": a batch of fixed size depends on the number of examples, which is then '
                    'public; leave rate, expected_batch and neighbours="add-remove" out, or use '
                    'sampling="random-allocation"'
                )
            if processes > 1:
                raise ArgumentError(
                    'sampling="fixed-size": several processes cannot draw one batch without replacement, since each '
                    'has its own examples; use sampling="random-allocation"'
                )
        self.relation = named_relation(neighbours, stated=stated is not None)
        self.expected: float
        if stated is None:  # then the number of examples is public
            self.rate: float = min(given.batch_size / self.examples, 1.0)
            self.expected = self.rate * self.examples
        else:
            self.rate, self.expected = stated
        if sampling is BatchSampling.ALLOCATION:
            self.rate, self.expected = _whole(self.rate, self.expected, stated is not None)
        self.sampling = sampling
        self._own, self._processes = np.arange(rank, self.examples, processes), processes
        self.members: npt.NDArray[np.int64] = self._own[:0]
        self.drawn = self.epoch = self._epochs_begun = self.handed = 0
        self.taken: int | None = None  # batches that made a step, where an optimizer counts them
        self._last: tuple[npt.NDArray[np.int64], Any] | None = None
        options: dict[str, Any] = {name: getattr(given, name) for name in _KEPT if hasattr(given, name)}
        self._loader: DataLoader[Any] = DataLoader(
            self._rows, batch_size=None, sampler=_Draws(self), collate_fn=tuple, **options
        )

    def __len__(self) -> int:
        return max(1, round(1.0 / self.rate))

    @property
    def chunk(self) -> int:
        """The size, by public numbers alone, of the one chunk of most batches of this process for which work is least.

        That is the mean number of chunks, nearly one and the part of the batches that are larger, times what one costs:
        its size, filled up with zeros, and as much as `_BESIDE` examples take.
        """
        mean = self.expected / self._processes
        spread = 0.0 if self.sampling is BatchSampling.FIXED else math.sqrt(mean * (1.0 - self.rate))
        sizes = range(max(1, math.ceil(mean)), max(1, math.ceil(mean + 3.0 * spread)) + 1)
        scale = math.sqrt(2.0) * max(spread, 1e-9)
        return min(sizes, key=lambda n: (n + _BESIDE) * (1.0 + 0.5 * math.erfc((n + 0.5 - mean) / scale)))

    def __iter__(self) -> Iterator[Any]:
        steps = len(self)
        if self.taken is not None and self.drawn > self.taken and self._last is not None:
            self.handed += 1
            self.members, batch = self._last
            yield batch
            steps -= self.sampling is not BatchSampling.ALLOCATION  # of which an epoch is drawn as a whole
        self._epochs_begun += 1
        epoch = self._epochs_begun
        for members, batch in itertools.islice(self._loader, steps):
            self.members, self.drawn, self.handed, self.epoch = members, self.drawn + 1, self.handed + 1, epoch
            self._last = members, batch
            yield batch

    def draws(self) -> Iterator[npt.NDArray[np.int64]]:
        """The members of the batches of an epoch."""
        places = _places(len(self._own), len(self)) if self.sampling is BatchSampling.ALLOCATION else None
        for number in range(len(self)):
            if self.rate >= 1.0:
                yield self._own
            elif places is not None:
                yield self._own[places == number]
            elif self.sampling is BatchSampling.FIXED:
                yield self._own[_subset(len(self._own), round(self.expected))]
            else:
                yield self._own[_words(len(self._own)) < np.uint64(math.floor(self.rate * 2.0**64))]

    def part(self, members: npt.NDArray[np.int64] | None, count: int) -> npt.NDArray[np.int64]:
        """The members of a part of the last batch, of this many examples; all of them may be left out."""
        if members is None and count != len(self.members):
            raise ArgumentError("members: must be given with a part of a batch, for the per-instance accounts")
        if members is not None and (len(members) != count or len(np.intersect1d(members, self.members)) != count):
            raise ArgumentError("members: must be distinct indices out of the loader's members, one for each example")
        return self.members if members is None else np.asarray(members)

    def empty(self) -> Any:
        """A batch without an example."""
        return self._rows[self._own[:0]][1]


_BESIDE = 16  # examples: fewer than were measured with small models, fifty and more
_KEPT = (
    "num_workers", "pin_memory", "pin_memory_device", "timeout", "worker_init_fn", "multiprocessing_context",
    "generator", "prefetch_factor", "persistent_workers",
)  # fmt: skip


class _Draws(Sampler[Any]):
    """The members of the batches of a loader, for its workers."""

    def __init__(self, loader: PrivateLoader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        return self._loader.draws()


class _Rows(Dataset[Any]):
    """A dataset by the members of a batch, which come with it."""

    def __init__(self, dataset: Any, collate: Any) -> None:
        self._dataset, self._collate = dataset, collate
        self.by_index = isinstance(dataset, TensorDataset) and collate is default_collate

    def __getitem__(self, members: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Any]:
        data = self._dataset
        if self.by_index:
            whole = len(members) == len(data)
            return members, [each if whole else each[torch.from_numpy(members)] for each in data.tensors]
        places = members.tolist() or [0]
        several = getattr(data, "__getitems__", None)
        batch = self._collate(several(places) if several else [data[i] for i in places])
        return members, batch if len(members) else emptied(batch)


def _stated(rate: float | None, expected: float | None) -> tuple[float, float] | None:
    """The public numbers that the user states, both or neither."""
    if rate is None and expected is None:
        return None
    if rate is None or expected is None:
        raise ArgumentError(
            "rate, expected_batch: give both, from public knowledge, or neither; one of them derived "
            "from the number of examples would publish that number"
        )
    if not 0.0 < arguments.finite("rate", rate) <= 1.0:
        raise ArgumentError(f"rate={rate}: must lie in (0, 1]; it is the probability that an example is in a batch")
    return float(rate), arguments.positive("expected_batch", expected, why="the released sum is divided by it")


def _whole(rate: float, expected: float, stated: bool) -> tuple[float, float]:
    """Rate and divisor of an epoch of a whole number of batches, for random allocation."""
    batches = max(1, round(1.0 / rate))
    if stated and not math.isclose(rate * batches, 1.0, rel_tol=1e-9):
        raise ArgumentError(
            f"rate={rate}: must be one over a whole number of batches for random allocation, such as 1/{batches}"
        )
    return 1.0 / batches, expected if stated else expected / rate / batches


def _words(count: int) -> npt.NDArray[np.uint64]:
    words = np.empty(count, dtype=np.uint64)
    SECURE.fill(words)
    return words


def _places(examples: int, batches: int) -> npt.NDArray[np.int64]:
    """A batch for each example, uniform and independent: words in the last, incomplete round are drawn again."""
    rounds = np.uint64((2**64 // batches) * batches - 1)
    words = _words(examples)
    while (late := words > rounds).any():
        words[late] = _words(int(late.sum()))
    return (words % np.uint64(batches)).astype(np.int64)


def _subset(examples: int, size: int) -> npt.NDArray[np.int64]:
    """This many different examples, each set of them equally likely: those with the smallest words, all different."""
    words = _words(examples)
    while len(np.unique(words)) < examples:
        words = _words(examples)
    return np.sort(np.argpartition(words, size - 1)[:size])
