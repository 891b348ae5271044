"""Laplace noise truncated to unions of spans: exact privacy in time linear in the gaps."""
