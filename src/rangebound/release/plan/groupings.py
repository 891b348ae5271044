"""The groupings of a plan: questions that share their groups, and the public keys of these."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from rangebound.release.plan.model import Plan


@dataclass(frozen=True, kw_only=True)
class Block:
    """The questions that share a grouping; `keys` are its public keys in order, None where they are selected."""

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] | None
    questions: tuple[int, ...]


def blocks(plan: Plan) -> tuple[Block, ...]:
    """The groupings of a plan, in the order in which they first appear."""
    found: dict[tuple[str, ...], list[int]] = {}
    for index, question in enumerate(plan.query):
        found.setdefault(question.by, []).append(index)
    return tuple(Block(by=by, keys=public_keys(plan, by), questions=tuple(each)) for by, each in found.items())


def public_keys(plan: Plan, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...] | None:
    """The public keys of a grouping, in order; None where they are selected privately."""
    if plan.private(by):
        return None
    return tuple(product(*plan.columns(by)))
