"""Random certificates for Coq: all true ones accepted, none with less noise, and no forged file.

    python -m benchmarks.coq_claims FOLDER [--count 1000] [--first 0] [--forged 200] [--seed 1] [--together 32]
        [--seconds 3600] [--later KIND ...]

Every certificate is made from the seed and its number, and its result is a line of FOLDER/results.jsonl; a run that is
stopped goes on where it was. Files are checked `together` in one process of Coq, each as a module of its own, so that
its start is paid once; a time is what Coq says of the sentences of the module. Prints what was found as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import rangebound as rb
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.mechanisms.coq_file import coq_file

PROOFS = Path(__file__).resolve().parents[1] / "proofs"
LESS = 1e-8
"""How much less noise a false claim has, relatively."""
PATIENCE = 120
"""Seconds of processor time that Coq may take for a file."""
_NAMES = " ".join(name[:-2] for name in (PROOFS / "_CoqProject").read_text().split("\n")[1:-1] if name != "Axioms.v")
_ALL = f"From Coq Require Reals ZArith List Lra Lia.\nFrom Coquelicot Require Coquelicot.\nFrom RB Require {_NAMES}.\n"

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
    "truncated Gaussian at a delta": lambda c: _truncated(c, rb.Gaussian, delta=_delta(c)),
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


def written(m: Any, *, refuted: bool) -> str:
    """The file of a claim, or of its refutation."""
    if isinstance(m, rb.Limit):
        if refuted:
            raise ArgumentError("limit: has no counterexample")
        return m.to_coq(library=True)
    return coq_file(m, m.claim, refuted=refuted, library=True)


def checked(folder: Path, texts: dict[int, str]) -> tuple[dict[int, float | None], float]:
    """The seconds of processor time of each file in one process of Coq, None of those not accepted; those of its start.

    Each file is a module, with all that it asks for, so that none sees another; what is not accepted ends the process,
    and the rest goes into a next one.
    """
    found: dict[int, float | None] = {}
    begun = 0.0
    left = dict(texts)
    while left:
        whole, places = _ALL, []
        for number, text in left.items():
            places.append((len(whole.encode()), number))
            whole += f"Module M{number}.\n{text}\nEnd M{number}.\n"
        (folder / "batch.v").write_text(whole, encoding="utf-8")
        limit, where = f"--cpu={PATIENCE * len(left)}", ["-R", str(folder / "proofs"), "RB"]
        command = ["prlimit", limit, "coqc", "-time", "-q", "-w", "-all", *where, "batch.v"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        spent: Counter[int] = Counter()
        for at, user, system in re.findall(
            r"^Chars (\d+) .* secs \(([\d.]+)u,([\d.]+)s\)", done.stdout, flags=re.MULTILINE
        ):
            own = max((number for start, number in places if start <= int(at)), default=-1)
            spent[own] += float(user) + float(system)
        begun = max(begun, spent[-1])
        if done.returncode == 0:
            return {**found, **{number: spent[number] for number in left}}, begun
        # the sentence that fails has no time: it is of the file after the last whole one
        ended = set(map(int, re.findall(r"\[End~M(\d+)\.\]", done.stdout)))
        failed = next((number for number in left if number not in ended), None)
        if failed is None or not (done.stderr or done.stdout):
            raise RuntimeError(done.stderr)
        found |= {number: spent[number] for number in left if number in ended}
        found[failed] = None
        left = {number: text for number, text in left.items() if number not in found}
    return found, begun


def compiled(folder: Path) -> None:
    """The mathematics, compiled in a folder of its own."""
    target = folder / "proofs"
    if (target / "Computed.vo").exists():
        return
    shutil.copytree(PROOFS, target, dirs_exist_ok=True)
    for name in (target / "_CoqProject").read_text().split("\n")[1:-1]:
        command = ["coqc", "-q", "-w", "-ambiguous-paths", "-R", ".", "RB", name]
        subprocess.run(command, cwd=target, check=True, stdout=subprocess.DEVNULL)


def claims(folder: Path, seed: int, numbers: list[int]) -> list[dict[str, Any]]:
    """Certificates, and the same with less noise: each claim for Coq, and its refutation."""
    found: dict[int, dict[str, Any]] = {}
    texts: dict[str, dict[int, str]] = {"true": {}, "less": {}, "refuted": {}}
    for number in numbers:
        chance, kind = random.Random(f"{seed}/{number}"), list(KINDS)[number % len(KINDS)]
        found[number] = {"number": number, "kind": kind, "uncovered": 0}
        for _ in range(20):
            try:
                m = KINDS[kind](chance)
                texts["true"][number] = written(m, refuted=False)
            except ArgumentError as error:  # a kind of claim that the kernel does not cover, which the result counts
                found[number] |= {"uncovered": found[number]["uncovered"] + 1, "why": str(error)}
            else:
                less = quieter(m)
                for name in ("less", "refuted"):
                    with suppress(ArgumentError):
                        texts[name][number] = written(less, refuted=name == "refuted")
                break
    times, start = checked(folder, texts["true"])
    refuted, _ = checked(folder, texts["refuted"])
    proved = {number for number, seconds in refuted.items() if seconds is not None}
    less_too, _ = checked(folder, {number: text for number, text in texts["less"].items() if number not in proved})
    for number in texts["true"]:
        seconds = times[number]
        found[number] |= {"accepted": seconds is not None, "seconds": seconds, "start": start}
        # a claim whose negation is a lemma has no proof; the others are tried
        found[number] |= {"less": less_too.get(number) is not None, "refuted": number in proved}
    return list(found.values())


def forged(seed: int, number: int) -> dict[str, Any]:
    """A certificate whose text was changed: refused when it is read, or a claim that is false.

    A byte that is changed into another true claim (more noise, say) is no forgery, and another byte is changed.
    """
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
    forged = whole = json.dumps(data)
    while kind == "bytes" and is_true(forged):
        at = chance.randrange(len(whole))
        forged = whole[:at] + chance.choice("0123456789{}[],.-e") + whole[at + 1 :]
    return {"number": number, "forged": kind, "text": forged}


def is_true(text: str) -> bool:
    """Whether a text may be a true claim of clamped Laplace noise: by its closed form, without a proof."""
    try:
        read = rb.Certificate.from_json(text)
    except RangeboundError:
        return False
    query, noise = read.mechanism.query, read.mechanism.noise
    apart = min(Fraction(query.sensitivity), Fraction(query.range.hull.upper) - Fraction(query.range.hull.lower))
    return read.delta > 0 or apart <= Fraction(noise.scale) * Fraction(read.epsilon)


def check_forged(folder: Path, seed: int, numbers: list[int]) -> list[dict[str, Any]]:
    """Whether forged texts are refused; one that became another true claim must be one that Coq proves."""
    found, texts = [forged(seed, number) for number in numbers], {}
    for each in found:
        try:
            texts[each["number"]] = rb.verify(each.pop("text")).to_coq(library=True)
            each["refused"] = False
        except RangeboundError as error:
            each |= {"refused": True, "why": str(error)[:120]}
    proved, _ = checked(folder, texts)
    return [{**each, "proved": proved.get(each["number"]) is not None} for each in found]


def report(results: list[dict[str, Any]]) -> dict[str, Any]:
    """What was found, as plain data."""
    claims = [each for each in results if "accepted" in each]
    bad = [each for each in results if "forged" in each]
    return {
        "claims": _counted(claims),
        "kinds": {kind: _counted([each for each in claims if each["kind"] == kind]) for kind in KINDS},
        "uncovered": dict(
            sum((Counter({e["kind"]: e["uncovered"]}) for e in results if e.get("uncovered")), Counter())
        ),
        "forged": len(bad),
        "forged_refused": sum(each["refused"] for each in bad),
        "forged_true_and_proved": sum(each.get("proved", False) for each in bad),
    }


def _counted(claims: list[dict[str, Any]]) -> dict[str, Any]:
    """How many were accepted and refuted, and the seconds of processor time: of one alone, and beside the start."""
    own = sorted(each["seconds"] for each in claims if each["accepted"])
    refutable = [each for each in claims if each["kind"] != "limit"]
    found: dict[str, Any] = {
        "count": len(claims),
        "accepted": len(own),
        "less_accepted": sum(each["less"] for each in claims),
        "refutable": len(refutable),
        "refuted": sum(each["refuted"] for each in refutable),
    }
    if own:
        start = statistics.median(each["start"] for each in claims)
        found |= {
            "median_s": round(statistics.median(own), 3),
            "longest_s": round(own[-1], 2),
            "start_s": round(start, 2),
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first certificate")
    parser.add_argument("--forged", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--later", nargs="*", default=[], help="kinds that another run is for")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()  # Coq runs in it
    folder.mkdir(parents=True, exist_ok=True)
    compiled(folder)
    path = folder / "results.jsonl"
    results = [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []
    done = {("forged" in each, each["number"]) for each in results}
    begun = time.monotonic()
    for is_forged, first, count in ((False, chosen.first, chosen.count), (True, 0, chosen.forged)):
        numbers = [number for number in range(first, count) if (is_forged, number) not in done]
        if not is_forged:
            numbers = [number for number in numbers if list(KINDS)[number % len(KINDS)] not in chosen.later]
        for at in range(0, len(numbers), chosen.together):
            if time.monotonic() - begun > chosen.seconds:
                break
            work = check_forged if is_forged else claims
            made = work(folder, chosen.seed, numbers[at : at + chosen.together])
            results += made
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(each) + "\n" for each in made)
    print(json.dumps(report(results), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
