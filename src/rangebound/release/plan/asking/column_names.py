"""The columns that a SELECT can name: those of the table, of the base plan and of joined tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from rangebound.release.plan.asking.refusal import refused
from rangebound.release.plan.asking.statement import only
from rangebound.values import arguments


class Names:
    """Columns by what a text calls them; `tables` has the joined tables by name with our names of their columns."""

    def __init__(
        self, text: str, known: Iterable[str], tables: Mapping[str, Mapping[str, str] | None], *, complete: bool
    ) -> None:
        self.text, self.known, self.complete = text, tuple(dict.fromkeys(known)), complete
        self.tables = {name.casefold(): theirs for name, theirs in tables.items()}

    def resolve(self, node: exp.Column) -> str:
        """The name of a column in the plan.

        A name in quotation marks is taken as it is; any other may differ in upper and lower case from a known one.
        Where all columns are known, a name that is none of them is refused.
        """
        only(self.text, node, "this", "table")
        if not isinstance(node.this, exp.Identifier):
            raise refused(self.text, node, "must be the name of a column")
        name = node.name
        if not name or len(name) > _LONGEST or "\x00" in name:
            raise refused(self.text, node, f"the name of a column has 1 to {_LONGEST} characters")
        if node.table:
            table = node.table.casefold()
            if table not in self.tables:
                raise refused(self.text, node, f"FROM and JOIN name no table {node.table!r}")
            theirs = self.tables[table]
            if theirs is not None:
                if name not in theirs:
                    guess = arguments.similar(name, theirs)
                    rule = f"the base plan's join has no column {name!r}; {guess or 'name it in its columns'}"
                    raise refused(self.text, node, rule)
                return theirs[name]
        alike = [each for each in self.known if each.casefold() == name.casefold()]
        if name in self.known or (node.this.args.get("quoted") and not self.complete):
            return name
        if len(alike) == 1 and not node.this.args.get("quoted"):
            return alike[0]
        if self.complete:
            guess = arguments.similar(name, self.known)
            raise refused(self.text, node, f"the table has no such column{f'; {guess}' if guess else ''}")
        return name


_LONGEST = 200
