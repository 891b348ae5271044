"""A plan as SQL: contribution bounds, expressions, exact aggregates."""
