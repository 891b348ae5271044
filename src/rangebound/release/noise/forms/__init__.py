"""One publisher for each form of question: what is drawn for it, what is made of that, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping

from rangebound.release.noise.forms.form import Form
from rangebound.release.noise.forms.fraction_form import FractionForm
from rangebound.release.noise.forms.moments_form import CorrelationForm, LineForm, RatioForm
from rangebound.release.noise.forms.rank_form import EdgesForm, RankForm
from rangebound.release.noise.forms.scalar_form import BinsForm, RankedForm, ScalarForm
from rangebound.release.noise.forms.selection_form import SelectionForm
from rangebound.release.noise.forms.strategy_form import StrategyForm
from rangebound.release.plan.kinds.facts import FormName
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.unit import Unit

__all__ = ["Form", "form_of"]

_FORMS: Mapping[FormName, type[Form]] = {
    FormName.SCALAR: ScalarForm,
    FormName.RANKED: RankedForm,
    FormName.BINS: BinsForm,
    FormName.FRACTION: FractionForm,
    FormName.RATIO: RatioForm,
    FormName.CORRELATION: CorrelationForm,
    FormName.LINE: LineForm,
    FormName.RANK: RankForm,
    FormName.EDGES: EdgesForm,
    FormName.SELECTION: SelectionForm,
    FormName.STRATEGY: StrategyForm,
}


def form_of(question: Kind, unit: Unit) -> Form:
    """A question in its form, with the contribution bounds that hold for it."""
    return _FORMS[question.form](question, unit)
