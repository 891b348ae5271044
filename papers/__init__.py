"""Tables and figures of the papers, reproduced with the library as it is. `make papers` runs every script."""
