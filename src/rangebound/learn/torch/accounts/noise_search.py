"""The noise for a target: the smallest multiplier at which the account proves an epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable

from rangebound.errors import ArgumentError
from rangebound.learn.torch.accounts import worst_case
from rangebound.values import arguments
from rangebound.values.roots import falling_bracket

_LEAST, _MOST = 2.0**-10, 2.0**40
_CLOSE = 1e-4  # relative


def smallest_multiplier(epsilon: Callable[[float], float], target: float) -> float:
    """The smallest noise multiplier, to four digits, whose `epsilon` is at most the target.

    Guarantee: the epsilon of the multiplier that is returned was computed and is at most the target. That a smaller one
    is not enough is only as true as the account is monotone.
    Edge cases: 2^-10 where even that is enough; refused where 2^40 is not.

    >>> round(smallest_multiplier(lambda noise: 3.0 / noise, 2.0), 3)
    1.5
    """
    low = high = 1.0
    if epsilon(high) <= target:
        while low > _LEAST and epsilon(low := 0.5 * low) <= target:
            high = low
        if low == high:
            return high
    else:
        while epsilon(high := 2.0 * high) > target:
            low = high
            if high >= _MOST:
                raise ArgumentError(
                    f"target_epsilon={arguments.shown(target)}: no noise is enough; raise it, or take fewer epochs"
                )
    return falling_bracket(lambda noise: math.log(max(epsilon(noise), 1e-300) / target), low, high, _CLOSE)[1]


def step_within(
    epsilon: float | None, delta: float | None, times: int | None, step_with: Callable[[float], worst_case.Step]
) -> worst_case.Step:
    """The step with the least noise, taken so often, that stays within epsilon at delta; all three must be given."""
    if epsilon is None or delta is None or times is None:
        raise ArgumentError(
            "noise_multiplier: missing; give it, or target_epsilon, target_delta and epochs, which determine it"
        )
    limit, at, number = (
        arguments.positive("target_epsilon", epsilon),
        arguments.probability("target_delta", delta),
        times,
    )
    return step_with(smallest_multiplier(lambda each: worst_case.epsilon({step_with(each): number}, at), limit))
