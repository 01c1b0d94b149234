"""The decision who runs what: ``plan(view, memory) -> (Plan, Memory)``, pure and deterministic.

What may live here: the view (all inputs of a decision), the plan, the target and the next safe step
as separate parts, holds, and the assignors, one strategy a file. Time is an argument, timers are values
in the plan. No I/O, no clock, no randomness. May import ``model`` only.
"""
