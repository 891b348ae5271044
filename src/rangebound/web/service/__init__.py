"""A small service for analysts who may not see the data: they submit plans and fetch published tables."""
