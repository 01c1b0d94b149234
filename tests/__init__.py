"""Tests, one package per package of the program. ``harness`` has what several of them use."""
