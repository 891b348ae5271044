"""A small service: analysts who may not see the data submit plans and fetch published tables. Needs the extra `serve`.

The client (`rangebound.web.service.client`) needs the standard library alone.
"""
