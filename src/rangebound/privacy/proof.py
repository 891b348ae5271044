"""Proofs of a privacy claim in ball arithmetic, and their checking.

A claim (epsilon, delta) is proved for all pairs of neighbouring true answers and both directions of the divergence. A
proof says which theorem reduces that to finitely many evaluations, at which precision, and, where the positions had
to be cut into cells, which cells. Checking it evaluates every bound again and checks that the cells leave no gap.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from rangebound.ball import PRECISIONS, ball, precision
from rangebound.errors import CertificateInvalid
from rangebound.law.shape import UNBOUNDED_SHAPE
from rangebound.privacy.exact import Mapped, family
from rangebound.privacy.search import HIGH, LOW, Task, bound, enclose
from rangebound.privacy.setting import Setting
from rangebound.privacy.worst import excess, loss_is_pinned, loss_values, tasks


class Theorem(enum.Enum):
    """What reduces all pairs to finitely many evaluations."""

    POST_PROCESSING = "the output is a function of the unbounded noisy value, whose loss is the same everywhere"
    LOSS_AT_ENDS = "the loss is monotone in the position, so its supremum is at an end of the range"
    LOSS_ON_CELLS = "the loss is bounded on every cell of positions"
    DELTA_AT_PEAK = "delta depends on cut minus position alone and has one peak, so its supremum is next to the peak"
    DELTA_ON_CELLS = "delta is bounded on every cell of positions"


@dataclass(frozen=True)
class Proof:
    """A proof: the theorem, the bits of precision, and the cells (task, start, end) that it needs."""

    theorem: Theorem
    bits: int
    cells: tuple[tuple[int, float, float], ...] = ()


def prove(setting: Setting, epsilon: float, delta: float) -> Proof | None:
    """A proof of the claim, or None where none was found (which says nothing about the claim)."""
    for bits in PRECISIONS:
        for theorem in _theorems(setting, delta):
            cells: tuple[tuple[int, float, float], ...] = ()
            if theorem in (Theorem.LOSS_ON_CELLS, Theorem.DELTA_ON_CELLS):
                if bits > PRECISIONS[1]:
                    continue
                with precision(bits):
                    lines = _tasks(setting, theorem, epsilon)
                    target = delta if theorem is Theorem.DELTA_ON_CELLS else epsilon
                    found = enclose(lines, target) if lines else None
                if found is not None:
                    if found.lower > target:
                        continue
                    cells = tuple((cell.task, cell.start, cell.end) for cell in found.cells)
            proof = Proof(theorem, bits, cells)
            if _holds(setting, epsilon, delta, proof):
                return proof
    return None


def check(setting: Setting, epsilon: float, delta: float, proof: Proof) -> None:
    """Evaluate a proof again; raises CertificateInvalid where it does not prove the claim."""
    if proof.theorem not in _theorems(setting, delta):
        raise CertificateInvalid(f"theorem={proof.theorem.name}: does not apply to this mechanism and claim")
    if not PRECISIONS[0] <= proof.bits <= PRECISIONS[-1]:
        raise CertificateInvalid(f"bits={proof.bits}: must lie between {PRECISIONS[0]} and {PRECISIONS[-1]}")
    if not _holds(setting, epsilon, delta, proof):
        raise CertificateInvalid(f"epsilon={epsilon}, delta={delta}: not proved by this certificate")


def _theorems(setting: Setting, delta: float) -> list[Theorem]:
    """The theorems that apply; a pure claim also proves a claim with delta."""
    mapped = not setting.shape.normalised
    pure = [Theorem.POST_PROCESSING] if mapped else []
    pure.append(Theorem.LOSS_AT_ENDS if loss_is_pinned(setting) else Theorem.LOSS_ON_CELLS)
    if delta == 0.0:
        return pure
    return [*pure, Theorem.DELTA_AT_PEAK if mapped else Theorem.DELTA_ON_CELLS]


def _holds(setting: Setting, epsilon: float, delta: float, proof: Proof) -> bool:
    with precision(proof.bits):
        if proof.theorem is Theorem.POST_PROCESSING:
            free = Mapped(setting.noise, UNBOUNDED_SHAPE).loss(ball(0.0), ball(setting.sensitivity))
            return bool(free <= ball(epsilon))
        if proof.theorem is Theorem.LOSS_AT_ENDS:
            return all(value <= ball(epsilon) for value in loss_values(setting))
        if proof.theorem is Theorem.DELTA_AT_PEAK:
            return all(
                family(side.noise, side.shape).stick_over(line.start, line.end, line.d, ball(epsilon))[0] <= ball(delta)
                for side, line in setting.pairs()
            )
        lines = _tasks(setting, proof.theorem, epsilon)
        target = delta if proof.theorem is Theorem.DELTA_ON_CELLS else epsilon
        # A cell may have been proved with a series of either order: a high one is worse on wide cells.
        return _covers(lines, proof) and all(
            any(bound(lines[task], start, end, target, order=order) <= target for order in (LOW, HIGH))
            for task, start, end in proof.cells
        )


def _covers(lines: list[Task], proof: Proof) -> bool:
    """Whether the cells cover every line from end to end."""
    for number, task in enumerate(lines):
        cells = sorted((start, end) for which, start, end in proof.cells if which == number)
        reached = task.line.start
        for start, end in cells:
            if math.isnan(start) or math.isnan(end) or start > end or start > reached:
                return False
            reached = max(reached, end)
        if not cells or cells[0][0] > task.line.start or reached < task.line.end:
            return False
    return all(0 <= which < len(lines) for which, _, _ in proof.cells)


def _tasks(setting: Setting, theorem: Theorem, epsilon: float) -> list[Task]:
    delta = 0.0 if theorem is Theorem.LOSS_ON_CELLS else 1.0
    return tasks(setting, lambda noise, shape: excess(noise, shape, epsilon, delta))
