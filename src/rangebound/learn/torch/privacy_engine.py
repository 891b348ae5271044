"""The privacy engine: makes a model, an optimizer and a loader private, and keeps the account."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NoReturn, TextIO, TypeVar, Unpack

import torch
from torch.utils.data import DataLoader

from rangebound.accounting.event import repetitions
from rangebound.errors import ArgumentError
from rangebound.laws.boundings import UNBOUNDED
from rangebound.learn.torch import several_processes
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.accounts.fisher_loss import FisherWatcher
from rangebound.learn.torch.accounts.loss_histogram import LossHistogram
from rangebound.learn.torch.accounts.renyi_watcher import RenyiWatcher
from rangebound.learn.torch.attached_module import AttachedModule, Reduction
from rangebound.learn.torch.called_criterion import objective
from rangebound.learn.torch.clipping_norm import Adaptive, Clipping, Euclidean
from rangebound.learn.torch.gradients.one_pass import learned
from rangebound.learn.torch.gradients.per_example import check_module, check_optimizer
from rangebound.learn.torch.loader import BatchSampling, PrivateLoader, Relation, Sampling, chosen_sampling
from rangebound.learn.torch.noise_source import Noise, NoiseSource, SecureNoise, step_mechanism
from rangebound.learn.torch.opacus_names import SingleNames, joined, refuse_arguments, unknown_attribute
from rangebound.learn.torch.optimizer import Batch, Criterion, PrivateOptimizer
from rangebound.learn.torch.training_plan import Charge, TrainingProgress, plan_training, step_within, steps_within
from rangebound.ledger.rule import AnyCost
from rangebound.privacy.attack_risk import AttackRisk
from rangebound.values import arguments

Found = TypeVar("Found")

_CHARGED = ("ledger", "account", "request")
_MEMORY = {"cpu": 2**28, "cuda": 2**32}  # bytes


class PrivacyEngine:
    """Makes training private and accounts for its privacy loss.

    State `rate` and `expected_batch`, as numbers that are public, and the guarantee is for adding or removing one
    example (`Relation.ADD_REMOVE`). Left out, they follow from the loader's batch size and the number of examples,
    which the published gradients then reveal, and the guarantee is for replacing an example by one without a gradient
    (`Relation.ZERO_OUT`). `relation` states which one it is.

    >>> import torch
    >>> from rangebound.learn.torch import Elementwise, Noise, Sampling
    >>> data = torch.utils.data.TensorDataset(torch.zeros(8, 3), torch.zeros(8, dtype=torch.long))
    >>> model = torch.nn.Linear(3, 2)
    >>> engine = PrivacyEngine()
    >>> model, optimizer, loader = engine.make_private(
    ...     module=model,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     data_loader=torch.utils.data.DataLoader(data, batch_size=8),
    ...     criterion=torch.nn.functional.cross_entropy,
    ...     clipping=Elementwise(clip=0.5),
    ...     noise=Noise(multiplier=20.0),
    ...     sampling=Sampling(rate=1.0, expected_batch=8),
    ... )
    >>> for x, y in loader:
    ...     losses = optimizer.backward(x, y)
    ...     optimizer.step()
    >>> engine.steps, round(engine.epsilon(delta=1e-6), 3)
    (1, 0.575)
    >>> print(engine.statement(delta=1e-6).replace("; ", "\\n"))
    (0.575056, 1e-06)-differential privacy, add-remove: one example is added or removed
    the number of examples is private
    1 step
    """

    def __init__(self, *watchers: RenyiWatcher | FisherWatcher | LossHistogram, **other: object) -> None:
        refuse_arguments("PrivacyEngine", other)
        for each in watchers:
            if not hasattr(each, "needs_batches"):
                raise ArgumentError(
                    f"watchers={arguments.shown(each)}: must be RenyiWatcher(), FisherWatcher() or LossHistogram(...)"
                )
        self._watchers = watchers
        self._history: dict[worst_case.Step, int] = {}
        self._step: worst_case.Step | None = None
        self._optimizer: PrivateOptimizer | None = None
        self._insecure = 0  # steps whose noise guarantees nothing
        self._secure = True
        self._clip = math.nan
        self._target: tuple[Any, Any] | None = None  # epsilon and delta of all steps
        self._planned: int | None = None  # steps in all, those of a loaded account included
        self._left: int | None = None  # steps (or epochs of random allocation) that were planned and not yet begun
        self._taken: dict[worst_case.Step, int] = {}  # steps, where the history counts epochs of random allocation
        self._epochs: set[int] = set()

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_attribute(name)

    @arguments.guided
    def make_private(
        self, *, module: torch.nn.Module, optimizer: torch.optim.Optimizer, data_loader: DataLoader[Any],
        criterion: Criterion | None = None, loss: Criterion | None = None, clipping: Clipping | Adaptive,
        epochs: int | None = None, noise: Noise | NoiseSource | None = None,
        sampling: Sampling | str | BatchSampling | None = None, charge: Charge | None = None,
        memory: int | None = None, loss_scale: float = 1.0, chunk_size: int | None = None, cuda_graphs: bool = True,
        discarded_buffers: Iterable[str] = (), **single: Unpack[SingleNames],
    ) -> tuple[torch.nn.Module, PrivateOptimizer, PrivateLoader]:  # fmt: skip
        """Return the module itself, an optimizer that releases its gradients, and a loader that samples as accounted.

        `noise`, `sampling` and `charge` are groups of settings: `Noise`, `Sampling`, `Charge`. What they hold is also
        taken by single names (`noise_multiplier=`, `target_epsilon=`, `rate=`, `ledger=`, ...), but not both ways; a
        way of sampling and a source of noise may stand in place of their groups. The noise needs a multiplier, or a
        target and `epochs`. With `epochs`, steps beyond them are refused.

        The criterion takes outputs and targets with a first axis for the examples; it is called with one example. Or
        give `loss`, a function of the module and a batch, such as `lambda model, batch: model(**batch).loss`, for
        batches of any kind. `discarded_buffers` are the names of buffers that the module writes in its forward pass and
        does not need afterwards; others are refused.
        `memory` limits the bytes of gradients held at once: by default a quarter of a gigabyte, on a GPU four.
        `loss_scale` is a fixed power of two that losses are multiplied by before the backward pass, and gradients
        divided by after it, for float16: it keeps small gradients from vanishing, and changes nothing else.
        Gradients are computed in chunks of one fixed size, filled up with zeros, so that an example's gradient is the
        same to the last bit whichever others are in its batch; that is tried at the first step, chunks may grow for it,
        and where it cannot be had there is a warning. `chunk_size` is a public number: by default what the
        memory has room for, at most slightly more than an expected batch. State it where `backward` gets parts of a
        batch.
        With `cuda_graphs` passes on a GPU are captured in graphs and repeated where a trial with made-up examples gives
        the same sums, which makes small steps fast; where not, a warning says why. Python code of module and criterion
        runs only while a graph is captured, anew when one of their attributes has another plain value: if they read
        other things that change, say `cuda_graphs=False`. `Adaptive` clipping uses no graph.

        Edge cases: modules that mix examples are refused; an engine makes one model private.
        """
        refuse_arguments("make_private", single.keys() - SingleNames.__annotations__.keys())
        asked = joined("noise", noise, Noise, "source", single)
        way = joined("sampling", sampling, Sampling, "way", single)
        source: NoiseSource = SecureNoise() if asked.source is None else asked.source
        if self._optimizer is not None:
            raise ArgumentError("make_private: was called before; each model needs its own engine")
        check_module(module)
        check_optimizer(optimizer, module)
        judged = objective(criterion, loss, loss_scale)
        first = Euclidean(clip=clipping.clip) if isinstance(clipping, Adaptive) else clipping
        if not hasattr(source, "release"):
            raise ArgumentError(f"noise={arguments.shown(source)}: must be SecureNoise(), or InsecureTorchNoise(...)")
        rank, processes = several_processes.place()
        loader = PrivateLoader(
            data_loader, rate=way.rate, expected=way.expected_batch, neighbours=way.neighbours,
            sampling=chosen_sampling(BatchSampling.POISSON if way.way is None else way.way),
            rank=rank, processes=processes,
        )  # fmt: skip
        named: dict[str, Any] = {
            name: value for name, value in single.items() if name in _CHARGED and value is not None
        }
        if charge is not None and named:
            raise ArgumentError("charge, ledger: Charge(ledger=...) and ledger=... say the same; give one of them")
        if 0 < len(named) < 3:
            missing = ", ".join(name for name in _CHARGED if name not in named)
            raise ArgumentError(
                f"{missing}: missing; a charge needs a ledger, an account of it, and an id of this run, such as "
                'request="digits, first run"'
            )
        charge = Charge(**named) if named else charge
        planned = None if epochs is None else repetitions("epochs", epochs) * len(loader)
        if charge is not None and planned is None:
            raise ArgumentError("epochs: must be given with ledger=...; all their steps are charged before the first")

        def step_with(multiplier: float) -> worst_case.Step:
            return worst_case.Step(
                mechanism=step_mechanism(
                    clipping=first,
                    noise_multiplier=multiplier,
                    bounding=UNBOUNDED if asked.bounding is None else asked.bounding,
                    support=asked.support,
                ),
                coordinates=sum(each.numel() for each in learned(module).values()),
                rate=loader.rate,
                together=isinstance(first, Euclidean),
                relation=loader.relation,
                sampling=loader.sampling,
            )

        counted = None if planned is None else step_with(1.0).times(planned)
        if asked.multiplier is None:
            step = step_within(asked.target_epsilon, asked.target_delta, counted, step_with, self._history)
            self._target = asked.target_epsilon, asked.target_delta
        elif asked.target_epsilon is None:
            step = step_with(asked.multiplier)
        else:
            raise ArgumentError("noise_multiplier, target_epsilon: give one of them; the target determines the noise")
        if isinstance(first, Euclidean):
            first.check_size(loader.rate, loader.expected, loader.examples)
        device = next(module.parameters()).device.type
        limit = arguments.positive("memory", _MEMORY.get(device, 2**28) if memory is None else memory)
        self._secure = isinstance(source, SecureNoise)
        optimizer.zero_grad()
        chunk = loader.chunk if chunk_size is None else repetitions("chunk_size", chunk_size)
        private = PrivateOptimizer(
            optimizer, module=module, objective=judged, clipping=clipping, mechanism=step.mechanism, loader=loader,
            noise=source, memory=int(limit), chunk=chunk, seen=self._saw, cuda_graphs=cuda_graphs,
            keep_batches=any(each.needs_batches for each in self._watchers), discarded=frozenset(discarded_buffers),
        )  # fmt: skip
        several_processes.agree((step, clipping, loader.expected, loader.examples, self._secure, planned))
        for tensor in module.state_dict().values():
            several_processes.share(tensor)
        for each in self._watchers:
            each.start(module, private.criterion, private, loader)
        self._step, self._left, self._clip = step, counted, clipping.clip
        self._planned = None if planned is None else self.steps + planned
        if charge is not None and planned is not None:
            costs = self.costs(steps=planned, delta=asked.target_delta, order=charge.order)
            charge.make(costs, {"steps": planned, "step": step.to_dict()})
        self._optimizer = private
        return module, private, loader

    plan = staticmethod(plan_training)

    def attach(self, module: torch.nn.Module, *, reduction: str | Reduction = Reduction.MEAN) -> AttachedModule:
        """The private module for the ordinary loop: `loss.backward()` on a loss of it, then `optimizer.step()`.

        `module` is the one that was made private, or `torch.compile` of it, which then runs the forward pass. The loss
        is one of torch's of the outputs as they are, or `net.criterion(net(x), y)`, which is the criterion that
        `make_private` was given; any other is refused. `reduction`, "mean" or "sum", is how `net.criterion` adds up
        over examples.

        Guarantee: as for `optimizer.backward(x, y)`: each example's loss is taken by itself, see `AttachedModule`.
        Edge cases: per-instance accounts need `optimizer.backward(x, y)`, since they differentiate the loss again.

        >>> import torch
        >>> from rangebound.learn.torch import Euclidean
        >>> data = torch.utils.data.TensorDataset(torch.zeros(8, 3), torch.zeros(8, dtype=torch.long))
        >>> model, engine, criterion = torch.nn.Linear(3, 2), PrivacyEngine(), torch.nn.CrossEntropyLoss()
        >>> model, optimizer, loader = engine.make_private(
        ...     module=model,
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=torch.utils.data.DataLoader(data, batch_size=8),
        ...     criterion=criterion,
        ...     clipping=Euclidean(clip=1.0),
        ...     noise_multiplier=20.0,
        ... )
        >>> net = engine.attach(model)
        >>> for x, y in loader:
        ...     optimizer.zero_grad()
        ...     criterion(net(x), y).backward()
        ...     optimizer.step()
        >>> engine.steps
        1
        """
        optimizer = _made(self._optimizer)
        if self._watchers:
            raise ArgumentError("watchers: need optimizer.backward(x, y), because they differentiate the loss again")
        found = arguments.instance("module", module, torch.nn.Module, "the module that was made private")
        own = optimizer.module
        if getattr(found, "_orig_mod", found) is not own:
            raise ArgumentError("module: must be the one that was made private, or torch.compile of it")
        return AttachedModule(own, found, optimizer, arguments.member("reduction", reduction, Reduction))

    @property
    def noise_multiplier(self) -> float:
        """The scale of the noise over the clipping norm: as given, or as found for a target."""
        return _made(self._step).mechanism.noise.scale / self._clip

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return sum(self._taken.values())

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of `epsilon`: add-remove if all steps satisfy it, else zero-out.

        Edge cases: refused before `make_private`, unless an account was loaded.
        """
        if self._step is None and not self._history:
            raise ArgumentError("make_private: must be called first; the relation depends on what is stated there")
        present = {} if self._step is None else {self._step: 1}
        return worst_case.relation({**present, **self._history})

    def epsilon(self, delta: float) -> float:
        """The worst-case epsilon at delta of all steps so far, by `relation`: valid to publish.

        Guarantee: for `Relation.ADD_REMOVE`, it covers all that the steps published, and hides the number of examples.
        For `Relation.ZERO_OUT`, for training sets with the same number of examples, one of which has no gradient.
        Edge cases: refused after steps with noise other than `SecureNoise`, which guarantees nothing.
        """
        self._refuse_insecure()
        return worst_case.epsilon(self._history, delta)

    def risk(self) -> AttackRisk:
        """What an attacker gains from all steps so far: `advantage()`, `tradeoff(...)`, `posterior(...)`, `odds()`.

        Guarantee: never understated, for neighbouring datasets by `relation`, whatever of the run is published. With
        both ends, as `risk().enclosed`: what some run with these settings reveals, of which one example has a gradient
        as long as may be; of bounded noise it is one coordinate.
        Edge cases: nothing before the first step. Refused after steps with noise other than `SecureNoise`.
        """
        self._refuse_insecure()
        return worst_case.risk(self._history)

    def explain(self) -> str:
        """Which way the gradients of each parameter take, and why; see `PrivateOptimizer.explain`."""
        return _made(self._optimizer).explain()

    def statement(self, delta: float) -> str:
        """The guarantee of all steps so far in a sentence, to publish with the model."""
        relation, epsilon = self.relation, arguments.upwards(self.epsilon(delta))
        return (
            f"({epsilon}, {delta:g})-differential privacy, {relation.value}: {relation.meaning}; "
            f"{arguments.counted(self.steps, 'step')}"
        )

    def epsilons(self, delta: float, steps: Iterable[int]) -> list[float]:
        """The worst-case epsilon after each of these numbers of steps like the current one: past or planned.

        Assumes: with random allocation, epochs are not left early; `epsilon` counts those that were.
        """
        step = self._secure_step()
        return [worst_case.epsilon({step: step.times(number)}, delta) for number in steps]

    @arguments.guided
    def progress(self, batches: Iterable[object], *, delta: float, stream: TextIO | None = None) -> TrainingProgress:
        """The same batches, with a line on the error stream (or `stream`) for steps and epsilon so far and at the end.

        The end is that of the `epochs` given to `make_private`. See `TrainingProgress` for an example.
        """
        step = self._secure_step()
        end = None
        if self._left is not None:
            end = worst_case.epsilon(worst_case.after(self._history, step, self._left), delta)
        return TrainingProgress(
            batches, delta=delta, taken=lambda: self.steps, epsilon=self.epsilon, planned=self._planned, end=end,
            stream=stream,
        )  # fmt: skip

    @arguments.guided
    def costs(self, *, steps: int, delta: float | None = None, order: int | None = None) -> tuple[AnyCost, ...]:
        """What this many steps like the current one cost, for `Ledger.release(cost=...)`, which trains in `compute`.

        On all examples (`rate=1`) they have a mu, which Gaussian accounts and Renyi filters hold. On samples they have
        a divergence at `order`, for a Renyi filter of that order, and an epsilon at `delta`, for plain sums and, by the
        mu of a pure epsilon, for Gaussian accounts. The account charges the first of them that it can hold.

        Guarantee: each is a worst-case guarantee of all these steps together, by `relation`.
        Assumes: `compute` takes at most this many steps, and with random allocation in epochs that are not left early.
        With `epochs` in `make_private`, more of them are refused.
        Edge cases: refused before `make_private`, for noise other than `SecureNoise`, and where neither a mu, nor
        `delta`, nor `order` says what they cost. A sampled step needs a whole `order` from 2 on.
        """
        step = self._secure_step()
        found = worst_case.costs(step, step.times(repetitions("steps", steps)), delta, order)
        if not found:
            raise ArgumentError("delta: missing; sampled steps have no mu, and cost an epsilon at some delta")
        return found

    def state_dict(self) -> dict[str, Any]:
        """The account (and those of the watchers, which are private), to be saved with the model and the optimizer."""
        return {
            "history": worst_case.saved(self._history, self._taken),
            "insecure": self._insecure,
            "watchers": [each.state_dict() for each in self._watchers],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a saved account; this engine must not have taken steps of its own.

        A `target_epsilon` is for the whole account: loaded before `make_private`, the noise is found for the steps that
        are left to it; loaded after, with the noise that was found, as many steps as the target allows are left.
        Edge cases: the watchers must be those of the saved engine. Steps saved without a relation count as zero-out.
        """
        if self._history:
            raise ArgumentError("state: an account that already has steps cannot be replaced")
        try:
            insecure, watchers = state["insecure"], state["watchers"]
            history, taken = worst_case.loaded(state["history"])
        except (KeyError, TypeError):
            raise ArgumentError("state: must be the result of an engine's state_dict()") from None
        if len(watchers) != len(self._watchers):
            raise ArgumentError(
                f"state: has {arguments.counted(len(watchers), 'watcher')}, this engine {len(self._watchers)}"
            )
        for watcher, saved in zip(self._watchers, watchers, strict=True):
            watcher.load_state_dict(saved)
        self._insecure = int(arguments.nonnegative("insecure", insecure))
        self._history, self._taken = history, taken
        if self._target is not None and self._left is not None:
            made = _made(self._step)
            self._left = steps_within(*self._target, self._left, made, self._history)
            self._planned = self.steps + self._left * made.batches

    def _secure_step(self) -> worst_case.Step:
        step = _made(self._step)
        self._refuse_insecure(planned=not self._secure)
        return step

    def _saw(self, location: torch.Tensor, batches: list[Batch], epoch: int) -> None:
        """Charged before the draw: a step that fails afterwards stays charged."""
        step, fresh = _made(self._step), True
        if step.batches > 1:  # of an epoch, the first step stands for all; processes may begin theirs at different ones
            fresh = bool(several_processes.add(location.new_tensor(float(epoch not in self._epochs))) > 0.0)
        if fresh and self._left == 0:
            raise ArgumentError(
                "epochs: all steps that were planned have been taken, and nothing of this one was released; to train "
                "longer, a new engine with epochs=... continues this account by load_state_dict"
            )
        for each in self._watchers:
            each.saw(location, batches)
        self._taken[step] = self._taken.get(step, 0) + 1
        if fresh:
            self._epochs.add(epoch)
            self._left = None if self._left is None else self._left - 1
            self._history[step] = self._history.get(step, 0) + 1
        self._insecure += not self._secure

    def _refuse_insecure(self, planned: bool = False) -> None:
        if self._insecure or planned:
            raise ArgumentError(
                "noise: only SecureNoise() has a guarantee, so there is no epsilon after steps with any other noise; "
                "InsecureTorchNoise guarantees nothing"
            )


def _made(found: Found | None) -> Found:
    if found is None:
        raise ArgumentError("make_private: must be called first")
    return found
