"""Noise families: one file a family, with its logarithms in floats and its probabilities in balls; no randomness.

A family is registered by its line in `FAMILIES`. `rangebound.laws.family` says which facts it must offer.
"""

from __future__ import annotations

from rangebound.laws.family import BallNoise, Curve, Noise
from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace, TruncatedLaplacian

# By the name that a family has in files and on the command line, in the order in which they are offered.
FAMILIES: dict[str, type[Noise]] = {
    Laplace.name: Laplace,
    Gaussian.name: Gaussian,
    TruncatedLaplacian.name: TruncatedLaplacian,
}

__all__ = ["FAMILIES", "BallNoise", "Curve", "Gaussian", "Laplace", "Noise", "TruncatedLaplacian"]
