"""Observability of a leader: status, causes and durations of rebalances, metrics, and inspection of a group
from outside.
"""
