"""The language of made columns: a small part of Python's expressions, with types and public ranges; nothing is run."""
