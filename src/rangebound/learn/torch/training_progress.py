"""Progress of training: steps, epsilon so far and at the end, and a loss that the user chooses to show."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

import torch

from rangebound.values import arguments

_PAUSE = 1.0  # seconds between two lines


class TrainingProgress:
    """The batches of a loader, with a line on the error stream that says how far training is.

    The line has the steps taken, of those planned, and the worst-case epsilon at `delta` after them and at the end;
    these depend on no data. A loss is shown only if it is given to `show_loss`: it is that of the examples of a batch,
    which no noise covers and no account counts, so it is for the eyes of who may see the data, and not for a log that
    others read.

    Edge cases: a line is written at most once a second, and at the end of each pass. Each costs one evaluation of the
    account, some tens of milliseconds or, with random allocation, seconds; a line is written only after a pause ten
    times as long.
    """

    def __init__(
        self,
        batches: Iterable[object],
        *,
        delta: float,
        taken: Callable[[], int],
        epsilon: Callable[[float], float],
        planned: int | None,
        end: float | None,
        stream: TextIO | None,
    ) -> None:
        self._batches, self._delta = batches, arguments.probability("delta", delta)
        self._taken, self._planned, self._epsilon = taken, planned, epsilon
        self._stream = sys.stderr if stream is None else stream
        self._loss = ""
        self._next = time.monotonic() + _PAUSE
        self._end = "" if end is None else f", {arguments.upwards(end, 4)} at the end"

    def __iter__(self) -> Iterator[object]:
        for each in self._batches:
            yield each
            if time.monotonic() >= self._next:
                self._write()
        self._write()

    def show_loss(self, loss: float | torch.Tensor) -> None:
        """Show this loss from now on: private, see above."""
        self._loss = f", training loss {float(loss):.4g} (private)"

    def line(self) -> str:
        """What the line says now."""
        steps = self._taken()
        if not steps:
            return "step 0"
        spent = arguments.upwards(self._epsilon(self._delta), 4)
        of = "" if self._planned is None else f" of {self._planned}"
        return f"step {steps}{of}: epsilon {spent}{self._end}, delta {self._delta:g}{self._loss}"

    def _write(self) -> None:
        begun = time.monotonic()
        self._stream.write(self.line() + "\n")
        self._stream.flush()
        self._next = time.monotonic() + max(_PAUSE, 10.0 * (time.monotonic() - begun))
