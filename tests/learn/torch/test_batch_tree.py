"""A batch that is taken apart leaves nothing behind: a tensor that outlives its pass would wait for the collector."""

import gc
from weakref import ref

import pytest
import torch

from rangebound.learn.torch.batch_tree import emptied, put_together, taken_apart


@pytest.mark.parametrize("cyclic", [False, True])
def test_no_tensor_waits_for_the_collector_of_cycles(cyclic) -> None:
    gc.collect()
    gc.disable()
    try:
        batch = {"words": torch.zeros(2, 3), "rest": (torch.ones(2), None, [torch.ones(2, 1)])}
        if cyclic:  # the control: a cycle of the user's own is seen
            batch["rest"][2].append(batch["rest"][2])
            leaves = (batch["rest"][2][0],)
        else:
            structure, leaves = taken_apart(batch, "batch")
            put_together(structure, leaves)
            emptied(batch)
        gone = ref(leaves[-1])
        del batch, leaves
        assert (gone() is not None) is cyclic
    finally:
        gc.enable()
