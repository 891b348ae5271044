"""The questions of a plan: a kind in a file of this folder, one file per family, is one that a plan can ask for."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rangebound.release.plan.faults import fault
from rangebound.release.plan.kinds.kind import KINDS, Kind

for _each in iter_modules(__path__):
    import_module(f"{__name__}.{_each.name}")

MADE = "is made by report_clipping = true alone"


def written_kinds() -> dict[str, type[Kind]]:
    """The kinds that a plan can ask for, by name."""
    return {name: each for name, each in sorted(KINDS.items()) if not each.made}


def _question(data: object) -> Kind:
    if isinstance(data, Kind):
        return data
    if not isinstance(data, dict):
        raise ValueError("must be a table of fields")
    if "kind" not in data:
        raise fault('needs a kind, such as kind = "count"', (), data)
    name = data["kind"]
    if not isinstance(name, str) or name not in KINDS:
        raise fault(f"must be one of {', '.join(map(repr, written_kinds()))}", ("kind",), name)
    try:
        return KINDS[name].model_validate(data)
    except ValueError:
        if KINDS[name].made:
            raise fault(MADE, ("kind",), name) from None
        raise


class _Listed:
    """Tells the checker to ask the list of kinds, and the JSON schema of a plan to have all kinds of that moment."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _question, serialization=core_schema.plain_serializer_function_ser_schema(_plain, info_arg=True)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        for each in written_kinds().values():
            each.model_rebuild()
        choices = {name: each.__pydantic_core_schema__ for name, each in written_kinds().items()}
        return handler(core_schema.tagged_union_schema(choices, discriminator="kind"))


def _plain(question: Kind, info: core_schema.SerializationInfo) -> dict[str, Any]:
    return question.as_written().model_dump(
        mode=info.mode, by_alias=bool(info.by_alias), exclude_none=info.exclude_none, exclude_unset=info.exclude_unset
    )


Question = Annotated[Kind, _Listed]
"""A question of any kind, in a plan."""
