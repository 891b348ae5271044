"""The design of a table as a problem in doubles: inputs with their neighbours, answers, outputs and losses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rangebound.values.array_types import Floats, Integers


@dataclass(frozen=True, kw_only=True)
class DesignProblem:
    """The design of a table: `losses[q, t, y]` is the error of publishing output y at the q-th answer of input t.

    With `prior` (of the shape of a loss over answers) the weighted risk is least, without it the largest one is.
    Inputs that are `interleaved` belong to two lattices in turn, one from each end.
    """

    first_neighbour: Integers
    epsilon: float
    losses: Floats
    prior: Floats | None = None
    interleaved: bool = False

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self.first_neighbour)

    @property
    def symmetric(self) -> bool:
        """Whether the problem is its own mirror image (first answers of inputs becoming last ones)."""
        mirrored = self.losses[::-1, ::-1, ::-1]
        last = last_neighbour(self.first_neighbour)
        return (
            np.array_equal(self.inputs - 1 - last[::-1], self.first_neighbour)
            and np.allclose(mirrored, self.losses, rtol=1e-12, atol=1e-12 * float(self.losses.max()))
            and (self.prior is None or np.allclose(self.prior[::-1, ::-1], self.prior, rtol=1e-12, atol=0.0))
        )

    @property
    def connected(self) -> bool:
        """Whether each input is a neighbour of the one before it."""
        return bool((self.first_neighbour[1:] < np.arange(1, self.inputs)).all())

    def coarse(self, inputs: Integers, outputs: Integers) -> DesignProblem:
        """The problem on some inputs and outputs alone."""
        first = np.searchsorted(inputs, self.first_neighbour[inputs])
        losses, prior = self.losses[:, inputs][:, :, outputs], self.prior
        if prior is not None:
            prior = prior[:, inputs] * (prior.sum() / prior[:, inputs].sum())
        return replace(self, first_neighbour=first, losses=losses, prior=prior)


def last_neighbour(first: Integers) -> Integers:
    """The last neighbour of every input, from the first ones."""
    return np.searchsorted(first, np.arange(len(first)), side="right") - 1
