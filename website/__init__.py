"""The site of the documentation, from the pages in docs/, docstrings and notebooks: `python -m website`."""
