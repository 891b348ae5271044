"""Events, composition, conversion, and the ledger: what was spent, and what is left."""
