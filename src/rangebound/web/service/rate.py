"""How many requests a client may make per minute: a bucket per client, which fills again."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

_MOST_CLIENTS = 10_000
_OWN_BITS = 64  # of an address of IPv6: whoever has one has all that begin with them


def peer_of(host: str) -> str:
    """Who is counted as one: an address, or the network of 64 bits in which one of IPv6 lies.

    >>> peer_of("192.0.2.7"), peer_of("2001:db8:0:1:2:3:4:5"), peer_of("::ffff:192.0.2.7"), peer_of("")
    ('192.0.2.7', '2001:db8:0:1::', '192.0.2.7', '')
    """
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    own = found.ipv4_mapped or ipaddress.IPv6Network((int(found), _OWN_BITS), strict=False).network_address
    return str(own)


class RateLimit:
    """A bucket with the requests of one minute per client; clients that were not seen for long are forgotten.

    >>> limit = RateLimit(60)
    >>> [limit.allows("anna", 0.0) for _ in range(61)].count(True), limit.allows("anna", 1.0)
    (60, True)
    """

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
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
