"""With how many bits floats are multiplied: both sets of torch's settings, which contradict each other in places."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from rangebound.learn.torch.gradients.survey import float_precision, full_precision

CUDNN, CUDA, MKLDNN = torch.backends.cudnn, torch.backends.cuda, torch.backends.mkldnn
NEWER = [CUDNN.conv, CUDNN.rnn, CUDA.matmul, MKLDNN.matmul] if hasattr(CUDNN, "conv") else []


def said() -> list[object]:
    """All settings; for a flag that torch does not tell, that."""
    return [*flags(), *(each.fp32_precision for each in NEWER)]


def flags() -> Iterator[object]:
    for read in (lambda: CUDNN.allow_tf32, torch.get_float32_matmul_precision, lambda: CUDA.matmul.allow_tf32):
        try:
            yield read()
        except RuntimeError:
            yield "contradicted"


SETTINGS: dict[str, Any] = {
    "as they are": lambda: None,
    "flags": lambda: torch.set_float32_matmul_precision("high"),
    "one flag": lambda: setattr(CUDA.matmul, "allow_tf32", True),
}
WORDS: dict[str, Any] = {
    "all": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    "products": lambda: setattr(CUDA.matmul, "fp32_precision", "tf32"),
    "convolutions": lambda: setattr(CUDNN.conv, "fp32_precision", "ieee"),
}


@pytest.fixture(autouse=True)
def _settings_stay() -> Iterator[None]:
    whole = torch.backends.fp32_precision if NEWER else ""
    before, words = (CUDNN.allow_tf32, torch.get_float32_matmul_precision()), [each.fp32_precision for each in NEWER]
    for each in NEWER[2:]:
        each.fp32_precision = "none"  # as in a new process
    yield
    if NEWER:
        torch.backends.fp32_precision = whole
    CUDNN.allow_tf32 = before[0]
    torch.set_float32_matmul_precision(before[1])
    for each, word in zip(NEWER, words, strict=True):
        each.fp32_precision = word


@pytest.mark.parametrize("setting", [*SETTINGS.values(), *(WORDS.values() if NEWER else ())])
def test_products_are_exact_for_a_while_and_all_settings_stay(setting):
    default = float_precision()
    setting()
    before, known = said(), float_precision()
    assert (known == default) is (setting is SETTINGS["as they are"])  # another setting is told apart
    with full_precision():
        assert all(each.fp32_precision == "ieee" for each in NEWER)
        assert True not in [*flags()]
    assert said() == before
    assert float_precision() == known
    with pytest.raises(ZeroDivisionError), full_precision():
        raise ZeroDivisionError
    assert said() == before


@pytest.mark.skipif(not NEWER, reason="an older torch")
def test_control_the_flags_alone_do_not_reach_a_word_for_all():
    WORDS["all"]()
    with pytest.raises(RuntimeError, match="mix of the legacy and new"):
        torch.get_float32_matmul_precision()
    CUDNN.allow_tf32 = False
    assert CUDNN.conv.fp32_precision == "tf32"
