"""The law of a draw that is made in several steps: every way that it can go, with its exact probability."""

from fractions import Fraction
from unittest import mock

from rangebound.release.noise import exponential_mechanism


class _Open(Exception):
    """A choice that is still to be made, with the places that can be chosen."""


class _Way:
    """Choices that are made as they are given, with the probability of all of them."""

    def __init__(self, way):
        self.left, self.chance = list(way), Fraction(1)

    def one_of(self, weights, bits):
        if not self.left:
            raise _Open([at for at, weight in enumerate(weights) if weight])
        at = self.left.pop(0)
        self.chance *= Fraction(weights[at], sum(weights))
        return at

    def uniform(self, count, bits):
        return self.one_of([1] * count, bits)


def law_of(draw):
    """What `draw` gives, each result with its probability: it is called again for every way to choose."""
    found, ways = {}, [()]
    while ways:
        way = ways.pop()
        chosen = _Way(way)
        with (
            mock.patch.object(exponential_mechanism, "draw", chosen.one_of),
            mock.patch.object(exponential_mechanism, "uniform", chosen.uniform),
        ):
            try:
                result = draw()
            except _Open as reason:
                ways += [(*way, at) for at in reason.args[0]]
                continue
        found[result] = found.get(result, 0) + chosen.chance
    return found
