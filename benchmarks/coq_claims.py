"""Random certificates for Coq: all true ones accepted, none with less noise, and no forged file.

    python -m benchmarks.coq_claims FOLDER [--count 1000] [--forged 200] [--seed 1] [--alone] [--seconds 3600]

Every certificate is made from the seed and its number, and its result is a line of FOLDER/results.jsonl; a run that is
stopped goes on where it was. `--alone` has the mathematics in every file, instead of the compiled folder `proofs/`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import rangebound as rb
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.mechanisms.coq_file import coq_file

PROOFS = Path(__file__).resolve().parents[1] / "proofs"
LESS = 1e-8
"""How much less noise a false claim has, relatively."""
PATIENCE, WAIT = 120, 1800.0
"""Seconds of processor time that Coq may take for a file, and by the clock."""

Chance = random.Random


def _query(chance: Chance, *, narrow: bool = False) -> rb.Query:
    lower, width = round(chance.uniform(-50, 50), 2), round(10 ** chance.uniform(0, 3), 3)
    share = chance.uniform(0.3, 1.2) if narrow else 10 ** chance.uniform(-3, -0.3)
    return rb.Query(range=rb.Interval(lower, lower + width), sensitivity=width * share)


def _epsilon(chance: Chance, low: float = 0.05, high: float = 5.0) -> float:
    return round(low * (high / low) ** chance.random(), 4)


def _wider(chance: Chance, query: rb.Query) -> rb.Interval:
    lower, upper = query.range.hull.lower, query.range.hull.upper
    far = (upper - lower) * chance.random()
    return rb.Interval(lower - far * chance.random(), upper + far * chance.random())


def _delta(chance: Chance) -> float:
    return float(10.0 ** -round(chance.uniform(2, 9)))


def _truncated(chance: Chance, noise: type, **more: float) -> Any:
    query = _query(chance, narrow=chance.random() < 0.2)
    place: dict[str, Any] = {} if chance.random() < 0.6 else {"support": _wider(chance, query)}
    epsilon = _epsilon(chance, 0.2, 3.0) if noise is rb.Gaussian else _epsilon(chance)
    return rb.calibrate(noise=noise, query=query, epsilon=epsilon, **place, **more)


def _half_line(chance: Chance, **more: float) -> Any:
    query = _query(chance)
    support = rb.Interval(query.range.hull.lower, float("inf"))
    return rb.calibrate(noise=rb.Laplace, query=query, epsilon=_epsilon(chance), support=support, **more)


def _spans(chance: Chance) -> Any:
    query = _query(chance)
    lower, width = query.range.hull.lower, query.range.hull.width
    cuts = sorted(lower + width * chance.random() for _ in range(2))
    support = rb.Union((lower, cuts[0]), (cuts[1], lower + width))
    return rb.calibrate(noise=rb.Laplace, query=query, epsilon=_epsilon(chance), support=support)


def _on_the_line(chance: Chance, noise: type, bounding: Any, **more: float) -> Any:
    query = _query(chance)
    place: dict[str, Any] = {}
    if bounding is rb.QUANTIZE:
        hull = query.range.hull
        place = {"support": rb.Grid(step=hull.width / chance.randint(20, 500), within=hull)}
    return rb.calibrate(noise=noise, query=query, epsilon=_epsilon(chance), bounding=bounding, **place, **more)


def _lattice(chance: Chance) -> Any:
    if chance.random() < 0.5:
        most = chance.randint(5, 500)
        sensitivity = chance.randint(1, min(9, most))
        return rb.DiscreteLaplace.calibrated(
            sensitivity=sensitivity, epsilon=_epsilon(chance), support=rb.Interval(0, most)
        )
    return rb.Staircase.calibrated(query=_query(chance), epsilon=_epsilon(chance, 0.5, 5.0))


def _table(chance: Chance) -> Any:
    """The best table of a few answers, or a mechanism on few points as a table; the latter at a delta."""
    count = chance.randint(2, 8)
    grid = rb.Grid(step=1.0, within=rb.Interval(0, count))
    query = rb.Query(range=grid, sensitivity=float(chance.randint(1, 2)))
    if chance.random() < 0.5:
        return rb.optimal(query=query, epsilon=_epsilon(chance, 0.2, 3.0))
    points = [float(each) for each in range(count + 1)]
    rows = [[chance.random() + 0.05 for _ in points] for _ in points]
    table = rb.Table.from_probabilities(
        query=query, inputs=points, outputs=points, probabilities=[[x / sum(row) for x in row] for row in rows]
    )
    epsilon = _epsilon(chance, 0.2, 2.0)
    return table.with_claim(rb.Claim(epsilon=epsilon, delta=min(table.delta(epsilon), 1.0)))


def _limit(chance: Chance) -> Any:
    """A limit of few true answers; its file has all inputs, prices and outputs."""
    query = rb.Query(range=rb.Grid(step=1.0, within=rb.Interval(0, chance.randint(3, 40))), sensitivity=1.0)
    if chance.random() < 0.5:
        query = rb.Query(range=rb.Interval(0, 1), sensitivity=round(chance.uniform(0.3, 1), 2))
    return rb.limit(query=query, epsilon=_epsilon(chance, 0.2, 3.0), objective=chance.choice(["mae", "mse"]))


KINDS: dict[str, Callable[[Chance], Any]] = {
    "truncated Laplace": lambda c: _truncated(c, rb.Laplace),
    "truncated Laplace at a delta": lambda c: _truncated(c, rb.Laplace, delta=_delta(c)),
    "half-line Laplace": _half_line,
    "half-line Laplace at a delta": lambda c: _half_line(c, delta=_delta(c)),
    "truncated Gaussian": lambda c: _truncated(c, rb.Gaussian),
    "clamped Laplace": lambda c: _on_the_line(c, rb.Laplace, rb.RECTIFY),
    "clamped Laplace at a delta": lambda c: _on_the_line(c, rb.Laplace, rb.RECTIFY, delta=_delta(c)),
    "rounded Laplace": lambda c: _on_the_line(c, rb.Laplace, rb.QUANTIZE),
    "unbounded Laplace at a delta": lambda c: _on_the_line(c, rb.Laplace, rb.UNBOUNDED, delta=_delta(c)),
    "clamped Gaussian at a delta": lambda c: _on_the_line(c, rb.Gaussian, rb.RECTIFY, delta=_delta(c)),
    "unbounded Gaussian at a delta": lambda c: _on_the_line(c, rb.Gaussian, rb.UNBOUNDED, delta=_delta(c)),
    "lattice": _lattice,
    "table": _table,
    "Laplace on two spans": _spans,
    "limit": _limit,
}


def quieter(m: Any) -> Any:
    """The same mechanism and claim with less noise; of a table, the claim with less epsilon and delta.

    Of a limit, a higher one; it is not tight to 1e-8, so it may be true, but its proof is none.
    """
    if isinstance(m, rb.Limit):
        return replace(m, prices=[each * (1 + 1e-3) for each in m.prices])
    if isinstance(m, rb.Table):
        exact = m.with_claim(rb.Claim(epsilon=m.epsilon(m.claim.delta) * (1 - LESS), delta=m.claim.delta))
        small = m.claim.delta * (1 - LESS)
        return exact if not m.claim.delta else m.with_claim(rb.Claim(epsilon=m.claim.epsilon, delta=small))
    if isinstance(m, rb.Mechanism):
        return replace(m, noise=type(m.noise)(scale=m.noise.scale * (1 - LESS))).with_claim(m.claim)
    return replace(m, scale=m.scale * (1 - LESS)).with_claim(m.claim)


def written(m: Any, *, refuted: bool, alone: bool) -> str:
    """The file of a claim, or of its refutation."""
    if isinstance(m, rb.Limit):
        if refuted:
            raise ArgumentError("limit: has no counterexample")
        return m.to_coq(library=not alone)
    return coq_file(m, m.claim, refuted=refuted, library=not alone)


def _processor() -> float:
    """Seconds of processor time of the processes that ended, which no other work on the machine changes much."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def coqc(folder: Path, text: str, *, alone: bool = False) -> tuple[bool, float]:
    """Whether Coq accepts a file, and the seconds that took."""
    path = folder / "certificate.v"
    path.write_text(text, encoding="utf-8")
    where = [] if alone else ["-R", str(folder / "proofs"), "RB"]
    begun = _processor()
    try:
        done = subprocess.run(
            ["prlimit", f"--cpu={PATIENCE}", "coqc", "-q", "-w", "-ambiguous-paths", *where, path.name],
            cwd=folder,
            capture_output=True,
            timeout=WAIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, WAIT
    return done.returncode == 0, _processor() - begun


def compiled(folder: Path) -> None:
    """The mathematics, compiled in a folder of its own."""
    target = folder / "proofs"
    if (target / "Computed.vo").exists():
        return
    shutil.copytree(PROOFS, target, dirs_exist_ok=True)
    for name in (target / "_CoqProject").read_text().split("\n")[1:-1]:
        subprocess.run(
            ["coqc", "-q", "-w", "-ambiguous-paths", "-R", ".", "RB", name],
            cwd=target,
            check=True,
            stdout=subprocess.DEVNULL,
        )


def claim(folder: Path, seed: int, number: int, *, alone: bool) -> dict[str, Any]:
    """One certificate and the same with less noise."""
    chance = random.Random(f"{seed}/{number}")
    kind = list(KINDS)[number % len(KINDS)]
    for _ in range(20):
        m = KINDS[kind](chance)
        try:
            text = written(m, refuted=False, alone=alone)
            break
        except ArgumentError as error:  # a kind of claim that the kernel does not cover, which the result counts
            refused = str(error)
    else:
        return {"number": number, "kind": kind, "uncovered": refused}
    found: dict[str, Any] = {"number": number, "kind": kind, "claim": str(m)}
    found["accepted"], found["seconds"] = coqc(folder, text, alone=alone)
    less = quieter(m)
    try:
        found["less"], found["less_seconds"] = coqc(folder, written(less, refuted=False, alone=alone), alone=alone)
    except ArgumentError:
        found["less"] = False
    try:
        text = written(less, refuted=True, alone=alone)
        found["refuted"], found["refuted_seconds"] = coqc(folder, text, alone=alone)
    except ArgumentError as error:
        found["refuted"], found["why"] = False, str(error)[:200]
    return found


def forged(seed: int, number: int) -> dict[str, Any]:
    """A certificate whose text was changed: refused when it is read, or a claim that Coq does not accept."""
    chance = random.Random(f"{seed}/forged/{number}")
    m = KINDS["clamped Laplace"](chance)
    text = rb.certify(m).to_json()
    data = json.loads(text)
    kind = ("epsilon", "scale", "sensitivity", "injection", "sign", "bytes")[number % 6]
    if kind == "epsilon":
        data["epsilon"] *= 1 - 10 ** -chance.uniform(1, 8)
    elif kind == "scale":
        data["mechanism"]["noise"]["scale"] *= 1 - 10 ** -chance.uniform(1, 8)
    elif kind == "sensitivity":
        data["mechanism"]["query"]["sensitivity"] *= 1 + 10 ** -chance.uniform(1, 8)
    elif kind == "injection":
        place = chance.choice(["epsilon", "delta", "theorem"])
        data[place] = chance.choice(["*) Axiom all : forall P : Prop, P. (*", '1.0" (*', "1). Admitted. (*", "0x1"])
    elif kind == "sign":
        data["mechanism"][chance.choice(["noise", "query"])] = {"family": "laplace", "scale": -1.0}
    forged = json.dumps(data)
    if kind == "bytes":
        at = chance.randrange(len(forged))
        forged = forged[:at] + chance.choice("0123456789{}[],.-e") + forged[at + 1 :]
    return {"number": number, "forged": kind, "text": forged}


def check_forged(folder: Path, seed: int, number: int) -> dict[str, Any]:
    """Whether a forged text is refused; one that became another true claim must be one that Coq proves."""
    found = forged(seed, number)
    try:
        read = rb.verify(found.pop("text"))
    except RangeboundError as error:
        return {**found, "refused": True, "why": str(error)[:120]}
    return {**found, "refused": False, "proved": coqc(folder, read.to_coq(library=True))[0]}


def report(results: list[dict[str, Any]]) -> str:
    """What was found, in a few lines."""
    claims = [each for each in results if "accepted" in each and "forged" not in each]
    lines = []
    if claims:
        seconds = sorted(each["seconds"] for each in claims)
        lines += [
            f"{len(claims)} claims: {sum(each['accepted'] for each in claims)} accepted, "
            f"median {statistics.median(seconds):.2f} s, longest {seconds[-1]:.1f} s",
            f"with {LESS:g} less noise: {sum(each['less'] for each in claims)} accepted, "
            f"{sum(each['refuted'] for each in claims)} refuted by a proved lemma",
        ]
        for kind in KINDS:
            own = [each for each in claims if each["kind"] == kind]
            if own:
                times = sorted(each["seconds"] for each in own)
                lines.append(
                    f"  {kind}: {sum(e['accepted'] for e in own)} of {len(own)} accepted, "
                    f"{sum(e['refuted'] for e in own)} refuted, "
                    f"{statistics.median(times):.2f} s (longest {times[-1]:.1f})"
                )
    uncovered = Counter(each["kind"] for each in results if "uncovered" in each)
    lines += [f"not covered: {count} of {kind}" for kind, count in uncovered.items()]
    bad = [each for each in results if "forged" in each]
    if bad:
        true = sum(each.get("proved", False) for each in bad)
        lines.append(
            f"{len(bad)} forged: {sum(each['refused'] for each in bad)} refused, {true} true after all and proved"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--forged", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--from", dest="first", type=int, default=0)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    compiled(chosen.folder)
    path = chosen.folder / "results.jsonl"
    results = [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []
    done = {("forged" in each, each["number"]) for each in results}
    begun = time.monotonic()
    tasks = [(False, number) for number in range(chosen.first, chosen.count)] + [
        (True, number) for number in range(chosen.forged)
    ]
    for is_forged, number in tasks:
        if (is_forged, number) in done:
            continue
        if time.monotonic() - begun > chosen.seconds:
            break
        if is_forged:
            found = check_forged(chosen.folder, chosen.seed, number)
        else:
            found = claim(chosen.folder, chosen.seed, number, alone=chosen.alone)
        results.append(found)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    print(report(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
