"""What the page asks Python: a certificate and what was published with it, answered in words and in numbers to draw."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import TypeAlias

import rangebound as rb
from rangebound.errors import CertificateInvalid, RangeboundError, plain
from rangebound.mechanisms.lattice_mechanism import LatticeMechanism
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.setting import Notion
from rangebound.values.arguments import downwards, upwards
from rangebound.values.ball import ball, up
from rangebound.values.serial import read_json
from rangebound.values.support import Grid

Answer: TypeAlias = dict[str, object]

OF_A_TABLE = "rangebound release certificate"
LONGEST = 64_000_000
_FORMAT = re.compile(r'"format"\s*:\s*"([^"\\]*)"')
_BRACKET = re.compile(r"[][{}]")
_DEEPEST = 500  # levels that are read: certificates have at most 16, and a browser has less room for them
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_POINTS = 240  # of a curve
_REACH = 8.0  # scales beyond the answers that a picture shows
_BARS = 400  # points of a lattice that a picture shows at most
_COMMAND = "Install rangebound and run: rangebound verify "
_NO_NUMPY = (
    "Proofs of this kind (tables of weights, remaps, noise on a grid with a delta, limits) need NumPy, which this page "
    "leaves out to stay small. Nothing was proved or refuted. " + _COMMAND + "certificate.json"
)
_PREMISES = (
    "The proof takes three things for granted, and no certificate can show them: that no person moves the answer by "
    "more than the sensitivity, that the range is right, and that the number was really drawn in this way. Nothing is "
    "signed: compare the claim and the mechanism with what you were promised."
)


def warm() -> None:
    """Load what a proof needs, so that the first one does not wait for it."""
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    rb.verify(rb.certify(rb.Mechanism(noise=rb.Laplace(scale=4.0), query=query), epsilon=1.0).to_json())


def answer(certificate: str, published: bytes | None) -> str:
    """The verdict on a certificate, and on what was published, as JSON: `proved`, `refused` or `open`.

    Guarantee: `proved` only where `rangebound.verify` proved the claim, and the published number, if there is one, is
    one that the mechanism can give.
    """
    data = None if published is None else bytes(published)
    try:
        _check_depth(certificate)
        stated = _FORMAT.search(certificate)
        found = (
            _of_table(certificate, data)
            if stated and stated[1].startswith(OF_A_TABLE)
            else _of_number(certificate, data)
        )
    except ModuleNotFoundError:
        found = {"verdict": "open", "title": "Not checked here", "words": [_NO_NUMPY]}
    except RangeboundError as error:
        words = [f"The reason: {plain(str(error))}.", *_counterexample(certificate)]
        found = {"verdict": "refused", "title": "Refused", "words": words}
    return json.dumps(found, allow_nan=False)


def _check_depth(text: str) -> None:
    """Refuse a text that is nested deep; brackets within quotation marks count too, which no certificate has."""
    depth = 0
    if text.count("[") + text.count("{") <= _DEEPEST:
        return
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > _DEEPEST:
            raise CertificateInvalid(f"certificate: has more than {_DEEPEST} levels, and is not read")


def _counterexample(text: str) -> Iterator[str]:
    """Why a claim that was read and not proved is false, where that is known."""
    try:
        _check_depth(text)
        read = rb.Certificate.from_json(text)
        rb.certify(read.mechanism, read.epsilon, read.delta, read.notion)
    except rb.ClaimFalse as error:
        first, second = error.pair
        yield f"The claim is false. A counterexample: the true answers {first:g} and {second:g}. {plain(str(error))}."
    except (RangeboundError, ModuleNotFoundError):
        return


def _of_number(text: str, data: bytes | None) -> Answer:
    """The claim about a mechanism, proved again, and whether a published number can come from it."""
    if "rangebound limit" in text[:200]:
        raise ModuleNotFoundError("numpy")
    found = rb.verify(text)
    mechanism = found.mechanism
    if not isinstance(mechanism, Mechanism | LatticeMechanism) or isinstance(mechanism.support, Grid):
        raise ModuleNotFoundError("numpy")
    number = None if data is None else _number(data)
    if number is not None and not _can_draw(mechanism, number):
        words = f"The certificate is proved, but {_shown(number)} cannot come from its mechanism: it publishes"
        title = "Refused: not a number of this mechanism"
        return {"verdict": "refused", "title": title, "words": [f"{words} {_places(mechanism)}."]}
    reach, odds = downwards(mechanism.query.sensitivity), ball(found.epsilon).exp()
    if found.notion is Notion.METRIC:
        said = (
            "For every two true answers, and whatever is published: the odds between the two change by a factor of at "
            f"most {upwards(up(odds))} for each {reach} of their distance."
        )
    else:
        extra = f", plus {upwards(found.delta)}" if found.delta else ""
        said = (
            f"For every two true answers at most {reach} apart, and whatever is published: it is at most "
            f"{upwards(up(odds))} times as likely under one as under the other{extra}."
        )
    success = up(100 * (odds + ball(found.delta)) / (1 + odds))  # [kairouz2015]: of the worst mechanism with this claim
    guess = (
        f"So somebody for whom two answers {reach} apart were equally likely guesses the right one with a chance of at "
        f"most {min(math.ceil(10 * success) / 10, 100.0):g} %."
    )
    words = [said, guess, _PREMISES]
    if number is not None:
        words.insert(0, f"The published number {_shown(number)} is one that this mechanism can give.")
    facts = [
        ("Claim", str(found.claim)),
        ("Published numbers", _places(mechanism)),
        ("True answers", _spans(mechanism.query.range.spans)),
        ("Sensitivity", reach),
        ("Mechanism", plain(str(mechanism.with_claim(None)))),
        ("Why it holds", plain(str(found).split("It holds because ", 1)[-1])),
    ]
    picture = _picture(mechanism, number)
    return {"verdict": "proved", "title": f"Proved: {found.claim}", "words": words, "facts": facts, "picture": picture}


def _of_table(text: str, data: bytes | None) -> Answer:
    """Whether the bytes of a table are those that its certificate names; nothing more is checked here."""
    stated = read_json(text, longest=LONGEST)
    named = stated.get("published") if isinstance(stated, dict) else None
    if not isinstance(named, str):
        raise CertificateInvalid("certificate: field 'published' is missing or has an unknown value")
    command = f"{_COMMAND}certificate.json table.json"
    if data is None:
        words = [
            f"This is the certificate of a table of numbers. Add the published .json file to compare the two. {command}"
        ]
        return {"verdict": "open", "title": "Not checked here", "words": words}
    if (found := hashlib.sha256(data).hexdigest()) != named:
        raise CertificateInvalid(f"published: has the SHA-256 {found}, and the certificate is of {plain(named)}")
    words = [
        f"These are the bytes that the certificate names, SHA-256 {found}. Its privacy was not proved here: that needs "
        f"more than a browser holds. {command}"
    ]
    return {"verdict": "open", "title": "The same bytes; privacy not checked here", "words": words}


def _number(data: bytes) -> float:
    """A published number, as it stands in a file or in the box."""
    text = data[:100].decode("utf-8", "replace").strip()
    if len(data) > 100 or not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise CertificateInvalid(f"published: {text[:40]!r} is not a number; write it with digits and a decimal point")
    return float(text)


def _shown(number: float) -> str:
    return repr(number).removesuffix(".0")


def _can_draw(mechanism: Mechanism | LatticeMechanism, value: float) -> bool:
    if isinstance(mechanism, LatticeMechanism):
        return mechanism._place(value) is not None
    return any(lower <= value <= upper for lower, upper in mechanism.support.spans)


def _places(mechanism: Mechanism | LatticeMechanism) -> str:
    """The numbers that can be published, in words."""
    kind = f"multiples of {mechanism.step:g}" if isinstance(mechanism, LatticeMechanism) else "numbers"
    return f"{kind} {_spans(mechanism.support.spans)}"


def _spans(spans: tuple[tuple[float, float], ...]) -> str:
    if all(map(math.isinf, spans[0])):
        return "of any size"
    return " and ".join(f"from {lower:g} to {upper:g}" for lower, upper in spans)


def _picture(mechanism: Mechanism | LatticeMechanism, number: float | None) -> Answer:
    """The laws of what is published at two neighbouring answers, in numbers to draw; `number` is between them."""
    hull = mechanism.query.range.hull
    near = number if number is not None else hull.lower if math.isfinite(hull.lower) else 0.0
    first = min(max(near, hull.lower), hull.upper)
    step = mechanism.query.sensitivity
    second = first + step if first + step <= hull.upper else max(first - step, hull.lower)
    base = mechanism if isinstance(mechanism, LatticeMechanism) else mechanism.noise
    reach = _REACH * max(base.scale, mechanism.query.sensitivity / 2)
    outer = mechanism.support.hull
    start, end = max(min(first, second) - reach, outer.lower), min(max(first, second) + reach, outer.upper)
    of = _on_lattice if isinstance(mechanism, LatticeMechanism) else _on_spans
    laws = [{"answer": each, **of(mechanism, each, start, end)} for each in (first, second)]
    return {"start": start, "end": end, "laws": laws, "published": number}


def _on_spans(mechanism: Mechanism, at: float, start: float, end: float) -> Answer:
    """Density and spikes of noise that is truncated, clamped or unbounded."""
    noise, shape = mechanism.noise.in_balls(), mechanism.shape

    def mass(lower: float, upper: float) -> float:
        ends = (None if math.isinf(each) else ball(each) - ball(at) for each in (lower, upper))
        return float(noise.mass(*ends).mid())

    whole = sum(mass(*each) for each in shape.spans) if shape.normalised else 1.0
    curves = []
    for lower, upper in shape.spans:
        low, high = max(lower, start), min(upper, end)
        if low < high:
            grid = sorted({*(low + (high - low) * i / _POINTS for i in range(_POINTS + 1)), min(max(at, low), high)})
            curves.append([(x, float(noise.pdf(ball(x) - ball(at)).mid()) / whole) for x in grid])
    spikes = [(x, mass(*cell)) for x, cell in zip(shape.points, shape.cells, strict=True)]
    return {"curves": curves, "spikes": [each for each in spikes if start <= each[0] <= end]}


def _on_lattice(mechanism: LatticeMechanism, at: float, start: float, end: float) -> Answer:
    """Probabilities of the points of a lattice, of which many are shown by some."""
    stairs, place, (first, last) = mechanism._stairs, mechanism._index(at), mechanism._ends
    low, high = (mechanism._index(each) for each in (start, end))
    bars = []
    for n in range(low, high + 1, (high - low) // _BARS + 1):
        # what is clamped to an end is added there
        mass = stairs.tail(place - n) if n == first else stairs.tail(n - place) if n == last else stairs.mass(n - place)
        bars.append((mechanism._label(n), float(mass.mid())))
    return {"curves": [], "bars": bars}
