"""No module of the package touches a generator that is not secure: a look at every import, name and attribute."""

import ast
import re
from pathlib import Path

import pytest

import rangebound

SOURCES = sorted(Path(rangebound.__file__).parent.rglob("*.py"))
BANNED_MODULES = ("random", "numpy.random", "secrets")
BANNED_CALLS = {
    "normal",
    "normal_",
    "randn",
    "randn_like",
    "rand",
    "rand_like",
    "randint",
    "default_rng",
    "RandomState",
}
# The one mode that is insecure, for comparisons of speed; a caller asks for it by its name, InsecureTorchNoise.
BY_NAME = {"learn/torch/noise_source.py": {"torch.rand", "torch.randn"}}
SUSPECT = re.compile(r"rand|Rand|secrets|default_rng|\bnormal_?\b")  # nothing else need be parsed
LIBRARIES = {"np", "numpy", "torch", "random"}


def offences(source: str) -> list[str]:
    """Imports of insecure generators, uses of `numpy.random`, and drawing functions of array libraries."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        found += [each for each in names if any(each == b or each.startswith(b + ".") for b in BANNED_MODULES)]
        if isinstance(node, ast.Attribute):
            root = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr == "random" and root in LIBRARIES:
                found.append(f"{root}.random")
            if node.attr in BANNED_CALLS and (root in LIBRARIES or node.attr == "normal_"):
                found.append(f"{root}.{node.attr}")
    return found


def test_no_insecure_generator():
    texts = {"/".join(path.parts[-3:]): path.read_text(encoding="utf-8") for path in SOURCES}
    found = {path: set(offences(text)) for path, text in texts.items() if SUSPECT.search(text)}
    assert {path: names for path, names in found.items() if names} == BY_NAME


@pytest.mark.parametrize(
    "line",
    [
        "import random",
        "from random import gauss",
        "import numpy.random",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy as np; np.random.laplace()",
        "import torch; torch.normal(0, 1)",
        "import torch; torch.randn(3)",
        "x.normal_(0, 1)",
        "import secrets",
    ],
)
def test_the_ban_notices_each_way_around_it(line):
    assert SUSPECT.search(line)
    assert offences(line)
