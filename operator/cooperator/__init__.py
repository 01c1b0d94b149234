"""Cooperator: a cooperative scheduler of streaming tasks on Kafka groups.

Each sub-package is a room with a charter in its own docstring; contracts define what a room may import;
they are in ``pyproject.toml`` and checked in every run of the tests.
"""

__version__ = "0.1.0"
