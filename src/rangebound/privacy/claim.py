"""A claim: what is said of the privacy of a mechanism, before anything is proved."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from rangebound.errors import ArgumentError
from rangebound.values import arguments


class Notion(enum.Enum):
    """What privacy means: DP bounds every pair within the sensitivity, METRIC in proportion to the distance."""

    DP = "dp"
    METRIC = "metric"


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a mechanism is (`epsilon`, `delta`)-private, in the sense of `notion`.

    DP: for all neighbouring datasets and all sets A of outputs, P(A) <= e^epsilon Q(A) + delta.
    METRIC: any two true answers at distance i * sensitivity satisfy P(A) <= e^(i epsilon) Q(A), for every real i
    [croft2022, Thm 2]. That implies DP at the same epsilon.

    Guarantee: none. A claim is a statement; `rangebound.certify` proves it of a mechanism or refuses it.
    Edge cases: `delta=0` is a pure claim. A metric claim has no delta.

    >>> import rangebound as rb
    >>> print(rb.Claim(epsilon=0.5, delta=1e-6))
    (0.5, 1e-06)-differential privacy
    >>> print(rb.Claim(epsilon=0.5, notion="metric"))
    metric privacy with epsilon 0.5
    """

    epsilon: float
    delta: float = 0.0
    notion: Notion = Notion.DP

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", arguments.nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", arguments.probability("delta", self.delta))
        object.__setattr__(self, "notion", arguments.member("notion", self.notion, Notion))
        if self.notion is Notion.METRIC and self.delta > 0.0:
            raise ArgumentError(f"delta={self.delta}: metric privacy is pure; leave delta out")

    def __str__(self) -> str:
        epsilon, delta = arguments.upwards(self.epsilon), arguments.upwards(self.delta)
        if self.notion is Notion.METRIC:
            return f"metric privacy with epsilon {epsilon}"
        return f"({epsilon}, {delta})-differential privacy"

    @property
    def pure(self) -> bool:
        """Whether there is no delta, so that the privacy loss of every output is bounded.

        >>> Claim(epsilon=1.0).pure, Claim(epsilon=1.0, delta=1e-9).pure
        (True, False)
        """
        return self.delta == 0.0

    @property
    def limit(self) -> float:
        """What no pair of neighbours may exceed: delta at this epsilon or, for a pure claim, the privacy loss epsilon.

        Edge cases: a metric claim is refused, as by `ordinary`.

        >>> Claim(epsilon=1.0).limit, Claim(epsilon=1.0, delta=1e-9).limit
        (1.0, 1e-09)
        """
        return self.epsilon if self.ordinary().pure else self.delta

    def ordinary(self) -> Claim:
        """The claim itself, about pairs of neighbours; a metric one, which bounds a rate, is refused.

        >>> Claim(epsilon=1.0).ordinary().epsilon
        1.0
        """
        if self.notion is Notion.METRIC:
            raise ArgumentError(f"notion={self.notion.value!r}: a metric claim bounds a rate, not a pair of neighbours")
        return self

    @property
    def terms(self) -> str:
        """The arguments in full, for an error message.

        >>> Claim(epsilon=1.0).terms, Claim(epsilon=1.0, notion="metric").terms
        ('epsilon=1.0, delta=0.0', "epsilon=1.0, notion='metric'")
        """
        metric = self.notion is Notion.METRIC
        return f"epsilon={self.epsilon}, " + (f"notion={self.notion.value!r}" if metric else f"delta={self.delta}")

    def to_dict(self) -> dict[str, object]:
        """The claim as plain data, for JSON or TOML.

        >>> Claim(epsilon=1.0).to_dict()
        {'epsilon': 1.0, 'delta': 0.0, 'notion': 'dp'}
        """
        return {"epsilon": self.epsilon, "delta": self.delta, "notion": self.notion.value}

    @classmethod
    def from_dict(cls, data: object) -> Claim:
        """The claim that `to_dict` wrote; a missing or an unknown field is refused.

        >>> Claim.from_dict({"epsilon": 1.0, "delta": 0.0, "notion": "dp"})
        Claim(epsilon=1.0, delta=0.0, notion=<Notion.DP: 'dp'>)
        """
        match data:
            case {"epsilon": float(epsilon), "delta": float(delta), "notion": str(notion), **rest} if not rest:
                return cls(epsilon=epsilon, delta=delta, notion=arguments.member("notion", notion, Notion))
        raise ArgumentError(f"claim={arguments.shown(data)}: must be what Claim.to_dict writes")
