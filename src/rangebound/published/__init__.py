"""Mechanisms as their papers published them, with their true guarantee."""
