"""Fisher information loss: how well each example could be reconstructed from what training released.

One step publishes numbers at locations q_j, the sums of the clipped gradients. With eta_j^2 the Fisher information of
one of them about q_j, and J the derivative of an example's clipped gradient by the example itself, the information
about the example is the matrix J' diag(eta^2) J, and its loss is the norm of diag(eta) J. (The published Algorithm 1
has eta' J, which is not a norm of that matrix [hu2024].) Fisher information adds up over steps, for the members of each
batch, and the norm of a sum is at most the sum of the norms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.func import functional_call, grad, jvp, vjp, vmap

from rangebound.accounting.event import repetitions
from rangebound.accounting.fisher_information import PerInstance
from rangebound.errors import ArgumentError
from rangebound.learn.torch import several_processes
from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients.one_pass import learned
from rangebound.learn.torch.loader import PrivateLoader
from rangebound.learn.torch.optimizer import Batch, Criterion, PrivateOptimizer
from rangebound.privacy.pairs.divergences import fisher_formula
from rangebound.values import arguments
from rangebound.values.array_types import Floats

Gradient = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_ITERATIONS = 200
_CLOSE = 1e-6
_BLOCK = 256


def spectral_losses(
    module: torch.nn.Module, criterion: Criterion, x: torch.Tensor, y: torch.Tensor, clip: Elementwise,
    information: torch.Tensor, *, iterations: int = _ITERATIONS,
) -> torch.Tensor:  # fmt: skip
    """The norm of diag(eta) J for each example, by power iteration with forward and backward derivatives.

    `information` contains eta^2 for each coordinate. The iteration approaches the norm by lower estimates, and stops
    when no example's norm grows by more than 1e-6 relative: within one per cent of the norm as a rule, and far below it
    after few iterations. `frobenius_losses` is an upper bound.
    """
    repetitions("iterations", iterations)
    gradient = _clipped_gradient(module, criterion, clip)
    largest = information.max()
    unit = torch.where(largest > 0.0, largest, 1.0)  # small informations would vanish in single precision
    weights = (information / unit).to(x.dtype)

    def gram(each: torch.Tensor, target: torch.Tensor, way: torch.Tensor) -> torch.Tensor:
        """J' diag(eta^2) J v for one example."""
        pushed = jvp(lambda z: gradient(z, target), (each,), (way,))[1]
        pulled: torch.Tensor = vjp(lambda z: gradient(z, target), each)[1](weights * pushed)[0]
        return pulled

    found = []
    for start in range(0, len(x), _BLOCK):
        a, b = x[start : start + _BLOCK], y[start : start + _BLOCK]
        # A start that no gradient is likely to be orthogonal to: fractional parts of multiples of the golden ratio.
        guess = torch.arange(1, a[0].numel() + 1, dtype=torch.float64) * 0.6180339887498949 % 1.0 - 0.5
        v = guess.reshape(a.shape[1:]).to(a.device, a.dtype).expand(a.shape)
        value = torch.zeros(len(a), dtype=a.dtype, device=a.device)
        for _ in range(iterations):
            length = v.flatten(1).norm(dim=1)
            v = v / torch.where(length > 0.0, length, 1.0).reshape(-1, *(1 for _ in a.shape[1:]))
            v = vmap(gram)(a, b, v)
            new = v.flatten(1).norm(dim=1)
            converged = bool((new <= value * (1.0 + _CLOSE)).all())
            value = torch.maximum(value, new)
            if converged:
                break
        found.append(value.double().sqrt() * unit.sqrt())
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


def frobenius_losses(
    module: torch.nn.Module, criterion: Criterion, x: torch.Tensor, y: torch.Tensor, clip: Elementwise,
    information: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """An upper bound on the norm of diag(eta) J for each example, without iteration: its Frobenius norm.

    The root of the sum over the inputs k of |diag(eta) J e_k|^2, one forward derivative each.
    """
    gradient = _clipped_gradient(module, criterion, clip)
    total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for k in range(x[:1].numel()):
        basis = torch.zeros(x[:1].numel(), dtype=x.dtype, device=x.device)
        basis[k] = 1.0
        direction = basis.reshape(x.shape[1:])

        def column(one: torch.Tensor, target: torch.Tensor, way: torch.Tensor = direction) -> torch.Tensor:
            pushed: torch.Tensor = jvp(lambda z: gradient(z, target), (one,), (way,))[1]
            return pushed

        total += (vmap(column)(x, y).double().square() * information.double()).sum(1)
    return total.sqrt()


class FisherWatcher:
    """The Fisher information loss of each example over the training [hu2024, Alg 1, corrected].

    Guarantee: none; norms are lower estimates (`spectral_losses`) that improve with the number of iterations.
    Assumes: elementwise clipping, and a module and examples with derivatives: no dropout, no token indices. A step
    counts for the members of its batch only, and not for an example without a finite gradient, which moves no sum.
    Edge cases: all of it is private. Numbers are returned as `PerInstance`; histograms, and the indices of the most
    exposed examples, only by the methods `reveal_...`.
    """

    needs_batches = True

    def __init__(self, *, iterations: int = _ITERATIONS) -> None:
        self._iterations = repetitions("iterations", iterations)
        self._information: Floats = np.zeros(0)

    def start(
        self, module: torch.nn.Module, criterion: Criterion, optimizer: PrivateOptimizer, loader: PrivateLoader
    ) -> None:
        """Called by the engine once the mechanism is known."""
        if not isinstance(optimizer.clipping, Elementwise):
            raise ArgumentError("clipping=Euclidean: couples the coordinates; use Elementwise(clip=...)")
        self._module, self._criterion, self._optimizer = module, criterion, optimizer
        if not len(self._information):
            self._information = np.zeros(loader.examples)
        if len(self._information) != loader.examples:
            raise ArgumentError("state: is about another number of examples than this run")

    def saw(self, location: torch.Tensor, batches: list[Batch]) -> None:
        """Add a step: the information about each example of the batch."""
        mechanism, clip = self._optimizer.mechanism, self._optimizer.clipping
        assert mechanism.noise.gaussian
        assert isinstance(clip, Elementwise)
        hull = mechanism.query.range.hull
        information = fisher_formula(mechanism.noise, mechanism.shape, location.clamp(hull.lower, hull.upper))
        added = np.zeros(len(self._information))
        for x, y, members in batches:
            try:
                with torch.enable_grad():
                    norms = spectral_losses(
                        self._module, self._criterion, x, y, clip, information, iterations=self._iterations
                    )
            except RuntimeError as error:
                raise ArgumentError(
                    "FisherWatcher: cannot differentiate the gradients by the examples; it needs examples in "
                    "floats, and a module without dropout that torch.func can run"
                ) from error
            # Examples without a finite gradient are excluded; a derivative too large for a float counts as none.
            squares = norms.detach().cpu().numpy() ** 2
            added[members] += np.where(np.isfinite(squares), squares, 0.0)
        total = several_processes.add(torch.from_numpy(added).to(location.device))  # others have other examples
        self._information = self._information + total.cpu().numpy()

    def loss(self, example: int) -> PerInstance:
        """The loss of one example so far: 1/loss is the least standard deviation of an unbiased reconstruction."""
        return PerInstance(float(np.sqrt(self._information[example])), notion="Fisher information loss of one example")

    def largest(self) -> PerInstance:
        """The loss of the most exposed example."""
        return PerInstance(float(np.sqrt(self._information.max())), notion="largest Fisher information loss")

    def median(self) -> PerInstance:
        """The median loss."""
        return PerInstance(float(np.sqrt(np.median(self._information))), notion="median Fisher information loss")

    def reveal_histogram(self, bins: int = 20) -> tuple[npt.NDArray[np.int64], Floats]:
        """Counts and edges of a histogram of the losses. It is as private as the data."""
        counts, edges = np.histogram(np.sqrt(self._information), bins=bins)
        return counts.astype(np.int64), edges.astype(np.float64)

    def reveal_most_exposed(self, count: int) -> list[int]:
        """The indices of the examples with the largest losses, the largest first. They are as private as the data."""
        return [int(i) for i in np.argsort(-self._information, kind="stable")[:count]]

    def state_dict(self) -> dict[str, Any]:
        """The account as plain data, which is private."""
        return {"information": self._information.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a saved account."""
        saved = arguments.reals("information", state["information"], infinite=True)
        if len(self._information) and len(saved) != len(self._information):
            raise ArgumentError("state: is about another number of examples than this run")
        self._information = saved


def _clipped_gradient(module: torch.nn.Module, criterion: Criterion, clip: Elementwise) -> Gradient:
    """The clipped gradient of one example as a vector, a function of the example."""
    values = {name: each.detach() for name, each in learned(module).items()}
    rest = {name: each.detach() for name, each in module.named_parameters() if name not in values}
    fixed = {**rest, **dict(module.named_buffers())}

    def loss(parameters: dict[str, torch.Tensor], one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return criterion(functional_call(module, {**parameters, **fixed}, (one[None],)), target[None]).sum()

    def gradient(one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        parts = grad(loss)(values, one, target)
        return torch.cat([parts[name].reshape(-1) for name in values]).clamp(-clip.bound, clip.bound)

    return gradient
