"""The command line: thin. It parses, calls and shows; there is no formula here."""
