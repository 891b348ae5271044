"""The ledger: a privacy budget that outlives the process, and the amounts, rules and records that it is made of."""

from __future__ import annotations

from rangebound.ledger.amount import Amount, covering
from rangebound.ledger.book import PAYLOAD_LIMIT, Ledger
from rangebound.ledger.export import ExportReport, to_csv, to_json, to_lines, verify_export
from rangebound.ledger.guarded_chain import Report
from rangebound.ledger.location import ledger_files, verify
from rangebound.ledger.record import Account, ApprovalRequest, Record, Reservation
from rangebound.ledger.replay import Approval, BudgetPeriod, RequestStatus
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, PlainSum, RenyiCost, RenyiFilter

__all__ = [
    "PAYLOAD_LIMIT",
    "Account",
    "Amount",
    "Approval",
    "ApprovalRequest",
    "BudgetPeriod",
    "Cost",
    "ExportReport",
    "GaussianCost",
    "GaussianFilter",
    "Ledger",
    "PlainSum",
    "Record",
    "RenyiCost",
    "RenyiFilter",
    "Report",
    "RequestStatus",
    "Reservation",
    "covering",
    "ledger_files",
    "to_csv",
    "to_json",
    "to_lines",
    "verify",
    "verify_export",
]
