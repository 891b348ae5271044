"""The hockey-stick divergence of truncated Gaussian laws on windows of positions (see `windows`)."""

from __future__ import annotations

import math

from rangebound.privacy.windows.chebyshev import UNIT, Highest, WindowBounds, truncation
from rangebound.privacy.windows.gaussian_laws import Laws, Seen
from rangebound.privacy.windows.gaussian_windows import (
    RHOS,
    SINGLE,
    GaussianWindows,
    bounds,
    folded,
    highest,
    nodes_of,
    subdivided,
)
from rangebound.values.array_types import Floats, Indices, np

_HIGHEST, _DEEPEST = 240, 690.0  # degree of a polynomial, and its product with log rho: rho^-n does not underflow
_LEAST, _SHARE = 1e-290, 1e-11  # divergence that is worth windows, and the share of it that may be missed
_NOTHING = 1e-100  # what a divergence must be below where none was seen
_SCOUTS, _SCOUTED = 64, 2_000  # places on each line that are tried first, and in all
_MORE = 1.01  # times the target: a place above that is as good as the best, where one is sought that is above it
_LARGEST = 600.0  # epsilon
_SURE = 1e-11  # relative: how well the divergence of one pair must be known
_OFFSETS = (0.0, 1.0)  # of the locations of a pair, in its distance
_BRACKET = 1e-9  # scales within which a cut is found


def stick(
    laws: Laws, epsilon: float, windows: GaussianWindows, target: float | None = None, known: float = 0.0
) -> Highest | None:
    """The largest hockey-stick divergence on windows: P(x < t) - e^epsilon Q(x < t) at the best threshold t.

    One that is far below the `target`, or below what is `known` from elsewhere, need not be told from nothing.
    e^epsilon multiplies all errors of Q, and what is missed and unseen of it. So degrees and reach grow with epsilon,
    up to 600, where masses of Q that are e^-epsilon times those of P are still far from underflow.
    Points: the best of finitely many events, each analytic. Spans: with t in a gap the event is fixed, with t in a span
    it is where the log-ratio is epsilon; the windows are cut where t meets an end of a span.
    """
    zero = np.zeros_like(windows.d)
    far = laws.far(windows.start, zero) | laws.far(windows.end, windows.d)
    if not 0.0 <= epsilon <= _LARGEST or far.any():
        return None
    scouted = _scouted(laws, epsilon, windows)
    if target is not None and scouted.lower > _MORE * target:
        return scouted
    level = max(target or scouted.lower, known)
    if 0.0 < level < _LEAST:
        return None
    level = level or _NOTHING
    laws = laws.attentive(max(_SHARE * level * math.exp(-epsilon), _LEAST))
    degrees = _degrees(epsilon, level)

    single = windows.start == windows.end
    pieces = subdivided(
        laws, folded(windows.some(~single), laws.middle(), laws.step, _OFFSETS), _OFFSETS, tuple(degrees)
    )
    if pieces is not None:
        alone = windows.some(single)
        pieces = pieces.with_more(alone._replace(rho=np.full(alone.rho.size, SINGLE)))
    degrees[SINGLE] = 0
    if laws.pointed or pieces is None:
        return highest(pieces, lambda some: _events(laws, epsilon, some, target, degrees), target)
    pieces = _branches(laws, epsilon, pieces)
    if not pieces.start.size:  # the best event is all or nothing everywhere
        return Highest(0.0, 0.0, int(windows.line[0]), float(windows.start[0]))
    return highest(pieces, lambda some: _thresholds(laws, epsilon, some, target, degrees), target)


def _degrees(epsilon: float, level: float) -> dict[float, int]:
    """The degrees of polynomials that miss next to nothing of a divergence, by the ellipse."""
    digits = math.log(100.0 * (1.0 + math.exp(epsilon))) - math.log(_SHARE * level)
    needed = {rho: 2 * math.ceil(0.5 * digits / math.log(rho)) for rho in RHOS}
    return {rho: max(degree, 6) for rho, degree in needed.items() if degree <= min(_HIGHEST, _DEEPEST / math.log(rho))}


def _scouted(laws: Laws, epsilon: float, windows: GaussianWindows) -> Highest:
    """The largest divergence at a few places."""
    laws = laws.attentive(_LEAST)
    count = max(2, min(_SCOUTS, _SCOUTED // windows.start.size))
    p, d = np.linspace(windows.start, windows.end, count).reshape(-1), np.tile(windows.d, count)
    pairs = [_sticks(laws, epsilon, p[some], d[some]) for some in laws.blocks(p, d)]
    found = np.concatenate([value - error for value, error in pairs])
    best = int(np.argmax(np.where(np.isnan(found), -np.inf, found)))
    return Highest(math.inf, max(float(found[best]), 0.0), int(windows.line[best % windows.start.size]), float(p[best]))


def stick_of_pair(laws: Laws, epsilon: float, p: float, d: float) -> float | None:
    """The hockey-stick divergence of one pair, rounded down; None where it is not known to 1e-11 relative."""
    at, apart = np.asarray([p]), np.asarray([d])
    if not 0.0 <= epsilon <= _LARGEST or laws.far(at, 0.0 * apart).any() or laws.far(at, apart).any():
        return None
    value, error = (float(each[0]) for each in _sticks(laws.attentive(_LEAST), epsilon, at, apart))
    return max(value - error, 0.0) if error <= _SURE * abs(value) else None


def _sticks(laws: Laws, epsilon: float, p: Floats, d: Floats) -> tuple[Floats, Floats]:
    """The divergences of pairs, and their errors."""
    pair = _pair(laws, p, d)
    if laws.pointed:
        value, error = _difference(epsilon, pair, slice(None), _best_event(epsilon, *pair) + 1)
    else:
        branch = np.searchsorted(laws.edges, _threshold(laws, epsilon, pair)[0])
        value, error = _up_to_threshold(laws, epsilon, pair, branch)
    return value, error


def loss_bounds(laws: Laws, p: Floats, d: Floats) -> tuple[Floats, Floats]:
    """Lower and upper bounds on the losses of pairs; nothing is known of those that are far out."""
    far = laws.far(p, np.zeros_like(d)) | laws.far(p, d)
    value, error = laws.loss(*_pair(laws, np.where(far, laws.edges[np.isfinite(laws.edges)][0], p), d))
    with np.errstate(invalid="ignore"):  # at the end of an endless support a loss is infinite, and so is its error
        low, high = value - error, value + error
    return np.where(far | np.isnan(low), -np.inf, low), np.where(far | np.isnan(high), np.inf, high)


def _pair(laws: Laws, p: Floats, d: Floats) -> tuple[Seen, Seen]:
    return laws.see(p, np.zeros_like(d)), laws.see(p, d)


def _events(
    laws: Laws, epsilon: float, windows: GaussianWindows, target: float | None, degrees: dict[float, int]
) -> WindowBounds:
    """On points: bounds over all events {x <= x_k} of which one may be the best somewhere in the window.

    The best threshold rises with the position, so these are the events between the best ones at the ends. They are told
    by the thresholds: of events that differ by next to nothing at an end one may be far better in the window.
    """
    (low, below), (high, above) = (_thresholds_at(laws, epsilon, at, windows.d) for at in (windows.start, windows.end))
    if not (np.isfinite(below).all() and np.isfinite(above).all()):
        return WindowBounds(*(np.full_like(low, np.inf) for _ in WindowBounds._fields))
    first, last = (
        np.searchsorted(laws.lows, low - below) - 1,
        np.searchsorted(laws.lows, high + above, side="right") - 1,
    )
    last = np.clip(last, 0, laws.lows.size - 1)
    first = np.clip(first, 0, last)
    counts = last - first + 1
    owner = np.repeat(np.arange(first.size), counts)
    event = first[owner] + np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    rho = float(windows.rho[0])
    degree = degrees[rho]
    p, d = nodes_of(windows, degree)
    width = degree + 1
    value, error = np.empty((owner.size, width)), np.empty((owner.size, width))
    size = max(1, laws.blocks(p, d)[0].stop // width)
    for start in range(0, first.size, size):
        block = slice(start * width, (start + size) * width)
        rows = slice(*np.searchsorted(owner, (start, start + size)))
        at = ((owner[rows] - start)[:, None] * width + np.arange(width)).reshape(-1)
        found = _difference(epsilon, _pair(laws, p[block], d[block]), at, np.repeat(event[rows] + 1, width))
        value[rows], error[rows] = (each.reshape(-1, width) for each in found)
    missed = 2.0 * (1.0 + math.exp(epsilon)) * truncation(degree, rho) if degree else 0.0
    each = bounds(windows.some(owner), value, error, degree, missed, target)
    starts = np.cumsum(counts) - counts
    best = np.lexsort((each.lower, owner))[starts + counts - 1]  # of each window the event that is attained highest
    upper, rounding = (np.maximum.reduceat(x, starts) for x in (each.upper, each.rounding))
    return WindowBounds(upper, each.lower[best], each.place[best], rounding)


def _best_event(epsilon: float, near: Seen, far: Seen) -> Indices:
    """The number of the last point in the best event."""
    after = near.first[:, None] + np.arange(near.masses.shape[1] + 1)  # the points before this number
    column = np.clip(after - far.first[:, None], 0, far.masses.shape[1])
    other = np.take_along_axis(far.sums, column, axis=1) / far.total[:, None]
    gain = near.sums / near.total[:, None] - math.exp(epsilon) * other
    best: Indices = near.first + np.argmax(gain, axis=1) - 1
    return best


def _difference(
    epsilon: float, pair: tuple[Seen, Seen], rows: Indices | slice, piece: Indices
) -> tuple[Floats, Floats]:
    """P(E) - e^epsilon Q(E) for events of all pieces before a number, at given rows of a pair, with its error."""
    (value, error), (other, off) = (seen.below(rows, piece) for seen in pair)
    factor = math.exp(epsilon)
    return value - factor * other, error + factor * (off + 8.0 * UNIT * other)


def _threshold(laws: Laws, epsilon: float, pair: tuple[Seen, Seen]) -> tuple[Floats, Floats]:
    """Where the log-ratio of the laws of a pair is epsilon, and its error; it rises with the position."""
    centre, d = pair[0].place.nearest, pair[1].place.offset
    (near, off), (far, more) = (laws.natural(seen, centre) for seen in pair)
    rate = laws.scale**2 / d
    found = centre + rate * (far - near - epsilon)
    size = np.abs(far) + np.abs(near) + epsilon
    error = rate * (off + more + 4.0 * UNIT * size) + 4.0 * UNIT * (np.abs(centre) + np.abs(found))
    known = np.isfinite(found) & np.isfinite(error)
    return np.where(known, found, centre), np.where(known, error, np.inf)


def _thresholds_at(laws: Laws, epsilon: float, p: Floats, d: Floats) -> tuple[Floats, Floats]:
    found = [_threshold(laws, epsilon, _pair(laws, p[some], d[some])) for some in laws.blocks(p, d)]
    value, error = (np.concatenate(each) for each in zip(*found, strict=True))
    return value, error


def _branches(laws: Laws, epsilon: float, windows: GaussianWindows) -> GaussianWindows:
    """The windows cut where the threshold meets an end of a span; branch k is for thresholds from end k - 1 to end k.

    Each cut is found by halving to a bracket whose ends surely lie on either side, and both sides keep the bracket.
    """
    (low, below), (high, above) = (_thresholds_at(laws, epsilon, at, windows.d) for at in (windows.start, windows.end))
    first = np.searchsorted(laws.edges, low - below)  # the first branch that may matter
    counts = np.searchsorted(laws.edges, high + above, side="right") - first
    owner = np.repeat(np.arange(first.size), counts)
    begin = np.cumsum(counts) - counts
    edge = first[owner] + np.arange(owner.size) - begin[owner]
    left, right = windows.start[owner], windows.end[owner]
    active = np.arange(owner.size)
    for _ in range(48):
        if not active.size:
            break
        middle = 0.5 * left[active] + 0.5 * right[active]
        t, off = _thresholds_at(laws, epsilon, middle, windows.d[owner[active]])
        before, after = t + off <= laws.edges[edge[active]], t - off >= laws.edges[edge[active]]
        left[active[before]], right[active[after]] = middle[before], middle[after]
        wide = right[active] - left[active] > _BRACKET * laws.scale + 4.0 * UNIT * np.abs(middle)
        active = active[(before | after) & wide]
    pieces = np.concatenate([np.arange(n + 1) for n in counts]) if counts.size else np.zeros(0, dtype=np.intp)
    whole = np.repeat(np.arange(first.size), counts + 1)
    found = windows.some(whole)._replace(branch=first[whole] + pieces)
    inner = pieces > 0
    found.start[inner] = left[(begin[whole] + pieces - 1)[inner]]
    inner = pieces < counts[whole]
    found.end[inner] = right[(begin[whole] + pieces)[inner]]
    return found.some((found.branch > 0) & (found.branch < laws.edges.size) & (found.start <= found.end))


def _thresholds(
    laws: Laws, epsilon: float, windows: GaussianWindows, target: float | None, degrees: dict[float, int]
) -> WindowBounds:
    """On spans: the event of all spans below the threshold, and of the span that it is in the part below it."""
    rho = float(windows.rho[0])
    degree = degrees[rho]
    p, d = nodes_of(windows, degree)
    branch = np.repeat(windows.branch, degree + 1)
    value, error = np.empty_like(p), np.empty_like(p)
    for block in laws.blocks(p, d):
        value[block], error[block] = _up_to_threshold(laws, epsilon, _pair(laws, p[block], d[block]), branch[block])
    missed = _in_ellipse(laws, epsilon, windows) * truncation(degree, rho) if degree else 0.0
    return bounds(windows, value, error, degree, missed, target)


def _up_to_threshold(laws: Laws, epsilon: float, pair: tuple[Seen, Seen], branch: Indices) -> tuple[Floats, Floats]:
    """P(x < t) - e^epsilon Q(x < t) for thresholds t of given branches, and its error."""
    span, factor = branch // 2, math.exp(epsilon)
    value, error = _difference(epsilon, pair, slice(None), span)
    inner = np.flatnonzero(branch % 2)  # an odd branch is between the two ends of one span
    t, wrong = (each[inner] for each in _threshold(laws, epsilon, pair))
    for seen, times in zip(pair, (1.0, -factor), strict=True):
        mass, off = laws.between(laws.lows[span[inner]], t, seen.place.some(inner))
        share, off = seen.share(inner, mass, off)
        value[inner] += times * share
        error[inner] += abs(times) * off
    # The threshold is known to `wrong`, and about the best one the gain is flat.
    height = laws.weights(t, pair[0].place.some(inner))[0] / (laws.scale * pair[0].total[inner])
    away = np.abs((t - pair[0].place.p[inner]) - pair[0].place.offset[inner]) + wrong
    grown = np.exp(wrong * away / laws.scale**2)  # what the density has more nearby
    error[inner] += 1.02 * height * grown * wrong * np.expm1(pair[1].place.offset[inner] / laws.scale**2 * wrong)
    return value, np.where(np.isnan(error), np.inf, error)


def _in_ellipse(laws: Laws, epsilon: float, windows: GaussianWindows) -> Floats:
    """A bound on P(x < t) - e^epsilon Q(x < t) in the ellipse, where t is off its real values by at most `drift`.

    In the ellipse a law has at most twice its real masses. What t adds to the real masses is the density about it times
    the way: out of its span along the real line, and up or down by the drift.
    """
    s, d, middle = laws.scale, windows.d, windows.middle
    wide, high = windows.wide, windows.high
    start, end, zero = middle - wide, middle + wide, np.zeros_like(d)
    rise = high / s**2
    variance = laws.variance(start, end + d, zero)
    rough = 1e-6 * s + 8.0 * UNIT * (np.abs(start) + np.abs(end) + d)  # of a mean
    means = laws.mean(laws.see(end, d)) - laws.mean(laws.see(start, zero))
    means = np.minimum(np.maximum(means, 0.0) * 1.01 + 2.0 * rough, laws.edges[-1] - laws.edges[0])
    drift = s**2 / d * (rise * means + 1.5)
    drift = np.where(rise**2 * variance <= 1.0, np.minimum(2.0 * rise * variance, drift), drift)
    (low, below), (top, above) = (_thresholds_at(laws, epsilon, at, d) for at in (start, end))
    low, top = low - below - drift, top + above + drift
    span = np.minimum(windows.branch // 2, laws.lows.size - 1)
    over = np.maximum(np.maximum(laws.lows[span] - low, top - laws.highs[span]), 0.0)
    total = zero
    with np.errstate(over="ignore", invalid="ignore"):
        way = over + drift * np.exp((drift**2 + 2.0 * high * drift) / (2.0 * s**2))
        for seen, factor in zip(_pair(laws, middle, d), (1.0, math.exp(epsilon)), strict=True):
            at = seen.place.p + seen.place.offset
            mean = laws.mean(seen)
            away = np.maximum(np.abs(low - mean), np.abs(top - mean)) * 1.01 + rough
            height = laws.weights(np.clip(at, low, top), seen.place)[0]  # A is above its tangent in the middle
            dense = 2.02 / s * height / seen.total * np.exp(wide * away / s**2)
            total = total + factor * (4.0 + np.where(windows.branch % 2 == 1, dense * way, 0.0))
    return np.where(np.isfinite(total), total, np.inf)
