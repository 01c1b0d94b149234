"""Tests of the planner; a package, since a benchmark has its name."""
