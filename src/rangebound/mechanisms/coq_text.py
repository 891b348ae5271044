"""A text for the proof assistant Coq: numbers, a claim and its proof, and of the mathematics what that needs.

The mathematics is in `proofs/` of the repository, and in the package.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from string import Template

from rangebound.errors import ArgumentError

_OPENED = "Import ListNotations.\nOpen Scope R_scope.\n"
_REQUIRED = re.compile(r"^From (\w+) Require Import ([^.]*)\.\n", flags=re.MULTILINE)


def coq_text(
    stated: str, modules: str, body: str, *, said: str = "", refuted: bool = False, library: bool = False
) -> str:
    """A file of a claim, with what is stated in a comment, and the theory that its proof needs: as text, or by name."""
    how, verb = "-R proofs RB " * library, "refutation" if refuted else "proof"
    stated = re.sub(r'[*"]', " ", stated)  # nothing that ends a comment, or begins a text in it
    text = f"(* A {verb} of {stated}.{said}\n   Check it with: coqc {how}FILE.v (Coq 8.16 or later, with Coquelicot"
    text += " and Interval) *)\n"
    sources = {name: _source(name) for name in modules.split()}
    wanted = {"Coq": ["Reals", "ZArith", "List", "Lra", "Lia"], "Coquelicot": []}
    for origin, names in _REQUIRED.findall("" if library else "".join(sources.values())):
        wanted.setdefault(origin, []).extend(names.split() if origin != "RB" else [])
    if library:
        wanted |= {"Coquelicot": ["Coquelicot"] * ("RInt" in body), "RB": list(sources)}
    for origin, asked in wanted.items():
        text += f"From {origin} Require Import {' '.join(dict.fromkeys(asked))}.\n" * bool(asked)
    for name, source in ({} if library else sources).items():
        theory = _REQUIRED.sub(lambda m: f"Import {m[2]}.\n" if m[1] == "RB" else "", source).rstrip()
        text += f"Module {name}.\n{theory}\nEnd {name}.\nImport {name}.\n"
    return text + _OPENED + body


def uncovered(what: str) -> ArgumentError:
    return ArgumentError(
        f"certificate: the proofs in Coq do not cover {what}; the page in the folder proofs/ says what they cover, and "
        "rangebound.verify checks the others"
    )


def _source(name: str) -> str:
    """A file of the mathematics: in an installed package beside this module, else at the root of the repository."""
    here = Path(__file__).parent
    folders = (here / "proofs", here.parents[2] / "proofs")
    return next(folder for folder in folders if folder.is_dir()).joinpath(f"{name}.v").read_text(encoding="utf-8")


def coq_claim(kind: str, numbers: str, modules: str, **parts: object) -> tuple[str, str]:
    """The theory that a claim needs, and the claim: numbers, and a text of `proofs/claims` with its parts."""
    text = Template(_source(f"claims/{kind}")).substitute(parts)
    bounds = "Bell Bounds" if re.search(r"\b(no_more|less|computed)\b", text) else ""
    return f"Privacy {bounds} {modules} {'Computed' if 'halving' in text else ''}", numbers + text


def coq_real(x: float | Fraction) -> str:
    """A number of ours, exactly."""
    exact = Fraction(x)
    sign = "- " if exact < 0 else ""
    return f"({sign}{abs(exact.numerator)} / {exact.denominator})" if exact.denominator > 1 else f"({exact.numerator})"


def coq_numbers(**named: float | Fraction) -> str:
    return "".join(f"Notation {name} := {coq_real(value)} (only parsing).\n" for name, value in named.items())
