"""Noise families: one file a family, with its logarithms in floats and its probabilities in balls; no randomness.

A family is registered by its line in `FAMILIES`. `rangebound.noise.family` says which facts it must offer.
"""

from __future__ import annotations

from rangebound.noise.family import BallNoise, Curve, Noise
from rangebound.noise.gaussian import Gaussian
from rangebound.noise.laplace import Laplace
from rangebound.noise.truncated_laplacian import TruncatedLaplacian

# By the name that a family has in files and on the command line, in the order in which they are offered.
FAMILIES: dict[str, type[Noise]] = {
    Laplace.name: Laplace,
    Gaussian.name: Gaussian,
    TruncatedLaplacian.name: TruncatedLaplacian,
}

__all__ = ["FAMILIES", "BallNoise", "Curve", "Gaussian", "Laplace", "Noise", "TruncatedLaplacian"]
