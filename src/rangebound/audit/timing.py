"""The timing test: does the time of a draw reveal which answer it was drawn for?"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rangebound.audit.attack import check_draws, check_pair
from rangebound.values import arguments
from rangebound.values.array_types import Floats

_WARM = 200


@dataclass(frozen=True, kw_only=True)
class TimingLeak:
    """How well the time of a draw distinguishes two answers: the area under the ROC curve, 1/2 if not at all.

    `lower` and `upper` enclose the true area with the given confidence. A busy machine may hide a difference: that none
    was found proves nothing.
    """

    area: float
    lower: float
    upper: float
    confidence: float
    pair: tuple[float, float]
    draws: int

    @property
    def leaks(self) -> bool:
        """Whether an area of 1/2 is excluded at this confidence."""
        return not self.lower <= 0.5 <= self.upper

    def __str__(self) -> str:
        word = "the time distinguishes the answers" if self.leaks else "no difference in time was found"
        span = f"area {self.area:.4f}, between {self.lower:.4f} and {self.upper:.4f}"
        draws = arguments.counted(self.draws, "draw")
        return f"at {100 * self.confidence:.10g} % confidence {word} ({span}, from {draws})"


@arguments.guided
def timing(
    call: Callable[[float], object], *, pair: tuple[float, float], draws: int = 20_000, confidence: float = 0.999
) -> TimingLeak:
    """Time single draws of two answers in random order and compare them.

    The area is the probability that a draw for the second answer takes longer than one for the first. Its limits are
    Hoeffding's: sqrt(ln(2/risk)/(2 n)) on each side, n being the number of draws of the rarer answer.

    Guarantee: the limits hold with probability `confidence` whatever the law of the times, if draws are independent.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
    >>> found = timing(m.release, pair=(0.0, 50.0), draws=2000)
    >>> found.lower < found.area < found.upper
    True
    """
    arguments.function("call", call, 1, "a function of one answer, such as m.release")
    answers, count = check_pair(pair), check_draws(draws)
    level = arguments.probability("confidence", confidence)
    second = np.frombuffer(os.urandom(count), dtype=np.uint8) % 2 == 1
    for answer in answers * _WARM:
        call(answer)
    times = np.empty(count)
    clock = time.perf_counter_ns
    for i, which in enumerate(second.tolist()):
        answer = answers[which]
        start = clock()
        call(answer)
        times[i] = clock() - start
    area = _area(times, second)
    fewer = int(min(second.sum(), (~second).sum()))
    reach = math.sqrt(math.log(2.0 / (1.0 - level)) / (2.0 * fewer))
    return TimingLeak(
        area=area,
        lower=max(area - reach, 0.0),
        upper=min(area + reach, 1.0),
        confidence=level,
        pair=answers,
        draws=count,
    )


def _area(times: Floats, second: npt.NDArray[np.bool_]) -> float:
    """P(second later than first) + P(tie)/2, over all pairs of draws."""
    first = np.sort(times[~second])
    others = times[second]
    wins = np.searchsorted(first, others, side="left") + np.searchsorted(first, others, side="right")
    return float(wins.sum() / (2.0 * len(first) * len(others)))
