"""A small service: analysts who may not see the data submit plans and fetch published tables. Needs the extra `serve`.

The client (`rangebound.serve.client`) needs the standard library alone.
"""
