"""Nous Web: the control room for what agents remember, believe and are told."""

__version__ = "0.1.0"
