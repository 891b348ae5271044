"""The charge of a training to an account of a ledger: made once, before the first step, for all planned steps."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.ledger import Ledger
from rangebound.ledger.rule import AnyCost, RenyiFilter
from rangebound.values import arguments


@dataclass(frozen=True, kw_only=True)
class LedgerCharge:
    """Where a training is charged: the ledger, an account of it, and an id that no other run has."""

    ledger: Ledger
    account: str
    request: str

    @property
    def order(self) -> int | None:
        """The Renyi order of the account, if it counts by a whole one."""
        rule = self.ledger.account(self.account).rule
        order = rule.order.fraction if isinstance(rule, RenyiFilter) else None
        return int(order) if order is not None and order.denominator == 1 else None

    def make(self, costs: tuple[AnyCost, ...], facts: dict[str, Any]) -> None:
        """Charge, and store what was charged for; when this returns, both are on the disk.

        Guarantee: one run for each request. The bytes that are stored contain a random word of this run, so a second
        run with the same request finds other bytes and is refused, also where both begin at once.
        Edge cases: a run that ends early, or crashes, keeps its charge; to go on it needs a new request, because steps
        that it took after its last checkpoint may have been seen. With several processes the first one charges.
        """
        if not (dist.is_available() and dist.is_initialized()):
            self._make(costs, facts)
            return
        refused: list[Any] = [None]
        if dist.get_rank() == 0:
            try:
                self._make(costs, facts)
            except Exception as error:  # told to all processes, which would wait for this one otherwise
                refused = [error]
        dist.broadcast_object_list(refused, 0)
        if refused[0] is not None:
            raise refused[0]

    def _make(self, costs: tuple[AnyCost, ...], facts: dict[str, Any]) -> None:
        mine = json.dumps({**facts, "run": os.urandom(16).hex()}, sort_keys=True).encode()
        stored = self.ledger.release(
            account=self.account, request=self.request, cost=costs, compute=lambda cost: mine, what="training"
        )
        if stored != mine:
            raise ArgumentError(
                f"request={arguments.shown(self.request)}: was charged for another run, whose steps may have been "
                "seen; give this run a request of its own, which is charged again"
            )


def ledger_charge(ledger: object, account: str | None, request: str | None) -> LedgerCharge | None:
    """The charge that `make_private` is asked for; None without a ledger."""
    if ledger is None:
        if account is not None or request is not None:
            raise ArgumentError("ledger: missing; account and request name a charge to one")
        return None
    if account is None or request is None:
        raise ArgumentError(
            "account, request: must be given with ledger=...: the account that is charged, and an id of this run, such "
            'as request="digits, first run"'
        )
    if not isinstance(ledger, Ledger):
        raise ArgumentTypeError(f"ledger={arguments.shown(ledger)}: must be a Ledger, such as Ledger.open(path)")
    return LedgerCharge(ledger=ledger, account=account, request=request)
