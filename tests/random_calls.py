"""Random calls of the public API in the sizes that a newcomer would try, as text: each can be pasted and run again."""

from __future__ import annotations

import math
import random
import re
import time
from dataclasses import dataclass

import rangebound as rb
from rangebound import accounting
from rangebound.accounting import best_accountant, renyi
from rangebound.errors import RangeboundError, Undecided
from rangebound.privacy import worst as privacy

NAMES = {"rb": rb, "inf": math.inf, "accounting": accounting, "best": best_accountant, "renyi": renyi}
ENDS = (1, 5, 10, 24, 50, 100, 120, 250, 365, 500, 1000)
STEPS = (0.1, 0.25, 0.5, 1, 1, 1, 2, 5, 10)
MOST_POINTS = 1001
ORDERS = (1.25, 1.5, 2, 3, 4, 5, 8, 10, 16, 32, 64, 128, 256)
EPSILONS = (0.01, 0.05, 0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4, 5, 8, 10)
DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15)


@dataclass(frozen=True)
class Outcome:
    """How a call went: its processor time, whether its enclosure is closed, and the refusal, if it was refused."""

    call: str
    seconds: float
    closed: bool
    refused: str = ""


def calls(count: int, seed: int = 0) -> list[str]:
    dice = random.Random(seed)
    return [_call(dice) for _ in range(count)]


def outcome(call: str) -> Outcome:
    """Make a call and look at the enclosure behind the number that it gives."""
    start, closed, refused = time.process_time(), True, ""
    try:
        if asked := _METHOD.fullmatch(call):
            worst, argument = _WORST[asked["name"]], asked["argument"]
            found = worst(eval(asked["mechanism"], NAMES).setting, *([float(argument)] if argument else []))
            closed = found.closed
        else:
            eval(call, NAMES)
    except Undecided as error:
        closed, refused = False, f"{type(error).__name__}: {error}"
    except RangeboundError as error:
        refused = f"{type(error).__name__}: {error}"
    return Outcome(call, time.process_time() - start, closed, refused)


_WORST = {
    "epsilon": lambda setting, delta=0.0: privacy.worst_epsilon(setting, delta),
    "delta": privacy.worst_delta,
    "rdp": privacy.worst_renyi,
}
_METHOD = re.compile(rf"(?P<mechanism>rb\.Mechanism\(.*\))\.(?P<name>{'|'.join(_WORST)})\((?P<argument>[^()]*)\)")


def mechanism(call: str) -> str | None:
    asked = _METHOD.fullmatch(call)
    return asked["mechanism"] if asked else None


def _call(dice: random.Random) -> str:
    kind = dice.choices(list(_KINDS), weights=[weight for weight, _ in _KINDS.values()])[0]
    return _KINDS[kind][1](dice)


def _epsilon(dice: random.Random) -> str:
    delta = dice.choice(["", dice.choice(DELTAS), dice.choice(DELTAS)])
    return f"{_mechanism(dice)}.epsilon({delta})"


def _certify(dice: random.Random) -> str:
    made = _calibrated(dice, *_parts(dice))
    epsilon, delta = made.split("epsilon=")[1].rstrip(")").split(", delta=")
    return f"rb.verify(rb.certify({made}, epsilon={epsilon}, delta={delta}).to_json())"


def _choose(dice: random.Random) -> str:
    answers, _, sensitivity = _supports(dice, "interval")
    query = f"rb.Query(range={answers}, sensitivity={sensitivity})"
    objective = dice.choice(["mae", "mse"])
    return f'rb.choose(query={query}, epsilon={dice.choice(EPSILONS)}, delta=1e-6, objective="{objective}")'


def _use(dice: random.Random) -> str:
    asked = ["worst_error()", "average_error()", "error(3.0)", "fisher(3.0)", "release(3.0)", "law(3.0).mean"]
    return f"{_mechanism(dice)}.{dice.choice(asked)}"


def _composed(dice: random.Random) -> str:
    times = dice.choice([2, 10, 100, 1000])
    account = dice.choice(["best", "best", "renyi"])
    return f"{account}.epsilon(accounting.MechanismEvent(mechanism={_mechanism(dice)}, times={times}), delta=1e-6)"


_KINDS = {
    "epsilon": (25, _epsilon),
    "delta": (25, lambda dice: f"{_mechanism(dice)}.delta({dice.choice(EPSILONS)})"),
    "rdp": (20, lambda dice: f"{_mechanism(dice)}.rdp({dice.choice(ORDERS)})"),
    "calibrate": (10, lambda dice: _calibrated(dice, *_parts(dice))),
    "certify": (8, _certify),
    "use": (8, _use),
    "composed": (3, _composed),
    "choose": (1, _choose),
}


def _mechanism(dice: random.Random) -> str:
    noise, query, support, bounding = _parts(dice)
    sensitivity = float(query.split("sensitivity=")[1].rstrip(")"))
    scale = float(f"{sensitivity * dice.choice([0.5, 1, 1, 1.5, 2, 4, 5, 10, 20, 50]):.6g}")
    limit = f", limit={scale * dice.choice([5, 8, 10, 14]):.6g}" if noise == "TruncatedLaplacian" else ""
    return (
        f"rb.Mechanism(noise=rb.{noise}(scale={scale}{limit}), query={query}, "
        f"support={support}, bounding=rb.{bounding})"
    )


def _calibrated(dice: random.Random, noise: str, query: str, support: str, bounding: str) -> str:
    delta = 0.0 if noise == "Laplace" and dice.random() < 0.7 else dice.choice(DELTAS)
    epsilon = dice.choice(EPSILONS)
    return (
        f"rb.calibrate(noise=rb.{noise}, query={query}, support={support}, bounding=rb.{bounding}, "
        f"epsilon={epsilon}, delta={delta})"
    )


def _parts(dice: random.Random) -> tuple[str, str, str, str]:
    noise = dice.choices(["Laplace", "Gaussian", "TruncatedLaplacian"], weights=[4, 4, 1])[0]
    form = dice.choices(["interval", "grid", "union", "line"], weights=[5, 4, 2, 1])[0]
    answers, support, sensitivity = _supports(dice, form)
    bounding = {
        "interval": lambda: dice.choices(["TRUNCATE", "RECTIFY"], weights=[3, 1])[0],
        "grid": lambda: dice.choices(["TRUNCATE", "QUANTIZE"], weights=[1, 1])[0],
        "union": lambda: "TRUNCATE",
        "line": lambda: "UNBOUNDED",
    }[form]()
    return noise, f"rb.Query(range={answers}, sensitivity={sensitivity})", support, bounding


def _supports(dice: random.Random, form: str) -> tuple[str, str, float]:
    """The range of the answers, the support, and the sensitivity, in text."""
    end = dice.choice(ENDS)
    lower = dice.choice([0, 0, 0, -end])
    interval = f"rb.Interval({lower}, {end})"
    line = "rb.Interval(-inf, inf)"
    half = "rb.Interval(0, inf)"
    ranges = dice.choices([interval, half, line, f"rb.Interval({lower}, {2 * end})"], weights=[6, 1, 1, 1])[0]
    sensitivity = float(f"{dice.choice([1, 1, 1, 0.1, 2, 5, end / 10, end / 2, end]):.6g}")
    if form == "line":
        return dice.choice([interval, line, half]), line, sensitivity
    if form == "grid":
        step = dice.choice([each for each in STEPS if 1 <= (end - lower) / each < MOST_POINTS])
        sensitivity = dice.choice([step, step, sensitivity])
        return ranges, f"rb.Grid(step={step}, within={interval})", sensitivity
    if form == "union":
        spans = dice.choice([2, 2, 2, 3, 5, 7, 12, 20, 40, 52, 63])
        width = end / spans
        filled = [dice.choice([0.5, 0.7, 0.9]) for _ in range(spans)]
        pieces = [(round(k * width, 4), round((k + part) * width, 4)) for k, part in enumerate(filled)]
        union = f"rb.Union({', '.join(map(str, pieces))})"
        return dice.choice([union, union, union, ranges]), union, sensitivity
    return ranges, dice.choices([interval, half], weights=[4, 1])[0], sensitivity
