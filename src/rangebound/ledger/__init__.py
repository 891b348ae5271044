"""The ledger: amounts, rules, records, the sealed chain of entries, and the stores that keep it."""
