"""The kernels that this installation has are the ones that are named, and a missing one is said once."""

import shutil
import subprocess
import sys
import sysconfig
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import rangebound as rb
from rangebound.cli.app import run
from rangebound.sampling import alias_table
from rangebound.sampling.sampler import _kernel as compiled
from rangebound.values import extras

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / f"src/rangebound/{room}/_kernel.c" for room in extras.KERNELS]


def test_every_room_with_a_kernel_is_named() -> None:
    assert sorted(SOURCES) == sorted((ROOT / "src/rangebound").rglob("*.c"))


@pytest.mark.parametrize("broken", [False, True], ids=["missing", "broken"])
def test_the_version_says_which_kernels_run_and_not_one_that_cannot_be_loaded(
    broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--version"]) == 0
    first, draws, training = capsys.readouterr().out.splitlines()
    assert first == f"rangebound {rb.__version__}"
    assert (draws == "draws: compiled kernel") == (compiled is not None)
    assert training.startswith("training: ")
    (tmp_path / "sampling").mkdir()
    if broken:  # made for another platform
        (tmp_path / "sampling/_kernel.abi3.so").write_bytes(b"\x7fELF")
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "kernels.py"))
    assert run(["--version"]) == 0
    out = capsys.readouterr().out
    assert "draws: NumPy, slower; to have the kernel, install the wheel" in out
    assert "training: PyTorch, slower; " in out


def test_a_missing_kernel_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alias_table, "_kernel", None)
    monkeypatch.setattr(extras, "_said", set())
    table = {"query": rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), "inputs": (0, 1), "outputs": (2, 3)}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            rb.Table(weights=[[1 << 62, 0], [0, 1 << 62]], **table).release(0.0)
    (said,) = seen
    assert "no compiled kernel" in str(said.message)
    assert "pip install" in str(said.message)


@pytest.mark.slow
def test_on_the_command_line_a_missing_kernel_is_one_line(tmp_path: Path) -> None:
    for package in ("duckdb", "pydantic", "sqlglot", "clarabel"):
        pytest.importorskip(package)
    code = "import sys; sys.modules['rangebound.sampling._kernel'] = None; from rangebound.cli.app import main; main()"
    command = [sys.executable, "-c", code, "demo", "--folder", str(tmp_path / "demo")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    said = f"warning: draws: no compiled kernel, so NumPy does the work and takes longer; {extras._REMEDY}"
    assert [line for line in lines if "kernel" in line] == [said]


@pytest.mark.skipif(compiled is None, reason="the kernel is not compiled")
def test_threads_that_share_a_mechanism_and_its_arrays_draw_what_one_draws() -> None:
    """The kernels keep nothing between calls: eight threads at once write what one thread writes."""
    query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    words = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)
    answers = np.linspace(-1, 101, len(words))
    for noise in (rb.Laplace(scale=2.0), rb.Gaussian(scale=2.0)):
        sampler = rb.Mechanism(noise=noise, query=query)._sampler(None)
        out = np.empty((8, len(words)))
        undecided = np.empty((8, len(words)), dtype=np.bool_)

        def work(i: int, sampler=sampler, out=out, undecided=undecided) -> None:
            for _ in range(5):
                compiled.draw(*sampler.compiled, words, answers, out[i], undecided[i])

        work(0)
        alone = out[0].copy(), undecided[0].copy()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert (out == alone[0]).all()
        assert (undecided == alone[1]).all()


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("nm") is None, reason="no C compiler")
@pytest.mark.skipif(not Path(sysconfig.get_path("include"), "Python.h").exists(), reason="no headers of Python")
@pytest.mark.skipif(sysconfig.get_config_var("Py_GIL_DISABLED") == 1, reason="no limited API")
@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.parent.name)
def test_the_kernels_have_no_state(source: Path, tmp_path: Path) -> None:
    """Of what can be written to there is only what is constant here, or filled in by Python when it loads a module."""
    made = tmp_path / "kernel.o"
    build = ["cc", "-O1", "-fPIC", "-c", "-DPy_LIMITED_API=0x030B0000", "-I", sysconfig.get_path("include")]
    subprocess.run([*build, str(source), "-o", str(made)], check=True)
    listed = subprocess.run(["nm", str(made)], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [(line.split()[-2], line.split()[-1].lstrip("_").partition(".")[0]) for line in listed]
    assert {kind for kind, name in symbols if name.startswith("Py")} >= {"U"}
    written = {name for kind, name in symbols if kind in "bBdDcCsS"}
    assert written <= {"methods", "slots", "module", "erase", "MANY_OF", "FEW_OF"}
