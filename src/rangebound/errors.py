"""The exceptions of rangebound: one small tree, each also a builtin, each message = name, value, rule."""

from __future__ import annotations

import copyreg


def plain(text: str) -> str:
    """Text of others on one line, which cannot move the cursor, change colours or ring the bell.

    >>> print(plain("\\x1b[31mred\\n"))
    \\x1b[31mred\\n
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class RangeboundError(Exception):
    """Every error that rangebound raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:  # processes hand errors to each other, with all their facts
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class ArgumentError(RangeboundError, ValueError):
    """An argument has the right type and a value that breaks a rule."""


class ArgumentTypeError(RangeboundError, TypeError):
    """An argument has the wrong type."""


class PlanError(ArgumentError):
    """A release plan breaks a rule; `field` names the place in the plan, `line` the line of its text, where known."""

    def __init__(self, message: str, *, field: str, line: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.line = line


class Unsatisfiable(RangeboundError, ValueError):
    """No mechanism of the asked kind can give the asked guarantee, or every one does and none is the smallest."""


class ClaimFalse(RangeboundError, ArithmeticError):
    """A privacy claim is false; the attributes hold the proof.

    `pair` is a pair of neighbouring true answers, the first being the one whose outcome is too likely.
    `delta` and `epsilon` are what the pair really leaks: its delta at the claimed epsilon, and the
    epsilon it needs at the claimed delta (`inf` where there is none). Both are rounded down, so they are
    themselves true lower bounds on what the mechanism guarantees.
    Of a metric claim the pair may be at any distance: `epsilon` is its loss for each sensitivity of distance, and
    `delta` its delta at the epsilon that the claim allows at its distance.
    """

    def __init__(self, message: str, *, pair: tuple[float, float], epsilon: float, delta: float) -> None:
        super().__init__(message)
        self.pair = pair
        self.epsilon = epsilon
        self.delta = delta


class Undecided(RangeboundError, ArithmeticError):
    """A search did not converge: a claim is neither proved nor refuted, or a number not enclosed narrowly enough.

    `lower` and `upper` are proved bounds on the number in question (the epsilon, delta or divergence that the message
    names). `upper` may be published in its place: it is a true guarantee, larger than it need be.
    """

    def __init__(self, message: str, *, lower: float, upper: float) -> None:
        super().__init__(message)
        self.lower = lower
        self.upper = upper


class CertificateInvalid(RangeboundError, ValueError):
    """A certificate does not prove what it says."""


class EngineError(RangeboundError, RuntimeError):
    """An engine failed; the message never depends on the data.

    `away` says that its server could not be reached, or was lost: the same may work later.
    """

    def __init__(self, message: str, *, away: bool = False) -> None:
        super().__init__(message)
        self.away = away


class MissingExtra(RangeboundError, ImportError):
    """A feature needs an optional dependency that is not installed."""


class BudgetExceeded(RangeboundError, ValueError):
    """An account has less left than was asked for; nothing was spent.

    `account` is its name, `remaining` what is left of it and `requested` what was asked for, as exact costs.
    """

    def __init__(self, message: str, *, account: str, remaining: object, requested: object) -> None:
        super().__init__(message)
        self.account = account
        self.remaining = remaining
        self.requested = requested


class RequestConflict(RangeboundError, ValueError):
    """A request id was used before for something else; nothing was spent."""


class RequestFailed(RangeboundError, ValueError):
    """What a request drew could not be stored. The charge stands, and it is not drawn again: a new id may try."""


class ApprovalNeeded(RangeboundError, ValueError):
    """An account needs an approved request before anything is charged or read; nothing was spent.

    `account` and `request` are their names; `filed` says whether the request is in the ledger and waits, or is still to
    be filed.
    """

    def __init__(self, message: str, *, account: str, request: str, filed: bool) -> None:
        super().__init__(message)
        self.account = account
        self.request = request
        self.filed = filed


class RequestRejected(RangeboundError, ValueError):
    """A request was rejected, for good; nothing was spent. A new id may ask again."""


class LedgerUnavailable(RangeboundError, OSError):
    """A ledger cannot be read or written now: locked, read-only, disk full, missing. Nothing was released."""


class LedgerTampered(RangeboundError, ValueError):
    """A ledger is not as it was written; nothing may be spent from it. `findings` says what is wrong, one by one."""

    def __init__(self, message: str, *, findings: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings or (message,)


class EntropyUnavailable(RangeboundError, RuntimeError):
    """The operating system gives no random bytes, so nothing can be released."""
