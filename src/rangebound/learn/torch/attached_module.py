"""The ordinary training loop: `loss.backward()` on the loss of an attached module leads to a private step.

All that a step needs of the loop is which examples it has, their targets, and the criterion of one example. So the
outputs of an attached module lead to a step by a criterion as a whole alone: one of torch's losses, or `net.criterion`.
The criterion takes each example by itself, for the loss that the loop sees, and `backward()` keeps the examples, the
targets and the criterion until the step, which takes the gradients as `PrivateOptimizer.backward` does. None of the
loop's own numbers is used there: a reduction over the batch puts nothing of one example into the gradient of another,
and module and criterion see the same random numbers (a mask of dropout, a sample), those of the step's own pass.
"""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from rangebound.errors import ArgumentError
from rangebound.learn.torch.batch_tree import Leaves, Structure, put_together, taken_apart
from rangebound.learn.torch.called_criterion import CalledCriterion, ForwardPass, precision
from rangebound.learn.torch.gradients.bad_examples import tried
from rangebound.learn.torch.gradients.one_pass import example_losses, example_outputs
from rangebound.learn.torch.gradients.per_example import has_statistics
from rangebound.learn.torch.gradients.tape import discarded_state
from rangebound.learn.torch.optimizer import PrivateOptimizer

_LOSSES = frozenset({
    F.binary_cross_entropy, F.binary_cross_entropy_with_logits, F.cross_entropy, F.hinge_embedding_loss, F.huber_loss,
    F.kl_div, F.l1_loss, F.mse_loss, F.multi_margin_loss, F.multilabel_margin_loss, F.multilabel_soft_margin_loss,
    F.nll_loss, F.poisson_nll_loss, F.smooth_l1_loss, F.soft_margin_loss,
})  # fmt: skip
_ITSELF: Callable[..., torch.Tensor] = lambda loss, target: loss  # noqa: E731  where the module returns the loss
_CONVERSIONS = frozenset({torch.Tensor.contiguous, torch.Tensor.double, torch.Tensor.float, torch.Tensor.to})


class Reduction(enum.Enum):
    """How the loss that a loop sees is made of the losses of its examples; no gradient depends on it."""

    MEAN = "mean"
    SUM = "sum"


class Outputs(torch.Tensor):
    """The outputs of a forward pass of an attached module: torch's losses of them lead to the private step.

    Any other function of them can be looked at; a backward pass through it is refused.
    """

    net: AttachedModule
    asked: ForwardPass
    form: Structure  # of all outputs
    place: int  # among their tensors
    passed: list[str]  # names of the functions that a loss may have been made with

    @classmethod
    def __torch_function__(
        cls, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func in _LOSSES:
            given = inspect.signature(func).bind(*args, **named).arguments
            output, target, *_ = given.values()
            if isinstance(output, Outputs):
                given = {"reduction": "mean", **given}
                settings = {name: each for name, each in given.items() if name not in ("input", "target")}
                return output.net._judged(output, torch.Tensor, (output,), target, func, settings)
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **named)
        first = args[0] if args else None
        if isinstance(found, torch.Tensor) and found is not first and isinstance(first, Outputs):
            if func in _CONVERSIONS and found.is_floating_point():
                return _outputs(found, first.net, first.asked, first.form, first.place)
            if found.requires_grad:
                first.passed.append(getattr(func, "__name__", str(func)))
        return found


def _outputs(values: torch.Tensor, net: AttachedModule, asked: ForwardPass, form: Structure, place: int) -> Outputs:
    found: Any = values.detach().as_subclass(Outputs).requires_grad_()
    found.net, found.asked, found.form, found.place, found.passed = net, asked, form, place, []
    found.register_hook(partial(_refuse, found.passed))
    return found  # type: ignore[no-any-return]


def _refuse(passed: list[str], slopes: torch.Tensor) -> None:
    names = ", ".join(dict.fromkeys(passed)) or "a function"
    raise ArgumentError(
        f"loss: the outputs went through {names}, which may carry data of one example into the gradients of others; "
        "either call one of torch's losses with the outputs as they are, criterion(net(x), y), where y may have any "
        "shape; or let the criterion be the whole loss, make_private(criterion=lambda output, y: ...), which is called "
        "with one example at a time, and write net.criterion(net(x), y)"
    )


class AttachedModule(torch.nn.Module):
    """A module for the ordinary loop: the loss of its outputs takes `loss.backward()`, and `optimizer.step()` releases.

    The loss is one of torch's own of the outputs as they are, as a function or a module, or `net.criterion`. It is the
    mean or the sum of the losses of the single examples, each computed by itself: a mean over the labels that are not
    ignored is one over those of the example.

    Guarantee: as for `PrivateOptimizer.backward`, which a step runs with these examples, targets and criterion; what
    the loop computes is not used.
    Assumes: an example, its target and the settings of the loss are computed from nothing of other examples.
    Edge cases: an example for which module or criterion raise an error counts as in `PrivateOptimizer`, and not in the
    loss that is seen. Any other function of the outputs is for the eyes alone: `backward()` through it is refused, and
    so are a loss that was multiplied or divided before, a loss with other settings than that of the first step, and
    tensors in its call (weights of classes) that are not those of the criterion that `make_private` was given. The
    outputs of a forward pass take one backward pass, before the step of their batch. A step draws the random numbers of
    the module again. In evaluation mode, and without gradients, it is the module itself.
    """

    def __init__(
        self, module: torch.nn.Module, forward: Callable[..., torch.Tensor], optimizer: PrivateOptimizer,
        reduction: Reduction,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module = module
        self._run = [forward]  # in a list, or a compiled module would be registered as a second part
        self._optimizer, self._reduction = [optimizer], reduction
        self._frozen = [each for each in module.modules() if has_statistics(each) and not each.training]
        self._blanks: dict[object, tuple[Structure, Leaves]] = {}

    def train(self, mode: bool = True) -> AttachedModule:
        """Set the mode of the module; norms with frozen statistics stay in evaluation mode."""
        super().train(mode)
        for each in self._frozen:
            each.eval()
        return self

    def forward(self, *given: Any, **named: Any) -> Any:
        """The outputs of a batch, each tensor of which has a first axis for the examples, as a module returns them.

        What is a single number for one example is its loss: then it is the loss that the loop sees.
        """
        if not (self.training and torch.is_grad_enabled()):
            return self._run[0](*given, **named)
        asked = self._optimizer[0].asked(given, named)
        form, blank = self._blank(asked)
        with torch.no_grad():
            rows = tuple(each if each.dim() else each[None] for each in blank)
            found = example_outputs(self.module, self._run[0], asked.structure, asked.leaves, rows)
        return put_together(form, [self._seen(*each, asked, form) for each in zip(range(len(blank)), blank, found)])  # noqa: B905

    def _seen(
        self, place: int, like: torch.Tensor, values: torch.Tensor, asked: ForwardPass, form: Structure
    ) -> torch.Tensor:
        """An output as the loop sees it."""
        if not values.is_floating_point():
            return values
        if not like.dim():
            own = CalledCriterion(
                _ITSELF, scale=self._optimizer[0].loss_scale, place=place, precision=asked.precision,
                dtype=torch.promote_types(values.dtype, torch.float32),
            )  # fmt: skip
            return self._shown(self._optimizer[0].called(own, asked, ()), values, {}, asked, ())
        # a loss in half precision would be rounded more than the outputs are
        values = values.float() if values.dtype == torch.float16 else values
        return _outputs(values, self, asked, form, place)

    def _blank(self, asked: ForwardPass) -> tuple[Structure, Leaves]:
        """The structure of the outputs of one example like these, and NaN in their shapes, found with made-up ones."""
        kind = asked.structure, tuple((each.shape[1:], each.dtype) for each in asked.leaves), asked.precision
        if kind not in self._blanks:

            def run(*one: torch.Tensor) -> tuple[Structure, Leaves]:
                given, named = put_together(asked.structure, one)
                return taken_apart(self.module(*given, **named), "output", lenient=True)

            with discarded_state(self.module, whole=True):
                form, found = tried(run, *asked.leaves)
            sizes = {tuple(each.shape[:1]) for each in found}
            if sizes - {(1,), ()} or not any(each.is_floating_point() for each in found):
                told = " and ".join(f"{each.dtype} of shape {tuple(each.shape)}" for each in found) or "no tensor"
                raise ArgumentError(
                    f"module: returns {told} for one example; the ordinary loop needs tensors with a "
                    "first axis for the examples, one of them of floats; or call optimizer.backward(x, y), whose "
                    "criterion takes whatever the module returns"
                )
            blank = (torch.full_like(each, math.nan if each.is_floating_point() else 0) for each in found)
            self._blanks[kind] = form, tuple(blank)
        return self._blanks[kind]

    def criterion(self, output: Any, y: Any) -> torch.Tensor:
        """The loss of a batch by the criterion that `make_private` was given; the criterion itself of other outputs."""
        own = self._optimizer[0].criterion
        form, found = taken_apart(output, "output", lenient=True)
        ours = [each for each in found if isinstance(each, Outputs)]
        if not ours:
            return own(output, y)
        floats = ((i, each) for i, each in enumerate(found) if each.is_floating_point())
        if ours[0].form != form or not all(isinstance(each, Outputs) and each.place == i for i, each in floats):
            raise ArgumentError(
                "output: must be what the attached module returned, as it is, with all its parts; where one of them is "
                "a loss, call backward() of that"
            )
        return self._judged(ours[0], form, found, y, own, {})

    def _judged(
        self, output: Outputs, form: Structure, found: Leaves, y: object, criterion: Callable[..., torch.Tensor],
        settings: dict[str, object],
    ) -> torch.Tensor:  # fmt: skip
        """The loss that the loop sees, whose backward pass leads to the step, of one output or of all in their form."""
        optimizer, asked = self._optimizer[0], output.asked
        kind, targets = taken_apart(y, "y")
        like = found[0].shape[:1]
        if not targets or any(each.shape[:1] != like or each.requires_grad for each in targets):
            raise ArgumentError("y: must be tensors with one target for each example, without a gradient of their own")
        _check_settings(settings, optimizer.criterion)
        alone = form is torch.Tensor
        made = CalledCriterion(
            criterion, scale=optimizer.loss_scale, settings=settings, place=output.place if alone else None,
            precision=precision(output.device), dtype=output.dtype if alone else torch.float32,
        )  # fmt: skip
        called = optimizer.called(made, asked, y)
        plain = tuple(each.detach().as_subclass(torch.Tensor) for each in found)
        with torch.no_grad():
            losses = example_losses(called, form, plain, kind, targets, known=True)
        return self._shown(called, losses / called.scale, settings, asked, y)

    def _shown(
        self, called: CalledCriterion, losses: torch.Tensor, settings: dict[str, object], asked: ForwardPass, y: object
    ) -> torch.Tensor:
        """The mean or the sum of the losses of single examples, whose backward pass leads to the step."""
        shown = losses.nansum()
        if settings.get("reduction", self._reduction.value) != Reduction.SUM.value:
            shown = shown / (~losses.isnan()).sum().clamp(min=1)
        if torch.is_grad_enabled():
            kind, targets = taken_apart(y, "y")
            kept = put_together(kind, [each.clone() for each in targets])
            shown.requires_grad_()
            shown.register_hook(partial(self._keep, asked, kept, called))  # type: ignore[no-untyped-call, unused-ignore]
        return shown

    def _keep(self, asked: ForwardPass, y: object, called: CalledCriterion, slope: torch.Tensor) -> None:
        if bool((slope != 1.0).any()):
            raise ArgumentError(
                "loss: was multiplied, divided or passed on to another function before backward(); such a factor may "
                "depend on the batch, and then on every example in it; a part of a batch needs none, since a step "
                "divides by the expected batch size; put a fixed one into the criterion that make_private is given, "
                "and use loss_scale=... there in place of a GradScaler"
            )
        self._optimizer[0].add_loss(asked, y, called)


def _check_settings(settings: dict[str, object], criterion: object) -> None:
    """Refuse what may be computed from the batch, and losses of single numbers in place of examples."""
    own = [*criterion.parameters(), *criterion.buffers()] if isinstance(criterion, torch.nn.Module) else []
    for name, value in settings.items():
        if isinstance(value, torch.Tensor) and not any(value is each for each in own):
            raise ArgumentError(
                f"{name}: a tensor that the loss is called with may be computed from the batch, and then depends on "
                "every example in it; make it a part of the criterion that make_private is given, such as "
                "torch.nn.CrossEntropyLoss(weight=...), and call that or net.criterion(net(x), y)"
            )
    if settings.get("reduction") == "none" or settings.get("reduce") is False:
        raise ArgumentError(
            'reduction="none": how the losses are put together then cannot be known; use reduction="mean" or "sum", or '
            "net.criterion(net(x), y)"
        )
