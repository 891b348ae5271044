"""Values: arguments and their checks, balls, supports, queries, numbers as plain data, array namespaces."""
