"""The command line: parse, call, show; it contains no formula."""
