"""Nested levels as a tree: each node's parent stands before it, and the leaves are the finest cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A tree by the parent of each node: -1 for the first node, the root, and a smaller number for every other.

    >>> tree = Tree(parents=(-1, 0, 0, 1, 1))
    >>> tree.leaves.tolist(), tree.leaf_counts.tolist(), tree.depths.tolist()
    ([2, 3, 4], [3, 2, 1, 1, 1], [0, 1, 1, 2, 2])
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents or self.parents[0] != -1:
            raise ArgumentError("parents: must begin with -1, for the root")
        for at, parent in enumerate(self.parents[1:], 1):
            if not 0 <= parent < at:
                raise ArgumentError(f"parents: node {at} must have a parent before it")

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def places(self) -> Places:
        """The parents as an array; the root is its own."""
        return np.maximum(np.array(self.parents, dtype=np.intp), 0)

    @cached_property
    def leaves(self) -> Places:
        """The nodes without children, in order."""
        return np.flatnonzero(np.bincount(self.places[1:], minlength=len(self)) == 0)

    @cached_property
    def depths(self) -> Places:
        """How many nodes are above each."""
        found = [0] * len(self)
        for at, parent in enumerate(self.parents[1:], 1):
            found[at] = found[parent] + 1
        return np.array(found, dtype=np.intp)

    @cached_property
    def levels(self) -> list[Places]:
        """The nodes of each depth, from the root down."""
        order = np.argsort(self.depths, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.depths))[:-1])

    @cached_property
    def leaf_counts(self) -> npt.NDArray[np.int64]:
        """How many leaves are under each node; one for a leaf."""
        found = np.zeros(len(self), dtype=np.int64)
        found[self.leaves] = 1
        for level in self.levels[:0:-1]:
            np.add.at(found, self.places[level], found[level])
        return found
