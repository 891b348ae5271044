"""Where a release is written down for others: the record for the registry of deployments, and the fact sheet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rangebound.cli.output_files import write_new
from rangebound.errors import ArgumentError

if TYPE_CHECKING:
    from rangebound.ledger.record import Account, Record
    from rangebound.release import Plan


@dataclass(frozen=True, kw_only=True)
class RecordFiles:
    """The files for the record and the fact sheet, where they are asked for.

    People fill them in by hand, so neither ever replaces a file.
    """

    record: Path | None = None
    fact_sheet: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """The files that are asked for."""
        return [each for each in (self.record, self.fact_sheet) if each is not None]

    def check(self) -> None:
        """Refuse files of another kind, and files that exist, before anything is charged."""
        for name, path, endings in (
            ("record", self.record, (".yaml", ".yml")),
            ("fact_sheet", self.fact_sheet, (".md",)),
        ):
            if path is not None and path.suffix.lower() not in endings:
                raise ArgumentError(f"{name}={str(path)!r}: must end in {' or '.join(endings)}")
            if path is not None and path.exists():
                raise ArgumentError(f"{name}={str(path)!r}: exists already, and may be filled in; name a new file")

    def write(
        self, plan: Plan, *, certificate: str = "", entry: Record | None = None, account: Account | None = None
    ) -> None:
        """Write what is asked for, of what is known."""
        from rangebound.release.output.deployment_record import record, record_text
        from rangebound.release.output.fact_sheet import fact_sheet, fact_sheet_text

        if self.record is not None:
            found = record(plan, certificate=certificate, entry=entry, account=account)
            write_new(self.record, record_text(found, also=", certificate and ledger" if entry else ""))
        if self.fact_sheet is not None:
            sheet = fact_sheet(plan, certificate=certificate, entry=entry, account=account)
            write_new(self.fact_sheet, fact_sheet_text(sheet, plan.title))
