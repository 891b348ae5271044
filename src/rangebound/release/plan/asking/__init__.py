"""SQL as a way to ask: a SELECT becomes a plan of names, constants and expressions, or is refused with its place."""
