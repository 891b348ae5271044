"""The per-instance Renyi divergence of this very dataset: a private number, and not a guarantee.

It is read from a certified table over the one number that it depends on, for many coordinates at once. For one
coordinate at location q, with c the sensitivity and P_q the law, let E(q, c) = sum or integral of P_q^a P_{q+c}^(1-a)
and G = E - 1, so that D_a(q || q+c) = log(1 + G)/(a - 1). All below is in units of the scale.

**Between two nodes G lies below its chord plus B w^2/8**, w the distance of the nodes and B a bound on |G''|.
E is analytic: continue q to q + iy. A piece of the law (a cell that is collected, a density at a point, the mass of an
interval support) becomes e^(y^2/2) X times itself, where X is the characteristic function of the normal law restricted
to a convex set; the variance of that is at most 1, so 1 - y^2/2 <= |X| <= 1. With t = (y + r)^2/2 this gives, for all
|Im q| <= y and all complex shifts of size r,

    |E| <= exp(a y^2/2 + a (a-1) r^2/2) (e^t (1-t))^(1-a)      mapped noise: unbounded, rectified, quantized
    |E| <= (1 - y^2/2)^(-a) exp(a (a-1) r^2/2)                 truncated to an interval

because on real pairs neither exceeds the unbounded exp(a (a-1) r^2/2). G has a double zero at the shift 0, since each
law has mass 1. So |G(q, c)| <= (c/r)^2 (1 + max|E|) for c <= r (Schwarz), and |G''| <= 2 max|G|/y^2 (Cauchy).

**A bin with its edges u < v is also dominated by the wider pairs** (u, v + c) and (v, u - c), by the monotone
likelihood ratio. The smaller of both bounds is taken, and never more than the unbounded divergence.

The logarithm is concave, so the coordinates of a bin may be replaced by their mean: only the counts and the means of
the bins are needed, for all orders at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rangebound.accounting.fisher_information import PerInstance
from rangebound.accounting.renyi import epsilon_at
from rangebound.errors import ArgumentError
from rangebound.laws.boundings import TRUNCATE
from rangebound.learn.torch.accounts.sampled_loss import sampled, tabulated
from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.loader import BatchSampling, PrivateLoader
from rangebound.learn.torch.optimizer import Batch, Criterion, PrivateOptimizer
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.pairs.divergences import renyi_formula
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_PER_SCALE = 256  # bins per scale
_DENSE = 1 << 14  # up to this many bins are tabulated without gaps
_CHUNK = 1 << 16  # pairs and orders at a time
_ROUNDING = 2.0**-49
_LARGEST = 600.0  # e to this still fits into a double, with a margin
_NUDGE = 2.0**-30  # keeps positions off the very edges, where an infinite value times 0 would be NaN


class LossTable:
    """Upper bounds on the summed divergences of a mechanism at many locations, both shifts and both directions.

    Guarantee: never below the sum of the true divergences. Above it, in trials with shifts of 2^-13 to 2 scales, by up
    to 2e-4 (order 2), 6e-3 (order 8), 1.6e-2 (order 32), 4.5e-2 (order 64), 0.16 (order 300) and 0.24 (order 374) of
    the unbounded divergence, for each coordinate.
    Assumes: Gaussian noise, unbounded, rectified, quantized, or truncated to an interval.
    """

    def __init__(self, mechanism: Mechanism, orders: Sequence[float]) -> None:
        if not mechanism.noise.gaussian:
            raise ArgumentError("mechanism: the table supports Gaussian noise only")
        if mechanism.bounding is TRUNCATE and not isinstance(mechanism.support, Interval):
            raise ArgumentError(f"support={mechanism.support}: the table supports truncation to an Interval only")
        self.mechanism = mechanism
        self.orders: Floats = np.asarray([arguments.order("orders", each) for each in orders], dtype=np.float64)
        if not np.isfinite(self.orders).all() or not len(self.orders):
            raise ArgumentError("orders: must be finite, and at least one")
        self._scale, self._shift = mechanism.noise.scale, mechanism.query.sensitivity
        self.width = self._scale / _PER_SCALE
        low, high = mechanism.shape.ends
        self._folded = low == -high and set(mechanism.shape.points) == {-x for x in mechanism.shape.points}
        self._slack = _slack(self.orders, self._shift / self._scale, mechanism.bounding is TRUNCATE, 1.0 / _PER_SCALE)
        self._ceiling = 0.5 * self.orders * (self.orders - 1.0) * (self._shift / self._scale) ** 2 * (1.0 + 1e-12)
        self._wide = bool(self.orders.max() * self._shift > 0.25 * self._scale)
        self._bins: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)  # the bins that are known, sorted
        # Of each: G at its edges, forward and backward; log(1 + G) of wider pairs; lower bounds of it at its edges.
        self._known = np.empty((10, len(self.orders), 0))
        self._on: dict[torch.device, torch.Tensor] = {}  # the same on devices

    def divergence(self, location: torch.Tensor) -> Floats:
        """For each order the summed divergence: the larger of forward and backward, each with the worse shift.

        Guarantee: forward covers D(q || q +- c) and backward D(q +- c || q), for every shift of at most c.
        """
        return np.asarray(self.sums(location)[1].max(axis=0) / (self.orders - 1.0))

    def sums(self, location: torch.Tensor) -> tuple[Floats, Floats]:
        """Lower and upper bounds of the sums of (order - 1) D: a row for forward and one for backward, per order.

        Guarantee: the upper ones cover every choice of a shift of at most c for each coordinate. The lower ones are
        for shifts of +c or -c, whichever is chosen where.
        """
        if not location.numel():
            return np.zeros((2, len(self.orders))), np.zeros((2, len(self.orders)))
        values, counts, places = self._histogram(location)
        slack = torch.from_numpy(self._slack[:, None]).to(location.device)
        below, above = [], []
        for left, right, top, low, high in ((0, 1, 4, 6, 7), (2, 3, 5, 8, 9)):
            chord = (values[left] * (1.0 - places) + values[right] * places) * (1.0 + 4.0 * _NUDGE) + slack
            above.append(torch.minimum(torch.log1p(chord), values[top]) @ counts)
            # Concave in the place, so above the chord of the logarithms, which needs no more than the mean place.
            below.append(values[low] @ (counts * (1.0 - places)) + values[high] @ (counts * places))
        upper = torch.stack(above).cpu().numpy() * (1.0 + 1e-12)
        return torch.stack(below).cpu().numpy() * (1.0 - 1e-12), upper

    def _histogram(self, location: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The tabulated rows of some bins, how many coordinates each has, and their mean position in it from 0 to 1."""
        hull = self.mechanism.query.range.hull
        steps = location.detach().reshape(-1).to(torch.float64)
        if hull.bounded:
            steps = steps.clamp(hull.lower, hull.upper)
        steps = (steps.abs() if self._folded else steps) * (1.0 / self.width)
        whole = steps.floor()
        first, last = (int(each) for each in torch.stack(torch.aminmax(whole)).tolist())
        if last - first < _DENSE:
            index = whole.to(torch.int64) - first
            self._learn(np.arange(first, last + 1))
            start = int(np.searchsorted(self._bins, first))
            if location.device not in self._on:
                self._on[location.device] = torch.from_numpy(self._known).to(location.device)
            values = self._on[location.device][:, :, start : start + last - first + 1]
        else:  # outliers: only the bins that are occupied
            distinct, index = torch.unique(whole, return_inverse=True)
            bins = distinct.cpu().numpy().astype(np.int64)
            self._learn(bins)
            known = self._known[:, :, np.searchsorted(self._bins, bins)]
            values = torch.from_numpy(known).to(location.device)
        size = values.shape[-1]
        counts = torch.bincount(index, minlength=size).to(torch.float64)
        places = torch.bincount(index, weights=steps - whole, minlength=size) / counts.clamp(min=1.0)
        return values, counts, places.clamp(_NUDGE, 1.0 - _NUDGE)

    def _learn(self, bins: npt.NDArray[np.int64]) -> None:
        new = np.setdiff1d(bins, self._bins)
        if not len(new):
            return
        nodes = np.unique(np.concatenate([new, new + 1]))
        at, c = nodes * self.width, self._shift
        shifts = [self._pairs(at, at + c), self._pairs(at, at - c)]
        values = np.maximum(*(above for _, above in shifts))  # the worse of both shifts
        left, right = (values[:, :, np.searchsorted(nodes, new + k)] for k in (0, 1))
        # G is above its chord less the slack; a place that was moved off an edge weighs too little for `_NUDGE`.
        lowest = np.minimum(*(below for below, _ in shifts))
        lowest = np.log1p(np.maximum(np.expm1(np.clip(lowest, 0.0, _LARGEST)) - self._slack[:, None], 0.0))
        first, second = (lowest[:, :, np.searchsorted(nodes, new + k)] for k in (0, 1))
        nudge = 4.0 * _NUDGE * np.maximum(first, second)
        floors = np.maximum(np.stack([first[0], second[0], first[1], second[1]]) - np.repeat(nudge, 2, axis=0), 0.0)
        edges = np.expm1(np.minimum(np.stack([left[0], right[0], left[1], right[1]]), _LARGEST))
        tops = np.broadcast_to(self._ceiling[None, :, None], (2, len(self.orders), len(new)))
        if self._wide:
            lower, upper = np.asarray(new * self.width), np.asarray((new + 1) * self.width)
            wider = [self._pairs(lower, upper + c), self._pairs(upper, lower - c)]
            tops = np.minimum(tops, np.maximum(*(above for _, above in wider)))
        # Where e to the divergence does not fit into a double there is no chord, and the wider pair remains.
        edges = np.where(np.repeat(np.maximum(left, right), 2, axis=0) < _LARGEST, edges, math.inf)
        order = np.argsort(joined := np.concatenate([self._bins, new]), kind="stable")
        self._bins = joined[order]
        self._known = np.concatenate([self._known, np.concatenate([edges, tops, floors])], axis=2)[:, :, order]
        self._on.clear()

    def _pairs(self, p: Floats, q: Floats) -> tuple[Floats, Floats]:
        """Lower and upper bounds of (a-1) D(p || q) and (a-1) D(q || p) for pairs of locations."""
        noise, shape = self.mechanism.noise, self.mechanism.shape
        below, above = np.empty((2, 2, len(self.orders), len(p)))
        size = max(1, _CHUNK // len(self.orders))
        weights = (self.orders - 1.0)[:, None]
        low, high = shape.ends
        for start in range(0, len(p), size):
            part = slice(start, start + size)
            a, b = p[part], q[part]
            outside = np.maximum(np.maximum(low - np.minimum(a, b), np.maximum(a, b) - high), 0.0)
            outside = np.where(np.isfinite(outside), outside, 0.0)
            far = (outside + self.orders[:, None] * abs(b - a)) / self._scale
            margin = _ROUNDING * self.orders[:, None] * (4.0 + far * far)
            for way, (first, second) in enumerate(((a, b), (b, a))):
                value = weights * renyi_formula(noise, shape, first, second, self.orders)
                below[way, :, part], above[way, :, part] = value - margin, value + margin
        return below, above


def _slack(orders: Floats, shift: float, truncated: bool, width: float) -> Floats:
    """B w^2/8 for each order, in units of the scale; infinite where it does not fit into a double."""
    y = np.minimum(0.5, 1.0 / np.sqrt(orders))
    radius = np.minimum(0.5, 1.0 / np.sqrt(orders * (orders - 1.0)))
    small = shift <= radius
    reach = np.where(small, radius, shift)
    t = 0.5 * (y + np.where(small, radius, 0.0)) ** 2
    growth = 0.5 * orders * (orders - 1.0) * reach**2
    growth += (
        -orders * np.log1p(-0.5 * y**2) if truncated else 0.5 * orders * y**2 - (orders - 1.0) * (t + np.log1p(-t))
    )
    size = 1.0 + np.exp(np.minimum(growth, _LARGEST))
    largest = np.where(small, (shift / radius) ** 2, 1.0) * size
    return np.where(growth < _LARGEST, width**2 * largest / (4.0 * y**2) * (1.0 + 1e-12), math.inf)


ORDERS = (
    *(1.0 + 0.1 * k for k in range(1, 10)),
    *(2.0 + 0.5 * k for k in range(16)),
    *(10.0 * 1.1**k for k in range(39)),
)

_READING = "odometer reading of one run on the scale of an epsilon at delta {}, not a guarantee"


class RenyiWatcher:
    """The per-instance Renyi divergence of training, at many orders [hu2024, Prop 5.1, corrected].

    For each step on all examples: forward = sum over coordinates of max over both shifts of D(q || q +- clip), backward
    the same with the roles exchanged, and the larger of the two. It bounds what the presence of any one example would
    have changed, given the sums q of this run. On Poisson samples (which hu2024 leaves open) the same of the sampled
    step, given the coins of all others: joining and leaving, for an example that the sum q is without or with
    (`rangebound.learn.torch.accounts.sampled_loss`).

    **The total is an odometer reading.** The sums of a step depend on what earlier steps released, so a sum of losses
    along the path that was taken is a random number that describes this run. No (epsilon, delta) of the run follows
    from it, not even for this dataset: that would need a bound over all paths, or a limit fixed beforehand at which
    training stops. The guarantee is `PrivacyEngine.epsilon`.

    Guarantee: never below these sums; a certified table is used (`LossTable`).
    Assumes: elementwise clipping, and all examples in each step or Poisson samples; both are checked.
    Edge cases: the divergences depend on the data and on the path that training took, so they are private, and not a
    guarantee. Only `PerInstance` numbers are returned.
    """

    needs_batches = False

    def __init__(self, *, orders: Sequence[float] = ORDERS) -> None:
        self.orders = tuple(arguments.order("orders", each) for each in orders)
        self._total: Floats = np.zeros(len(self.orders))
        self._path: list[Floats] = []
        self._table: LossTable | None = None

    def start(
        self, module: torch.nn.Module, criterion: Criterion, optimizer: PrivateOptimizer, loader: PrivateLoader
    ) -> None:
        """Called by the engine once the mechanism is known."""
        if not isinstance(optimizer.clipping, Elementwise):
            raise ArgumentError(
                "clipping=Euclidean: leaves the split over coordinates free, so that a sum over coordinates bounds "
                "nothing; use Elementwise(clip=...)"
            )
        self._rate = loader.rate
        if self._rate < 1.0 and loader.sampling is not BatchSampling.POISSON:
            raise ArgumentError(
                f"sampling={loader.sampling.value}: per-instance Renyi needs all examples in each step, or Poisson "
                "samples; whether an example is in a batch of another kind depends on the other batches"
            )
        self._table = LossTable(optimizer.mechanism, self.orders if self._rate == 1.0 else tabulated(self.orders))

    def saw(self, location: torch.Tensor, batches: list[Batch]) -> None:
        """Add a step at these sums."""
        assert self._table is not None
        if self._rate == 1.0:
            added = self._table.divergence(location)
        else:
            added = sampled(*self._table.sums(location), self._rate, self.orders)
        self._total = self._total + added * (1.0 + 1e-15)
        self._path.append(self._total)

    def epsilon(self, delta: float) -> PerInstance:
        """The divergences so far on the scale of an epsilon at delta, at the best order: an odometer reading.

        Guarantee: none. It is not an (epsilon, delta) of the run, for this dataset or any other.
        """
        return PerInstance(self._worth(self._total, delta), notion=_READING.format(delta))

    def epsilons(self, delta: float) -> list[PerInstance]:
        """The readings after each step."""
        notion = _READING.format(delta)
        return [PerInstance(self._worth(each, delta), notion=notion) for each in self._path]

    def divergence(self, order: float) -> PerInstance:
        """The total divergence at one of the orders, along the path of this run."""
        if order not in self.orders:
            raise ArgumentError(f"order={order}: must be one of the orders of this account")
        value = float(self._total[self.orders.index(order)])
        return PerInstance(value, notion=f"sum of Renyi divergences of order {order} along one run")

    def state_dict(self) -> dict[str, Any]:
        """The account as plain data, which is private."""
        return {"orders": list(self.orders), "path": [each.tolist() for each in self._path]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a saved account of the same orders."""
        if tuple(state["orders"]) != self.orders:
            raise ArgumentError("state: was made with other orders")
        self._path = [np.asarray(each) for each in state["path"]]
        self._total = self._path[-1] if self._path else np.zeros(len(self.orders))

    def _worth(self, total: Floats, delta: float) -> float:
        delta = arguments.probability("delta", delta)
        if delta == 0.0:
            raise ArgumentError("delta=0: finitely many orders do not bound it; give a positive delta")
        if not total.any():
            return 0.0
        return min(epsilon_at(order, value, delta) for order, value in zip(self.orders, total.tolist(), strict=True))
