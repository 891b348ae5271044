"""Sampling: secure random words, and the exact draw of a published number.

What is published is the ideal law of `rangebound.laws` rounded to a public lattice; `docs/sampling.md` tells how, and
proves it.
"""

from __future__ import annotations

from rangebound.sampling.alias_table import AliasSampler, alias_sampler
from rangebound.sampling.draw_plan import Lattice, default_lattice, lattice_of
from rangebound.sampling.sampler import Sampler, release, sampler_for

__all__ = [
    "AliasSampler",
    "Lattice",
    "Sampler",
    "alias_sampler",
    "default_lattice",
    "lattice_of",
    "release",
    "sampler_for",
]
