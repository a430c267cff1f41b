"""Subgroup-offset baselines for group-relative reinforcement learning on verl."""

__version__ = "0.1.0"
