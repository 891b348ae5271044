"""The public surface: the names that are promised, their words, how they are loaded, and how little an import costs."""

import ast
import importlib
import inspect
import json
import pkgutil
import pydoc
import re
import subprocess
import sys
import types
from pathlib import Path
from types import FunctionType

import pytest

import rangebound as rb


def members(kind: type) -> dict[str, FunctionType]:
    found = {}
    for name, member in list(vars(kind).items()):  # a plan is built when it is first asked for a member
        inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or getattr(member, "func", None)
        function = inner or member
        if not name.startswith("_") and isinstance(function, FunctionType):
            found[name] = function
    return found


def callables(public: object) -> list[FunctionType]:
    return [public] if inspect.isfunction(public) else [public.__init__, *members(public).values()]


@pytest.mark.parametrize("name", rb.__all__)
def test_a_name_is_documented_and_takes_no_seed(name):
    public = getattr(rb, name)
    text = inspect.getdoc(public) or ""
    assert not text.startswith(name + "("), "the signature that dataclass writes does not count as documentation"
    assert text.partition("\n")[0].rstrip().endswith((".", ":", ";"))
    if inspect.isfunction(public):
        assert "Guarantee:" in text or name == "verify"
    if inspect.isfunction(public) or (inspect.isclass(public) and not issubclass(public, Exception)):
        assert ">>>" in text or name == "Certificate"
        for function in callables(public):
            assert not set(inspect.signature(function).parameters) & {"seed", "rng", "random_state", "generator"}


@pytest.mark.parametrize("name", [name for name in rb.__all__ if inspect.isclass(getattr(rb, name))])
def test_a_method_is_documented_and_a_privacy_number_states_its_guarantee(name):
    kind = getattr(rb, name)
    for member in members(kind):
        text = inspect.getdoc(getattr(kind, member)) or ""  # its own, or that of the class above
        assert text.partition("\n\n")[0].rstrip().endswith((".", ":")), member
        assert "Guarantee:" in text or kind is not rb.Mechanism or member not in ("epsilon", "delta", "rdp", "fisher")


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


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


ROOT = Path(__file__).resolve().parents[1]


def public_modules() -> list[str]:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(rangebound[a-z_.]*)` \|", page, re.MULTILINE)


PUBLIC = {"rangebound", *public_modules()}


def offered(module: str) -> set[str]:
    """The names that a public module offers: its own, and those of `__all__`."""
    found = importlib.import_module(module)
    own = {name for name, each in vars(found).items() if getattr(each, "__module__", None) == module}
    return {name for name in own if not name.startswith("_")} | {*getattr(found, "__all__", ())}


def is_public(module: str, name: str) -> bool:
    return f"{module}.{name}" in PUBLIC or (module in PUBLIC and name in offered(module))


def internal(names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [each for each in names if not is_public(*each)]


def imported(text: str) -> list[tuple[str, str]]:
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


def test_the_api_page_shows_every_public_name_and_no_other():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [each for each in rb.__all__ if f"- `rangebound.{each}`\n" not in page and f"`rb.{each}`" not in page] == []
    shown = [line.rpartition(".") for line in re.findall(r"^- `(\S+)`$", page, re.MULTILINE)]
    assert len(shown) > 80
    assert internal([(module, name) for module, _, name in shown]) == []


def test_control_an_internal_name_is_noticed():
    code = "import rangebound.laws\nfrom rangebound.ledger.book import Ledger\nfrom rangebound.plot import draw, law\n"
    names = imported(code + "from rangebound import Grid, audit, mechanism\n")
    missed = {("rangebound", "laws"), ("rangebound.ledger.book", "Ledger"), ("rangebound.plot", "draw")}
    assert {*internal(names)} == {*missed, ("rangebound", "mechanism")}


# Names that are loaded when they are asked for: none is lost, and nobody can tell, but by the clock.

STUB = Path(rb.__file__).with_suffix(".pyi").read_text(encoding="utf-8")


def typed(stub: str) -> tuple[dict[str, str], list[str]]:
    """What a type checker sees in the stub: where each name that it offers is from, and the public modules."""
    found = [
        (node.module, each) for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom) for each in node.names
    ]
    offered = [(module, each.name) for module, each in found if each.asname == each.name]
    modules = [name for module, name in offered if module == "rangebound"]
    return {name: module for module, name in offered if module != "rangebound"}, modules


def test_the_stub_offers_what_is_loaded():
    homes, modules = typed(STUB)
    assert homes == rb._HOMES
    assert tuple(modules) == rb._MODULES
    assert rb.__all__ == sorted(homes)


CHANGES = {"import Grid as Grid": ("import Grid", 0), "run import release_table": ("gaps import release_table", 0)}
CHANGES |= {"import plot as plot": ("import cli as cli", 1)}


@pytest.mark.parametrize("old", CHANGES)
def test_control_a_difference_is_noticed(old):
    new, part = CHANGES[old]
    assert STUB.count(old) == 1
    assert typed(STUB.replace(old, new))[part] != typed(STUB)[part]


@pytest.mark.parametrize("name", rb.__all__)
def test_a_name_is_the_thing_itself(name):
    assert getattr(rb, name) is getattr(importlib.import_module(rb._HOMES[name]), name)
    assert getattr(rb, name) is vars(rb)[name]  # kept, so that the next look is a plain one


def test_an_import_loads_nothing():
    code = "import sys, rangebound; print([m for m in sys.modules if m.startswith(('numpy', 'flint', 'rangebound.'))])"
    assert run(code) == "[]"


@pytest.mark.parametrize(("name", "said"), [("laplace-truncated", "proved"), ("table", "numpy")])
def test_a_scalar_is_verified_with_python_flint_alone(name, said):
    """And a table, the control, is not: its weights are an array."""
    path = Path(__file__).parents[1] / "examples" / "certificates" / f"{name}.json"
    code = f"""
import pathlib, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in sys.stdlib_module_names and package not in ("rangebound", "flint"):
            raise ModuleNotFoundError(name, name=package)
sys.meta_path.insert(0, Absent())
import rangebound as rb
try:
    rb.verify(pathlib.Path({str(path)!r}).read_text(encoding="utf-8"))
    print("proved")
except ModuleNotFoundError as error:
    print(error.name)"""
    assert run(code) == said


@pytest.mark.slow
def test_a_star_brings_every_name_and_no_heavy_package():
    code = "import sys, rangebound as rb; from rangebound import *; print(sorted(set(rb.__all__) - set(globals())))\n"
    code += "heavy = 'scipy torch matplotlib pandas sklearn pyspark duckdb mpmath sympy hypothesis'\n"
    code += "print([m for m in heavy.split() if m in sys.modules])"
    assert run(code) == "[]\n[]"


def test_no_module_is_called_as_a_public_name():
    """Python binds a module to its name in the package when it is imported: it would hide the function."""
    modules = {each.name for each in pkgutil.iter_modules(rb.__path__)}
    assert modules & {*rb.__all__, "calibrate", "certify", "choose"} == set()
    assert type(rb) is types.ModuleType


def test_dir_shows_the_public_names_and_modules_and_nothing_else():
    shown = {name for name in dir(rb) if not name.startswith("__")}
    assert shown == {*rb.__all__, *rb._MODULES}
    assert {"__all__", "__doc__", "__version__"} <= set(dir(rb))
    assert all(isinstance(getattr(rb, name), types.ModuleType) for name in rb._MODULES)
    assert not any(hasattr(rb, name) for name in ("_hidden", "no_such_room"))
    assert not hasattr(rb.learn, "no_such_module")


@pytest.mark.parametrize("name", ["release_table", "sql", "limit", "choose", "remap"])
def test_an_error_names_what_was_called(name):
    with pytest.raises(rb.ArgumentTypeError, match=rf"^{name}\("):
        getattr(rb, name)()
    with pytest.raises(rb.ArgumentTypeError, match=r"^rb.release\(.*rb.release_table"):
        rb.release()


def test_help_fits_on_a_page_and_names_everything():
    page = pydoc.plain(pydoc.render_doc(rb)).splitlines()
    assert len(page) <= 60
    assert max(map(len, page)) <= 125
    assert {*re.findall(r"\w+", rb.__doc__)} >= {*rb.__all__, *rb._MODULES}
    assert len(pydoc.plain(pydoc.render_doc(rb.Mechanism)).splitlines()) > 100  # one of them is shown whole
