"""How the batches of a training are drawn: each way has an account of its own."""

from __future__ import annotations

import enum

from rangebound.errors import ArgumentError
from rangebound.values import arguments


class BatchSampling(enum.Enum):
    """How examples come into batches; what is drawn is secret.

    `POISSON`: each example is in each batch with the same probability, independently. `ALLOCATION`: in each epoch, each
    example is in one batch, chosen at random (balls in bins). `FIXED`: each batch is as many examples, drawn without
    replacement; its size makes the number of examples public, so it is for zero-out alone, and it costs far more: where
    all others pull the other way, an example that is in the batch is not only there, but another one is missing.

    >>> BatchSampling("random-allocation").meaning
    'in each epoch each example is in one batch, chosen at random'
    """

    POISSON = "poisson"
    ALLOCATION = "random-allocation"
    FIXED = "fixed-size"

    @property
    def meaning(self) -> str:
        """The way in words."""
        return _MEANING[self]


_MEANING = {
    BatchSampling.POISSON: "each example is in each batch with the same probability, independently",
    BatchSampling.ALLOCATION: "in each epoch each example is in one batch, chosen at random",
    BatchSampling.FIXED: "each batch has the same number of examples, drawn without replacement",
}


def chosen_sampling(sampling: object) -> BatchSampling:
    """The way that was named; refused where it has no account."""
    if sampling in ("shuffle", "shuffled"):
        raise ArgumentError(
            'sampling="shuffle": shuffled batches have no account that is proved, and those of Poisson samples are too '
            'small for them; use sampling="random-allocation", which also visits each example once in an epoch'
        )
    return arguments.member("sampling", sampling, BatchSampling)
