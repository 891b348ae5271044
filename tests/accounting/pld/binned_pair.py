"""What a statistic with finitely many values leaks: post-processing, and so a lower bound on any account."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

_LEAST = 1e-13  # a probability that a transform in doubles knows


def binned_normal(ends: Any, mean: float) -> Any:
    """The probabilities of the bins between these ends, of a normal number of deviation 1."""
    z = ends - mean
    return np.where(z[1:] > 0.0, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1]))


def composed_delta(p: Any, q: Any, times: int, epsilon: float) -> float:
    """A lower bound on the delta of so many draws at epsilon: their losses are rounded down and added up."""
    known = (p > _LEAST) & (q > _LEAST)
    losses = np.log(p[known] / q[known])
    width = float(losses.max() - losses.min()) / 8000.0
    index = np.floor(losses / width).astype(np.int64)
    row = np.bincount(index - index.min(), weights=p[known])
    size = 1 << math.ceil(math.log2(len(row) * times + 1))
    law = np.fft.irfft(np.fft.rfft(row, size) ** times, size)
    sums = (np.arange(size) + times * int(index.min())) * width
    return float((law * np.maximum(-np.expm1(np.minimum(epsilon - sums, 0.0)), 0.0)).sum())
