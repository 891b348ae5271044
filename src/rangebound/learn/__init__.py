"""Learning on private data: `rangebound.learn.torch` (extra `torch`), `rangebound.learn.sklearn` (extra `sklearn`)."""
