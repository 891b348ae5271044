"""Finite mechanisms: a table of whole-number weights, one row for every input."""

from __future__ import annotations

from rangebound.mechanisms.finite.finite_mechanism import Table
from rangebound.mechanisms.finite.input_cells import InputCell, cells, reach, reach_of
from rangebound.mechanisms.finite.weights import TOTAL, epsilon_private, whole_weights

__all__ = ["TOTAL", "InputCell", "Table", "cells", "epsilon_private", "reach", "reach_of", "whole_weights"]
