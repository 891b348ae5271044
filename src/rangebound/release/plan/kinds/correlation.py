"""The correlation of two columns."""

from __future__ import annotations

from typing import Literal

from rangebound.release.noise import moment_intervals
from rangebound.release.noise.draw import Reading
from rangebound.release.noise.estimate import Estimate, held, nearest
from rangebound.release.plan.kinds.moments_kind import MomentsKind
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


class Correlation(MomentsKind):
    """Pearson's correlation of the columns `x` and `y`; 0 where one of them does not vary."""

    kind: Literal["correlation"] = "correlation"

    @property
    def natural(self) -> Interval:
        """From -1 to 1."""
        return Interval(-1.0, 1.0)

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The correlation of the noisy moments, with an interval by simulation; see `moment_intervals`.

        Guarantee: it lies in the support, on the step and in its interval.
        """
        value, _ = moment_intervals.correlation(moment_intervals.steadied(reading))
        answer, bounded, hull = moment_intervals.correlation, moment_intervals.correlation_bounds, self.allowed.hull
        ends = moment_intervals.interval(reading, answer, bounded, (hull.lower, hull.upper))
        return held(nearest(float(value), self.allowed, self.step), *ends, self.allowed)
