"""Finite mechanisms: a table of whole-number weights, one row for every input."""

from __future__ import annotations

from rangebound.finite.finite_mechanism import Table
from rangebound.finite.input_cells import InputCell, cells, reach, reach_of
from rangebound.finite.weights import TOTAL, epsilon_private, whole_weights

__all__ = ["TOTAL", "InputCell", "Table", "cells", "epsilon_private", "reach", "reach_of", "whole_weights"]
