"""A histogram of per-instance losses to publish: how exposed the examples were, with noise and a charge of its own.

The loss of an example in a step is the Renyi divergence that its presence causes for unbounded Gaussian noise at the
step's rate. With v the squared norm of its clipped gradient over that of the noise, log E r^k = k (k-1) v / 2, so the
loss is a function of its own gradient at the published parameters, and it bounds the loss of bounded noise at every
location. Rectified and quantized noise is post-processing. Noise truncated to an interval is an increasing function T
of unbounded noise Z with slopes of at most 1, as its density is more log-concave; so the ratios e^(cT)/E e^(cT) and
e^(cZ)/E e^(cZ) of a pair at distance c, both with mean 1, cross once as Z grows, and every convex function has the
larger mean at the second one: no divergence, sampled or not, is above that of unbounded noise.

The losses of `RenyiWatcher` depend on the sums, and so on all other examples: one example would change every entry.
These are computed for **every** example at steps that are said beforehand, whether a batch had it or not: else an entry
would depend on the secret coins. So, given the parameters that training published, an example changes its own entry
alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rangebound.errors import ArgumentError
from rangebound.learn.torch import several_processes
from rangebound.learn.torch.accounts.sampled_loss import Moments, joining_above, leaving_above
from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.loader import BatchSampling, PrivateLoader, Relation
from rangebound.learn.torch.optimizer import Batch, Criterion, PrivateOptimizer
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from rangebound.mechanisms.certificates import Certificate, certify
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_FINENESS = 16  # losses on samples are rounded up to this many sizes between a squared norm and its double
_SIZES = 40 * _FINENESS
_ROUNDING = 2.0**-16  # of squared norms in floats, far beyond it


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class PublishedLosses:
    """How many examples have a loss from one edge to the next (the last: and above), with noise; safe to publish.

    Guarantee: the counts are `epsilon`-differentially private by `relation`, given the parameters of the steps.
    """

    counts: tuple[int, ...]
    edges: tuple[float, ...]
    order: float
    steps: tuple[int, ...]
    epsilon: float
    relation: Relation
    certificate: Certificate


class LossHistogram:
    """A watcher that can publish a histogram of the examples' Renyi losses over some steps, added up and capped.

    `steps` are counted from 0, at which the loss of every example is computed: choose them, `order`, `cap` and `bins`
    without looking at the data. Such a step takes one more pass over the whole dataset, with a gradient of each
    example.

    Guarantee: adding or removing an example changes one count by one (for zero-out, two), whichever others there are.
    `release` costs its epsilon **beside what training costs**: `engine.epsilon` does not include it, and both add up.
    Charge it to the ledger of the training.
    Assumes: elementwise or Euclidean clipping, and all examples in each step or Poisson samples; both are checked.
    `backward` gets batches as the loader has them.
    Edge cases: an example whose gradient is not finite, or for which module or criterion raise an error, moves no sum,
    and its loss is 0. With dropout, a gradient is that of a mask drawn for it, not that of the step. Adaptive clipping
    and several processes are refused. The state is private.

    >>> exposure = LossHistogram(steps=(0, 50, 100), order=8, cap=0.5)  # for PrivacyEngine(exposure)
    """

    needs_batches = False

    def __init__(self, *, steps: Iterable[int], order: float, cap: float, bins: int = 10) -> None:
        self.steps = tuple(sorted({int(arguments.nonnegative("steps", each)) for each in steps}))
        self.order = arguments.finite("order", arguments.order("order", order))
        self.cap = arguments.positive("cap", cap)
        if not self.steps or not 1 <= bins == int(bins):
            raise ArgumentError("steps, bins: must be at least one step, and a whole number of bins from 1")
        self.bins = int(bins)
        self._taken = 0
        self._losses: Floats | None = None
        self._loader: PrivateLoader | None = None

    def start(
        self, module: torch.nn.Module, criterion: Criterion, optimizer: PrivateOptimizer, loader: PrivateLoader
    ) -> None:
        """Called by the engine once the mechanism is known."""
        if several_processes.place()[1] > 1 or optimizer.adaptive:
            raise ArgumentError("LossHistogram: needs one process, and Elementwise or Euclidean clipping")
        if loader.rate < 1.0 and loader.sampling is not BatchSampling.POISSON:
            raise ArgumentError(
                f"sampling={loader.sampling.value}: LossHistogram needs all examples in each step, or Poisson samples; "
                "whether an example is in a batch of another kind depends on the other batches"
            )
        if self._losses is None:
            self._losses = np.zeros(loader.examples)
        if len(self._losses) != loader.examples:
            raise ArgumentError("state: is about another number of examples than this run")
        self._optimizer, self._loader = optimizer, loader

    def saw(self, location: torch.Tensor, batches: list[Batch]) -> None:
        """Add the losses of a step, if it is one of those that were said."""
        assert self._loader is not None
        assert self._losses is not None
        if self._taken in self.steps:
            clip, scale = self._optimizer.clipping, self._optimizer.mechanism.noise.scale
            most = clip.bound**2 * (len(location) if isinstance(clip, Elementwise) else 1)
            squares = np.minimum(self._optimizer.all_squares().numpy() * (1.0 + _ROUNDING), most)
            self._losses = self._losses + _losses(squares, scale, most, self._loader.rate, self.order)
        self._taken += 1

    def release(
        self, *, epsilon: float, ledger: Ledger | None = None, account: str = "", request: str = ""
    ) -> PublishedLosses:
        """Publish the histogram of the steps so far: counts of whole numbers, zero at least, with a certificate.

        With `ledger`, its `account` is charged this epsilon first; the same request again returns the same counts.
        Without one, each call is another release of this epsilon, to be added up by you.
        """
        if self._losses is None or self._loader is None:
            raise ArgumentError("make_private: must be called first, on an engine that was given this LossHistogram")
        if self._taken <= self.steps[0]:
            raise ArgumentError("steps: none of them was taken yet")
        relation, cost = self._loader.relation, Cost(epsilon=arguments.positive("epsilon", epsilon))
        moved = 1 if relation is Relation.ADD_REMOVE else 2  # the sum of what all counts move: it may change its bin
        lattice = Interval(0.0, math.inf)
        noise = DiscreteLaplace.calibrated(sensitivity=moved, epsilon=float(cost.epsilon), support=lattice)
        edges = np.linspace(0.0, self.cap, self.bins + 1)
        index = np.minimum(np.searchsorted(edges, self._losses, side="right") - 1, self.bins - 1)
        true = np.bincount(index, minlength=self.bins).astype(np.float64)
        stated = {
            "order": self.order, "edges": edges.tolist(), "steps": [k for k in self.steps if k < self._taken],
            "relation": relation.value, "scale": noise.scale,
        }  # fmt: skip

        def drawn() -> bytes:
            counts = [int(each) for each in np.asarray(noise.release(true))]
            return json.dumps({**stated, "counts": counts}, sort_keys=True).encode()

        if ledger is None:
            made = drawn()
        else:
            what = "histogram of losses"
            made = ledger.release(account=account, request=request, cost=cost, what=what, compute=lambda _: drawn())
        published = json.loads(made)
        if any(published.get(name) != value for name, value in stated.items()):
            raise ArgumentError("request: was charged for another histogram; give this one a request of its own")
        return PublishedLosses(
            counts=tuple(published["counts"]), edges=tuple(published["edges"]), order=self.order,
            steps=tuple(published["steps"]), epsilon=noise.epsilon(), relation=relation, certificate=certify(noise),
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """The losses as plain data, which is private."""
        losses = None if self._losses is None else self._losses.tolist()
        return {"steps": list(self.steps), "order": self.order, "taken": self._taken, "losses": losses}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a saved account of the same steps and order."""
        if tuple(state["steps"]) != self.steps or state["order"] != self.order:
            raise ArgumentError("state: was made with other steps, or another order")
        saved = None if state["losses"] is None else arguments.reals("losses", state["losses"])
        if saved is not None and self._losses is not None and len(saved) != len(self._losses):
            raise ArgumentError("state: is about another number of examples than this run")
        self._taken, self._losses = int(state["taken"]), self._losses if saved is None else saved


def _losses(squares: Floats, scale: float, most: float, rate: float, order: float) -> Floats:
    """Upper bounds of the divergences for gradients of these squared norms, none above `most`."""
    if rate >= 1.0:
        return np.asarray(0.5 * order * squares / scale**2)
    sizes = most / scale**2 * np.exp2(np.arange(-_SIZES, 1) / _FINENESS)
    k = np.arange(max(7, math.ceil(order) + 1))
    index = np.minimum(np.searchsorted(sizes, squares / scale**2), _SIZES)
    found = np.zeros(len(sizes))
    for each in np.unique(index):
        logs = 0.5 * k * (k - 1) * sizes[each]
        moments = Moments(lower=logs * (1.0 - 1e-14), upper=logs * (1.0 + 1e-14))
        found[each] = max(joining_above(moments, rate, order), leaving_above(moments, rate, order))
    return np.where(squares > 0.0, found[index], 0.0)
