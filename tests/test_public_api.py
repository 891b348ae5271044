"""The public surface: the names that are promised, their words, and how little an import costs."""

import ast
import dataclasses
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

import rangebound as rb
from rangebound import errors

# The names fixed by the design, the three that belong to them (a law, a certificate, its check), and every error.
ERRORS = {name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, Exception)}
PROMISED = {
    "Interval",
    "Union",
    "Grid",
    "Laplace",
    "Gaussian",
    "TruncatedLaplacian",
    "TRUNCATE",
    "RECTIFY",
    "QUANTIZE",
    "UNBOUNDED",
    "Query",
    "Mechanism",
    "DiscreteLaplace",
    "Staircase",
    "Remapped",
    "remap",
    "Table",
    "estimate",
    "Estimates",
    "Limit",
    "limit",
    "optimal",
    "hockey_stick",
    "renyi",
    "calibrate",
    "certify",
    "choose",
    "VariableScaleLaplace",
    "verify",
    "Law",
    "Certificate",
    "Claim",
    "Ledger",
    "Cost",
    "Plan",
    "read_plan",
    "release_table",
    "sql",
    "compose",
}
MEMBERS = {
    "Mechanism": [
        "law",
        "epsilon",
        "delta",
        "rdp",
        "fisher",
        "error",
        "release",
        "confidence_interval",
        "to_dict",
        "from_dict",
        "claim",
        "with_claim",
    ],
    "DiscreteLaplace": [
        "calibrated",
        "epsilon",
        "delta",
        "rdp",
        "fisher",
        "law",
        "pmf",
        "error",
        "worst_error",
        "average_error",
        "release",
        "confidence_interval",
        "to_dict",
        "from_dict",
        "claim",
        "with_claim",
    ],
    "Staircase": [
        "calibrated",
        "epsilon",
        "delta",
        "rdp",
        "fisher",
        "law",
        "pmf",
        "error",
        "worst_error",
        "average_error",
        "release",
        "confidence_interval",
        "to_dict",
        "from_dict",
        "claim",
        "with_claim",
    ],
    "Law": ["pdf", "log_pdf", "cdf", "sf", "mass", "quantile", "atoms", "mean", "variance"],
    "Certificate": ["to_json", "from_json", "claim", "epsilon", "delta", "notion"],
    "Claim": ["epsilon", "delta", "notion", "to_dict", "from_dict"],
    "Union": ["excluding", "gaps", "spans"],
    "Query": ["clip", "range", "sensitivity"],
    "VariableScaleLaplace": ["epsilon", "delta"],
}
CLASSES = sorted(name for name in PROMISED if inspect.isclass(getattr(rb, name, None)))
FUNCTIONS = sorted(name for name in rb.__all__ if inspect.isfunction(getattr(rb, name)))


def members(kind: type) -> dict[str, FunctionType]:
    """The public methods and properties that a class defines."""
    found = {}
    for name, member in vars(kind).items():
        inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or getattr(member, "func", None)
        function = inner or member
        if not name.startswith("_") and isinstance(function, FunctionType):
            found[name] = function
    return found


METHODS = [(name, each) for name in CLASSES for each in members(getattr(rb, name))]


def test_all_is_what_was_promised():
    assert set(rb.__all__) == PROMISED | ERRORS


def test_all_has_no_doubles_and_every_name_is_there():
    assert len(set(rb.__all__)) == len(rb.__all__)
    assert [name for name in rb.__all__ if not hasattr(rb, name)] == []


@pytest.mark.parametrize("name", MEMBERS)
def test_every_promised_member_is_there(name):
    kind = getattr(rb, name)
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    assert [member for member in MEMBERS[name] if not hasattr(kind, member) and member not in fields] == []


def test_the_calls_of_the_design_work_as_they_are_written():
    query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    assert rb.Union.excluding((1, 2), within=rb.Interval(0, 3)) == rb.Union((0, 1), (2, 3))
    assert rb.Grid(step=0.5, within=rb.Interval(0, 10)).points[-1] == 10.0
    assert rb.TruncatedLaplacian(scale=1.0, limit=9.2).limit == 9.2
    m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query, support=rb.Interval(0, 100), bounding=rb.TRUNCATE)
    assert m == rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query)
    law = m.law(42.0)
    assert 0.0 < law.cdf(42.0) < 1.0
    assert m.epsilon(delta=0.0) >= m.epsilon(delta=0.01)
    assert 0.0 < m.delta(0.5) < 1.0
    assert m.rdp([2.0, 4.0]).shape == (2,)
    assert m.fisher(42.0) > 0.0
    assert m.error(42.0).mae > abs(m.error(42.0).bias)
    assert rb.hockey_stick(law, m.law(43.0), 0.1) > 0.0
    assert rb.renyi(law, m.law(43.0), 2.0) > 0.0
    calibrated = rb.calibrate(
        noise=rb.Laplace, query=query, support=None, bounding=rb.TRUNCATE, epsilon=1.0, delta=0.0, notion="dp"
    )
    assert rb.certify(calibrated, epsilon=1.0, delta=0.0).epsilon == 1.0
    assert rb.choose(query=query, epsilon=1.0, delta=1e-6, objective="mae").best.delta(1.0) <= 1e-6


def test_the_published_variable_scale_mechanism_is_there_with_its_true_guarantee():
    query = rb.Query(range=rb.Interval(0, float("inf")), sensitivity=1.0)
    published = rb.VariableScaleLaplace(query=query, epsilon=1.0)
    assert published.epsilon() == float("inf")
    assert published.delta(1.0) == pytest.approx(1.56e-4, rel=5e-3)


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_error_is_one_of_ours_and_also_a_builtin(name):
    kind = getattr(rb, name)
    assert issubclass(kind, rb.RangeboundError)
    others = {each for each in kind.__mro__ if each.__module__ == "builtins"} - {Exception, BaseException, object}
    assert name == "RangeboundError" or others
    assert inspect.getdoc(kind).partition("\n")[0].endswith(".")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_documented_with_a_guarantee_and_an_example(name):
    text = inspect.getdoc(getattr(rb, name)) or ""
    assert text.partition("\n")[0].endswith((".", ":", ";"))
    assert ">>>" in text
    assert "Guarantee:" in text or name == "verify"


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_documented_and_most_have_an_example(name):
    text = inspect.getdoc(getattr(rb, name)) or ""
    assert not text.startswith(name + "("), "the signature that dataclass writes is no documentation"
    assert text.partition("\n")[0].rstrip().endswith(".")
    assert ">>>" in text or name == "Certificate"


@pytest.mark.parametrize(("name", "member"), METHODS)
def test_a_method_is_documented(name, member):
    text = inspect.getdoc(getattr(getattr(rb, name), member)) or ""  # its own, or that of the class above
    assert text.partition("\n\n")[0].rstrip().endswith((".", ":"))


@pytest.mark.parametrize("member", ["epsilon", "delta", "rdp", "fisher"])
def test_a_privacy_number_states_its_guarantee(member):
    assert "Guarantee:" in inspect.getdoc(getattr(rb.Mechanism, member))


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_every_argument_and_result_is_typed(name):
    public = getattr(rb, name)
    callables = [public] if inspect.isfunction(public) else [public.__init__, *members(public).values()]
    for function in callables:
        signature = inspect.signature(function)
        missing = [
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.name not in ("self", "cls") and parameter.annotation is inspect.Parameter.empty
        ]
        assert missing == []
        assert signature.return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_nothing_takes_a_seed(name):
    public = getattr(rb, name)
    callables = [public] if inspect.isfunction(public) else [public.__init__, *members(public).values()]
    for function in callables:
        assert not set(inspect.signature(function).parameters) & {"seed", "rng", "random_state", "generator"}


@pytest.mark.parametrize(
    "call",
    [
        lambda: rb.Laplace(2.0),
        lambda: rb.Gaussian(2.0),
        lambda: rb.TruncatedLaplacian(1.0, 2.0),
        lambda: rb.Query(rb.Interval(0, 1), 1.0),
        lambda: rb.Grid(1.0, rb.Interval(0, 1)),
        lambda: rb.Mechanism(rb.Laplace(scale=1.0), rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)),
        lambda: rb.calibrate(rb.Laplace, rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)),
        lambda: rb.choose(rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), 1.0),
    ],
)
def test_what_could_be_mixed_up_must_be_named(call):
    with pytest.raises(TypeError, match=r"positional|argument"):
        call()


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_an_import_is_light():
    heavy = ("scipy", "torch", "matplotlib", "pandas", "sklearn", "pyspark", "duckdb", "mpmath", "sympy", "hypothesis")
    code = f"import sys; from rangebound import *; print([m for m in {heavy!r} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_an_import_changes_nothing_outside():
    code = (
        "import sys, warnings, numpy; from flint import ctx\n"
        "before = ctx.prec, numpy.geterr(), list(warnings.filters), sys.getrecursionlimit()\n"
        "import rangebound\n"
        "query = rangebound.Query(range=rangebound.Interval(0, 10), sensitivity=1.0)\n"
        "rangebound.certify(rangebound.calibrate(noise=rangebound.Laplace, query=query, epsilon=1.0), 1.0)\n"
        "assert before == (ctx.prec, numpy.geterr(), list(warnings.filters), sys.getrecursionlimit())\n"
    )
    run(code)


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import distribution

    installed = distribution("rangebound")
    place = json.loads(installed.read_text("direct_url.json") or "{}").get("url", ROOT.as_uri())
    if place != ROOT.as_uri():
        pytest.skip(f"installed from {place}: the environment of another clone")
    assert rb.__version__ == installed.version, "installed before the version changed; any target of make mends that"


def test_the_api_page_shows_every_name() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in rb.__all__ if f"- `rangebound.{name}`\n" not in page and f"`rb.{name}`" not in page]
    assert missing == []


ROOT = Path(__file__).resolve().parents[1]


def public_modules() -> list[str]:
    """The modules that the page about stability lists."""
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(rangebound[a-z_.]*)` \|", page, re.MULTILINE)


PUBLIC = {"rangebound", *public_modules()}


def offered(module: str) -> set[str]:
    """The names that a public module offers: its own, and those of `__all__`."""
    found = importlib.import_module(module)
    own = {name for name, each in vars(found).items() if getattr(each, "__module__", None) == module}
    return {name for name in own if not name.startswith("_")} | {*getattr(found, "__all__", ())}


def is_public(module: str, name: str) -> bool:
    """Whether the name is a public module, or one that a public module offers."""
    return f"{module}.{name}" in PUBLIC or (module in PUBLIC and name in offered(module))


def internal(names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the names, each with its module, that are not public."""
    return [each for each in names if not is_public(*each)]


def imported(text: str) -> list[tuple[str, str]]:
    """What Python code imports from rangebound."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "rangebound":
            found += [(node.module, each.name) for each in node.names]
        elif isinstance(node, ast.Import):
            parts = [each.name.rpartition(".") for each in node.names if each.name.startswith("rangebound.")]
            found += [(module, name) for module, _, name in parts]
    return found


def blocks(page: Path) -> list[str]:
    """The Python of a page, or of a program; what the block shows is left out."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return [text]
    found = re.findall(r"```(?:python|pycon)\n(.*?)```", text, re.DOTALL)
    return ["\n".join(re.findall(r"^(?:>>> )?((?:from|import) rangebound.*)$", each, re.MULTILINE)) for each in found]


READ = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.py"))]


def test_the_public_modules_are_there_and_the_package_has_them():
    assert len(PUBLIC) > 15
    tops = {name.removeprefix("rangebound.").partition(".")[0] for name in PUBLIC - {"rangebound"}}
    assert tops == set(rb._MODULES)
    for name in PUBLIC:
        assert importlib.import_module(name).__doc__


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_users_are_shown_public_names_alone(page):
    assert internal([each for block in blocks(page) for each in imported(block)]) == []


def test_the_api_page_shows_public_names_alone():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = [line.rpartition(".") for line in re.findall(r"^- `(\S+)`$", page, re.MULTILINE)]
    assert len(shown) > 80
    assert internal([(module, name) for module, _, name in shown]) == []


def test_control_an_internal_name_is_noticed():
    code = "import rangebound.noise\nfrom rangebound.ledger.book import Ledger\nfrom rangebound.plot import draw, law\n"
    names = imported(code + "from rangebound import Grid, audit, mechanism\n")
    missed = {("rangebound", "noise"), ("rangebound.ledger.book", "Ledger"), ("rangebound.plot", "draw")}
    assert {*internal(names)} == {*missed, ("rangebound", "mechanism")}
