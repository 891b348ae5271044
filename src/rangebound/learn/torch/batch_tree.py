"""A batch as a tree of tensors: dictionaries, tuples, lists and dataclasses, in each other.

Every tensor has a first axis for the examples, so that an example is the tree of its own rows. `None` and truth values
are part of the structure: they are the same for all examples. Anything else is refused, since what has no axis for the
examples would carry all of them to each.

torch has such trees too (`torch.utils._pytree`), which vmap takes; but they know a dataclass, or a dictionary of
another library, only once it is registered, and take what they do not know as the same for all examples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from rangebound.errors import ArgumentError

Leaves = tuple[torch.Tensor, ...]
Structure = object
"""What is left of a tree without its tensors; equal, and with the same hash, for trees that differ in these alone."""


def taken_apart(tree: object, name: str, *, lenient: bool = False) -> tuple[Structure, Leaves]:
    """The structure of a tree, and its tensors in order; `lenient` is for outputs, of which the rest is left out.

    >>> structure, leaves = taken_apart({"words": torch.zeros(2, 3), "labels": (torch.ones(2), None)}, "batch")
    >>> len(leaves), put_together(structure, [each[:1] for each in leaves])["labels"]
    (2, (tensor([1.]), None))
    """
    found: list[torch.Tensor] = []
    return _structure(tree, name, found, lenient), tuple(found)


def _structure(value: Any, name: str, found: list[torch.Tensor], lenient: bool) -> Structure:
    if isinstance(value, torch.Tensor):
        found.append(value)
        return torch.Tensor
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        items: Any = [(key, f"{name}[{key!r}]", value[key]) for key in value]
    elif isinstance(value, (tuple, list)):
        items = [(None, f"{name}[{i}]", each) for i, each in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(each.name, f"{name}.{each.name}", getattr(value, each.name)) for each in dataclasses.fields(value)]
    elif lenient:
        return None
    else:
        raise ArgumentError(
            f"{name}: is of the type {type(value).__name__}; a batch is made of tensors with a first axis for the "
            "examples, in dictionaries, tuples, lists or dataclasses; leave the rest out, or make it a setting of "
            "the module or of the function that make_private is given"
        )
    parts = tuple(_structure(each, at, found, lenient) for _, at, each in items)
    return type(value), tuple(key for key, _, _ in items), parts


def put_together(structure: Structure, leaves: Sequence[torch.Tensor]) -> Any:
    """The tree of this structure with these tensors."""
    return _built(structure, iter(leaves))


def _built(structure: Any, leaves: Iterator[torch.Tensor]) -> Any:
    if structure is torch.Tensor:
        return next(leaves)
    if not isinstance(structure, tuple):
        return structure
    kind, keys, parts = structure
    values = [_built(each, leaves) for each in parts]
    if issubclass(kind, (tuple, list)):
        return kind(*values) if hasattr(kind, "_fields") else kind(values)
    if issubclass(kind, Mapping):
        named = dict(zip(keys, values, strict=True))
        return named if hasattr(kind, "default_factory") else kind(named)
    made = object.__new__(kind)
    for key, value in zip(keys, values, strict=True):
        object.__setattr__(made, key, value)  # frozen ones too; what its making would check was checked
    return made


def examples(leaves: Leaves, name: str) -> int:
    """How many examples a batch has; refused, without a word on how many, where its tensors do not agree on that."""
    sizes = {each.shape[:1] for each in leaves}
    if len(sizes) != 1 or sizes == {torch.Size()}:
        raise ArgumentError(
            f"{name}: must be tensors with a first axis of one entry for each example, as many in all of them; what "
            "all examples have in common is a part of the module or of the loss, or expanded to that axis"
        )
    return sizes.pop()[0]


def emptied(tree: object) -> Any:
    """A tree of the same structure and shapes without an example; what has no axis is zero, or `None`."""
    structure, leaves = taken_apart(tree, "batch", lenient=True)
    return put_together(structure, [each[:0] if each.dim() else torch.zeros_like(each) for each in leaves])
