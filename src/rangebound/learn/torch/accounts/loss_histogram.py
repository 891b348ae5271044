"""A histogram of per-instance losses to publish: how exposed the examples were, with noise and a charge of its own.

The loss of an example in a step is the Renyi divergence that its presence causes for unbounded Gaussian noise at the
step's rate. With v the squared norm of its clipped gradient over that of the noise, log E r^k = k (k-1) v / 2, so the
loss is a function of its own gradient at the published parameters, and it bounds the loss of bounded noise at every
location: rectified and quantized noise is post-processing, truncated noise on an interval is dominated. (The losses of
`RenyiWatcher` depend on the sums, and so on all other examples: one example would change every entry.) It is computed
for **every** example at steps that are said beforehand, whether a batch had it or not: else an entry would depend on
the secret coins. So, given the parameters that training published, an example changes its own entry alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.func import vmap

from rangebound.errors import ArgumentError
from rangebound.learn.torch import several_processes
from rangebound.learn.torch.accounts.fisher_loss import clipped_gradient
from rangebound.learn.torch.accounts.sampled_loss import Moments, joining_above, leaving_above
from rangebound.learn.torch.clipping_norm import Clipping, Elementwise, Euclidean
from rangebound.learn.torch.gradients.one_pass import learned
from rangebound.learn.torch.loader import PrivateLoader, Relation
from rangebound.learn.torch.optimizer import Batch, Criterion, PrivateOptimizer
from rangebound.ledger.amount import covering
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from rangebound.mechanisms.certificates import Certificate, certify
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_BLOCK = 64  # examples at a time: one public size, so that no other example moves the last bits of a gradient
_FINENESS = 16  # losses on samples are rounded up to this many sizes between a squared norm and its double
_SIZES = 40 * _FINENESS
_WIDEST = Elementwise(clip=1e30)  # gradients as they are


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
    without looking at the data. A step that is looked at takes a pass over the whole dataset besides.

    Guarantee: adding or removing an example changes one count by one (for zero-out, two). So `release` costs its
    epsilon, beside what training costs; charge it to the ledger of the training.
    Assumes: elementwise or Euclidean clipping, batches of inputs and targets, no dropout, and layers that give an
    example the same gradient whichever others are in its chunk. An error that the module or the criterion raises for
    an example is raised: it would not be in training.
    Edge cases: an example without a finite gradient has loss 0. Adaptive clipping, several processes and truncation to
    anything but an interval are refused. Its state is private.
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

    def start(
        self, module: torch.nn.Module, criterion: Criterion, optimizer: PrivateOptimizer, loader: PrivateLoader
    ) -> None:
        """Called by the engine once the mechanism is known."""
        if several_processes.place()[1] > 1 or not isinstance(optimizer.clipping, Elementwise | Euclidean):
            raise ArgumentError("LossHistogram: needs one process, and Elementwise or Euclidean clipping")
        self._module, self._criterion, self._optimizer, self._loader = module, criterion, optimizer, loader
        if self._losses is None:
            self._losses = np.zeros(loader.examples)
        if len(self._losses) != loader.examples:
            raise ArgumentError("state: is about another number of examples than this run")

    def saw(self, location: torch.Tensor, batches: list[Batch]) -> None:
        """Add the losses of a step, if it is one of those that were said."""
        if self._taken in self.steps:
            clip, scale = self._optimizer.clipping, self._optimizer.mechanism.noise.scale
            most = clip.bound**2 * (len(location) if isinstance(clip, Elementwise) else 1)
            found = [self._squares(x, y, clip) for x, y in self._loader.everything(_BLOCK)]
            squares = np.concatenate([np.zeros(0), *found])
            assert self._losses is not None
            self._losses += _losses(squares, scale, most, self._loader.rate, self.order)
        self._taken += 1

    def release(
        self, *, epsilon: float, ledger: Ledger | None = None, account: str = "", request: str = ""
    ) -> PublishedLosses:
        """Publish the histogram of the steps so far: counts of whole numbers, zero at least, with a certificate.

        With `ledger`, its `account` is charged this epsilon first; the same request again returns the same counts.
        """
        if self._losses is None or self._taken <= self.steps[0]:
            raise ArgumentError("steps: none of them was taken yet")
        relation = self._loader.relation
        moved = 1 if relation is Relation.ADD_REMOVE else 2  # one example may leave a bin for another
        noise = DiscreteLaplace.calibrated(sensitivity=moved, epsilon=epsilon, support=Interval(0.0, math.inf))
        edges = np.linspace(0.0, self.cap, self.bins + 1)
        index = np.minimum(np.searchsorted(edges, self._losses, side="right") - 1, self.bins - 1)
        true = np.bincount(index, minlength=self.bins).astype(np.float64)
        stated = {"order": self.order, "edges": edges.tolist(), "steps": [k for k in self.steps if k < self._taken]}

        def drawn() -> bytes:
            counts = [int(each) for each in np.asarray(noise.release(true))]
            return json.dumps({**stated, "counts": counts}, sort_keys=True).encode()

        if ledger is None:
            published = json.loads(drawn())
        else:
            cost = Cost(epsilon=covering("epsilon", noise.epsilon()), delta=covering("delta", 0.0))
            published = json.loads(
                ledger.release(
                    account=account, request=request, cost=cost, compute=lambda _: drawn(),
                    what="histogram of losses",
                )
            )  # fmt: skip
        if any(published[name] != value for name, value in stated.items()):
            raise ArgumentError("request: was charged for another histogram; give this one a request of its own")
        return PublishedLosses(
            counts=tuple(published["counts"]), edges=tuple(published["edges"]), order=self.order,
            steps=tuple(published["steps"]), epsilon=noise.epsilon(), relation=relation, certificate=certify(noise),
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """The losses as plain data, which is private."""
        return {"taken": self._taken, "losses": None if self._losses is None else self._losses.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a saved account."""
        saved = None if state["losses"] is None else np.asarray(state["losses"], dtype=np.float64)
        if saved is not None and self._losses is not None and len(saved) != len(self._losses):
            raise ArgumentError("state: is about another number of examples than this run")
        self._taken, self._losses = int(state["taken"]), self._losses if saved is None else saved

    def _squares(self, x: torch.Tensor, y: torch.Tensor, clip: Clipping) -> Floats:
        """The squared norms of the clipped gradients of some examples, in a chunk of the public size."""
        count = len(x)
        x, y = (torch.cat([each, each[:1].expand(_BLOCK - count, *each.shape[1:])]) for each in (x, y))
        gradient = clipped_gradient(self._module, self._criterion, clip if isinstance(clip, Elementwise) else _WIDEST)
        with torch.enable_grad():
            squares = vmap(gradient)(x, y).detach().double().square().sum(1)[:count].cpu().numpy()
        squares = np.where(np.isfinite(squares), squares, 0.0) * (1.0 + 2.0**-20)
        if isinstance(clip, Euclidean):
            return np.minimum(squares, clip.bound**2)
        length = sum(each.numel() for each in learned(self._module).values())
        rounding = 0.5 * clip.quantum * math.sqrt(length)  # of each coordinate to a quantum
        return np.asarray(np.where(squares > 0.0, (np.sqrt(squares) + rounding) ** 2, 0.0))


def _losses(squares: Floats, scale: float, most: float, rate: float, order: float) -> Floats:
    """Upper bounds of the divergences for gradients of these squared norms, at most `most`."""
    if rate >= 1.0:
        return np.asarray(0.5 * order * np.minimum(squares, most) / scale**2)
    sizes = most / scale**2 * np.exp2(np.arange(-_SIZES, 1) / _FINENESS)
    k = np.arange(max(7, math.ceil(order) + 1))
    index = np.minimum(np.searchsorted(sizes, squares / scale**2), _SIZES)
    found = np.zeros(len(sizes))
    for each in np.unique(index):
        logs = 0.5 * k * (k - 1) * sizes[each]
        moments = Moments(lower=logs * (1.0 - 1e-14), upper=logs * (1.0 + 1e-14))
        found[each] = max(joining_above(moments, rate, order), leaving_above(moments, rate, order))
    return np.where(squares > 0.0, found[index], 0.0)
