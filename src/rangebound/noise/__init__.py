"""Noise families: one file a family; log-functions only, no epsilon, no randomness.

Every family is symmetric about zero and log-concave. That is what the monotonicity theorem needs, and with it
everything in `rangebound.privacy`; a family without it has no place here.
"""

from __future__ import annotations

from rangebound.noise.gaussian import Gaussian
from rangebound.noise.laplace import Laplace
from rangebound.noise.truncated_laplacian import TruncatedLaplacian

Noise = Laplace | Gaussian | TruncatedLaplacian
FAMILIES: tuple[type[Noise], ...] = (Laplace, Gaussian, TruncatedLaplacian)

__all__ = ["FAMILIES", "Gaussian", "Laplace", "Noise", "TruncatedLaplacian"]
