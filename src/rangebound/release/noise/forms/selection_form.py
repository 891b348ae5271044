"""Keys of a public list by one joint exponential mechanism."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from rangebound.release.noise import joint_selection
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.forms.form import Form
from rangebound.release.noise.publishers import Publisher
from rangebound.release.noise.selection_publisher import SelectionPublisher
from rangebound.release.plan.kinds.selections import SelectionKind
from rangebound.release.plan.statistic import Columns, Sensitivity

_DRAWN = 20_000  # counts in one step of a certificate's check


@dataclass(frozen=True)
class SelectionForm(Form):
    """The most frequent keys, or bins, in order; those of all ranks of a group are drawn together."""

    question: SelectionKind

    @property
    def loss(self) -> LossForm:
        """That of an exponential mechanism: `joint_selection.privacy_loss` proves that it has that range."""
        return LossForm.RANGE

    @property
    def draws(self) -> int:
        """One: all ranks are drawn together."""
        return 1

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The joint exponential mechanism."""
        asked = self.question
        return SelectionPublisher(
            keys=len(asked.choices),
            size=asked.size,
            rate=joint_selection.rate(asked.size, found.cell, share.drawn),
            support=asked.natural,
            confidence=level,
            points=asked.points,
        )

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The list is made again."""
        return self.question.name, len(self.question.choices) / _DRAWN
