"""What each field of a plan does, in a line: for the table of all fields in the documentation."""

from __future__ import annotations

from collections.abc import Mapping

EFFECTS: Mapping[str, str] = {
    "Plan.title": "a heading for the report",
    "Plan.source": "the table",
    "Plan.zone": (
        'the time zone, such as `"Europe/Paris"`, in whose local time timestamps with a zone are read; without it, '
        "such columns cannot be used"
    ),
    "Plan.unit": "the privacy unit and its contribution bounds; without it, every single row",
    "Plan.budget": "what the release may spend, and the account that pays",
    "Plan.join": "columns of other tables, public or of the same privacy unit",
    "Plan.made_columns": "made columns, and the public ranges of columns",
    "Plan.per_unit": "one row per unit before the questions, with these columns; then the row is the unit",
    "Plan.keys": (
        "public keys of grouping columns; the keys of a column that is not here are selected privately, "
        "which needs a delta"
    ),
    "Plan.combinations": "keys of several columns that occur together, in place of all combinations of their keys",
    "Plan.only_listed": (
        "a row counts for no question at all if one of the columns in `[keys]` has another key in it, or none"
    ),
    "Plan.selection": "the weight of partition selection beside the weights of the questions",
    "Plan.objective": (
        "what is least where no question has a weight: the total of the variances, or that of the "
        'relative ones; without it, `"total"`'
    ),
    "Plan.level": "the confidence level of the intervals",
    "Plan.joint": (
        "all intervals of the table hold at once with probability `level`, in place of each; the keys must be public"
    ),
    "Plan.consistent": "make the numbers agree with each other after the noise",
    "Plan.report_clipping": "spend a part of epsilon on how much was truncated and clipped",
    "Plan.clipping_share": "that part, of what margins leave",
    "Plan.query": "the questions, one to a thousand",
    "Kind.kind": "what is published; see the kinds below",
    "Kind.name": "unique in the plan",
    "Kind.where": "conditions on a row, all of which must hold: an expression, or a list of conditions",
    "Kind.by": "grouping columns",
    "Kind.rows": "the rows of a unit that count in each group, for this question; without it, those of `[unit]`",
    "Kind.groups": "the groups of a unit that count, for this question; without it, those of `[unit]`",
    "Kind.period": "the period of the contribution bound, for this question; without it, that of `[unit]`",
    "Kind.support": (
        "where the published number may lie: one span, or a list of spans; without it, the natural support of the kind"
    ),
    "Kind.step": "round the published number to multiples of it",
    "Kind.weight": (
        "the share of the question in the account, beside the weights of the others; 1 where some other "
        "question has one"
    ),
    "Kind.margin": "in place of a weight: half the width of its interval at most, in units of the answer",
    "Bounds.column": "the column whose range is not known",
    "Bounds.dates": "whether the column holds dates",
    "Kind.column": "the column of numbers or dates",
    "Kind.range": (
        "the public range of its values; values outside it are clipped. Without it, the range that "
        "`[columns]` states or that follows from an expression"
    ),
    "Kind.missing": "the number that a missing value counts as; without it, rows without a value do not count",
    "RankKind.interval_share": (
        "the part of the question's budget that pays for the interval; with 0 the interval is the whole support"
    ),
    "CentralRange.share": "the part of the values that lies in the range; half of the rest lies below it, half above",
    "MomentsKind.x": "the column on the x axis: `{column, range}`, or its name where `[columns]` has the range",
    "MomentsKind.y": "the column on the y axis, in the same form",
    "Kind.weighted_by": (
        "survey weights, from 0 on: `{column, range}`, or the name of the column where `[columns]` has the range; a "
        "row counts as often as its weight says"
    ),
    "Kind.unbiased": (
        "publish the number before it was moved into the support as well, in the column `unbiased`; not "
        "with truncated mechanisms"
    ),
    "Kind.signed": (
        "publish that number in place of the one in the support; not with a `support`, nor counts of a "
        "`consistent` plan"
    ),
    "Kind.mechanism": (
        "the noise and its bounding, or the `optimal` table for a `support` with two ends; without it, the noise with "
        "the smallest error"
    ),
    **dict.fromkeys(
        ("Mean.mechanism", "Share.mechanism"),
        "the `optimal` table, where the number of rows is public; without it, clamped Laplace or Gaussian noise",
    ),
    "WorkloadKind.unbiased": "publish the answers before they were made to add up as well, in the column `unbiased`",
    "Crosstab.margins": "false publishes the cells without their sums",
    "DistinctCount.column": (
        "a column of texts, whole numbers, dates or truth values, which are compared as grouping keys are"
    ),
    "DistinctCount.values": "contribution bound: the distinct values of a unit that count in each group",
    "Hierarchy.levels": (
        'from fine to coarse, such as `[{name = "canton", members = {ZH = ["Uster", "Wald"], UR = '
        '["Altdorf"]}}]`; every key is in one member'
    ),
    "Histogram.bins": (
        "the number of bins of equal width, or a list of their edges, such as `[0, 18, 65, 120]`; `range` "
        "then is from the first to the last"
    ),
    "Histogram.bin_names": "the names of the bins, one for each, in place of their edges",
    "Line.slopes": "where the slope is published; without it, that of all lines that the ranges allow",
    "Line.intercepts": "where the intercept is published; without it, that of all lines that the ranges allow",
    "Maximum.level": "the level of the quantile that is published",
    "Minimum.level": "the level of the quantile that is published",
    "SelectionKind.column": (
        "the column whose most frequent keys are published; its public keys stand in `[keys]`, and those of a `top k` "
        "are selected privately where it lists none"
    ),
    "Mode.range": (
        "the public range of a column of numbers or dates, cut into bins; without it, the answer is one "
        "of the column's public keys"
    ),
    "Mode.bins": "the number of bins of equal width over `range`, where the answer is a bin; 10 with a `range` alone",
    "Quantiles.levels": "the levels of the quantiles, in ascending order",
    "Ratio.numerator": "the column summed above: `{column, range}`, or its name where `[columns]` has the range",
    "Ratio.denominator": "the column summed below, in the same form",
    "Series.totals": "which sums a series has",
    "Share.of": "the conditions of the share: an expression, or a list of conditions",
    "Share.partition": "shares with the same name add up to 1 where the plan is `consistent`",
    "TopK.k": (
        "how many keys are published, from the most frequent on; no more than `[keys]` lists, and fewer where fewer "
        "are selected privately"
    ),
    "Source.path": "a `.csv`, `.tsv`, `.xlsx`, `.parquet` or DuckDB file; relative to the folder of the plan",
    "Source.table": (
        "the table in a DuckDB file, of a database (`schema.table`) or on a Spark Connect server; of an `.xlsx` file "
        "the sheet, without it the first"
    ),
    "TextFormat.encoding": (
        'the encoding of a text file, such as `"latin-1"`, `"windows-1252"` or `"utf-16"`; without it, UTF-8'
    ),
    "TextFormat.delimiter": "what separates the values of a text file; without it, `,` or in a `.tsv` file a tab",
    "TextFormat.quote": 'the quotation mark of a text file; without it `"`; empty where there is none',
    "TextFormat.multiline": (
        "whether a quoted value may continue in the next line; otherwise it ends with its line, so that an unclosed "
        "quotation mark damages one line"
    ),
    "TextFormat.decimal": "the decimal sign of numbers in a text file or in text cells; without it, a point",
    "TextFormat.thousands": "what separates thousands in numbers there; without it, nothing",
    "TextFormat.date_format": (
        'how dates are written there, such as `"%d.%m.%Y"`; without it, `"%Y-%m-%d"`. A time of day may follow'
    ),
    "Source.spark": (
        "the address of a Spark Connect server, `sc://host:15002`, without a token, because plans are published"
    ),
    "Source.postgres": (
        "the address of a PostgreSQL database, `postgresql://user@host/database` or `service=name`, without a password"
    ),
    "Unit.column": "all rows with the same value belong to one unit; without a column, each row is a unit",
    "Unit.rows": "contribution bound: the rows of a unit that count in each group",
    "Unit.groups": "contribution bound: the groups of a unit that count",
    "Unit.period": "the rows of a unit are counted in each day, week or month of the range by themselves",
    "Unit.neighbours": '`"replace"` means that one unit changes its rows (replace-one), and needs `size`',
    "Unit.size": 'the public number of units; only with `"replace"`',
    "Budget.epsilon": "what the whole release may spend; at most 100",
    "Budget.delta": "the delta of the whole release: 0, or 1e-24 to 0.5",
    "Budget.account": "the account of the ledger that is charged",
    "Budget.ledger": "the path of the ledger from the folder of the plan, or the address of a database",
    "Join.path": "the file of the other table, or the DuckDB file that has it",
    "Join.table": "the name of the other table: in its file, beside the plan's own, or in `tables=` in Python",
    "Join.public": "whether everybody may know the other table; else it shares the privacy unit",
    "Join.on": "the columns that must be the same: ours and theirs, or a list where both have one name",
    "Join.how": '`"inner"` leaves out rows without a match; else their joined columns are missing',
    "Join.columns": "the columns that come along, or a mapping of our names to theirs",
    "Join.rows": "of a private table: the most rows that are joined for each key",
    "Join.own_rows": "of a private table: the most rows of ours that are joined for each key",
    "ColumnDeclaration.value": "the expression that makes the column; without it, the column is the table's own",
    "ColumnDeclaration.range": (
        "the public range of its values, which are clipped to it; that of an expression follows from its parts"
    ),
    "UnitColumnDeclaration.value": "a function of all rows of a unit, such as `sum(cost)`",
    "UnitColumnDeclaration.range": "the range that its value is clipped to",
    "KeyRule.values": (
        "the public keys; in a file, `days = [first, last]`, `numbers = [first, last]` and `file` with `column` stand "
        "for such a list"
    ),
    "KeyRule.weeks": "the first and the last day: a key for each week from Monday on, its first day within them",
    "KeyRule.months": "the first and the last day: a key for each month, its first day within them",
    "KeyRule.fold": "keys that stand for several values each",
    "KeyRule.bins": "the edges of bins; each has its lower edge, the last one both",
    "KeyRule.names": "the names of the bins",
    "KeyRule.missing": "the key of rows without a value, which count in no group otherwise",
    "KeyRule.other": "the key of rows with any other value, which count in no group otherwise",
    "Combination.columns": "the columns that the keys are of",
    "Combination.keys": "the keys that occur together, or a file that lists them",
    "Period.column": "the column of days or timestamps",
    "Period.each": "how long a period is",
    "Period.range": "the first and the last day; rows on other days do not count",
    "RangedColumn.column": "the column",
    "RangedColumn.range": "the public range of its values, which are clipped to it",
    "Level.name": "the name of the level, which stands in the column `part`",
    "Level.members": "for each member of the level, the keys or members below it",
    "Condition.column": "the column that is compared",
    "Condition.comparison": "the comparison; a missing value meets none but `missing`",
    "Condition.value": "what it is compared with; a list for `in` and `not in`",
}
"""The effect of every field, by the class that declares it and its name."""
