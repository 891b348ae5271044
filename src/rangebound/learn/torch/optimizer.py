"""The private step: clipped gradients are summed, the sum is released once, and any torch optimizer uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.utils.parametrize import ParametrizationList

from rangebound.accounting.fisher_information import PerInstance
from rangebound.errors import ArgumentError
from rangebound.learn.torch import several_processes
from rangebound.learn.torch.batch_tree import Leaves, Structure, examples, taken_apart
from rangebound.learn.torch.called_criterion import (
    BatchLoss,
    CalledCriterion,
    ForwardPass,
    Objective,
    check_weights,
    precision,
)  # fmt: skip
from rangebound.learn.torch.clipping_norm import Adaptive, ClipController, Clipping, Elementwise, Euclidean, tally
from rangebound.learn.torch.gradients.bad_examples import all_finite
from rangebound.learn.torch.gradients.captured_pass import CapturedPasses
from rangebound.learn.torch.gradients.one_pass import Problem, learned
from rangebound.learn.torch.gradients.per_example import check_frozen, clipped_sum, has_statistics
from rangebound.learn.torch.gradients.survey import survey
from rangebound.learn.torch.loader import PrivateLoader
from rangebound.learn.torch.noise_source import NoiseSource
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.numeric import rounded_up

Batch = tuple[torch.Tensor, torch.Tensor, npt.NDArray[np.int64]]
Criterion = Callable[..., torch.Tensor]
Seen = Callable[[torch.Tensor, list[Batch], int], None]

_PAIRS = taken_apart((((torch.empty(0),), {}), torch.empty(0)), "batch")[0]


class PrivateOptimizer(torch.optim.Optimizer):
    """An optimizer whose gradients are released privately: `backward(x, y)` any number of times, then `step()`.

    One logical batch of the loader makes one step. It may be given to `backward` in parts (gradient accumulation); each
    part is also split into pieces that fit into the memory limit. With `torch.distributed` initialised, the sums of all
    processes are added, the first process draws the noise, and all of them take the same step.

    Guarantee: a step publishes one draw of `mechanism` for each coordinate, at the sum of the clipped gradients.
    Assumes: no example is given to `backward` twice in a step. Passing more examples than the loader drew, or a second
    batch, is an error, and so are parameters that did not exist when the model was made private. A step that fails
    after its charge is over; the same sums are never drawn from again.
    Edge cases: an example whose gradient is not finite (a NaN in it, a loss that overflows, a label that the criterion
    refuses) silently counts with gradient zero: a single malformed example does not abort a step. `bad_examples` counts
    them; the count is private. The losses that `backward` returns and the sums it keeps are private; only the
    parameters after a step are released, and with `Adaptive` clipping the norm. It is a `torch.optim.Optimizer`, so
    that schedulers and trainers of other libraries take it; groups, state and defaults are those of the wrapped one,
    `inner`. `criterion` and `loss_scale` are as it was made private with.
    """

    def __init__(
        self, inner: torch.optim.Optimizer, *, module: torch.nn.Module, objective: Objective,
        clipping: Clipping | Adaptive, mechanism: Mechanism, noise: NoiseSource, loader: PrivateLoader, memory: int,
        chunk: int | None = None, seen: Seen | None = None, keep_batches: bool = False,
        discarded: frozenset[str] = frozenset(), cuda_graphs: bool = True,
    ) -> None:  # fmt: skip
        self._inner, self.module, self.defaults = inner, module, inner.defaults
        self.criterion, self.loss_scale, self._mechanism = objective.criterion, objective.scale, mechanism
        self._control: ClipController | None = None
        if isinstance(clipping, Adaptive):
            multiplier = rounded_up(Fraction(mechanism.noise.scale) / Fraction(clipping.clip))
            self._control = ClipController(clipping, multiplier, loader.expected)
            clipping = Euclidean(clip=clipping.clip)
        self._clipping: Clipping = clipping
        self._noise, self._loader = noise, loader
        self._objective, self._discarded = objective, discarded
        self._memory, self._chunk, self._seen, self._keep = memory, chunk, seen, keep_batches
        self._captured = CapturedPasses() if cuda_graphs and self._control is None else None
        self._parameters = learned(module)
        self.coordinates = sum(each.numel() for each in self._parameters.values())  # that a step releases
        self._like: tuple[Objective, Structure, Leaves] | None = None  # the kind of the last examples, without one
        self._called: list[CalledCriterion] = []
        self._used: CalledCriterion | None = None
        self._handed = loader.handed
        self._bad: int | torch.Tensor = 0
        self._lost: int | torch.Tensor = 0
        self._tally = 0.0
        self._clear()

    @property
    def bad_examples(self) -> PerInstance:
        """How often an example counted with gradient zero because its own was not finite; of this process alone.

        Edge cases: it depends on the data, so it is private; do not publish it.
        """
        return PerInstance(float(self._bad), notion="examples without a finite gradient, over all steps")

    @property
    def inner(self) -> torch.optim.Optimizer:
        """The wrapped optimizer."""
        return self._inner

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that releases each coordinate in this step; the account covers it, so it cannot be changed."""
        return self._mechanism if self._control is None else self._control.sum_mechanism

    @property
    def clipping(self) -> Clipping:
        """The clipping norm of this step, on which the mechanism depends."""
        return self._clipping if self._control is None else self._control.clipping

    @property
    def adaptive(self) -> bool:
        """Whether the clipping norm moves from step to step."""
        return self._control is not None

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of the wrapped optimizer."""
        return self._inner.param_groups

    @property
    def state(self) -> dict[torch.Tensor, object]:  # type: ignore[override]
        """The state of the wrapped optimizer, by parameter."""
        return self._inner.state

    def explain(self) -> str:
        """Which way the gradients of each parameter take, and why: a line for each, for the latest kind of examples.

        Before the first step, that is what the loader has. Parameters of layers with a rule share one backward pass, in
        which no gradient of an example is stored longer than it is needed. Of a parameter that is used where no rule
        applies, each example has its own view. Only a module that `torch.func.vmap` cannot run takes one example at a
        time, and the line says why.
        """
        device = next(iter(self._parameters.values())).device
        if self._like is None:
            self._like = self._objective, *self._apart(self._loader.empty(), "explain")
        objective, structure, leaves = self._like
        found = survey(self._problem(objective, structure), tuple(each.to(device) for each in leaves))
        why = "" if self._captured is None else self._captured.refused
        told = found.explain(self._parameters)
        return f"{told}\nno CUDA graph: {why}" if why else told

    @torch.enable_grad()
    def all_squares(self) -> torch.Tensor:
        """The squared norms of the clipped gradients of all examples of this process, in a batch or not; private.

        Guarantee: as in a step, each is that of the example alone, and 0 where it has no finite gradient. With
        Euclidean clipping, before clipping.
        Assumes: `backward` gets batches as the loader has them; where their kind or shape is another, that is an error.
        """
        found, device = [torch.zeros(0, dtype=torch.float64)], self._location.device
        clip = replace(self.clipping, clip=self.clipping.clip * self.loss_scale)
        unit = clip.quantum**2 if isinstance(clip, Elementwise) else 1.0
        for batch in self._loader.everything(self._chunk or 1):
            structure, leaves = self._apart(batch, "LossHistogram")
            if self._like is not None:
                kinds = [(like, [(each.shape[1:], each.dtype) for each in some]) for like, some in
                         ((structure, leaves), self._like[1:])]  # fmt: skip
                if kinds[0] != kinds[1]:
                    raise ArgumentError(
                        "LossHistogram: computes gradients of batches as the loader has them, but backward gets others;"
                        " prepare examples in the dataset"
                    )
            leaves, problem = tuple(each.to(device) for each in leaves), self._problem(self._objective, structure)
            squares = clipped_sum(problem, leaves, clip, self._memory, self._chunk, lengths=True)[2]
            found.append(squares.cpu() * (unit / self.loss_scale**2))
        return torch.cat(found)

    def _apart(self, batch: Any, what: str) -> tuple[Structure, Leaves]:
        """A batch as the loader has it, as it is given to the objective."""
        if isinstance(self._objective, CalledCriterion):
            if not isinstance(batch, (tuple, list)) or len(batch) < 2:
                raise ArgumentError(f"{what}: knows what the module is called with only after a first forward pass")
            batch = ((batch[0],), {}), batch[1]
        return taken_apart(batch, "batch")

    def _problem(self, objective: Objective, structure: Structure) -> Problem:
        return Problem(self.module, objective, self._parameters, structure, self._discarded)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients and what `backward` has added since the last step."""
        self._inner.zero_grad(set_to_none=set_to_none)
        self._forget()

    def backward(self, x: Any, y: Any = None, *, members: npt.NDArray[np.int64] | None = None) -> torch.Tensor:
        """Add the clipped gradients of these examples, and return their losses, which are private.

        `backward(x, y)` for a criterion, which takes what the module makes of `x`, and `y`; `backward(batch)` for a
        loss of the module and the batch. Each is a tensor with a first axis for the examples, or a tree of such ones:
        dictionaries, tuples, lists, dataclasses. The loss of an example whose gradient is not finite, and so counts as
        zero, is NaN. `members` are the indices of the examples; needed only for per-instance accounts, when a batch is
        given in parts.
        """
        if isinstance(self._objective, BatchLoss):
            if y is not None:
                raise ArgumentError("y: must be left out; make_private was given a loss of the module and the batch")
            return self._add(*taken_apart(x, "batch"), self._objective, members)
        if y is None:
            raise ArgumentError(
                "y: missing; the criterion takes outputs and targets: backward(x, y); or give make_private "
                "loss=lambda model, batch: ... in place of a criterion, and call backward(batch)"
            )
        check_weights(self.criterion, {}, y)
        structure, leaves = taken_apart((((x,), {}), y), "batch")
        return self._add(structure, leaves, self._objective, members)

    def asked(self, given: tuple[object, ...], named: dict[str, object]) -> ForwardPass:
        """A forward pass with these arguments, examples of the present batch; called by `AttachedModule`."""
        if isinstance(self._objective, BatchLoss):
            raise ArgumentError("loss: is of the module and the batch; call optimizer.backward(batch) with it")
        structure, leaves = taken_apart((given, named), "module(...)")
        examples(leaves, "module(...)")
        leaves = tuple(each.clone() if each.is_inference() else each for each in leaves)  # which has no version
        return ForwardPass(
            structure=structure, leaves=leaves, precision=precision(leaves[0].device),
            versions=[each._version for each in leaves], drawn=self._loader.drawn,
        )  # fmt: skip

    def called(self, made: CalledCriterion, asked: ForwardPass, y: object) -> CalledCriterion:
        """A criterion as a step calls it with these examples and targets; called by `AttachedModule`.

        Guarantee: the same object for the same call, by which routes, and passes captured in graphs, are known. A wrong
        call is an error of made-up examples, whatever the true ones are.
        """
        check_weights(made.criterion, made.settings, y)
        like = (each for each in self._called if each.is_like(made))
        found = next((each for each in like if (each.precision, each.dtype) == (made.precision, made.dtype)), made)
        if found is made:
            self._called.append(made)
        structure, leaves = asked.batch(y)
        with torch.enable_grad(), torch.autocast(*asked.precision):
            survey(self._problem(found, structure), leaves)
        return found

    def add_loss(self, asked: ForwardPass, y: object, criterion: CalledCriterion) -> None:
        """Keep the examples of a forward pass, their targets and the criterion until the step, which adds them.

        Called by `AttachedModule`. Edge cases: refused for examples that have a loss already in this step, for those of
        an earlier batch, and for another criterion than that of earlier steps.
        """
        self._check_batch()
        if self._used is not None and not self._used.is_like(criterion):
            raise ArgumentError(
                "loss: differs from the one before, or has other settings, which may depend on the batch; for one that "
                "changes by itself, let the criterion that make_private is given do so, and call net.criterion"
            )
        self._used = criterion
        if asked.drawn != self._loader.drawn:
            raise ArgumentError(
                "loss: is of an earlier batch, whose examples are not those of this step; call backward() before the "
                "next batch is drawn"
            )
        begun = [each.leaves[0].data_ptr() for each, _, _ in self._pending if each.leaves[0].numel()]
        if any(asked is each for each, _, _ in self._pending) or asked.leaves[0].data_ptr() in begun:
            raise ArgumentError(
                "loss: is a second one for the same examples, each of which counts once in a step; add the losses up "
                "in the criterion that make_private is given, and call net.criterion(net(x), y)"
            )
        self._pending.append((asked, y, criterion))

    def _add(
        self, structure: Structure, leaves: Leaves, objective: Objective, members: npt.NDArray[np.int64] | None
    ) -> torch.Tensor:
        count = examples(leaves, "batch")
        self._check_batch()
        if self._given + count > len(self._loader.members):
            raise ArgumentError("x: has more examples than the loader drew for this step; an example counts once")
        self._check_parameters()
        own = self._loader.members
        if self._keep:  # per-instance accounts differentiate by the examples, and must know which they are
            if structure != _PAIRS:
                raise ArgumentError("batch: per-instance accounts need examples of one tensor, and targets of another")
            own = self._loader.part(members, count)
        self._like = objective, structure, tuple(each[:0] for each in leaves)
        wide = replace(self.clipping, clip=self.clipping.clip * self.loss_scale)
        sums, losses, squares = clipped_sum(
            self._problem(objective, structure), leaves, wide, self._memory, self._chunk, self._captured
        )
        self._given += count  # first, so that after an interruption no example is counted twice
        if isinstance(wide, Euclidean) and self._control is not None:
            self._tally += tally(squares, wide)
        pairs = [(total, sums[name]) for name, total in self._totals.items()]
        torch._foreach_add_([total for total, _ in pairs], [part for _, part in pairs])
        good = ~torch.isnan(losses)
        self._lost = self._lost + (count - good.sum())  # not read here: the processor need not wait for the GPU
        if self._keep:
            x, y = leaves
            self._batches.append((x[good], y[good], own[good.cpu().numpy()]))
        return losses / self.loss_scale

    @torch.no_grad()
    def step(self, closure: Callable[[], object] | None = None) -> object:  # type: ignore[override]
        """Release the sum once, and step with it, divided by the expected batch size, as the gradient.

        A `closure`, as trainers of other libraries give, is called once, before; what it returns is returned.
        """
        outcome = None
        if closure is not None:
            with torch.enable_grad():
                outcome = closure()
        self._check_batch()
        while self._pending:
            asked, y, criterion = self._pending.pop(0)
            if [each._version for each in asked.leaves] != asked.versions:
                raise ArgumentError(
                    "x: was overwritten after the forward pass, so its loss is that of other examples; give each "
                    "forward pass a tensor of its own"
                )
            with torch.enable_grad(), torch.autocast(*asked.precision):
                self._add(*asked.batch(y), criterion, None)
        self._check_parameters()
        if not self._given and len(self._loader.members):  # an empty batch may be skipped
            raise ArgumentError(
                "step: has no gradients to release; call optimizer.backward(x, y) instead of loss.backward(), or take "
                "the outputs from engine.attach(module), in training mode"
            )
        self._check_gradients()
        tallies = [] if self._control is None else [self._location.new_tensor([self._tally * self.loss_scale])]
        location = several_processes.add(torch.cat([self._location, *tallies]))
        # powers of two: exact
        location *= self._clipping.quantum if isinstance(self._clipping, Elementwise) else 1.0 / self.loss_scale
        values = [*self._parameters.values()]
        if not all_finite([*values, location]):
            if not all_finite(values):
                raise ArgumentError(
                    "module: has parameters that are not finite, which no step can repair; use a smaller learning "
                    "rate, or a smaller clipping norm with the same noise_multiplier"
                )
            raise AssertionError(  # every part of it was made finite
                "unexpected sum that is not finite; nothing was released; this is a bug, please report it"
            )
        if self._seen is not None:
            self._seen(location, self._batches, self._loader.epoch)
        self._bad = self._bad + self._lost
        self._clear()  # before the draw: what fails from here on is charged, and never drawn again from the same sums
        control, release = self._control, self._noise.release
        if several_processes.place()[0]:
            released = torch.empty_like(location)
        elif control is None:
            released = release(self._mechanism, location)
        else:
            last = release(control.tally_mechanism, location[-1:])
            released = torch.cat([release(control.sum_mechanism, location[:-1]), last])
        released = several_processes.share(released)
        if self._control is not None:
            self._control.follow(float(released[-1]))
        mean = released / self._loader.expected
        parts = {dtype: mean.to(dtype) for dtype in {each.dtype for each in self._parameters.values()}}
        start = 0
        for each in self._parameters.values():
            each.grad = parts[each.dtype][start : start + each.numel()].view(each.shape)
            start += each.numel()
        try:
            self._inner.step()
        finally:  # some optimizers write over the gradient
            for each in self._parameters.values():
                if each.grad is not None:
                    each.grad._released = each.grad._version  # type: ignore[attr-defined]
        # Let parametrizations keep what they compute from parameters alone (the power iteration of a spectral norm); a
        # pass discards it, since all that a module keeps there might be of its examples.
        for part in self.module.modules():
            if isinstance(part, ParametrizationList) and part.training and any(True for _ in part.buffers()):
                part()
        return outcome

    def state_dict(self) -> dict[str, Any]:
        """The state of the wrapped optimizer, and the clipping norm if it is adaptive; both are public."""
        clip = {} if self._control is None else {"clip": self._control.clipping.clip}
        return {**self._inner.state_dict(), **clip}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of the wrapped optimizer, and the clipping norm if it is adaptive."""
        self._inner.load_state_dict({key: value for key, value in state.items() if key != "clip"})
        if self._control is not None and "clip" in state:
            self._control.clipping = Euclidean(clip=state["clip"])

    @property
    def _step_supports_amp_scaling(self) -> NoReturn:  # asked for by torch.amp.GradScaler.step
        raise ArgumentError(
            "GradScaler: lowers its scale for all examples when the gradient of one overflows, which no noise covers; "
            "use bfloat16, or a fixed factor: make_private(loss_scale=2**12) with GradScaler(enabled=False)"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ArgumentError(
            "PrivateOptimizer: cannot be copied, since no account would cover a copy's steps; save state_dict()"
        )

    def _check_batch(self) -> None:
        drawn = self._loader.drawn - (self._loader.taken or 0)
        if drawn != 1:
            raise ArgumentError(
                f"batches={drawn}: a step takes the examples of exactly one logical batch; call step() once for each "
                "batch of the loader, empty ones too; to look at examples, take them from the dataset; a new engine "
                "continues this account by load_state_dict"
            )
        if self._handed != self._loader.handed and (self._given or self._pending):
            self._forget()  # of a loop that was left before its step, whose batch is here again
        self._handed = self._loader.handed

    def _check_parameters(self) -> None:
        """The wrapped optimizer may use the released numbers only."""
        for name, part in self.module.named_modules():
            if has_statistics(part):
                check_frozen(name, part)
        present = learned(self.module)
        if present.keys() != self._parameters.keys() or any(self._parameters[n] is not p for n, p in present.items()):
            raise ArgumentError(
                "module: has other trainable parameters than when it was made private; make it private again with "
                "a new engine, which continues this account by load_state_dict"
            )
        ours = {id(each) for each in self._parameters.values()}
        others = (each for group in self._inner.param_groups for each in group["params"] if id(each) not in ours)
        if any(each.grad is not None for each in others):
            raise ArgumentError("optimizer: has a gradient of a parameter that is not released; set its grad to None")

    def _check_gradients(self) -> None:
        """No gradient is there that a step would silently write over."""
        for name, each in self._parameters.items():
            held = each.grad
            if held is not None and getattr(held, "_released", None) != held._version and held.any():
                raise ArgumentError(
                    f"module={name}: has a gradient that no step released, of a penalty added to the loss or of the "
                    "module by itself, which this step would overwrite; use the optimizer's weight_decay, add the "
                    "penalty to the criterion that make_private is given, or call optimizer.zero_grad() before"
                )

    def _clear(self) -> None:
        self._forget()
        self._loader.taken = self._loader.drawn

    def _forget(self) -> None:
        self._batches: list[Batch] = []
        self._pending: list[tuple[ForwardPass, object, CalledCriterion]] = []
        some = next(iter(self._parameters.values()))
        self._location = torch.zeros(self.coordinates, dtype=torch.float64, device=some.device)
        ends = torch.split(self._location, [each.numel() for each in self._parameters.values()])
        self._totals = {
            name: part.view(each.shape) for (name, each), part in zip(self._parameters.items(), ends, strict=True)
        }
        self._given, self._lost = 0, 0
        self._tally = 0.0
