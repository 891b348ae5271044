"""How many requests a client may make a minute: a bucket for each, which fills again."""

from __future__ import annotations

from collections import OrderedDict

_MOST_CLIENTS = 10_000


class RateLimit:
    """A bucket with a minute's requests for each client; of clients that were not seen for long it knows nothing.

    >>> limit = RateLimit(60)
    >>> [limit.allows("anna", 0.0) for _ in range(61)].count(True), limit.allows("anna", 1.0)
    (60, True)
    """

    def __init__(self, a_minute: int) -> None:
        self._most = float(a_minute)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str, now: float) -> bool:
        """Whether a client may make a request now; if so, it has made it."""
        left, last = self._left.pop(client, (self._most, now))
        left = min(self._most, left + max(0.0, now - last) * self._most / 60.0)
        allowed = left >= 1.0
        self._left[client] = (left - 1.0 if allowed else left), now
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return allowed
