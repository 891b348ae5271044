"""Proofs of a privacy claim in ball arithmetic, and their checking.

A claim (epsilon, delta) is proved for all pairs of neighbouring true answers and both directions of the divergence. A
proof says which theorem reduces that to finitely many evaluations, at which precision, and, where the positions had
to be cut into cells, which cells. Checking it evaluates every bound again and checks that the cells leave no gap. Of a
claim that was not proved, a pair that refutes it is told, or the numbers between which the truth lies.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

from rangebound.errors import CertificateInvalid, ClaimFalse, Undecided
from rangebound.laws.boundings import UNBOUNDED_SHAPE
from rangebound.privacy.branch_and_bound import HIGH, LOW, SearchObjective, Task, bound, enclose
from rangebound.privacy.counterexample import (
    breaks,
    by_windows,
    excess,
    finite_pair,
    loss_is_pinned,
    loss_values,
    pair_delta,
    pair_numbers,
    tasks,
)
from rangebound.privacy.metric import side_score, steepest_pair, worst_score
from rangebound.privacy.pairs.divergences import Mapped, mapped
from rangebound.privacy.setting import Claim, Notion, Setting
from rangebound.privacy.windows import gaussian_worst, laplace_windows
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.privacy.worst import worst_epsilon, worst_under
from rangebound.values.ball import PRECISIONS, Ball, ball, down, precision, up


class Theorem(enum.Enum):
    """What reduces all pairs to finitely many evaluations."""

    POST_PROCESSING = "the output is a function of the unbounded noisy value, whose loss is the same everywhere"
    LOSS_AT_ENDS = "the loss is monotone in the position, so its supremum is at an end of the range"
    LOSS_ON_CELLS = "the loss is bounded on every cell of positions"
    DELTA_AT_PEAK = "delta depends on cut minus position alone and has one peak, so its supremum is next to the peak"
    DELTA_ON_CELLS = "delta is bounded on every cell of positions"
    DELTA_ON_WINDOWS = "delta is bounded on windows of positions by polynomials, whose errors are bounded"
    RATE_AT_ENDS = (
        "the log-density of an output changes fastest with the true answer at an end of a span or of the range, or "
        "across a gap of the range"
    )
    ALL_WEIGHTS = "the weights of all pairs of neighbouring inputs are compared, output by output"
    LATTICE_PAIR = (
        "the noise lies on a lattice, where answers a sensitivity apart are the worst pair, clamping or not, and its "
        "privacy profile is a closed form"
    )


WORK = 600_000
"""Steps that checking a proof may take: ten seconds at about 15 microseconds each, often less. A step is an evaluation
at one span or point of the support."""
_HALVINGS = 3  # of a cell that is not proved as a whole
_CELL_BITS = PRECISIONS[:2]  # more than these have never helped on cells
FLOATS = 53  # bits of the numbers on windows
_MANY, _LONG = 8, 32  # spans, and points for Gaussian noise, from which on windows come first
_SPAN_STEPS, _POINT_STEPS = 4000, 250  # that windows take for a span and for a point, at most


@dataclass(frozen=True)
class Proof:
    """A proof: the theorem, the bits of precision, and the cells (task, start, end) that it needs."""

    theorem: Theorem
    bits: int
    cells: tuple[tuple[int, float, float], ...] = ()


def prove(setting: Setting, claim: Claim) -> Proof | None:
    """A proof of the claim, or None where none was found (which says nothing about the claim)."""
    theorems = _theorems(setting, claim)
    quick = Proof(Theorem.DELTA_ON_WINDOWS, FLOATS)
    possible, shape = quick.theorem in theorems, setting.shape
    many = len(shape.spans) > _MANY  # where cells would take long
    if by_windows(setting):
        many = many or len(shape.spans) == 1 or len(shape.points) > _LONG
    if possible and many and _holds(setting, claim, quick):
        return quick
    for bits in PRECISIONS:
        if _fixed_steps(setting, bits) > WORK:
            break
        for theorem in (each for each in theorems if each is not quick.theorem):
            cells: tuple[tuple[int, float, float], ...] = ()
            if theorem in (Theorem.LOSS_ON_CELLS, Theorem.DELTA_ON_CELLS):
                if bits not in _CELL_BITS:
                    continue
                shown = _shown_by(theorem, claim)
                with precision(bits):
                    lines = _tasks(setting, shown)
                    found = enclose(lines, shown.limit) if lines else None
                if found is not None:
                    if found.lower > shown.limit:
                        continue
                    cells = tuple((cell.task, cell.start, cell.end) for cell in found.cells)
            proof = Proof(theorem, bits, cells)
            try:
                if _holds(setting, claim, proof):
                    return proof
            except _TooMuchWork:  # a proof that takes too long to check does not count
                continue
    return quick if possible and not many and _holds(setting, claim, quick) else None


def check(setting: Setting, claim: Claim, proof: Proof) -> None:
    """Evaluate a proof again; raises CertificateInvalid where it does not prove the claim.

    Guarantee: takes at most `WORK` steps, and what `prove` finds takes no more.
    """
    if proof.theorem not in _theorems(setting, claim):
        raise CertificateInvalid(f"theorem={proof.theorem.name}: does not apply to this mechanism and claim")
    on_cells = proof.theorem in (Theorem.LOSS_ON_CELLS, Theorem.DELTA_ON_CELLS)
    allowed: tuple[int, ...] = _CELL_BITS if on_cells else PRECISIONS
    if proof.theorem is Theorem.DELTA_ON_WINDOWS:
        allowed = (FLOATS,)
    if proof.bits not in allowed:
        raise CertificateInvalid(f"bits={proof.bits}: must be one of {', '.join(map(str, allowed))}")
    if proof.cells and not on_cells:
        raise CertificateInvalid(f"cells: the theorem {proof.theorem.name} needs none")
    if _fixed_steps(setting, proof.bits) > WORK:
        raise _TooMuchWork
    if not _holds(setting, claim, proof):
        raise CertificateInvalid(f"{claim.terms}: not proved by this certificate")


def _theorems(setting: Setting, claim: Claim) -> list[Theorem]:
    """The theorems that apply; a pure claim also proves a claim with delta."""
    if claim.notion is Notion.METRIC:
        return [Theorem.RATE_AT_ENDS]
    mapped = not setting.shape.normalised
    pure = [Theorem.POST_PROCESSING] if mapped else []
    pure.append(Theorem.LOSS_AT_ENDS if loss_is_pinned(setting) else Theorem.LOSS_ON_CELLS)
    if claim.pure:
        return pure
    if mapped:
        return [*pure, Theorem.DELTA_AT_PEAK]
    spans, points = max(len(setting.shape.spans), len(setting.answers.spans)), len(setting.shape.points)
    if setting.noise.gaussian and points > _LONG and points <= WORK:  # of a regular grid one step stands for its middle
        laws = Laws(setting.noise.scale, setting.shape)
        low, high = laws.middle() or (0.0, 0.0)
        points -= int((high - low) / laws.step) if high > low else 0
    known = setting.noise.gaussian or setting.noise.exponential  # the families of which there are windows
    windows = [Theorem.DELTA_ON_WINDOWS] if known and spans * _SPAN_STEPS + points * _POINT_STEPS <= WORK else []
    return [*pure, *windows, Theorem.DELTA_ON_CELLS]


def _holds(setting: Setting, claim: Claim, proof: Proof) -> bool:
    if proof.theorem is Theorem.DELTA_ON_WINDOWS:
        with precision(PRECISIONS[0]):
            lines = _tasks(setting, claim)
            enclosed = gaussian_worst.enclosed if setting.noise.gaussian else laplace_windows.enclosed
            found = enclosed(lines, claim.delta)
        return found is not None and found.upper <= claim.delta
    with precision(proof.bits):
        if proof.theorem is Theorem.POST_PROCESSING:
            free = Mapped(setting.noise, UNBOUNDED_SHAPE).loss(ball(0.0), ball(setting.sensitivity))
            return bool(free <= ball(claim.epsilon))
        if proof.theorem is Theorem.RATE_AT_ENDS:
            rates = (side_score(side) * ball(setting.sensitivity) for side in setting.sides())
            return all(rate <= ball(claim.epsilon) for rate in rates)
        if proof.theorem is Theorem.LOSS_AT_ENDS:
            return all(value <= ball(claim.epsilon) for value in loss_values(setting))
        if proof.theorem is Theorem.DELTA_AT_PEAK:
            return all(
                mapped(side.noise, side.shape).stick_over(line.start, line.end, line.d, ball(claim.epsilon))[0]
                <= ball(claim.delta)
                for side, line in setting.pairs()
            )
        shown = _shown_by(proof.theorem, claim)
        done, each = [_fixed_steps(setting, proof.bits)], _steps_of_one(setting)
        counted = (
            (cast(SearchObjective, _Counted(task.objective, done, each)), task.line) for task in _tasks(setting, shown)
        )
        lines = [Task(*each) for each in counted]
        if not _covers(lines, proof):
            return False
        if all(_below(lines[task], start, end, shown.limit, _HALVINGS) for task, start, end in proof.cells):
            return True
    # Cells of Gaussian laws may be those of a version whose bounds on them were as sharp as only windows are now.
    quick = Proof(Theorem.DELTA_ON_WINDOWS, FLOATS)
    known = setting.noise.gaussian and proof.theorem is Theorem.DELTA_ON_CELLS
    return known and quick.theorem in _theorems(setting, claim) and _holds(setting, claim, quick)


def _below(task: Task, start: float, end: float, target: float, halvings: int) -> bool:
    """Whether a cell stays below the target, as a whole or in halves.

    A cell may have been proved with a series of either order, since a high one is worse on wide cells, and by a version
    whose bounds were sharper here.
    """
    if any(bound(task, start, end, target, order=order) <= target for order in (LOW, HIGH)):
        return True
    middle = 0.5 * start + 0.5 * end
    if not halvings or not start < middle < end or math.isinf(middle):
        return False
    return all(_below(task, a, b, target, halvings - 1) for a, b in ((start, middle), (middle, end)))


class _TooMuchWork(CertificateInvalid):
    """A proof whose check takes more than `WORK` steps."""

    def __init__(self) -> None:
        super().__init__(
            f"proof: takes more than {WORK} steps to check; a step is an evaluation at one span or point of the support"
        )


def _steps_of_one(setting: Setting) -> int:
    """The steps of one evaluation: every span and point counts, less on a grid for Laplace noise."""
    shape = setting.shape
    if not setting.noise.exponential:
        return 8 * (len(shape.spans) + len(shape.points) + 4)
    return len(shape.spans) + len(shape.points) // 16 + 4


def _fixed_steps(setting: Setting, bits: int) -> int:
    """The steps of a check but for its cells: spans, points and answers are read, and the ends evaluated."""
    shape = setting.shape
    size = len(shape.spans) + len(shape.points) + len(shape.cells)
    ends = 2 * max(size, _steps_of_one(setting)) * bits // PRECISIONS[0] if shape.normalised else 0
    return size // 20 + steps_of_spans(len(setting.answers.spans), len(shape.spans)) + ends


def steps_of_spans(answers: int, support: int) -> int:
    """The steps that spans take before anything is evaluated: each of the answers meets each of all."""
    return (answers + support) ** 2 // 4


class _Counted:
    """An objective whose evaluations are counted; a wide cell has many branches, each of which evaluates all spans."""

    def __init__(self, objective: SearchObjective, done: list[int], each: int) -> None:
        """With the steps that were `done`, a number that all objectives of a check share."""
        self._objective, self._done, self._each = objective, done, each

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)

    def _count(self, evaluations: int) -> None:
        self._done[0] += evaluations * self._each
        if self._done[0] > WORK:
            raise _TooMuchWork

    def value(self, p: Ball, d: Ball) -> Ball:
        self._count(2)
        return self._objective.value(p, d)

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        found = self._objective.branches(p, d, only)
        self._count(len(found))
        return found

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        self._count(2)
        return self._objective.ceiling(start, end, d)


def _covers(lines: list[Task], proof: Proof) -> bool:
    """Whether the cells cover every line from end to end, and there are no others."""
    own: dict[int, list[tuple[float, float]]] = {}
    for which, start, end in proof.cells:
        own.setdefault(which, []).append((start, end))
    if own.keys() != set(range(len(lines))):
        return False
    for number, task in enumerate(lines):
        reached = task.line.start
        for start, end in sorted(own[number]):
            if math.isnan(start) or math.isnan(end) or start > end or start > reached:
                return False
            reached = max(reached, end)
        if reached < task.line.end:
            return False
    return True


def _shown_by(theorem: Theorem, claim: Claim) -> Claim:
    """What a theorem on cells shows: the claim, or the pure one that implies it."""
    return Claim(epsilon=claim.epsilon) if theorem is Theorem.LOSS_ON_CELLS else claim


def _tasks(setting: Setting, claim: Claim) -> list[Task]:
    return tasks(setting, lambda noise, shape: excess(noise, shape, claim))


_IN_TIME = f" (a proof counts only if its check takes at most {WORK} steps, about ten seconds)"


def refutation(setting: Setting, claim: Claim) -> ClaimFalse | Undecided:
    """What to raise about a claim that was not proved: a pair that refutes it, or the bounds of the truth."""
    if claim.notion is Notion.METRIC:
        return _not_metric(setting, claim)
    pair = finite_pair(setting, worst_under(setting, claim).pair, claim)
    if breaks(setting, pair, claim):  # a counterexample is checked before it is raised
        needs = pair_numbers(setting, pair, claim)
        return ClaimFalse(
            f"{claim.terms}: not true of this mechanism. The true answers {pair[0]} and {pair[1]} "
            f"need epsilon >= {needs[0]} with that delta, or delta >= {needs[1]} with that epsilon",
            pair=pair,
            epsilon=needs[0],
            delta=needs[1],
        )
    true_epsilon = worst_epsilon(setting, claim.delta)
    return Undecided(
        f"{claim.terms}: neither proved nor refuted; the truth at this delta lies between epsilon "
        f"{true_epsilon.lower} and {true_epsilon.upper}. Claim a little more, such as {safe_digits(true_epsilon.upper)}"
        f"{_IN_TIME}",
        lower=true_epsilon.lower,
        upper=true_epsilon.upper,
    )


def _not_metric(setting: Setting, claim: Claim) -> ClaimFalse | Undecided:
    """What to say of a metric claim that was not proved: a pair that refutes it, or between what the truth lies."""
    (a, b), needs = steepest_pair(setting)
    if breaks(setting, (a, b), claim):
        allowed = claim.epsilon * abs(a - b) / setting.sensitivity * (1.0 + 1e-12)
        return ClaimFalse(
            f"{claim.terms}: not true of this mechanism. The true answers {a} and {b} need "
            f"epsilon >= {needs} for each sensitivity of their distance",
            pair=(a, b),
            epsilon=needs,
            delta=max(down(pair_delta(setting, (a, b), allowed)), 0.0),
        )
    upper = up(ball(worst_score(setting)) * ball(setting.sensitivity))
    return Undecided(
        f"{claim.terms}: neither proved nor refuted; the truth lies between {needs} and {upper}. "
        f"Claim a little more, such as {safe_digits(upper)}{_IN_TIME}",
        lower=needs,
        upper=upper,
    )


def safe_digits(x: float) -> float:
    """Nine digits, rounded up."""
    if x <= 0.0 or math.isinf(x):
        return x
    unit = 10.0 ** (math.floor(math.log10(x)) - 8)
    return math.nextafter(math.ceil(x / unit) * unit, math.inf)
