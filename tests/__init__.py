"""Tests, by the room they are about. Harnesses that several rooms use are in ``harness``."""
