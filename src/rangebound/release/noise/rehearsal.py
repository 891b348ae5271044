"""A draw before the charge: what could never be published is refused while nothing is spent."""

from __future__ import annotations

from collections.abc import Mapping

from rangebound.errors import PlanError
from rangebound.release.noise.allocation import Allocation
from rangebound.release.noise.draw import answers
from rangebound.release.noise.publishers import Noise
from rangebound.release.plan.model import Plan
from rangebound.release.sql.aggregate import Aggregate, coordinates
from rangebound.release.sql.statements import Block, blocks


def rehearse(plan: Plan, allocation: Allocation, noises: Mapping[int, Noise | None]) -> None:
    """Draw every question once as if the table were empty, and throw the numbers away.

    Guarantee: reads no data, so that what it refuses tells nothing of any. A plan that passes has mechanisms, steps,
    levels and ranges with which a number can be drawn.
    """
    for block in blocks(plan):
        key = block.keys[0] if block.keys else ("",) * len(block.by)
        for index in block.questions:
            one = Block(by=block.by, keys=(key,), questions=(index,))
            nothing = {index: {key: coordinates(plan.query[index], {}, plan.unit)}}
            try:
                answers(plan, Aggregate(block=one, keys=(key,), answers=nothing, units={}), allocation, noises)
            except (ValueError, ArithmeticError) as reason:
                field = f"query[{index}]"
                raise PlanError(
                    f"{field}: no number can be drawn for it ({reason}); take a rounder step or a lower level",
                    field=field,
                ) from None
