"""`rangebound verify`: prove a certificate again, of a mechanism or a limit alone, of a table with its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import Json, KeyFile, check_files, option
from rangebound.errors import ArgumentError, CertificateInvalid, plain
from rangebound.values.arguments import counted, downwards, shown, upwards

_OF_A_TABLE = "rangebound release certificate"
_OF_A_LIMIT = "rangebound limit"
_FORMAT = re.compile(r'"format"\s*:\s*"([^"\\]*)"')
_ERRORS = {"mae": "mean absolute error", "mse": "mean squared error"}
_LONGEST, _STEP = 64_000_000, 100_000  # bytes of a file that is read, and more of them to a step of the work allowed
_PATIENCE = 600  # seconds that Coq may take
Found: TypeAlias = tuple[dict[str, object], str, Callable[[], str]]  # facts, words, and what writes a proof for Coq
_NOT_SIGNED = "Nothing is signed: compare this with what you were promised."


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="The certificate, a .json file.")],
    published: Annotated[
        Path | None,
        typer.Argument(
            metavar="PUBLISHED",
            help="Of a table: the published .json file. A certificate of a mechanism or a limit needs none.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[str | None, option("Of a table: the ledger, to check the charge there too.")] = None,
    key: KeyFile = None,
    work: Annotated[
        float, typer.Option(help="Of a table: steps that the check may take, of about 10 milliseconds.")
    ] = 1000.0,
    coq: Annotated[
        Path | None,
        option("Write the claim and its proof for Coq to a .v file, and run coqc. Of a table, the Gaussian account."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a certificate, and the published table.

    The certificate of a mechanism or of a limit is proved again from its file alone. That of a table needs the
    published .json file, from which the table is computed again.
    """
    if coq is not None:
        check_files([coq], [each for each in (certificate, published) if each is not None], name="coq")
    text = _text(certificate, work)
    found = _FORMAT.search(text)
    stated = found[1] if found else None  # nothing is believed of it but which check refuses or accepts the text
    if published is not None:
        if stated is not None and not stated.startswith(_OF_A_TABLE):
            raise ArgumentError(
                f"certificate: is a {shown(stated)}, not that of a table; it is verified alone, without "
                f"{str(published)!r}"
            )
        facts, words, proof = _table(text, _bytes("published", published, work), ledger, key, work)
    else:
        if stated is not None and stated.startswith(_OF_A_TABLE):
            raise ArgumentError(
                "published: missing; the certificate is that of a table: name the published .json file after it"
            )
        if ledger is not None or key is not None:
            name, given = ("key", str(key)) if ledger is None else ("ledger", ledger)
            raise ArgumentError(f"{name}={given!r}: goes with the certificate of a table and its published .json file")
        limit = stated is not None and stated.startswith(_OF_A_LIMIT)
        facts, words, proof = _limit(text) if limit else _mechanism(text, coq)
    if coq is not None:
        text = proof()
        theory = [each for each in re.findall(r"^Module (\w+)", text, re.MULTILINE) if each != "Computed"][-1]
        accepted, said = _coqc(coq, text)
        if accepted is False:
            raise CertificateInvalid(f"coq={str(coq)!r}: {said}; please report it, with the certificate")
        facts |= {"coq": accepted, "theory": f"proofs/{theory}.v"}
        words += f"\n{coq}, by the theorems of proofs/{theory}.v: {said}."
    printing.fact(facts, words, as_json=as_json)


def _bytes(name: str, path: Path, work: float) -> bytes:
    """What a file holds; one that is longer than any check takes is refused before the rest of it is read."""
    longest = max(_LONGEST, work * _STEP)
    with path.open("rb") as file:
        data = file.read(-1 if math.isinf(longest) else int(longest) + 1)
    if len(data) > longest:
        raise CertificateInvalid(f"{name}: is larger than {longest / 1e6:g} MB, and is not checked")
    return data


def _text(certificate: Path, work: float) -> str:
    try:
        return _bytes("certificate", certificate, work).decode()
    except UnicodeDecodeError:
        raise CertificateInvalid(
            "certificate: cannot be read; give the JSON file as it was written; this one is damaged, or not UTF-8"
        ) from None


def _mechanism(text: str, coq: Path | None) -> Found:
    """A claim about a mechanism, proved again; of a false one, a file for Coq with its refutation."""
    try:
        found = rb.verify(text)
    except CertificateInvalid as error:
        if coq is None:
            raise
        from rangebound.mechanisms.coq_file import coq_file

        try:
            read = rb.Certificate.from_json(text)
            _, said = _coqc(coq, coq_file(read.mechanism, read.claim, refuted=True))
        except ArgumentError:  # it cannot be read, or is not covered
            raise error from None
        raise CertificateInvalid(f"{error}. A refutation is in {str(coq)!r}; {said}") from error
    facts: dict[str, object] = {
        "ok": True,
        "notion": found.notion.value,
        "epsilon": found.epsilon,
        "delta": found.delta,
        "sensitivity": found.mechanism.query.sensitivity,
        "mechanism": str(found.mechanism.with_claim(None)),
    }
    return facts, f"ok: proved again.\n{found}\n{_NOT_SIGNED}", found.to_coq


def _coqc(path: Path, proof: str) -> tuple[bool | None, str]:
    """Write a file; whether Coq accepts it, None where it is not installed; and that in words, with its program."""
    import shutil
    import subprocess
    import tempfile

    other = path.exists() and path.read_bytes() != proof.encode()
    path.write_text(proof, encoding="utf-8")
    before = "it held another text, which is replaced; " * other
    program = shutil.which("coqc")
    if program is None:
        return None, f"{before}coqc is not installed here; check it anywhere with: coqc {path.name}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "certificate.v").write_text(proof, encoding="utf-8")  # the name of a file is that of a module
        try:
            command = [program, "-q", "certificate.v"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            return None, f"{before}{program} was not ready after {_PATIENCE} seconds; check it with: coqc {path.name}"
        compiled = (Path(folder) / "certificate.vo").exists()
    if done.returncode == 0 and compiled:
        return True, f"{before}Coq ({program}) accepts it; read what its last theorem says"
    return False, f"{before}Coq ({program}) does not accept it: {done.stderr.strip()[-300:] or 'it compiled nothing'}"


def _limit(text: str) -> Found:
    """A limit that no mechanism can be below, proved again."""
    found = rb.Limit.from_json(text)
    found.verify()
    facts: dict[str, object] = {
        "ok": True,
        "epsilon": found.epsilon,
        "delta": 0.0,
        "objective": found.objective.value,
        "at": found.at.value,
        "value": found.value,
        "query": str(found.query),
    }
    place = "at the worst true answer" if found.at.value == "worst" else "on average over a uniform true answer"
    words = (
        f"ok: proved again. No mechanism of epsilon {downwards(found.epsilon)} and delta 0 that answers\n"
        f"  {found.query}\nhas a {_ERRORS[found.objective.value]} below {downwards(found.value)}, {place}.\n"
        f"{_NOT_SIGNED}"
    )
    return facts, words, found.to_coq


def _table(text: str, published: bytes, ledger: str | None, key: Path | None, work: float) -> Found:
    """A published table, computed again from its plan and its draws, and its charge if there is a ledger."""
    found = rb.release.check_certificate(text, published, work=work)
    if ledger is not None:
        with rb.Ledger.open(ledger, key=key) as opened:
            rb.release.check_entry(found, published, opened)
    from rangebound.release.output.table_certificate import plan_to_coq

    return (
        _facts(found, charged=ledger is not None),
        _words(found, charged=ledger is not None),
        lambda: plan_to_coq(text),
    )


def _facts(found: rb.release.Checked, *, charged: bool) -> dict[str, object]:
    facts: dict[str, object] = {"ok": True, "epsilon": found.epsilon, "delta": found.delta, "numbers": found.numbers}
    facts |= {"charged": charged}
    if found.entry is not None and found.entry.promise is not None:
        facts |= {"promise": found.entry.promise, "promise_checked": charged}
    return facts | {"privacy": found.terms.to_dict()}


def _words(found: rb.release.Checked, *, charged: bool) -> str:
    words = f"ok: {counted(found.numbers, 'number')}, epsilon {upwards(found.epsilon)}, delta {upwards(found.delta)}"
    unchecked = "the charge was not checked, which needs --ledger" if found.entry else "charged to no ledger"
    words += f", {'charged in the ledger' if charged else unchecked}"
    if found.entry is not None and found.entry.promise is not None:
        said = plain(found.entry.promise)
        words += f". {said}" if charged else f". The certificate states this, which was not checked: {said!r}"
    return f"{words}; in other terms {found.terms.brief()}"
