"""Test support for several packages: real parts as processes, fakes, waiting on conditions."""
